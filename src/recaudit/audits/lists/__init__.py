"""Audits of the lists that are shown: accuracy and exposure."""

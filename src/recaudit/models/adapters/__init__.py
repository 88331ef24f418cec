"""Fitted models of other libraries: one file for each, found by the name of the library."""

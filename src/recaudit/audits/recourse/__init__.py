"""Recourse: the least that users must do to bring an outcome about."""

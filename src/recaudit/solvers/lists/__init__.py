"""Whole lists: calibrated re-ranking with its certificate."""

"""Calibration before and after re-ranking: its tables, charts, what is found, and the section."""

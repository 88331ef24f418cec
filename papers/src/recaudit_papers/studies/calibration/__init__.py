"""Calibrated recommendations (Steck 2018): Tables 1 and 2, Figures 1 to 3."""

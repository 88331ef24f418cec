"""Folding (Xin et al. 2017): Figures 3 to 6, Table 1."""

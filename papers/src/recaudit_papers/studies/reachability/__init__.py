"""Stochastic reachability (Curmei, Dean, Recht 2021): Tables 4 and 5, Figures 4 to 9."""

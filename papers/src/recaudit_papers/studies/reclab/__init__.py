"""RecLab (Krauth et al. 2020): offline against online, exploration, coverage."""

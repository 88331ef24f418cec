"""Reachability and stability in hindsight and from now on (paper 001)."""

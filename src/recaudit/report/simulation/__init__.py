"""The page of a simulation."""

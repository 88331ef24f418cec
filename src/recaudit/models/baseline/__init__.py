"""References: most popular, random."""

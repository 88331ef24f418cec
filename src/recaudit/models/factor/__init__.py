"""Models with a vector for each user and item."""

"""The largest distance between two recommendation distributions."""

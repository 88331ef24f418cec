"""Recommenders that learn from what is rated, step by step."""

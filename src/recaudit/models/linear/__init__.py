"""Item-item weights: EASE, SLIM."""

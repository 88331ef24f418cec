"""A question of one's own: a base configuration, one change at a time, and which numbers are looked at."""

"""Offline metrics beside what happens online."""

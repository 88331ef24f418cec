"""The largest distance of a viewer's distribution from a baseline, where an edit may move many scores."""

from recaudit.solvers.dense_distance.maximize import DistanceSolution, maximize_distance, vertex_maximum

__all__ = ["DistanceSolution", "maximize_distance", "vertex_maximum"]

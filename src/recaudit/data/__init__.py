"""What was observed: the interaction log, readers, data sets by name, generators, splits."""

from recaudit.data import datasets, splits, synthetic
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.data.sources import read

__all__ = ["Categories", "Interactions", "datasets", "read", "splits", "synthetic"]

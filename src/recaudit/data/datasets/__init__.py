"""Data sets by name, from a folder, the cache, or their owners' sites."""

from recaudit.data.datasets.access import catalogue, fetch, info, load, locate, names
from recaudit.data.datasets.dataset import Archive, Dataset

__all__ = ["Archive", "Dataset", "catalogue", "fetch", "info", "load", "locate", "names"]

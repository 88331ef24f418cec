"""Data sets by name, from a folder, the cache, or their owners' sites."""

from recaudit.data.datasets.dataset import VARIABLE, Archive, Dataset, catalogue, fetch, info, load, locate, names

__all__ = ["VARIABLE", "Archive", "Dataset", "catalogue", "fetch", "info", "load", "locate", "names"]

"""Data sets by name, from a folder, the cache, or their owners' sites."""

from recaudit.data.datasets.dataset import Archive, Dataset, catalogue, fetch, info, load, locate, names

__all__ = ["Archive", "Dataset", "catalogue", "fetch", "info", "load", "locate", "names"]

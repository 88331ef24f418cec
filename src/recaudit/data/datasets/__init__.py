"""Data sets by name, from a folder, the cache, or their owners' sites."""

from recaudit.data.datasets.access import DatasetInfo, catalogue, fetch, info, load, locate, names

__all__ = ["DatasetInfo", "catalogue", "fetch", "info", "load", "locate", "names"]

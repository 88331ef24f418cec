"""A Ray cluster of two nodes on this machine, for all tests of a session."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from recaudit.engines.cluster import connected

NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes with a core each; the driver is on the first."""
    ray = pytest.importorskip("ray", reason="Ray has no wheel for this machine")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        nodes.add_node(**NODE)
        connected(nodes.address)
        yield nodes
        ray.shutdown()
        nodes.shutdown()

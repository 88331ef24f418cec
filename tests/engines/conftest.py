"""What tests on a cluster share."""

from engines.two_nodes import cluster

__all__ = ["cluster"]

"""Arrays in, arrays out: every answer carries a status and a certificate."""

from __future__ import annotations

from recaudit.solvers.softmax import maximize_softmax, maximize_softmax_batch
from recaudit.solvers.solution import SoftmaxSolution

__all__ = ["SoftmaxSolution", "maximize_softmax", "maximize_softmax_batch"]

"""Arrays in, arrays out: every answer carries a status and a certificate."""

from __future__ import annotations

from recaudit.solvers.softmax import maximize_softmax, maximize_softmax_batch
from recaudit.solvers.solution import SoftmaxSolution
from recaudit.solvers.top1 import Top1Margins, top1_margin

__all__ = ["SoftmaxSolution", "Top1Margins", "maximize_softmax", "maximize_softmax_batch", "top1_margin"]

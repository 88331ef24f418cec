"""Arrays in, arrays out: every answer carries a status and a certificate."""

from __future__ import annotations

from recaudit.solvers.discrete.maximize import maximize_softmax_discrete
from recaudit.solvers.lists.calibrated import CalibratedLists, calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors
from recaudit.solvers.power import maximize_power
from recaudit.solvers.softmax.beta import BestBeta, best_beta
from recaudit.solvers.softmax.maximize import bound_slate, maximize_softmax, maximize_softmax_batch
from recaudit.solvers.solution import Solution
from recaudit.solvers.top1 import MarginSolution, hull_vertices, top1_margin

__all__ = [
    "BestBeta",
    "CalibratedLists",
    "CategoryVectors",
    "MarginSolution",
    "Solution",
    "best_beta",
    "bound_slate",
    "calibrated_lists",
    "hull_vertices",
    "maximize_power",
    "maximize_softmax",
    "maximize_softmax_batch",
    "maximize_softmax_discrete",
    "top1_margin",
]

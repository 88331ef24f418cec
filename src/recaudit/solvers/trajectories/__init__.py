"""The best a user can do by rating what the system shows next, one item after the other.

Gradient ascent is in `recaudit.solvers.trajectories.ascent`, which needs torch.
"""

from recaudit.solvers.trajectories.draws import maximize_one_draw
from recaudit.solvers.trajectories.problem import AscentSettings, DrawSettings, RollOutProblem, TrajectorySolution
from recaudit.solvers.trajectories.top1 import maximize_after_stars, maximize_after_top1, reach_top_after_top1

__all__ = [
    "AscentSettings",
    "DrawSettings",
    "RollOutProblem",
    "TrajectorySolution",
    "maximize_after_stars",
    "maximize_after_top1",
    "maximize_one_draw",
    "reach_top_after_top1",
]

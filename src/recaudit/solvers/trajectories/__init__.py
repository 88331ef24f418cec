"""The best a user can do by rating what the system shows next, one item after the other."""

from recaudit.solvers.trajectories.draws import AscentSettings, ascend_after_draws, ascend_after_top1, maximize_one_draw
from recaudit.solvers.trajectories.problem import DrawSettings, RollOutProblem, TrajectorySolution
from recaudit.solvers.trajectories.top1 import maximize_after_stars, maximize_after_top1, reach_top_after_top1

__all__ = [
    "AscentSettings",
    "DrawSettings",
    "RollOutProblem",
    "TrajectorySolution",
    "ascend_after_draws",
    "ascend_after_top1",
    "maximize_after_stars",
    "maximize_after_top1",
    "maximize_one_draw",
    "reach_top_after_top1",
]

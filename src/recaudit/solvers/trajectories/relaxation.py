"""What no continuation of a sequence exceeds: valid bounds for sequences that a search does not follow to their end.

After a prefix with r ratings to come, the final scores are b_j.x + c_j with x in a convex set X: the ratings given so
far are in the prefix's cell, and the rest is a vector that is not longer than a radius (`RollOut.beyond`). Let p be the
softmax at a point x' of X over the items left after the prefix, and A the r items still to be shown, which then are
left no more. With P = p(A) and q = p / (1 - P) outside A, Gibbs' inequality bounds the log-sum-exp from below:

    LSE over what is left at x >= LSE at x' + log(1 - P) + b_q.(x - x'),  b_q = sum over j outside A of q_j b_j,

so that, with b_i - b_q = (b_i - b_p - sum over j in A of p_j (b_i - b_j)) / (1 - P),

    log P(i) <= log p_i - log(1 - P) + (D_i + P d_i + sum over j in A of p_j d_j) / (1 - P),

where D_i is the most of (b_i - b_p).(x - x') over X, and d_j that of |(b_j - b_p).(x - x')|. Which items A are is not
known: P and the last sum are taken for the r items where they are largest.
"""

from __future__ import annotations

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.solvers.trajectories.polytope import RatingCell
from recaudit.solvers.trajectories.problem import RollOutProblem, without

_UNIT = float(np.finfo(np.float64).eps)


def bound_beyond(cell: RatingCell, problem: RollOutProblem, beta: float) -> FloatArray:
    """(targets,): no log-probability of a target after any continuation of the cell's sequence exceeds this."""
    left, ratings = problem.steps - len(cell.state.items), cell.ratings.vertices
    reach = cell.state.beyond(left, ratings, problem.low, problem.high)
    targets = problem.targets
    if reach is None:
        return np.zeros(len(targets))
    allowed = without(problem.candidates, cell.state.items)
    middle = reach.middle
    weights = ratings @ middle.matrix.T + middle.constant
    centre = weights.mean(axis=0)
    scores = beta * (middle.level + centre @ middle.columns)
    scores = np.where(allowed, scores - scores[allowed].max(), -np.inf)
    likely = np.exp(scores)
    total = likely.sum()
    likely /= total
    moved = beta * ((weights - centre) @ (middle.columns - (middle.columns @ likely)[:, None]))
    around = beta * reach.radius * np.linalg.norm(reach.vectors - likely @ reach.vectors, axis=1)
    ahead, either = moved.max(axis=0, initial=0.0) + around, np.abs(moved).max(axis=0, initial=0.0) + around
    gone = float(np.sort(likely)[-left:].sum())
    if gone >= 1:
        return np.zeros(len(targets))
    shown = float(np.sort(likely * either)[-left:].sum())
    bound = scores - np.log(total) - np.log1p(-gone) + (ahead + gone * either + shown) / (1 - gone)
    rounding = _UNIT * (len(scores) + 64) * (1 + np.abs(np.where(allowed, bound, 0.0)) + either.max())
    return np.asarray(np.where(allowed, np.minimum(bound + rounding, 0.0), -np.inf)[targets])

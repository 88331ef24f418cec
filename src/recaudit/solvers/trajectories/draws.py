"""The largest expected probability of an item after the rating of one item that is drawn, not the top one.

Every item that may be drawn has a rating of its own, and the expectation (paper 001, Definition 4.1) is a sum of
one-dimensional problems that are solved exactly. No trajectory that shows the target first can end with it, so that
1 - P(target is shown first) is an upper bound.
"""

from __future__ import annotations

import numpy as np

from recaudit.arrays import FloatArray, IntArray, StatusArray
from recaudit.policies import Policy
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.trajectories.problem import (
    DrawSettings,
    RollOutProblem,
    TrajectorySolution,
    log_probabilities,
    without,
)
from recaudit.status import Status

# Ratings at which a one-dimensional problem is bounded.
_RATINGS = 9
# What the evaluations of one such problem may hold, in bytes.
_WORK_BYTES = 1 << 26
_UNIT = float(np.finfo(np.float64).eps)
# Items that are shown first less often, as a logarithm, all together change nothing but the upper bound.
_SMALLEST = -745.0


def maximize_one_draw(
    problem: RollOutProblem, follows: Policy, beta: float, tol: float, sampling: DrawSettings
) -> TrajectorySolution:
    """The largest expected softmax probability of each target after the rating of one item, drawn by `follows`:
    sum over a of P(a is shown) max over its rating of P(target | a, rating). For the most likely items a the maximum is
    solved for; for the others it is bounded from a few ratings and the tangents there."""
    targets, low, high = problem.targets, problem.low, problem.high
    seldom, often = shown_first(problem, follows)
    lower = np.full(len(targets), -np.inf)
    order = np.argsort(-often, kind="stable")
    likely = order[often[order] > _SMALLEST]
    upper = np.full(len(targets), np.logaddexp.reduce(often[order[len(likely) :]], initial=-np.inf))
    for rank, item in enumerate(likely.tolist()):
        allowed = without(problem.candidates, (item,))
        rows = np.flatnonzero(allowed[targets])
        slope, intercept = (array[allowed] for array in problem.start.then(item).affine())
        places = np.searchsorted(np.flatnonzero(allowed), targets[rows])
        if rank < sampling.first_items:
            found = maximize_softmax(slope, intercept, places, beta, low, high, tol / 2, actions=False)
            least, most = found.lower, found.upper
        else:
            least, most = _bracket(slope, intercept, places, beta, low, high)
        lower[rows] = np.logaddexp(lower[rows], seldom[item] + least)
        upper[rows] = np.logaddexp(upper[rows], often[item] + most)
    # Every sum of the loop rounds a logarithm.
    unit = _UNIT * (len(likely) + 1)
    lower -= unit * (8 + np.abs(np.nan_to_num(lower, neginf=0.0)))
    upper += unit * (8 + np.abs(np.nan_to_num(upper, neginf=0.0)))
    return drawn_solution(problem, lower, lower, np.minimum(upper, 0.0), tol, len(likely))


def drawn_solution(
    problem: RollOutProblem, value: FloatArray, lower: FloatArray, upper: FloatArray, tol: float, sequences: int
) -> TrajectorySolution:
    """Return a solution without items and ratings: they are drawn. A target that is surely shown first is no target."""
    status: StatusArray = np.where(upper <= lower + tol, Status.SOLVED.value, Status.BOUNDED.value)
    status = np.where(np.isneginf(upper), Status.NOT_APPLICABLE.value, status)
    shape = (len(problem.targets), problem.steps)
    nothing, count = np.full(shape, np.nan), np.full(shape[0], sequences)
    return TrajectorySolution(value, lower, upper, status, nothing, count, np.full(shape, -1))


def shown_first(problem: RollOutProblem, follows: Policy) -> tuple[FloatArray, FloatArray]:
    """Return the log-probability of each item of being shown first, rounded down and rounded up, both (items,)."""
    scores = problem.start.affine()[1]
    logs = log_probabilities(follows, scores[None], problem.shown[None], problem.tie_keys())[0]
    error = _UNIT * (len(logs) + 16 + 4 * np.abs(np.where(np.isfinite(logs), logs, 0.0)))
    return logs - error, np.minimum(logs + error, 0.0)


def _bracket(
    slope: FloatArray, intercept: FloatArray, targets: IntArray, beta: float, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """Return a log-probability that some rating reaches, and one that no rating exceeds, both (targets,).

    It is concave, below its tangents. `slope` (items, 1) and `intercept` (items,) are of the scores.
    """
    half = (high - low) / 2
    scores = Scaled.of(slope[None], intercept[None], beta, np.full((1, 1), low + half), np.full((1, 1), half))
    family = LogSumExp(scores, _WORK_BYTES)
    points = np.linspace(-1, 1, _RATINGS)[:, None]
    known = family.evaluate(points, hessian=False)
    slopes = scores.slopes[0, targets, 0]
    logs = family.offsets[0, targets] + points * slopes - known.value[:, None]
    rise = slopes - known.gradient
    rounding = family.rounding + family.own_rounding[0, targets]
    most = (logs + np.abs(rise) - rise * points).min(axis=0) + rounding
    return logs.max(axis=0) - rounding, np.minimum(most, 0.0)

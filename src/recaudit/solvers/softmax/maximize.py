"""The largest softmax probability of an item over a box of actions (paper 000, section 3.2).

Scores are affine in the action, s = slope @ a + intercept, so that -log of the softmax probability of a target,
f(a) = log sum_j exp(beta s_j(a)) - beta s_i(a), is convex, and any point with its gradient bounds the minimum:
f(a) - f* <= sum_k max(g_k (a_k - lower_k), g_k (a_k - upper_k)). Every solution carries this certificate.

How likely an item can be made to be in a slate of n drawn without replacement (Plackett-Luce) has two bounds.
Drawing without replacement in proportion to exp(z) is a race: item j arrives after an exponential time of rate
exp(z_j), and the slate is the first n to arrive.

- At any action, an item that is the first of all but n - 1 others is in the slate, whichever those others are. So the
  largest softmax probability with the n - 1 strongest rivals taken out is a lower bound; and so is 1 - (1 - rho*)^n,
  since each draw that has not brought the item yet only makes it likelier in the next.
- An item in the slate is before at least N - n others. By Markov's inequality that is at most as likely as the expected
  number of others after it, sum_j sigma(z_i - z_j), over N - n; over the box each sigma is largest at a corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import log_expit

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers import batches
from recaudit.solvers.batches import Batch, plan_batches, run_on_cores
from recaudit.solvers.checks import Array, as_box, as_positions, as_scores, check_positive, require
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled, log_sum_exp, tolerance_beside
from recaudit.solvers.softmax.newton import minimize
from recaudit.solvers.solution import Solution, concatenate, no_solutions, status_of

_UNIT = float(np.finfo(np.float64).eps)
# Below this a probability has no digits left as a double.
_SMALLEST = -700.0


def maximize_softmax(
    slope: Array,
    intercept: Array,
    targets: Array,
    beta: float,
    lower: Array,
    upper: Array,
    tol: float = 1e-6,
    *,
    max_steps: int = 500,
    actions: bool = True,
) -> Solution:
    """Maximize the softmax probability of each target over the actions a with lower <= a <= upper.

    A target is solved when its bounds on the log-probability, rounding included, are at most `tol` apart, and bounded
    when that takes more than `max_steps` Newton steps or the rounding of its scores alone is as wide.

    Args:
        slope: Slopes of the scores s = slope @ a + intercept of all candidate items, shape (items, K).
        intercept: Their intercepts, shape (items,).
        targets: Positions of items, shape (targets,).
        beta: Inverse temperature of the softmax, above 0.
        lower: Lower ends of the box, a number or shape (K,).
        upper: Upper ends of the box, a number or shape (K,).
        tol: Largest gap between the bounds of a solved target.
        max_steps: Newton steps after which a target stays bounded.
        actions: If False, the solution has no maximizers.

    Returns:
        The solution of each target, on the scale of the log-probability.
    """
    slopes, intercepts = as_scores(slope, intercept)
    positions = as_positions("targets", targets, len(intercepts))
    ends = as_box(lower, upper, (1, slopes.shape[1]))
    solver = _Solver(beta, tol, max_steps, actions)
    return solver.solve(slopes[None], intercepts[None], np.zeros_like(positions), positions, *ends)


def maximize_softmax_batch(
    slope: Array,
    intercept: Array,
    targets: Array,
    beta: float,
    lower: Array,
    upper: Array,
    tol: float = 1e-6,
    *,
    max_steps: int = 500,
    actions: bool = False,
) -> Solution:
    """Maximize as `maximize_softmax` does, for many problems of the same number of actions.

    The rest of the batch moves a solution by rounding only, or within its bounds.

    Args:
        slope: Slopes, shape (problems, items, K).
        intercept: Intercepts, shape (problems, items), -inf where an item is no candidate.
        targets: True where an item is a target, shape (problems, items).
        beta: Inverse temperature of the softmax, above 0.
        lower: Lower ends of the boxes: a number, shape (K,) or (problems, K).
        upper: Upper ends of the boxes, in the same way.
        tol: Largest gap between the bounds of a solved target.
        max_steps: Newton steps after which a target stays bounded.
        actions: If True, the solution has the maximizers.

    Returns:
        Solutions in the order of the True entries of `targets`.
    """
    slopes, intercepts = as_scores(slope, intercept, batch=True)
    mask = np.asarray(targets)
    received = f"an array of shape {mask.shape} and type {mask.dtype}"
    expected = f"booleans of shape {intercepts.shape}, True where an item is a target"
    require(mask.dtype == np.bool_ and mask.shape == intercepts.shape, "targets", received, expected)
    owner, positions = np.nonzero(mask)
    candidates = not np.isinf(intercepts[owner, positions]).any()
    require(candidates, "targets", "a target with the intercept -inf", "targets that are candidates")
    ends = as_box(lower, upper, (slopes.shape[0], slopes.shape[2]))
    return _Solver(beta, tol, max_steps, actions).solve(slopes, intercepts, owner, positions, *ends)


@final
@dataclass(frozen=True)
class _Solver:
    """How to solve: everything but the numbers of the problems."""

    beta: float
    tol: float
    max_steps: int
    actions: bool

    def __post_init__(self) -> None:
        check_positive("beta", self.beta)
        check_positive("tol", self.tol)
        require(self.max_steps >= 1, "max_steps", self.max_steps, "a whole number of 1 or more")

    def solve(
        self,
        slope: FloatArray,
        intercept: FloatArray,
        owner: IntArray,
        positions: IntArray,
        lower: FloatArray,
        upper: FloatArray,
    ) -> Solution:
        """Solve for the targets `positions` (pairs,) of the problems `owner` (pairs,), ascending."""

        def solve_batch(batch: Batch) -> Solution:
            rows, chosen = batch.pairs, np.array(batch.problems)
            local = np.searchsorted(chosen, owner[rows])
            # Numbers beyond what double precision holds make a target fail, and need no warning.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return self._solve_batch(
                    slope[chosen], intercept[chosen], local, positions[rows], lower[chosen], upper[chosen]
                )

        _, items, columns = slope.shape
        counts = np.bincount(owner, minlength=len(slope)).tolist()
        solved = run_on_cores(solve_batch, plan_batches(counts, items, columns))
        return concatenate([no_solutions(columns), *solved])

    def _solve_batch(
        self,
        slope: FloatArray,
        intercept: FloatArray,
        owner: IntArray,
        positions: IntArray,
        lower: FloatArray,
        upper: FloatArray,
    ) -> Solution:
        half = (upper - lower) / 2
        middle = lower + half
        slope, intercept, places = _without_gaps(slope, intercept, owner, positions)
        scores = Scaled.of(slope, intercept, self.beta, middle, half)
        family = LogSumExp(scores, batches.CPU_MEMORY // 2)
        allowance = family.rounding[owner] + family.own_rounding[owner, places]
        tol = tolerance_beside(self.tol, allowance)
        minima = minimize(family, scores.slopes[owner, places], owner, tol, self.max_steps)
        reached = np.minimum(family.offsets[owner, places] - minima.value, 0.0)
        # Scores beyond what double precision holds give no value: such a target has failed, with trivial bounds.
        known = np.isfinite(reached) & np.isfinite(minima.gap) & np.isfinite(allowance)
        value = np.where(known, reached, np.nan)
        least = np.where(known, reached - allowance, -np.inf)
        most = np.where(known, np.minimum(reached + minima.gap + allowance, 0.0), 0.0)
        status = status_of(least, most, self.tol, failed=np.isnan(value))
        rows = owner if self.actions else owner[:0]
        actions = middle[rows] + half[rows] * minima.points[: len(rows)]
        actions = np.minimum(np.maximum(actions, lower[rows]), upper[rows])
        return Solution(value, least, most, status, actions, minima.evaluations)


def _without_gaps(
    slope: FloatArray, intercept: FloatArray, owner: IntArray, positions: IntArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the candidates alone, padded to the largest number, and the places of `positions` (pairs,) among them."""
    candidates: BoolArray = intercept > -np.inf
    width = int(candidates.sum(axis=1).max())
    if width == candidates.shape[1]:
        return slope, intercept, positions
    order = np.argsort(~candidates, axis=1, kind="stable")[:, :width]
    places = candidates.cumsum(axis=1)[owner, positions] - 1
    return np.take_along_axis(slope, order[:, :, None], axis=1), np.take_along_axis(intercept, order, axis=1), places


def bound_slate(
    slope: Array, intercept: Array, targets: Array, beta: float, n: int, lower: Array, upper: Array, tol: float = 1e-6
) -> Solution:
    """Bound the largest probability that each target is among n draws; arguments as for `maximize_softmax`.

    `n` is the length of the slate. The value is the lower bound itself: what the actions reach at least.
    """
    slopes, intercepts = as_scores(slope, intercept)
    require(1 <= n <= len(intercepts), "n", n, f"a slate of 1 to {len(intercepts)} items")
    positions = as_positions("targets", targets, len(intercepts))
    low, high = as_box(lower, upper, (slopes.shape[1],))
    single = maximize_softmax(slopes, intercepts, positions, beta, low, high, tol)
    best, actions, evaluations = np.maximum(single.lower, _drawn(single.lower, n)), single.actions, single.evaluations

    centre = slopes @ ((low + high) / 2) + intercepts
    strongest = np.argsort(-centre, kind="stable")[:n]
    inside = np.isin(positions, strongest)
    groups = [np.flatnonzero(~inside), *np.flatnonzero(inside)[:, None]]
    for places in filter(len, groups):
        out = strongest[~np.isin(strongest, positions[places])][: n - 1]
        rest = np.ones(len(intercepts), dtype=np.bool_)
        rest[out] = False
        among = (rest.cumsum() - 1)[positions[places]]
        alone = maximize_softmax(slopes[rest], intercepts[rest], among, beta, low, high, tol)
        evaluations[places] += alone.evaluations
        better = alone.lower > best[places]
        best[places[better]], actions[places[better]] = alone.lower[better], alone.actions[better]
    most = np.maximum(best, _markov(slopes, intercepts, positions, beta, n, low, high))
    return Solution(best, best, most, status_of(best, most, tol), actions, evaluations)


def _drawn(log_chance: FloatArray, n: int) -> FloatArray:
    """(targets,): the logarithm of 1 - (1 - p)^n, rounded down; it is no less exact, relatively, than p itself."""
    chance = np.minimum(np.exp(np.maximum(log_chance, _SMALLEST)), 1 - _UNIT)
    logs = np.log(-np.expm1(n * np.log1p(-chance)))
    return np.where(log_chance < _SMALLEST, log_chance, logs - _UNIT * (8 + 2 * np.abs(log_chance)))


def _markov(
    slope: FloatArray,
    intercept: FloatArray,
    targets: IntArray,
    beta: float,
    n: int,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Return the logarithm of min(1, sum over the others of sigma(largest z_i - z_j) / (N - n)), rounded up.

    A lead is a sum of 2 K + 1 terms, each a rounded difference times a bound of the box: it is off by at most (2 K + 4)
    roundings of the terms' sizes, and a logarithm of sigma by no more than its argument.
    """
    count, columns = slope.shape
    if n == count:
        return np.zeros(len(targets))
    far = np.maximum(np.abs(low), np.abs(high))
    logs = np.empty(len(targets))
    with np.errstate(over="ignore", invalid="ignore"):
        for place, target in enumerate(targets):
            difference, ahead = slope[target] - slope, intercept[target] - intercept
            lead = np.maximum(difference, 0.0) @ high + np.minimum(difference, 0.0) @ low + ahead
            lead += _UNIT * (columns + 4) * (np.abs(difference) @ far + np.abs(ahead))
            chances = log_expit(beta * lead)
            chances[target] = -np.inf  # the item itself
            logs[place] = log_sum_exp(chances)
        bound: FloatArray = logs - np.log(count - n) + _UNIT * (count + 8 + 2 * np.abs(logs))
    # Scores that double precision does not hold bound nothing.
    return np.minimum(np.where(np.isnan(bound), 0.0, bound), 0.0)

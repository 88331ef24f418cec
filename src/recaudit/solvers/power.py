"""The largest power-sampling probability of an item over a box of actions.

Under power sampling P(i) = r_i^p / sum_j r_j^p with r = max(s, 0) and affine scores s(a). For p >= 1 its p-th root is
r_i / |r|_p: an affine function over a convex one (a norm of nondecreasing convex functions), so it is pseudoconcave
where s_i > 0, every local maximum is the maximum, and any point certifies it: |r(a)|_p is at least its linearisation
l(a) at that point, and the maximum of s_i / l over the box has a closed form up to a bisection. For p < 1 there is only
a bound coordinate by coordinate.

A score is a sum of K + 1 products, computed to (K + 2) roundings of its size |b_j|.|a| + |c_j|. Here its sign and its
ratio to others count, so that nothing can be subtracted first, and bounds take every score at its worst.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import final

import numpy as np
from scipy.optimize import Bounds, minimize

from recaudit.arrays import FloatArray
from recaudit.solvers.checks import AffineScores, Array, as_affine_scores, as_positions, check_finite, check_positive
from recaudit.solvers.solution import Solution, status_of

_BISECTIONS = 60
_UNIT = float(np.finfo(np.float64).eps)


def maximize_power(
    slope: Array, intercept: Array, targets: Array, power: float, lower: Array, upper: Array, tol: float = 1e-6
) -> Solution:
    """The largest P(target) over the actions a with lower <= a <= upper, on the logarithm; arguments as for
    `maximize_softmax`, and `power` > 0. Where no item has a positive score all are equally likely. `evaluations` counts
    those of the probability and its gradient."""
    scores = as_affine_scores(slope, intercept, lower, upper)
    tol = check_positive("tol", tol)
    problem = _PowerProblem(*scores, check_positive("power", power))
    check_finite("scores", problem.sizes)
    positions = as_positions("targets", targets, len(problem.intercept)).tolist()
    value, least, most, evaluations = np.empty((4, len(positions)))
    actions = np.empty((len(positions), len(problem.lower)))
    for row, target in enumerate(positions):
        value[row], least[row], most[row], actions[row], evaluations[row] = problem.solve(target, tol)
    return Solution(value, least, most, status_of(least, most, tol), actions, evaluations.astype(np.int64))


@final
@dataclass(frozen=True, eq=False)
class _PowerProblem(AffineScores):
    power: float

    @cached_property
    def _errors(self) -> FloatArray:
        """(items,): how far rounding moves a score at most."""
        return _UNIT * (len(self.lower) + 2) * self.sizes

    @cached_property
    def _lowest(self) -> FloatArray:
        """(items,): no score is below this anywhere in the box, whatever was rounded."""
        lowest = np.maximum(self.slope, 0) @ self.lower + np.minimum(self.slope, 0) @ self.upper + self.intercept
        return np.asarray(lowest - self._errors)

    def solve(self, target: int, tol: float) -> tuple[float, float, float, FloatArray, int]:
        """Log-probability, a lower bound of it, an upper bound of the largest, the action, and the evaluations."""
        towards = np.where(self.slope[target] > 0, self.upper, self.lower)
        best, action, bound, evaluations = -np.inf, towards, self._box_bound(target), 0
        for start in (towards, (self.lower + self.upper) / 2):
            point = start
            if self.at(start)[target] > 0:
                point, steps = self._climb(target, start)
                evaluations += steps
                bound = min(bound, self._tangent_bound(target, point))
            value = self._log_share(np.maximum(self.at(point), 0.0), target)
            evaluations += 1
            if value > best:
                best, action = value, point
            if bound <= best + tol:
                break
        if not (self._lowest > 0).any():
            # Where every score may be 0 or less at once, the even chance that then holds may be the best.
            even = float(-np.log(len(self.intercept)))
            bound = max(bound, even + self._slack(even))
        # A value is reached: it bounds the largest from below even where rounding has put the bound under it.
        return best, self._least_log_probability(target, action), max(bound, best), action, evaluations

    def _climb(self, target: int, start: FloatArray) -> tuple[FloatArray, int]:
        """The local maximum, which is the maximum, that L-BFGS-B finds, and how many evaluations it took."""
        loss, bounds = partial(self._loss, target=target), Bounds(self.lower, self.upper)
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9})
        return np.clip(np.asarray(found.x, dtype=np.float64), self.lower, self.upper), int(found.nfev)

    def _least_log_probability(self, target: int, action: FloatArray) -> float:
        """The log-probability with the target's score rounded down and every other one rounded up."""
        raw, errors = self.at(action), self._errors
        worst = raw + errors
        if worst.max() > 0:
            worst[target] = raw[target] - errors[target]
        value = self._log_share(np.maximum(worst, 0.0), target)
        return value - self._slack(value)

    def _log_share(self, scores: FloatArray, target: int) -> float:
        """The target's log-probability, from scores (items,) of 0 or more."""
        largest = scores.max()
        if largest == 0:
            return float(-np.log(len(scores)))
        if scores[target] == 0:
            return -np.inf
        total = ((scores / largest) ** self.power).sum()
        return float(self.power * np.log(scores[target] / largest) - np.log(total))

    def _slack(self, log_share: float) -> float:
        """What the ratios, powers, sums and logarithms of `_log_share` round off at most."""
        return _UNIT * (len(self.intercept) + 8 + 4 * self.power + 4 * abs(log_share)) if log_share > -np.inf else 0.0

    def _loss(self, action: FloatArray, target: int) -> tuple[float, FloatArray]:
        """-log s_i + log |r|_p and its gradient; the logarithm is continued by a line below a tiny score."""
        raw = self.at(action)
        scores = np.maximum(raw, 0.0)
        largest = max(scores.max(), 1e-9 * np.abs(raw).max(), 1e-200)
        weights = (scores / largest) ** self.power
        total = max(weights.sum(), 1e-200)
        floor = 1e-9 * largest
        own = raw[target]
        log_own, rate = (np.log(own), 1 / own) if own > floor else (np.log(floor) + own / floor - 1, 1 / floor)
        pull = np.divide(weights, scores, out=np.zeros_like(scores), where=scores > 0) / total
        gradient = self.slope.T @ pull - rate * self.slope[target]
        return float(np.log(largest) + np.log(total) / self.power - log_own), gradient

    def _tangent_bound(self, target: int, action: FloatArray) -> float:
        """The bound from the linearisation of |r|_p at `action`; infinite where there is none."""
        scores = np.maximum(self.at(action), 0.0)
        largest = scores.max()
        if self.power < 1 or largest == 0:
            return np.inf
        ratio = scores / largest
        norm = largest * (ratio**self.power).sum() ** (1 / self.power)
        weights = (scores / norm) ** (self.power - 1) if self.power > 1 else (scores > 0).astype(np.float64)
        # By Hoelder's inequality |r|_p >= w.r >= w.s for any weights w >= 0 whose dual norm is at most 1.
        weights /= 1 + _UNIT * (len(scores) + 4 * self.power + 8)
        gradient, constant, size = self.slope.T @ weights, weights @ self.intercept, weights @ self.sizes
        own, at, own_size = self.slope[target], self.intercept[target], self.sizes[target]
        unit = _UNIT * (len(scores) + len(own) + 8)

        # The smallest t with s_i <= t w.s everywhere on the box: bisect on the sign of the maximum of s_i - t w.s.
        def excess(t: float) -> float:
            line = own - t * gradient
            most = float(np.where(line > 0, self.upper, self.lower) @ line + at - t * constant)
            return most + unit * float(own_size + t * size)

        low, high = 0.0, 1.0
        if excess(high) > 0:
            return np.inf
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        bound = self.power * float(np.log(high))
        return bound + self._slack(bound)

    def _box_bound(self, target: int) -> float:
        """The target at its highest, every other item at its lowest."""
        reach = np.maximum(self.slope, 0) @ self.upper + np.minimum(self.slope, 0) @ self.lower + self.intercept
        scores = np.maximum(self._lowest, 0.0)
        scores[target] = 0.0
        if scores.max() == 0:
            return 0.0
        scores[target] = max(reach[target] + self._errors[target], 0.0)
        bound = self._log_share(scores, target)
        return bound + self._slack(bound)

"""The largest power-sampling probability of an item over a box of actions.

Under power sampling P(i) = r_i^p / sum_j r_j^p with r = max(s, 0) and affine scores s(a). For p >= 1 its p-th root is
r_i / |r|_p: an affine function over a convex one (a norm of nondecreasing convex functions), so it is pseudoconcave
where s_i > 0, every local maximum is the maximum, and any point certifies it: |r(a)|_p is at least its linearisation
l(a) at that point, and the maximum of s_i / l over the box has a closed form up to a bisection. For p < 1 there is only
a bound coordinate by coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from recaudit.solvers.checks import Array, as_box, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.status import Status

FloatArray = NDArray[np.float64]

_BISECTIONS = 60


@final
@dataclass(frozen=True, eq=False)
class PowerSolution:
    """The largest probability of each target, on the logarithm, in the order the targets were given in."""

    log_value: FloatArray
    """(targets,): reached by `actions`."""
    log_upper: FloatArray
    """(targets,): no action reaches more."""
    actions: FloatArray
    """(targets, K)"""
    status: NDArray[np.str_]
    """(targets,): solved where the two are within the tolerance, else bounded."""


def maximize_power(
    slope: Array, intercept: Array, targets: Array, power: float, lower: Array, upper: Array, tol: float = 1e-6
) -> PowerSolution:
    """The largest P(target) over the actions a with lower <= a <= upper.

    `slope` (items, K), `intercept` (items,): the scores; `targets` (targets,): positions; `power` > 0; `lower` and
    `upper`: numbers or (K,). Where no item has a positive score all are equally likely.
    """
    slopes, intercepts = as_double("slope", slope, 2, "(items, K)"), as_double("intercept", intercept, 1, "(items,)")
    check_scores(slopes, intercepts)
    check_finite("intercept", intercepts)
    power, tol = check_positive("power", power), check_positive("tol", tol)
    low, high = (end.cpu().numpy() for end in as_box(lower, upper, (slopes.shape[1],), slopes.device))
    problem = _Problem(slopes.cpu().numpy(), intercepts.cpu().numpy(), low, high, power)
    positions = as_positions("targets", targets, len(intercepts)).cpu().numpy()
    found = [problem.solve(int(target), tol) for target in positions]
    value, bound = (np.array([answer[k] for answer in found]) for k in (0, 1))
    actions = np.array([answer[2] for answer in found]).reshape(len(positions), slopes.shape[1])
    status = np.where(bound <= value + tol, Status.SOLVED.value, Status.BOUNDED.value)
    return PowerSolution(value, np.maximum(value, bound), actions, status)


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    slope: FloatArray
    intercept: FloatArray
    lower: FloatArray
    upper: FloatArray
    power: float

    def solve(self, target: int, tol: float) -> tuple[float, float, FloatArray]:
        """Log-probability, its upper bound, and the action."""
        towards = np.where(self.slope[target] > 0, self.upper, self.lower)
        best, action, bound = -np.inf, towards, self._box_bound(target)
        for start in (towards, (self.lower + self.upper) / 2):
            point = start
            if self.slope[target] @ start + self.intercept[target] > 0:
                point = self._climb(target, start)
                bound = min(bound, self._tangent_bound(target, point))
            value = self._log_probability(target, point)
            if value > best:
                best, action = value, point
            if bound <= best + tol:
                break
        # Where every score may be 0 or less at once, the even chance that then holds may be the best.
        return best, max(bound, self._even_chance()), action

    def _even_chance(self) -> float:
        never_empty = bool((self._least() > 0).any())
        return -np.inf if never_empty else float(-np.log(len(self.intercept)))

    def _least(self) -> FloatArray:
        """(items,): every item's lowest score over the box."""
        rising, falling = np.maximum(self.slope, 0), np.minimum(self.slope, 0)
        return np.asarray(rising @ self.lower + falling @ self.upper + self.intercept)

    def _climb(self, target: int, start: FloatArray) -> FloatArray:
        """The local maximum, which is the maximum, that L-BFGS-B finds."""

        def loss(action: FloatArray) -> tuple[float, FloatArray]:
            return self._loss(action, target)

        bounds = Bounds(self.lower, self.upper)
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9})
        return np.clip(np.asarray(found.x, dtype=np.float64), self.lower, self.upper)

    def _scores(self, action: FloatArray) -> FloatArray:
        return np.maximum(self.slope @ action + self.intercept, 0.0)

    def _log_probability(self, target: int, action: FloatArray) -> float:
        scores = self._scores(action)
        largest = scores.max()
        if largest == 0:
            return float(-np.log(len(scores)))
        if scores[target] == 0:
            return -np.inf
        total = ((scores / largest) ** self.power).sum()
        return float(self.power * np.log(scores[target] / largest) - np.log(total))

    def _loss(self, action: FloatArray, target: int) -> tuple[float, FloatArray]:
        """-log s_i + log |r|_p and its gradient; the logarithm is continued by a line below a tiny score."""
        raw = self.slope @ action + self.intercept
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
        scores = self._scores(action)
        largest = scores.max()
        if self.power < 1 or largest == 0:
            return np.inf
        ratio = scores / largest
        norm = largest * (ratio**self.power).sum() ** (1 / self.power)
        gradient = (
            self.slope.T @ (scores / norm) ** (self.power - 1) if self.power > 1 else self.slope[scores > 0].sum(0)
        )
        own, at = self.slope[target], self.intercept[target]
        # The smallest t with s_i(a) <= t l(a) everywhere on the box: bisect on the sign of the maximum of s_i - t l.
        constant = norm - gradient @ action

        def excess(t: float) -> float:
            line = own - t * gradient
            return float(np.where(line > 0, self.upper, self.lower) @ line + at - t * constant)

        low, high = 0.0, 1.0
        if excess(high) > 0:
            return np.inf
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return self.power * float(np.log(high)) if high > 0 else -np.inf

    def _box_bound(self, target: int) -> float:
        """The target at its highest, every other item at its lowest."""
        reach = np.maximum(self.slope, 0) @ self.upper + np.minimum(self.slope, 0) @ self.lower + self.intercept
        own = max(reach[target], 0.0)
        others = np.maximum(np.delete(self._least(), target), 0.0)
        largest = max(own, others.max(initial=0.0))
        if largest == 0 or not (others > 0).any():
            return 0.0
        if own == 0:
            return -np.inf
        return float(
            self.power * np.log(own / largest) - np.log(((np.append(others, own) / largest) ** self.power).sum())
        )

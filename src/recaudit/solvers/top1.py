"""Top-1 reachability: can an item be made the highest-scoring one (paper 000, section 4; mathematics, section 2)?

The margin of target i at the action a is min over j != i of s_i(a) - s_j(a). Its maximum over the box is a linear
program, max t : (b_i - b_j).a + c_i - c_j >= t for all j != i; the item is top-1 reachable iff it is 0 or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog

from recaudit.solvers.checks import Array, as_box, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.status import Status

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# (target, item) pairs whose largest margins are computed at once: 8 MB for each array of them.
_BLOCK = 1 << 20
# Rivals that enter the linear program together.
_RIVALS = 16


@final
@dataclass(frozen=True, eq=False)
class Top1Margins:
    """The largest margin of each target over all other items, in the order the targets were given in."""

    target: IntArray
    """(targets,)"""
    margin: FloatArray
    """(targets,): the margin that `actions` reach; +inf where there is no other item."""
    upper: FloatArray
    """(targets,): no action in the box reaches a larger margin."""
    actions: FloatArray
    """(targets, K)"""
    reachable: BoolArray
    """(targets,): whether some action makes the target a highest-scoring item, ties included."""
    status: NDArray[np.str_]
    """(targets,): solved where `margin` is the largest one; bounded where the largest is between `margin` and
    `upper`, which settles `reachable` all the same when `upper` is negative; failed where the linear program had
    no answer."""


def top1_margin(
    slope: Array,
    intercept: Array,
    targets: Array,
    lower: Array,
    upper: Array,
    tol: float = 1e-7,
    *,
    exact: bool = False,
) -> Top1Margins:
    """The largest margin of each target over the actions a with lower <= a <= upper.

    `slope` (items, K), `intercept` (items,): the scores s = slope @ a + intercept; `targets` (targets,): positions;
    `lower`, `upper`: numbers or (K,). A target counts as reachable when its margin is at least -`tol`, in units of
    the scores. Margins of reachable targets are exact to `tol`; how far an unreachable one is away is bounded, or
    with `exact=True` solved too.
    """
    slopes = as_double("slope", slope, 2, "(items, K)")
    intercepts = as_double("intercept", intercept, 1, "(items,)")
    check_scores(slopes, intercepts)
    check_finite("slope", slopes)
    check_finite("intercept", intercepts)
    tol = check_positive("tol", tol)
    low, high = as_box(lower, upper, (slopes.shape[1],))
    positions = as_positions("targets", targets, len(intercepts))
    arrays = [tensor.cpu().numpy() for tensor in (slopes, intercepts, low, high)]
    return _Problem(*arrays, tol=tol, exact=exact).solve(positions.cpu().numpy())


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """Scores and a box: everything but the target."""

    slope: FloatArray
    intercept: FloatArray
    lower: FloatArray
    upper: FloatArray
    tol: float
    exact: bool

    def solve(self, targets: IntArray) -> Top1Margins:
        """A linear program for every target that no single rival excludes."""
        count = len(targets)
        margin, bound = np.full(count, np.inf), np.full(count, np.inf)
        actions = np.tile((self.lower + self.upper) / 2, (count, 1))
        status = np.full(count, Status.SOLVED.value, dtype="<U7")
        if len(self.intercept) > 1:
            rivals, bound = self._strongest_rivals(targets)
            for row, target in enumerate(targets):
                gain = self.slope[target] - self.slope[rivals[row]]
                actions[row] = np.where(gain > 0, self.upper, self.lower)
                margin[row] = self._margins(target, actions[row]).min()
                if self._settled(margin[row], bound[row]):
                    status[row] = self._status(margin[row], bound[row])
                else:
                    margin[row], bound[row], actions[row], status[row] = self._maximize(target, actions[row])
        return Top1Margins(targets, margin, bound, actions, margin >= -self.tol, status)

    def _settled(self, margin: float, upper: float) -> bool:
        """Whether the margin is known, or known to be negative where that is enough."""
        return upper - margin <= self.tol or (upper < -self.tol and not self.exact)

    def _status(self, margin: float, upper: float) -> str:
        return (Status.SOLVED if upper - margin <= self.tol else Status.BOUNDED).value

    def _margins(self, target: int, action: FloatArray) -> FloatArray:
        """(items,): how far the target's score is above each item's; +inf for itself."""
        scores = self.slope @ action + self.intercept
        margins: FloatArray = scores[target] - scores
        margins[target] = np.inf
        return margins

    def _strongest_rivals(self, targets: IntArray) -> tuple[IntArray, FloatArray]:
        """The rival with the smallest largest margin over the box, and that margin, for each target.

        For a single rival j the maximum has a closed form: with m and h the middle and half the width of the box,
        (b_i - b_j).m + c_i - c_j + sum_k h_k |b_ik - b_jk|.
        """
        half = (self.upper - self.lower) / 2
        scaled = torch.from_numpy(self.slope * half)
        scores = torch.from_numpy(self.slope @ (self.lower + half) + self.intercept)
        rivals, bounds = np.empty(len(targets), dtype=np.int64), np.empty(len(targets))
        height = max(1, _BLOCK // len(scores))
        for start in range(0, len(targets), height):
            part = torch.from_numpy(targets[start : start + height])
            largest = scores[part, None] - scores + torch.cdist(scaled[part], scaled, p=1.0)
            largest[torch.arange(len(part)), part] = torch.inf
            values, positions = largest.min(dim=1)
            rivals[start : start + height], bounds[start : start + height] = positions.numpy(), values.numpy()
        return rivals, bounds

    def _maximize(self, target: int, action: FloatArray) -> tuple[float, float, FloatArray, str]:
        """Margin, upper bound, action and status of the linear program, rivals added as they are violated."""
        margins = self._margins(target, action)
        best, best_action = float(margins.min()), action
        rivals = np.argsort(margins)[:_RIVALS]
        feasible = max(1e-10, self.tol / 10)
        bounds = [*zip(self.lower, self.upper, strict=True), (None, None)]
        while True:
            rows = np.column_stack([self.slope[rivals] - self.slope[target], np.ones(len(rivals))])
            limits = self.intercept[target] - self.intercept[rivals]
            objective = np.append(np.zeros(len(action)), -1.0)
            answer = linprog(
                objective,
                rows,
                limits,
                bounds=bounds,
                method="highs",
                options={"primal_feasibility_tolerance": feasible, "dual_feasibility_tolerance": feasible},
            )
            if not answer.success:
                return best, np.inf, best_action, Status.FAILED.value
            action, upper = np.clip(answer.x[:-1], self.lower, self.upper), float(answer.x[-1])
            margins = self._margins(target, action)
            if margins.min() > best:
                best, best_action = float(margins.min()), action
            nearest = np.argsort(margins)[:_RIVALS]
            violated = np.setdiff1d(nearest[margins[nearest] < upper], rivals)
            if self._settled(best, upper) or not len(violated):
                return best, upper, best_action, self._status(best, upper)
            rivals = np.concatenate([rivals, violated])

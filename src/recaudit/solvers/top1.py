"""Top-1 reachability: can an item be made the highest-scoring one (paper 000, section 4; mathematics, section 2)?

The margin of target i at the action a is min over j != i of s_i(a) - s_j(a). Its maximum over the box is a linear
program, max t : (b_i - b_j).a + c_i - c_j >= t for all j != i; the item is top-1 reachable iff it is 0 or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
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
    """(targets,): solved where `margin` is the largest one; bounded where the target was excluded without a linear
    program, because one rival beats it at every action: `reachable` is exact all the same; failed where the
    linear program had no answer."""


def top1_margin(
    slope: Array, intercept: Array, targets: Array, lower: Array, upper: Array, tol: float = 1e-7
) -> Top1Margins:
    """The largest margin of each target over the actions a with lower <= a <= upper.

    `slope` (items, K), `intercept` (items,): the scores s = slope @ a + intercept; `targets` (targets,): positions;
    `lower`, `upper`: numbers or (K,). Margins are exact to `tol`, in units of the scores; a target counts as
    reachable when its margin is at least -`tol`.
    """
    slopes = as_double("slope", slope, 2, "(items, K)")
    intercepts = as_double("intercept", intercept, 1, "(items,)")
    check_scores(slopes, intercepts)
    check_finite("slope", slopes)
    check_finite("intercept", intercepts)
    tol = check_positive("tol", tol)
    low, high = as_box(lower, upper, (slopes.shape[1],))
    problem = _Problem(slopes.cpu().numpy(), intercepts.cpu().numpy(), low.cpu().numpy(), high.cpu().numpy(), tol)
    positions = as_positions("targets", targets, len(intercepts)).cpu().numpy()
    return problem.solve(positions)


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    slope: FloatArray
    intercept: FloatArray
    lower: FloatArray
    upper: FloatArray
    tol: float

    def solve(self, targets: IntArray) -> Top1Margins:
        """A linear program for every target that no single rival excludes."""
        margin, bound = np.full(len(targets), np.inf), np.full(len(targets), np.inf)
        actions = np.tile((self.lower + self.upper) / 2, (len(targets), 1))
        status = np.full(len(targets), Status.SOLVED.value, dtype="<U7")
        if len(self.intercept) > 1:
            rival, bound = self._strongest_rivals(targets)
            for row, target in enumerate(targets):
                actions[row] = self._best_against(target, rival[row])
                margin[row] = self._margin(target, actions[row])
                if bound[row] < -self.tol:
                    status[row] = Status.BOUNDED.value
                else:
                    status[row] = self._improve(...)
        ...

"""Top-1 reachability: can an item be made the highest-scoring one (paper 000, section 4.1)?

The margin of target i at the action a is min over j != i of s_i(a) - s_j(a). Its maximum over the box is a linear
program, max t : (b_i - b_j).a + c_i - c_j >= t for all j != i. Where the margin is clearly positive the item is on top,
where it is clearly negative it is not; in between the rule for ties decides (`recaudit.ties`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog

from recaudit.arithmetic import product
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.ranking import rank_of
from recaudit.solvers.checks import Array, as_box, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.status import Status
from recaudit.ties import TIE

# (target, item) pairs whose largest margins are computed at once: 8 MB for each array of them.
_BLOCK = 1 << 20
# Rivals that enter the linear program together.
_RIVALS = 32
# The softmax that sorts out most targets: beta times the widest range of a score is this, its gap at most that.
_SOFTMAX_RANGE, _SOFTMAX_TOL, _LARGEST_BETA = 1600.0, 0.5, 1e6


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
    """(targets,): whether `actions` make the target the top item; of tied items the first is."""
    settled: BoolArray
    """(targets,): whether `reachable` is known: it is reached, or no action in the box does."""
    status: NDArray[np.str_]
    """(targets,): solved where `margin` is the largest one; bounded where the largest is between `margin` and
    `upper`; failed where the linear program had no answer."""


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
    `lower`, `upper`: numbers or (K,). Margins of reachable targets are exact to `tol`, in units of the scores; how far
    an unreachable one is away is bounded, or with `exact=True` solved too.
    """
    slopes = as_double("slope", slope, 2, "(items, K)")
    intercepts = as_double("intercept", intercept, 1, "(items,)")
    check_scores(slopes, intercepts)
    check_finite("slope", slopes)
    check_finite("intercept", intercepts)
    tol = check_positive("tol", tol)
    low, high = as_box(lower, upper, (slopes.shape[1],), slopes.device)
    positions = as_positions("targets", targets, len(intercepts))
    score, start, low_end, high_end = (tensor.cpu().numpy() for tensor in (slopes, intercepts, low, high))
    return _Problem(score, start, low_end, high_end, tol, exact).solve(positions.cpu().numpy())


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
        """The cheap bounds first: one rival, then the softmax, then a linear program for what they leave open."""
        count = len(targets)
        margin, bound = np.full(count, np.inf), np.full(count, np.inf)
        actions = np.tile((self.lower + self.upper) / 2, (count, 1))
        if len(self.intercept) > 1:
            actions, bound = self._against_strongest_rival(targets)
            margin = self._smallest_margins(targets, actions)
            unsettled = np.flatnonzero(~self._settled(margin, bound))
            if len(unsettled):
                actions[unsettled], softmax_bound = self._by_softmax(targets[unsettled])
                margin[unsettled] = self._smallest_margins(targets[unsettled], actions[unsettled])
                bound[unsettled] = np.fmin(bound[unsettled], softmax_bound)
        failed = np.zeros(count, dtype=np.bool_)
        for row in np.flatnonzero(~self._settled(margin, bound)):
            margin[row], upper, actions[row] = self._maximize(targets[row], actions[row])
            bound[row], failed[row] = np.fmin(bound[row], upper), np.isnan(upper)
        status = np.where(bound <= margin + self.tol, Status.SOLVED.value, Status.BOUNDED.value)
        status[failed] = Status.FAILED.value
        reachable = self._on_top(targets, actions)
        return Top1Margins(targets, margin, bound, actions, reachable, reachable | self._never(targets, bound), status)

    def _on_top(self, targets: IntArray, actions: FloatArray) -> BoolArray:
        """(targets,): whether each target is the top item after its own action (targets, K)."""
        out = np.empty(len(targets), dtype=np.bool_)
        height = max(1, _BLOCK // len(self.intercept))
        for start in range(0, len(targets), height):
            rows = slice(start, start + height)
            scores = product(actions[rows], self.slope) + torch.from_numpy(self.intercept)
            out[rows] = rank_of(scores, torch.from_numpy(targets[rows])) == 1
        return out

    def _never(self, targets: IntArray, bound: FloatArray) -> BoolArray:
        """(targets,): whether no action makes the target the top item, by the `bound` (targets,) on its margin.

        Tied items stand in a chain of gaps, so that the top item may be as far below the best as all gaps together; and
        a rival that comes first has to be left behind by more than one gap. A gap is `TIE` times the largest absolute
        score, which lies between these two wherever in the box the action is.
        """
        middle, half = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
        centre, reach = np.abs(self.slope @ middle + self.intercept), np.abs(self.slope) @ half
        most = TIE * float((centre + reach).max())
        never: BoolArray = bound < -most * len(self.intercept)
        close = np.flatnonzero(~never & (bound <= most))
        least = TIE * (float((centre - reach).max()) if (centre > reach).any() or not len(close) else self._least())
        for row in close:
            target = targets[row]
            ahead = self.slope[target] - self.slope[:target]
            lead = ahead @ middle + np.abs(ahead) @ half + self.intercept[target] - self.intercept[:target]
            never[row] = lead.min(initial=np.inf) <= least
        return never

    def _least(self) -> float:
        """What the largest absolute score is at least, wherever in the box the action is: a linear program."""
        ones = np.ones(len(self.intercept))
        answer = linprog(
            np.append(np.zeros(len(self.lower)), 1.0),
            np.vstack([np.column_stack([sign * self.slope, -ones]) for sign in (1.0, -1.0)]),
            np.concatenate([-self.intercept, self.intercept]),
            bounds=[*zip(self.lower, self.upper, strict=True), (0, None)],
            method="highs",
        )
        return 0.0 if answer.fun is None else float(answer.fun)

    def _settled(self, margin: FloatArray, upper: FloatArray) -> BoolArray:
        """Where the margin is known, or known to be negative if that is enough."""
        known: BoolArray = upper <= margin + self.tol
        return known if self.exact else known | (upper < -self.tol)

    def _margins(self, target: int, action: FloatArray) -> FloatArray:
        """(items,): how far the target's score is above each item's; +inf for itself."""
        scores = self.slope @ action + self.intercept
        margins: FloatArray = scores[target] - scores
        margins[target] = np.inf
        return margins

    def _smallest_margins(self, targets: IntArray, actions: FloatArray) -> FloatArray:
        return np.array([self._margins(target, action).min() for target, action in zip(targets, actions, strict=True)])

    def _against_strongest_rival(self, targets: IntArray) -> tuple[FloatArray, FloatArray]:
        """The action that is best against the rival that leaves least, and the margin it leaves: an upper bound.

        For a single rival j the maximum has a closed form: with m and h the middle and half the width of the box,
        (b_i - b_j).m + c_i - c_j + sum_k h_k |b_ik - b_jk|.
        """
        half = (self.upper - self.lower) / 2
        scaled = torch.from_numpy(self.slope * half)
        scores = torch.from_numpy(self.slope @ (self.lower + half) + self.intercept)
        rivals, bounds = np.empty(len(targets), dtype=np.int64), np.empty(len(targets))
        height = max(1, _BLOCK // len(scores))
        for start in range(0, len(targets), height):
            rows = slice(start, start + height)
            part = torch.from_numpy(targets[rows])
            largest = scores[part, None] - scores + torch.cdist(scaled[part], scaled, p=1.0)
            largest[torch.arange(len(part)), part] = torch.inf
            values, positions = largest.min(dim=1)
            rivals[rows], bounds[rows] = positions.numpy(), values.numpy()
        return np.where(self.slope[targets] > self.slope[rivals], self.upper, self.lower), bounds

    def _by_softmax(self, targets: IntArray) -> tuple[FloatArray, FloatArray]:
        """The actions that maximise the softmax probability for a large beta, and what they say about the margin.

        Where the margin is t, all n - 1 rivals are at least t below: f <= log(1 + (n - 1) exp(-beta t)). So a
        certified f >= F bounds every margin: t <= (log(n - 1) - log(exp(F) - 1)) / beta.
        """
        width = np.abs(self.slope) @ (self.upper - self.lower)
        beta = _SOFTMAX_RANGE / max(float(width.max()), _SOFTMAX_RANGE / _LARGEST_BETA)
        found = maximize_softmax(self.slope, self.intercept, targets, beta, self.lower, self.upper, tol=_SOFTMAX_TOL)
        least = -found.log_upper
        with np.errstate(divide="ignore"):
            log_odds = least + np.log(-np.expm1(-least))
        start = np.where(np.isnan(found.actions), (self.lower + self.upper) / 2, found.actions)
        return start, (np.log(len(self.intercept) - 1) - log_odds) / beta

    def _maximize(self, target: int, action: FloatArray) -> tuple[float, float, FloatArray]:
        """Margin, upper bound (NaN if there is none) and action, by linear programs with ever more rivals."""
        margins = self._margins(target, action)
        best, best_action = float(margins.min()), action
        # The target's own margin is +inf: it is no rival of itself.
        rivals = np.argsort(margins)[: min(_RIVALS, len(margins) - 1)]
        objective = np.append(np.zeros(len(action)), -1.0)
        bounds = [*zip(self.lower, self.upper, strict=True), (None, None)]
        feasible = max(1e-10, self.tol / 10)
        while True:
            answer = linprog(
                objective,
                np.column_stack([self.slope[rivals] - self.slope[target], np.ones(len(rivals))]),
                self.intercept[target] - self.intercept[rivals],
                bounds=bounds,
                method="highs",
                options={"primal_feasibility_tolerance": feasible, "dual_feasibility_tolerance": feasible},
            )
            if answer.x is None:
                return best, np.nan, best_action
            action, upper = np.clip(answer.x[:-1], self.lower, self.upper), float(answer.x[-1])
            margins = self._margins(target, action)
            if margins.min() > best:
                best, best_action = float(margins.min()), action
            nearest = np.argsort(margins)[:_RIVALS]
            violated = np.setdiff1d(nearest[margins[nearest] < upper], rivals)
            if upper - best <= self.tol or (upper < -self.tol and not self.exact) or not len(violated):
                return best, upper, best_action
            rivals = np.concatenate([rivals, violated])

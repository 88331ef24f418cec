"""Top-1 reachability: can an item be made the highest-scoring one (paper 000, section 4.1)?

The margin of target i at the action a is min over j != i of s_i(a) - s_j(a). Its maximum over the box is a linear
program, max t : (b_i - b_j).a + c_i - c_j >= t for all j != i. Where the margin is clearly positive the item is on top,
where it is clearly negative it is not; in between the rule for ties decides (`recaudit.ties`).

Vertices of a convex hull (paper 000, Definition 2) are the same question: the largest t with w.(x_i - x_j) >= t for all
j != i, over directions w in [-1, 1]^K, is the distance of x_i, in the sum of absolute differences, from the hull of the
other points. It is the margin of scores without intercept, and the point is a vertex iff it is above 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.ranking import rank_of
from recaudit.solvers.checks import (
    AffineScores,
    Array,
    as_affine_scores,
    as_double,
    as_positions,
    check_positive,
    require,
)
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.solution import Solution, status_of
from recaudit.status import Status
from recaudit.ties import TIE, TieKeys

# (target, item) pairs whose largest margins are computed at once: 8 MB for each array of them.
_BLOCK = 1 << 20
# Rivals that enter the linear program together.
_RIVALS = 32
# The softmax that sorts out most targets: beta times the widest range of a score is this, its gap at most that.
_SOFTMAX_RANGE, _SOFTMAX_TOL, _LARGEST_BETA = 1600.0, 0.5, 1e6
# The softmax over points of size 1 at this beta is nearly the maximum: its best direction separates most vertices.
_HULL_BETA = 500.0


@final
@dataclass(frozen=True, eq=False)
class MarginSolution(Solution):
    """The largest margin of each target over all other items: +inf where there is none. Failed where the linear program
    had no answer; `evaluations` counts the linear programs."""

    reachable: BoolArray  # (n,): whether `actions` make the target the top item; of tied items `ties` say which is
    settled: BoolArray  # (n,): whether `reachable` is known: it is reached, or no action in the box does


@final
@dataclass(frozen=True, eq=False)
class HullVertices:
    """Which targets are vertices, in the order the targets were given in."""

    vertex: BoolArray  # (targets,)
    directions: FloatArray  # (targets, K): where `vertex`, the target is farther there than every other point
    status: StatusArray  # (targets,): solved where `vertex` is known; else the linear program settled nothing


def top1_margin(
    slope: Array,
    intercept: Array,
    targets: Array,
    lower: Array,
    upper: Array,
    tol: float = 1e-7,
    *,
    exact: bool = False,
    ties: TieKeys | None = None,
) -> MarginSolution:
    """The largest margin of each target over the actions in the box; arguments as for `maximize_softmax`. Margins of
    reachable targets are exact to `tol`, in units of the scores; how far an unreachable one is away is bounded, or with
    `exact=True` solved too. `ties` (1, items): which of tied items is on top; the first of them by default."""
    scores = as_affine_scores(slope, intercept, lower, upper)
    keys = TieKeys.in_order(len(scores[1])) if ties is None else ties
    problem = _MarginProblem(*scores, check_positive("tol", tol), exact, keys)
    return problem.solve(as_positions("targets", targets, len(problem.intercept)))


def hull_vertices(points: Array, targets: Array, tol: float = 1e-9) -> HullVertices:
    """Which of the `targets` (targets,), positions, are vertices of the hull of all `points` (points, K): farther than
    `tol`, relative to the largest coordinate of the centred points, from the hull of the others. Of points that
    coincide none is a vertex."""
    X = as_double("points", points, 2, "(points, K)")
    require(0 not in X.shape, "points", f"shape {X.shape}", "at least one point and one coordinate")
    tol = check_positive("tol", tol)
    positions = as_positions("targets", targets, len(X))
    centred = X - X.mean(axis=0)
    unit = centred / (float(np.abs(centred).max()) or 1.0)
    level, ends = np.zeros(len(X)), np.ones(X.shape[1])
    problem = _MarginProblem(unit, level, -ends, ends, tol, False, TieKeys.in_order(len(X)))

    directions = maximize_softmax(unit, level, positions, _HULL_BETA, -1.0, 1.0, tol=1e-2).actions
    vertex = problem.margins_at(positions, directions) > tol
    status = np.full(len(positions), Status.SOLVED.value, dtype="<U14")
    rest = np.flatnonzero(~vertex)
    if len(rest):
        best = problem.solve(positions[rest])
        vertex[rest], directions[rest] = best.value > tol, best.actions
        # A margin is known to `tol`: an upper bound of twice that is as near to 0 as it can be shown to be.
        status[rest] = np.where((best.value > tol) | (best.upper <= 2 * tol), Status.SOLVED.value, best.status)
    return HullVertices(vertex, directions, status)


@final
@dataclass(frozen=True, eq=False)
class _MarginProblem(AffineScores):
    """Everything but the target."""

    tol: float
    exact: bool
    ties: TieKeys  # one row

    def solve(self, targets: IntArray) -> MarginSolution:
        """The cheap bounds first: one rival, then the softmax, then a linear program for what they leave open."""
        count = len(targets)
        margin, bound = np.full(count, np.inf), np.full(count, np.inf)
        programs, failed = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
        actions = np.tile((self.lower + self.upper) / 2, (count, 1))
        if len(self.intercept) > 1:
            actions, bound = self._against_strongest_rival(targets)
            margin = self.margins_at(targets, actions)
            unsettled = np.flatnonzero(~self._settled(margin, bound))
            if len(unsettled):
                actions[unsettled], softmax_bound = self._by_softmax(targets[unsettled])
                margin[unsettled] = self.margins_at(targets[unsettled], actions[unsettled])
                bound[unsettled] = np.fmin(bound[unsettled], softmax_bound)
        for row in np.flatnonzero(~self._settled(margin, bound)):
            margin[row], upper, actions[row], programs[row] = self._maximize(targets[row], actions[row])
            bound[row], failed[row] = np.fmin(bound[row], upper), np.isnan(upper)
        status = status_of(margin, bound, self.tol, failed)
        reachable = self._on_top(targets, actions)
        settled = reachable | self._never(targets, bound)
        return MarginSolution(margin, margin, bound, status, actions, programs, reachable, settled)

    def margins_at(self, targets: IntArray, actions: FloatArray) -> FloatArray:
        """(targets,): the margin of each target at its own action (targets, K)."""
        smallest = [self._margins(target, action).min() for target, action in zip(targets, actions, strict=True)]
        return np.array(smallest, dtype=np.float64)

    def _on_top(self, targets: IntArray, actions: FloatArray) -> BoolArray:
        """(targets,): whether each target is the top item after its own action (targets, K)."""
        out = np.empty(len(targets), dtype=np.bool_)
        height = max(1, _BLOCK // len(self.intercept))
        for start in range(0, len(targets), height):
            rows = slice(start, start + height)
            scores = actions[rows] @ self.slope.T + self.intercept
            out[rows] = rank_of(scores, targets[rows], self.ties.repeated(len(scores))) == 1
        return out

    def _never(self, targets: IntArray, bound: FloatArray) -> BoolArray:
        """(targets,): whether no action makes the target the top item, by the `bound` (targets,) on its margin.

        Tied items stand in a chain of gaps, so that the top item may be as far below the best as all gaps together; and
        a rival that comes first has to be left behind by more than one gap. A gap is `TIE` times the largest absolute
        score, which lies between these two wherever in the box the action is.
        """
        middle, half = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
        centre, reach = np.abs(self.at(middle)), np.abs(self.slope) @ half
        most = TIE * float((centre + reach).max())
        never: BoolArray = bound < -most * len(self.intercept)
        close = np.flatnonzero(~never & (bound <= most))
        least = TIE * (float((centre - reach).max()) if (centre > reach).any() or not len(close) else self._least())
        keys = self.ties.of_row()
        for row in close:
            target = targets[row]
            first = keys < keys[target]
            ahead = self.slope[target] - self.slope[first]
            lead = ahead @ middle + np.abs(ahead) @ half + self.intercept[target] - self.intercept[first]
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
        scores = self.at(action)
        margins: FloatArray = scores[target] - scores
        margins[target] = np.inf
        return margins

    def _against_strongest_rival(self, targets: IntArray) -> tuple[FloatArray, FloatArray]:
        """The action that is best against the rival that leaves least, and the margin it leaves, an upper bound: for
        rival j (b_i - b_j).m + c_i - c_j + sum_k h_k |b_ik - b_jk|, m and h the middle and half width of the box."""
        half = (self.upper - self.lower) / 2
        scaled = self.slope * half
        scores = self.slope @ (self.lower + half) + self.intercept
        rivals, bounds = np.empty(len(targets), dtype=np.int64), np.empty(len(targets))
        height = max(1, _BLOCK // len(scores))
        for start in range(0, len(targets), height):
            rows = slice(start, start + height)
            part = targets[rows]
            largest = scores[part, None] - scores + cdist(scaled[part], scaled, "cityblock")
            largest[np.arange(len(part)), part] = np.inf
            rivals[rows] = largest.argmin(axis=1)
            bounds[rows] = largest[np.arange(len(part)), rivals[rows]]
        return np.where(self.slope[targets] > self.slope[rivals], self.upper, self.lower), bounds

    def _by_softmax(self, targets: IntArray) -> tuple[FloatArray, FloatArray]:
        """The actions that maximise the softmax probability for a large beta, and what they say about the margin: where
        it is t, all n - 1 rivals are at least t below: f <= log(1 + (n - 1) exp(-beta t)). So a certified f >= F bounds
        every margin: t <= (log(n - 1) - log(exp(F) - 1)) / beta."""
        width = np.abs(self.slope) @ (self.upper - self.lower)
        beta = _SOFTMAX_RANGE / max(float(width.max()), _SOFTMAX_RANGE / _LARGEST_BETA)
        found = maximize_softmax(self.slope, self.intercept, targets, beta, self.lower, self.upper, tol=_SOFTMAX_TOL)
        least = -found.upper
        with np.errstate(divide="ignore"):
            log_odds = least + np.log(-np.expm1(-least))
        start = np.where(np.isnan(found.actions), (self.lower + self.upper) / 2, found.actions)
        return start, (np.log(len(self.intercept) - 1) - log_odds) / beta

    def _maximize(self, target: int, action: FloatArray) -> tuple[float, float, FloatArray, int]:
        """Margin, upper bound (NaN if there is none), action, and how many linear programs with ever more rivals."""
        margins = self._margins(target, action)
        best, best_action = float(margins.min()), action
        # The target's own margin is +inf: it is no rival of itself.
        rivals = np.argsort(margins)[: min(_RIVALS, len(margins) - 1)]
        objective = np.append(np.zeros(len(action)), -1.0)
        bounds = [*zip(self.lower, self.upper, strict=True), (None, None)]
        feasible = max(1e-10, self.tol / 10)
        programs = 0
        while True:
            programs += 1
            answer = linprog(
                objective,
                np.column_stack([self.slope[rivals] - self.slope[target], np.ones(len(rivals))]),
                self.intercept[target] - self.intercept[rivals],
                bounds=bounds,
                method="highs",
                options={"primal_feasibility_tolerance": feasible, "dual_feasibility_tolerance": feasible},
            )
            if answer.x is None:
                return best, np.nan, best_action, programs
            action, upper = np.clip(answer.x[:-1], self.lower, self.upper), float(answer.x[-1])
            margins = self._margins(target, action)
            if margins.min() > best:
                best, best_action = float(margins.min()), action
            nearest = np.argsort(margins)[:_RIVALS]
            violated = np.setdiff1d(nearest[margins[nearest] < upper], rivals)
            if upper - best <= self.tol or (upper < -self.tol and not self.exact) or not len(violated):
                return best, upper, best_action, programs
            rivals = np.concatenate([rivals, violated])

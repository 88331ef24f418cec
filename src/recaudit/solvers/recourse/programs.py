"""The least effort where a rating may be any number of an interval: mixed-integer programs, solved by HiGHS.

A program begins with the effort alone, and gets the rows of those rivals, items and tangents that its solution does not
respect, until it respects them all. Every program on the way is a relaxation, so that the bound that HiGHS proves for
it holds for the question itself. Rows are widened by a margin for the bound, and narrowed by it for what is to be
reached: HiGHS keeps rows to about 1e-6 only, and what it gives back is looked at with the exact rule. Ratings are
counted in units of the widest move, scores in units of the largest one, so that it sees numbers around one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
from scipy import optimize, sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.recourse.least import Certainty
from recaudit.solvers.recourse.outcomes import ROUNDING, first_items, log_chance
from recaudit.solvers.recourse.places import rank_after

_MARGIN = 1e-5
"""How far rows are widened or narrowed, as a part of the largest score: ten times what HiGHS keeps them to."""
_ROUNDS = 60
_CLOSE = 1e-3
"""The gap between effort and bound, as a part of the effort, at which an answer counts as the least."""


class IntervalEffort(NamedTuple):
    """The answer for one question."""

    found: Certainty
    value: float  # infinite where no way was found
    lower: float
    moves: FloatArray  # (ratings,): new rating less the present one
    nodes: int


@final
class FreeRatings:
    """Ratings `now` (ratings,) that may stay or become any number from `low` to `high`; effort is what a change of each
    costs (ratings,), or how far they move where `costs` is None."""

    def __init__(self, now: FloatArray, low: float, high: float, costs: FloatArray | None) -> None:
        self.now, self.low, self.high = now, low - now, high - now
        self.total = costs is None
        self.costs = np.ones(len(now)) if costs is None else costs

    @property
    def largest(self) -> FloatArray:
        """(ratings,): how far each can move."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def unit(self) -> float:
        """The farthest that any can move."""
        return float(self.largest.max(initial=0.0)) or 1.0

    def at_least(self, bound: float) -> float:
        """The least effort that is no smaller than a bound in these units."""
        if self.total:
            return bound * self.unit
        return float(np.ceil(bound - _MARGIN)) if (self.costs == 1.0).all() else bound

    def effort(self, moves: FloatArray) -> float:
        """What these changes take."""
        return float(np.abs(moves).sum() if self.total else self.costs[np.abs(moves) > 1e-9].sum())


class Wanted(ABC):
    """What is to be brought about, as rows of a program in the moves and in variables from 0 to 1 of its own."""

    whole: FloatArray
    """(variables,): 1 for variables that are 0 or 1, 0 for those that may be any number between."""

    @abstractmethod
    def reached(self, moves: FloatArray) -> bool:
        """Whether these changes bring it about, by the exact rule."""

    @abstractmethod
    def learn(self, moves: FloatArray, values: FloatArray, margin: float) -> bool:
        """Whether a solution breaks a row that was not known; from now on it is."""

    @abstractmethod
    def rows(self, margin: float) -> list[Row]:
        """The rows that are known, wider by `margin` where it is above 0, narrower where it is below."""


class Row(NamedTuple):
    """`moves . along + values[places] . weights <= most`."""

    along: FloatArray
    places: IntArray
    weights: FloatArray
    most: float


def interval_effort(wanted: Wanted, free: FreeRatings, budget: int) -> IntervalEffort:
    """The least effort that brings it about; `budget`: how many nodes of HiGHS's trees, over all programs."""
    nothing = np.zeros(len(free.now))
    if wanted.reached(nothing):
        return IntervalEffort(Certainty.LEAST, 0.0, 0.0, nothing, 0)
    relaxed = _Programs(wanted, free, _MARGIN)
    lower, moves = relaxed.solve(budget)
    if lower == np.inf:
        return IntervalEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, nothing, relaxed.nodes)
    if moves is None or not wanted.reached(moves):
        strict = _Programs(wanted, free, -_MARGIN)
        _, moves = strict.solve(max(1, budget - relaxed.nodes))
        relaxed.nodes += strict.nodes
    if moves is None or not wanted.reached(moves):
        return IntervalEffort(Certainty.NONE, np.inf, lower, nothing, relaxed.nodes)
    value = free.effort(moves)
    least = value - lower <= _CLOSE * max(value, 1e-9)
    return IntervalEffort(Certainty.LEAST if least else Certainty.SOME, value, min(lower, value), moves, relaxed.nodes)


@final
class _Programs:
    """One program after the other, each with the rows that the last one's solution did not respect."""

    def __init__(self, wanted: Wanted, free: FreeRatings, margin: float) -> None:
        self.wanted, self.free, self.margin, self.nodes = wanted, free, margin, 0

    def solve(self, budget: int) -> tuple[float, FloatArray | None]:
        """A lower bound of the effort, infinite where there is none, and the moves, where rows are all respected."""
        ratings, lower = len(self.free.now), 0.0
        for _ in range(_ROUNDS):
            if self.nodes > budget:
                return lower, None
            found = self._program(budget - self.nodes)
            self.nodes += int(found.mip_node_count or 0) + 1
            if found.status == 2:  # no point satisfies the rows
                return np.inf, None
            if found.mip_dual_bound is not None:
                lower = max(lower, self.free.at_least(float(found.mip_dual_bound)))
            elif found.status == 0:
                lower = max(lower, self.free.at_least(float(found.fun)))
            if found.x is None:
                return lower, None
            moves = (found.x[:ratings] - found.x[ratings : 2 * ratings]) * self.free.unit
            if not self.free.total:  # what does not count as changed is not changed
                moves[found.x[2 * ratings : 3 * ratings] < 0.5] = 0.0
            moves = np.where(np.abs(moves) > 1e-9, np.clip(moves, self.free.low, self.free.high), 0.0)
            if not self.wanted.learn(moves, found.x[3 * ratings :], self.margin):
                return lower, moves
        return lower, None

    def _program(self, nodes: int) -> optimize.OptimizeResult:
        """Variables: up and down (ratings,) of each rating in units of the widest move, whether it changes, then what
        is wanted's own."""
        free, own = self.free, len(self.wanted.whole)
        ratings, low, high = len(free.now), free.low / free.unit, free.high / free.unit
        total = 3 * ratings + own
        ones, rows, most = np.eye(ratings), [], []
        # low y <= up - down <= high y
        for sign, end in ((1.0, high), (-1.0, -low)):
            rows.append(np.hstack([sign * ones, -sign * ones, -np.diag(end), np.zeros((ratings, own))]))
            most.append(np.zeros(ratings))
        for row in self.wanted.rows(self.margin):
            line = np.zeros((1, total))
            along = row.along * free.unit
            line[0, :ratings], line[0, ratings : 2 * ratings] = along, -along
            np.add.at(line[0], 3 * ratings + row.places, row.weights)
            rows.append(line)
            most.append(np.array([row.most]))
        # Where a rating may stay as it is in any case, only counting changes needs to know which do.
        counted = np.ones(ratings) if not free.total else ((free.low > 0) | (free.high < 0)).astype(float)
        cost = np.zeros(total)
        cost[: 2 * ratings] = 1.0 if free.total else 0.0
        cost[2 * ratings : 3 * ratings] = 0.0 if free.total else free.costs
        upper = np.concatenate([np.maximum(high, 0), np.maximum(-low, 0), np.ones(ratings + own)])
        return optimize.milp(
            cost,
            integrality=np.concatenate([np.zeros(2 * ratings), counted, self.wanted.whole]),
            bounds=optimize.Bounds(np.zeros(total), upper),
            constraints=optimize.LinearConstraint(sparse.csr_array(np.vstack(rows)), ub=np.concatenate(most)),
            options={"node_limit": nodes, "mip_rel_gap": _CLOSE / 2},
        )


def _size(slope: FloatArray, scores: FloatArray, free: FreeRatings) -> float:
    """No score is larger, whatever is rated."""
    return float((np.abs(scores) + np.abs(slope) @ free.largest).max()) or 1.0


@final
class PlaceProgram(Wanted):
    """An item among the first n, or out of them; a 0-1 variable for each rival that may stay where it should not be."""

    def __init__(
        self, slope: FloatArray, scores: FloatArray, target: int, n: int, inside: bool, free: FreeRatings
    ) -> None:
        self._asked = slope, scores, target
        self._n, self._inside = n, inside
        sign, others = 1.0 if inside else -1.0, np.arange(len(scores)) != target
        self._lead, self._delta = sign * (scores - scores[target])[others], sign * (slope - slope[target])[others]
        self._size = _size(slope, scores, free)
        ends = np.stack([self._delta * free.low, self._delta * free.high, np.zeros_like(self._delta)])
        self._most, least = (self._lead + part.sum(axis=1) for part in (ends.max(axis=0), ends.min(axis=0)))
        self._always = least > _MARGIN * self._size
        self._limit = (n - 1 if inside else len(scores) - 1 - n) - int(self._always.sum())
        self._known: list[int] = []
        self.whole = np.zeros(0)

    def reached(self, moves: FloatArray) -> bool:
        """See `Wanted`."""
        return (rank_after(*self._asked, moves) <= self._n) == self._inside

    def learn(self, moves: FloatArray, values: FloatArray, margin: float) -> bool:
        """See `Wanted`: the rivals that are where they should not be."""
        wrong = (self._lead + self._delta @ moves > margin * self._size) & ~self._always
        wrong[self._known] = False
        self._known += np.flatnonzero(wrong).tolist()
        self.whole = np.ones(len(self._known))
        return bool(wrong.any())

    def rows(self, margin: float) -> list[Row]:
        """See `Wanted`."""
        none, lead, delta = np.zeros(self._delta.shape[1]), self._lead / self._size, self._delta / self._size
        lift = np.maximum(self._most, 0.0) / self._size + 2 * _MARGIN
        exceptions = Row(none, np.arange(len(self._known)), np.ones(len(self._known)), float(self._limit))
        return [exceptions] + [
            Row(delta[j], np.array([place]), np.array([-lift[j]]), margin - lead[j])
            for place, j in enumerate(self._known)
        ]


@final
class ChanceProgram(Wanted):
    """An item's softmax probability at least so much: the tangents of its convex -log."""

    whole = np.zeros(0)

    def __init__(self, slope: FloatArray, scores: FloatArray, target: int, beta: float, least: float) -> None:
        self._lead, self._delta = beta * (scores - scores[target]), beta * (slope - slope[target])
        self._limit = -np.log(least)
        self._tangents: list[tuple[FloatArray, float]] = []

    def reached(self, moves: FloatArray) -> bool:
        """See `Wanted`."""
        return bool(-log_chance(self._lead + self._delta @ moves) <= self._limit + ROUNDING)

    def learn(self, moves: FloatArray, values: FloatArray, margin: float) -> bool:
        """See `Wanted`: the tangent where the solution is."""
        lead = self._lead + self._delta @ moves
        value = -log_chance(lead)
        if value <= self._limit + margin / 2 + _MARGIN / 2:
            return False
        weight = np.exp(lead - lead.max())
        slopes = (weight / weight.sum()) @ self._delta
        self._tangents.append((slopes, value - float(slopes @ moves)))
        return True

    def rows(self, margin: float) -> list[Row]:
        """See `Wanted`."""
        none = np.zeros(0, dtype=np.int64)
        return [Row(slopes, none, np.zeros(0), self._limit + margin - value) for slopes, value in self._tangents]


@final
class ListProgram(Wanted):
    """A list of n with at least or at most so much of a category, or near enough to the interests.

    Its variables: a threshold, and for each item that can be in the list whether it is, above the threshold. `holds`
    says whether a list (items,) is as it should be; `cuts`, of what is in a list (1 or 0 for each item), which sums of
    weights (items,) over any list as it should be are at most how large.
    """

    def __init__(
        self,
        slope: FloatArray,
        scores: FloatArray,
        n: int,
        free: FreeRatings,
        holds: Callable[[IntArray], bool],
        cuts: Callable[[FloatArray], list[tuple[FloatArray, float]]],
    ) -> None:
        self._slope, self._scores, self._n, self._holds, self._cuts = slope, scores, n, holds, cuts
        apart = slope - slope[np.argsort(-scores, kind="stable")[: 5 * n]].mean(axis=0)
        width = np.abs(apart) @ free.largest
        self._size = _size(slope, scores, free)
        room = 4 * _MARGIN * self._size
        self.items = np.flatnonzero(scores + width >= np.sort(scores - width)[-n] - room)
        self._apart, self._own, width = apart[self.items], scores[self.items], width[self.items]
        self._low = float((self._own - width).min()) - room
        self._range = float((self._own + width).max()) + room - self._low
        self.whole = np.append(0.0, np.ones(len(self.items)))
        self._limits: list[tuple[FloatArray, float]] = []

    def reached(self, moves: FloatArray) -> bool:
        """See `Wanted`."""
        return self._holds(first_items(self._scores + self._slope @ moves, self._n))

    def learn(self, moves: FloatArray, values: FloatArray, margin: float) -> bool:
        """See `Wanted`: what the list of the solution holds too much of."""
        inside = np.zeros(len(self._scores))
        # Before there is a list, the one as things are.
        chosen = values[1:] > 0.5
        if chosen.sum() == self._n:
            inside[self.items[chosen]] = 1.0
        else:
            inside[first_items(self._scores, self._n)] = 1.0
        broken = [(weights, most) for weights, most in self._cuts(inside) if weights @ inside > most + _MARGIN]
        self._limits += [(weights[self.items], most) for weights, most in broken]
        return bool(broken)

    def rows(self, margin: float) -> list[Row]:
        """See `Wanted`."""
        none, every = np.zeros(self._slope.shape[1]), np.arange(1, len(self.items) + 1)
        rows = [Row(none, every, sign * np.ones(len(every)), sign * self._n) for sign in (1.0, -1.0)]
        rows += [Row(none, every, weights, most + _MARGIN / 2) for weights, most in self._limits]
        apart, above, span = self._apart / self._size, (self._own - self._low) / self._size, self._range / self._size
        for place, (slope, score) in enumerate(zip(apart, above, strict=True)):
            columns = np.array([0, place + 1])
            # In the list: not below the threshold; out of it: not above.
            rows.append(Row(-slope, columns, np.array([span, span]), margin + score + span))
            rows.append(Row(slope, columns, np.array([-span, -span]), margin - score))
        return rows

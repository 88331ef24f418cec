"""How far edits can move a softmax distribution, where each edit moves the score of its own item and no other.

The edits of k items, each score anywhere between its lowest and highest, against the distribution p before them: what
is the largest distance of p from the distribution q after?

It is at a vertex of the box of scores. While one score moves and the others stand still, q moves on a straight line of
the simplex: towards the distribution in which the item is certain, or away from it. Every distance here is convex in
q, hence quasi-convex in that score, and is largest at one of its two ends. One score after the other, from any point
of the box to a vertex, the distance never falls (paper 001, Proposition 5.2, whose proof does not hold). So only the
lowest and the highest score of an item matter, and it is the same whether ratings are stars or an interval. Where
one edit moves the scores of several items, q does not move on a line and none of this holds.

At a vertex only the k edited items and the rest as a whole count, since unedited items keep their proportions. With
masses `w = exp(beta s)` in units of the total before (so that `p = w` before), `e = w - p` and `d = sqrt w - sqrt p`
of the edited items, `E = sum e`, and Z = 1 + E the total after:

- Hellinger: `1 - (1 - H^2)^2 = (sum d^2 - (sum d sqrt p)^2) / Z`
- total variation: `(sum |w / Z - p| + rest |1 / Z - 1|) / 2`
- L2: `L2^2 = (sum e^2 - 2 E sum e p + E^2 S) / Z^2`, S the sum of all squared probabilities before
- Kullback-Leibler: `KL(q | p) = (sum w log(w / p)) / Z - log Z`

All but total variation are functions of sums with one term an item, so that all vertices together cost a few
additions each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.ranking import top_items
from recaudit.solvers.batches import split_on_cores
from recaudit.solvers.checks import check_finite, check_positive, require
from recaudit.solvers.distance.distances import LARGEST, Distance
from recaudit.solvers.distance.vertices import Vertices, distance_at, largest_at_vertices, log_sum
from recaudit.solvers.solution import Solution
from recaudit.status import Status
from recaudit.ties import TieKeys

Bytes = NDArray[np.int8]

MOST_VERTICES = 2**16
"""How many vertices of one pair are looked at; more is refused."""

_TAIL, _NO_CANDIDATE = -1, -2
_NOT_FINITE = -1
"""Stands for the vertex of a pair with scores that are no numbers."""


@final
@dataclass(frozen=True, eq=False)
class VertexSolution(Solution):
    """The largest distance of every pair of a viewer and an editor, viewer by viewer; not applicable for a viewer with
    no candidates, or without the target among them. `choices` stand for `actions`; `evaluations` are the vertices."""

    vertex: IntArray  # (n,): the vertex that reaches the value, two bits an action, the first action lowest

    def choices(self, actions: int) -> Bytes:
        """(n, actions): 1 where the item's score is its lowest, 2 its highest, 0 where it is as before or is no
        candidate of the viewer."""
        return ((self.vertex[:, None] >> (2 * np.arange(actions))) & 3).astype(np.int8)


def largest_distance(
    distance: Distance,
    scores: ArrayLike,
    items: IntArray,
    edited: ArrayLike,
    beta: float,
    *,
    target: int | None = None,
    changes: int | None = None,
) -> VertexSolution:
    """The largest distance between the softmax distributions before and after the edits, for every pair.

    `scores` (viewers, items) are the scores without edits, -inf where an item is no candidate; `items` (editors,
    actions) the positions that each editor edits, -1 for none; `edited` (viewers, editors, actions, ratings + 1) the
    viewer's score of the edited item at each rating that it may be given and, last, the score before the edits, which
    need not be the one in `scores`.

    With a `target` (a position), the distance is of the two outcomes "this item is shown" and "it is not". With
    `changes`, at most that many items of a pair move; the others stay at the score before.
    """
    check_positive("beta", beta)
    scores, edited = np.asarray(scores, dtype=np.float64), np.asarray(edited, dtype=np.float64)
    _check_edits(items, edited, changes)
    require(target is None or changes is None, "changes", f"{changes} beside a target", "None beside a target")
    candidate = scores != -np.inf
    check_finite("scores", scores[candidate])
    editors, actions = items.shape
    viewers = _Viewers.of(beta, scores, candidate, actions + 1 + (target is not None))
    vertices, items = Vertices.of(actions, changes), np.ascontiguousarray(items)
    value, vertex = np.zeros((len(scores), editors)), np.zeros((len(scores), editors), dtype=np.int64)

    def solve(rows: slice) -> None:
        own = rows.start, items, np.ascontiguousarray(edited[rows])
        asked = -1 if target is None else target, changes is not None, vertices
        _solve_rows(list(LARGEST).index(distance), beta, viewers, *own, *asked, value[rows], vertex[rows])

    split_on_cores(solve, len(scores))
    if (vertex == _NOT_FINITE).any():
        check_finite("edited", edited)
    applicable = candidate.any(axis=1) if target is None else candidate[:, target]
    value[~applicable] = np.nan
    status = np.repeat(np.where(applicable, Status.SOLVED.value, Status.NOT_APPLICABLE.value), editors)
    flat, work = value.ravel(), np.full(value.size, vertices.counts[-1])
    return VertexSolution(flat, flat, flat, status, np.empty((0, actions)), work, vertex.ravel())


def _check_edits(items: IntArray, edited: FloatArray, changes: int | None) -> None:
    fits = edited.ndim == 4 and edited.shape[1:3] == items.shape and edited.shape[3] >= 2
    received = f"shape {edited.shape} beside items of shape {items.shape}"
    require(fits, "edited", received, "shape (viewers, editors, actions, ratings + 1)")
    ordered, actions = np.sort(items, axis=1), items.shape[1]
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    require(not twice.any(), "items", "an item twice in a row", "distinct items for each editor")
    # Each moved item is at one of two ends; without a limit all of them move.
    moved = [actions] if changes is None else range(min(changes, actions) + 1)
    count = sum(math.comb(actions, n) * 2**n for n in moved)
    expected = f"at most {MOST_VERTICES:,} vertices: 16 actions, two vertices for each"
    received, remedy = f"{actions} actions, {count:,} vertices a pair", "Let editors change fewer ratings."
    require(count <= MOST_VERTICES, "items", received, expected, remedy)


class _Viewers(NamedTuple):
    """A viewer's candidates, so that any few of them can be taken out of the total without cancellation.

    The total minus the edited items is worthless where the edited items are nearly all of it. So the top candidates,
    more than can be edited, are kept apart from the sum of the tail: one of them is always left, it outweighs
    every item of the tail, and what is subtracted from the tail's sum costs no more digits than the tail has items.
    """

    rank: Bytes  # (viewers, items): the place among the top ones, _TAIL, or _NO_CANDIDATE
    mass: FloatArray  # (viewers, items): of the items in the tail, in units of the last top one's; 0 elsewhere
    tail: FloatArray  # (viewers,): the sum of `mass`
    tail_squares: FloatArray  # (viewers,): the sum of its squares
    level: FloatArray
    """(viewers,): the highest score. All are relative to it before they are multiplied with beta: what they share moves
    no probability, and must not cost digits."""
    logits: FloatArray  # (viewers, items): beta times the scores, less the level
    top_logits: FloatArray  # (viewers, places): falling; -inf where there are fewer candidates

    @classmethod
    def of(cls, beta: float, scores: FloatArray, candidate: BoolArray, places: int) -> _Viewers:
        level = np.where(candidate.any(axis=1), scores.max(axis=1), 0.0)
        z = beta * (scores - level[:, None])
        # Which of tied items are kept apart moves nothing but rounding.
        tops = top_items(z, candidate, places, TieKeys.in_order(candidate.shape[1]))
        top_logits = np.where(tops >= 0, np.take_along_axis(z, np.maximum(tops, 0), axis=1), -np.inf)
        rank = np.where(candidate, _TAIL, _NO_CANDIDATE).astype(np.int8)
        row, place = np.nonzero(tops >= 0)
        rank[row, tops[row, place]] = place
        # A viewer with an empty place has no tail, and what stands here for its unit does not matter.
        unit = np.where(np.isfinite(top_logits[:, -1]), top_logits[:, -1], 0.0)
        mass = np.exp(np.where(rank == _TAIL, z, -np.inf) - unit[:, None])
        return cls(rank, mass, mass.sum(axis=1), np.square(mass).sum(axis=1), level, z, top_logits)


@njit(nogil=True, cache=True)
def _solve_rows(
    kind: int,
    beta: float,
    viewers: _Viewers,
    first: int,
    items: IntArray,
    edited: FloatArray,
    target: int,
    limited: bool,
    vertices: Vertices,
    value: FloatArray,
    vertex: IntArray,
) -> None:
    """Fill in `value` and `vertex` (rows, editors) of the viewers from `first` on; `edited` is theirs too."""
    # Unpacked once: taking an array out of a tuple, or a part of an array, counts references, which costs more here
    # than what is done with it.
    rank, mass, tails, tails_squared, level, logits, top_logits = viewers
    codes, places, room = vertices.codes, top_logits.shape[1], items.shape[1] + 1
    # Arrays to work in; a target may stand beside the edited items. The logits of the edited items before, at their
    # lowest and at their highest, the action each belongs to, and what the search of the vertices needs of them.
    logit, slot, root, after = np.zeros((3, room)), np.zeros(room, np.int64), np.zeros((3, room)), np.zeros(room)
    part, sums = np.zeros((3, 3, room)), np.zeros((3, len(codes)))
    heavier = np.empty((places, places))  # [i, j]: the mass of the top item j in units of the top item i's
    for row in range(len(value)):
        v = first + row
        for i in range(places):
            for j in range(i, places):
                known = top_logits[v, j] > -np.inf
                heavier[i, j] = math.exp(top_logits[v, j] - top_logits[v, i]) if known else 0.0
        for e in range(len(items)):
            m, place, tops_edited, gone, gone_squares = _gather(
                beta, level[v], v, row, e, target, rank, mass, logits, items, edited, logit, slot
            )
            if m == _NOT_FINITE:
                vertex[row, e] = _NOT_FINITE
            if m <= 0 or (target >= 0 and place < 0):
                continue
            tail, tail_squares = max(tails[v] - gone, 0.0), max(tails_squared[v] - gone_squares, 0.0)
            unit, rest, squares = _rest(v, top_logits, heavier, tops_edited, tail, tail_squares)
            for o in range(3):
                for s in range(m):
                    logit[o, s] -= unit
            if target < 0:
                value[row, e], at = largest_at_vertices(
                    kind, m, rest, squares, limited, vertices, logit, root, part, sums, after
                )
                for s in range(m):
                    vertex[row, e] |= ((codes[at] >> (2 * s)) & 3) << (2 * slot[s])
            else:
                value[row, e], vertex[row, e] = _largest_of_target(kind, m, rest, place, edited.shape[2], logit, slot)


@njit(nogil=True, cache=True, forceinline=True)
def _gather(
    beta: float,
    level: float,
    v: int,
    row: int,
    e: int,
    target: int,
    rank: Bytes,
    mass: FloatArray,
    logits: FloatArray,
    items: IntArray,
    edited: FloatArray,
    logit: FloatArray,
    slot: IntArray,
) -> tuple[int, int, int, float, float]:
    """Write the edited candidates of viewer v and editor e into `logit` and `slot`; the target too, edited or not.
    How many there are (or _NOT_FINITE), which is the target (-1: none); one bit for each top place that is edited; the
    mass and the squared mass of those in the tail."""
    actions, ratings = edited.shape[2], edited.shape[3] - 1
    m, place, tops_edited, gone, gone_squares = 0, -1, 0, 0.0, 0.0
    for t in range(actions + 1):
        item = items[e, t] if t < actions else target
        if item < 0 or rank[v, item] == _NO_CANDIDATE or (t == actions and place >= 0):
            continue
        if t < actions:
            low, high, before = np.inf, -np.inf, edited[row, e, t, ratings]
            total = before
            for g in range(ratings):
                score = edited[row, e, t, g]
                low = score if score < low else low
                high = score if score > high else high
                total += score
            if not math.isfinite(total):
                return _NOT_FINITE, -1, 0, 0.0, 0.0
            logit[0, m], logit[1, m], logit[2, m] = beta * (before - level), beta * (low - level), beta * (high - level)
        else:
            # The target is not edited: it only stands apart from the rest.
            logit[0, m], logit[1, m], logit[2, m] = logits[v, item], logits[v, item], logits[v, item]
        if item == target:
            place = m
        slot[m] = t
        m += 1
        if rank[v, item] >= 0:
            tops_edited |= 1 << rank[v, item]
        else:
            gone += mass[v, item]
            gone_squares += mass[v, item] ** 2
    return m, place, tops_edited, gone, gone_squares


@njit(nogil=True, cache=True, forceinline=True)
def _rest(
    v: int, top_logits: FloatArray, heavier: FloatArray, tops_edited: int, tail: float, tail_squares: float
) -> tuple[float, float, float]:
    """The logit of viewer v's best unedited candidate; in its units the mass of all unedited, and of its squares.
    `tops_edited` has one bit a place, `tail` is in units of the last place. All 0 where everything is edited."""
    last = top_logits.shape[1] - 1
    best = 0
    while best <= last and (tops_edited >> best) & 1:
        best += 1
    if best > last or top_logits[v, best] == -np.inf:
        return 0.0, 0.0, 0.0
    rest, squares = tail * heavier[best, last], tail_squares * heavier[best, last] ** 2
    for place in range(best, last + 1):
        if not (tops_edited >> place) & 1:
            rest += heavier[best, place]
            squares += heavier[best, place] ** 2
    return top_logits[v, best], rest, squares


@njit(nogil=True, cache=True)
def _largest_of_target(
    kind: int, m: int, rest: float, target: int, actions: int, logit: FloatArray, slot: IntArray
) -> tuple[float, int]:
    """The largest distance of the two outcomes "the target" and "another", and its vertex. It grows with the difference
    in the target's probability on either side: the target highest and the others lowest, or the other way round.
    `target` is its place among the `m` items."""
    log_rest = math.log(rest) if rest > 0.0 else -np.inf
    own = (logit[0, target], logit[1, target], logit[2, target])
    logit[:, target] = -np.inf  # what is left are the others
    before, after = np.empty(2), np.empty(2)
    before[0], before[1] = own[0], log_sum(logit[0], m, log_rest)
    best, code = -1.0, 0
    for of_target in range(1, 3):
        of_others = 3 - of_target
        after[0], after[1] = own[of_target], log_sum(logit[of_others], m, log_rest)
        found = distance_at(kind, before, after, 2, -np.inf, 0.0)
        if found > best:
            best, code = found, 0
            for s in range(m):
                if slot[s] < actions:
                    code |= (of_target if s == target else of_others) << (2 * slot[s])
    return best, code

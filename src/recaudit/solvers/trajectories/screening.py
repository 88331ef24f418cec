"""What a cell may hold for each target, from a short stand-in for the catalogue.

Candidates whose scores move alike on the cell are put together. With w_j = exp(score at the centre), W their sum in a
group and m the weighted mean of their slopes, Jensen's inequality says

    sum over the group of exp(score_j(y)) >= W exp(m.y) for every y,

so that the log-sum-exp of some hundred groups is nowhere above that of all items, and what no target exceeds with it,
no target exceeds. It is convex as well, and one evaluation costs a fraction. Of the items that weigh most near the
border of the cell each is a group of its own: putting them together would cost most of the exactness there.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.softmax.moments import exponential
from recaudit.solvers.trajectories.climbing import Tangent

# Groups at most; more are closer to the items, and take longer.
_GROUPS = 512
# A group is not narrower than this, in units of the score, and reaches to this many standard deviations.
_NARROWEST, _REACH = 0.2, 2.5
_WIDER = 1.15
# An item is a group of its own that has this share of all where they are moved by so many standard deviations.
_SHARE, _FAR = 1 / 1024, 1.5
# Targets that are looked at together: they stay in the fastest cache.
_ROWS = 256
_LOWEST = -600.0
# What a number in single precision may be off, as a part of it.
_SINGLE = 2.0**-23


class Groups(NamedTuple):
    """A stand-in for the candidates."""

    level: FloatArray  # (groups,)
    columns: FloatArray  # (K, groups)


def group_items(weights: FloatArray, columns: FloatArray, centre: Tangent, vertices: FloatArray) -> Groups:
    """The items of a cell in groups: their `weights` (items,) in the log-sum-exp at 0, of the largest, and `columns`
    (K, items) of their scores, and the cell's `vertices` (vertices, K).

    Groups are cut along the principal axes of what moves scores apart: slopes times the cell's extent.
    """
    spread, turn = np.linalg.eigh(vertices.T @ vertices / len(vertices))
    extent = (turn * np.sqrt(np.maximum(spread, 0.0))) @ turn.T
    variance, axes = np.linalg.eigh(extent @ centre.hessian @ extent)
    deviation, onto = np.sqrt(np.maximum(variance, 0.0)), axes.T @ extent
    width = _NARROWEST
    while True:
        counts = np.maximum(1, np.ceil(2 * _REACH * deviation / width))
        if counts.prod() <= _GROUPS:
            break
        width *= _WIDER
    total, sums = _gather(weights, columns, onto / width, centre.gradient, counts.astype(np.int64), _FAR * width)
    level = np.log(total) + centre.value - np.log(total.sum())
    return Groups(level, sums / total)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy")
def _gather(
    weights: FloatArray, columns: FloatArray, onto: FloatArray, middle: FloatArray, counts: IntArray, far: float
) -> tuple[FloatArray, FloatArray]:
    """(groups,) and (K, groups): the weights of the items of each group, and what they and the columns sum to. An item
    is at `onto @ (column - middle)`, in units of a group, with `counts` (K,) groups around 0 on the axes. It is alone
    that has its share of all where everything is so `far` from the middle as it can get."""
    K, items = columns.shape
    member, along, moved, place = np.zeros(items, np.int64), np.empty(items, np.int64), np.zeros(items), np.empty(items)
    groups = 1
    for k in range(K):
        place[:] = -(onto[k] * middle).sum()
        for m in range(K):
            column, by = columns[m], onto[k, m]
            for j in range(items):
                place[j] += by * column[j]
        begins, last = -counts[k] / 2, counts[k] - 1
        for j in range(items):
            moved[j] += place[j] ** 2
            along[j] = min(max(int(np.floor(place[j] - begins)), 0), last)
        for j in range(items):
            member[j] = member[j] * counts[k] + along[j]
        groups *= counts[k]
    all_moved = 0.0
    for j in range(items):
        moved[j] = weights[j] * exponential(min(far * np.sqrt(moved[j]), -_LOWEST))
        all_moved += moved[j]
    for j in range(items):
        if moved[j] > _SHARE * all_moved:
            member[j] = groups
            groups += 1
    total, sums = np.zeros(groups), np.zeros((K, groups))
    for j in range(items):
        total[member[j]] += weights[j]
    for k in range(K):
        column, own = columns[k], sums[k]
        for j in range(items):
            own[member[j]] += weights[j] * column[j]
    used = total > 0
    return total[used], sums[:, used]


@final
class Survey:
    """What each cell may hold for each target.

    No target exceeds its `bounds` (cells, targets) there, by the tangent in the cell's centre; -inf where it was rated
    on the way. It is likely to do best in its `home` (targets,); `typical` (cells,) is about what targets reach.
    """

    def __init__(self, cells: int, targets: int) -> None:
        self.bounds = np.empty((cells, targets), dtype=np.float32)
        self.home, self.most = np.zeros(targets, dtype=np.int64), np.full(targets, -np.inf)
        self.typical = np.empty(cells)

    def add(
        self,
        place: int,
        vertices: FloatArray,
        centre: Tangent,
        at_vertices: FloatArray,
        rounding: float,
        own_level: FloatArray,
        own_columns: FloatArray,
    ) -> None:
        """The cell in this `place`, with its `vertices` (vertices, K) and about what the log-sum-exp is `at_vertices`
        (vertices,); of the targets `own_level` (targets,) and `own_columns` (K, targets)."""
        half, K = len(vertices) // 2, vertices.shape[1]
        base, rise = vertices[:half], vertices[half] - vertices[0]
        # Sums of K products, and what comes of them, in single precision: all together less than six times the farthest
        # that a score or the tangent is moved.
        widest = np.maximum(np.abs(own_columns).max(axis=1, initial=0.0), np.abs(centre.gradient))
        rounding += float(6 * (K + 8) * _SINGLE * (np.abs(vertices).max(axis=0) @ widest))
        tangent = base @ centre.gradient, rise @ centre.gradient, centre.value - rounding
        given = at_vertices[:half], at_vertices[half:], own_level, own_columns
        self.typical[place] = _survey(base, rise, *tangent, *given, self.bounds[place], self.home, self.most, place)

    def may_be_best(self, place: int) -> IntArray:
        """The targets that may do better in the cell than it seemed in any other so far."""
        return np.flatnonzero(self.bounds[place] > self.most)

    def narrow(self, place: int, rows: IntArray, bounds: FloatArray, excess: FloatArray) -> None:
        """In the cell these targets do not exceed `bounds` (rows,), likely to be too high by the `excess` (rows,)."""
        self.bounds[place, rows] = np.minimum(bounds + _SINGLE * np.abs(bounds), self.bounds[place, rows])
        likely = bounds - excess
        better = likely > self.most[rows]
        self.home[rows[better]], self.most[rows[better]] = place, likely[better]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy")
def _survey(
    base: FloatArray,
    rise: FloatArray,
    ahead: FloatArray,
    risen: float,
    value: float,
    at_base: FloatArray,
    at_top: FloatArray,
    own_level: FloatArray,
    own_columns: FloatArray,
    bounds: NDArray[np.float32],
    home: IntArray,
    most_reached: FloatArray,
    place: int,
) -> float:
    """What targets reach on average; products are in single precision, and `value` allows for that."""
    K, rows = own_columns.shape
    columns, by = np.zeros((max(K, 5), _ROWS), np.float32), np.zeros((len(base), max(K, 5)), np.float32)
    by[:, :K] = base
    along, risen_b = np.empty(_ROWS, np.float32), np.empty(_ROWS, np.float32)
    most, low, high = np.empty(_ROWS, np.float32), np.empty(_ROWS, np.float32), np.empty(_ROWS, np.float32)
    nothing, total, count = np.float32(-np.inf), 0.0, 0
    for start in range(0, rows, _ROWS):
        n = min(_ROWS, rows - start)
        risen_b[:], most[:], low[:], high[:] = np.float32(0), nothing, nothing, nothing
        for k in range(K):
            column, own, times = columns[k], own_columns[k, start : start + n], np.float32(rise[k])
            for r in range(n):
                column[r] = own[r]
            for r in range(_ROWS):
                risen_b[r] += times * column[r]
        one, two, three, four, last = columns[0], columns[1], columns[2], columns[3], columns[-1]
        for v in range(len(base)):
            at, away, less, lesser = by[v], np.float32(ahead[v]), np.float32(at_base[v]), np.float32(at_top[v])
            for r in range(_ROWS):
                along[r] = at[0] * one[r] + at[1] * two[r] + at[2] * three[r] + at[3] * four[r]
            for k in range(4, len(columns) - 1):
                column, times = columns[k], at[k]
                for r in range(_ROWS):
                    along[r] += times * column[r]
            for r in range(_ROWS):
                here = along[r] + at[-1] * last[r]
                most[r] = max(most[r], here - away)
                low[r] = max(low[r], here - less)
                high[r] = max(high[r], here - lesser)
        for r in range(n):
            level = own_level[start + r]
            if level == -np.inf:
                bounds[start + r] = -np.inf
                continue
            bound = level + most[r] + max(risen_b[r] - risen, 0.0) - value
            bounds[start + r] = bound + _SINGLE * abs(bound)
            reached = level + max(low[r], high[r] + risen_b[r])
            total, count = total + reached, count + 1
            if reached > most_reached[start + r]:
                most_reached[start + r], home[start + r] = reached, place
    return total / max(count, 1)


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "nnan"}, error_model="numpy")
def log_sums(level: FloatArray, columns: FloatArray, points: FloatArray) -> FloatArray:
    """(points,): the log-sum-exp at `points` (points, K)."""
    found, scores = np.empty(len(points)), np.empty(len(level))
    for p in range(len(points)):
        copy_into(scores, level)
        for k in range(len(columns)):
            column, by = columns[k], points[p, k]
            for j in range(len(scores)):
                scores[j] += by * column[j]
        peak, total = -np.inf, 0.0
        for j in range(len(scores)):
            peak = max(peak, scores[j])
        for j in range(len(scores)):
            total += exponential(max(scores[j] - peak, _LOWEST))
        found[p] = np.log(total) + peak
    return found

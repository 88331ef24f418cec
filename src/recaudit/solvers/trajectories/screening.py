"""What a cell may hold for each target, from a short stand-in for the catalogue.

Candidates whose scores move alike on the cell are put together. With w_j = exp(score at the centre), W their sum in a
group and m the weighted mean of their slopes, Jensen's inequality says

    sum over the group of exp(score_j(y)) >= W exp(m.y) for every y,

so that the log-sum-exp of some hundred groups is nowhere above that of all items, and what no target exceeds with it,
no target exceeds. It is convex as well, and one evaluation costs a fraction.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arithmetic import aligned, copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.softmax.moments import exponential

# Groups at most; more are closer to the items, and take longer.
_GROUPS = 512
# A group is not narrower than this, in units of the score, and reaches to this many standard deviations.
_NARROWEST, _REACH = 0.2, 2.0
_WIDER = 1.15
# Targets that are looked at together: they stay in the fastest cache.
_ROWS = 512
_LOWEST = -600.0
# Added to a bound, of its size, so that it is none the less one in single precision.
_SINGLE = 2.0**-23


class Groups(NamedTuple):
    """A stand-in for the candidates."""

    level: FloatArray  # (groups,)
    columns: FloatArray  # (K, groups)


class Tangent(NamedTuple):
    """The log-sum-exp of the candidates at the centre of a cell, 0."""

    value: float
    gradient: FloatArray  # (K,)
    hessian: FloatArray  # (K, K)


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
    places = (aligned(onto / width) @ aligned(columns)).numpy()
    first = onto @ centre.gradient / width - counts / 2
    total, sums = _gather(weights, columns, places, first, counts.astype(np.int64))
    used = total > 0
    level = np.log(total[used]) + centre.value - np.log(total.sum())
    return Groups(level, np.ascontiguousarray(sums[:, used] / total[used]))


@njit(nogil=True, cache=True)
def _gather(
    weights: FloatArray, columns: FloatArray, places: FloatArray, first: FloatArray, counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(groups,) and (K, groups): the weights of the items of each group, and what they and the columns sum to. Along
    axis k an item is at `places` (K, items), in units of a group, and `counts` (K,) groups begin at `first` (K,)."""
    K, items = columns.shape
    groups = 1
    for n in counts:
        groups *= n
    member, along = np.zeros(items, np.int64), np.empty(items, np.int64)
    for k in range(K):
        place, begins, last = places[k], first[k], counts[k] - 1
        for j in range(items):
            along[j] = min(max(int(np.floor(place[j] - begins)), 0), last)
        for j in range(items):
            member[j] = member[j] * counts[k] + along[j]
    total, sums = np.zeros(groups), np.zeros((K, groups))
    for j in range(items):
        total[member[j]] += weights[j]
    for k in range(K):
        column, own = columns[k], sums[k]
        for j in range(items):
            own[member[j]] += weights[j] * column[j]
    return total, sums


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
        half = len(vertices) // 2
        base, rise = vertices[:half], vertices[half] - vertices[0]
        tangent = base @ centre.gradient, rise @ centre.gradient, centre.value - rounding
        given = at_vertices[:half], at_vertices[half:], own_level, own_columns
        self.typical[place] = _survey(base, rise, *tangent, *given, self.bounds[place], self.home, self.most, place)


@njit(nogil=True, cache=True, fastmath={"contract"})
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
    K, rows = own_columns.shape
    total, count = 0.0, 0
    for start in range(0, rows, _ROWS):
        columns, level = own_columns[:, start : start + _ROWS], own_level[start : start + _ROWS]
        n = len(level)
        risen_b, along = np.zeros(n), np.empty(n)
        most, low, high = np.full(n, -np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
        for k in range(K):
            column, by = columns[k], rise[k]
            for r in range(n):
                risen_b[r] += by * column[r]
        for v in range(len(base)):
            away, less, lesser = ahead[v], at_base[v], at_top[v]
            along[:] = 0.0
            for k in range(0, K - 1, 2):
                one, two, by_one, by_two = columns[k], columns[k + 1], base[v, k], base[v, k + 1]
                for r in range(n):
                    along[r] += by_one * one[r] + by_two * two[r]
            last, by = columns[K - 1], base[v, K - 1] if K % 2 else 0.0
            for r in range(n):
                here = along[r] + by * last[r]
                most[r] = max(most[r], here - away)
                low[r] = max(low[r], here - less)
                high[r] = max(high[r], here - lesser)
        for r in range(n):
            if level[r] == -np.inf:
                bounds[start + r] = -np.inf
                continue
            bound = level[r] + most[r] + max(risen_b[r] - risen, 0.0) - value
            bounds[start + r] = bound + _SINGLE * abs(bound)
            reached = level[r] + max(low[r], high[r] + risen_b[r])
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

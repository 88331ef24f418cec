"""The order of items by score, with ties decided by `recaudit.ties`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arithmetic import copy_into
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.ties import TIE, Keys, TieKeys, sort_tied, tie_key

_FEW = 64
"""Up to so many places are filled in one pass over the scores; for more, the last of them is found first."""

_ROWS, _SCORES = 64, 1 << 18
"""Rows whose scores are compared together, and scores, so that they stay in a core's cache."""
_LINKS = 50
"""So many links of a chain of ties are looked for one after the other; for longer ones all scores are sorted."""
_SINGLE = 2.0**-22
"""Four times the rounding of single precision: of two scores, each in its parts and in their sum."""
SingleArray = NDArray[np.float32]


class TopItems(NamedTuple):
    """The items with the highest scores of each row."""

    items: IntArray
    """Columns, best first, -1 where fewer are allowed, shape (rows, n)."""
    untied: IntArray
    """Number of the first items whose position does not depend on a tie, shape (rows,); n if none does."""


def top_items(scores: FloatArray, allowed: BoolArray, n: int, ties: TieKeys) -> IntArray:
    """Find the items with the highest scores of each row.

    Of tied scores the one with the lowest tie key goes first, so that a list depends neither on the sorting routine,
    nor on rounding, nor on the order of the columns.

    Args:
        scores: Scores, shape (rows, items).
        allowed: True where an item may be in the list, shape (rows, items).
        n: Length of the lists.
        ties: Tie keys of the rows and items.

    Returns:
        Positions of the n highest allowed scores, best first, shape (rows, n); -1 where fewer are allowed.
    """
    return top_items_and_ties(scores, allowed, n, ties).items


def top_items_and_ties(scores: FloatArray, allowed: BoolArray, n: int, ties: TieKeys) -> TopItems:
    """Find the items with the highest scores, and say how many of them do not depend on a tie."""
    values, mask = _compilable(scores, np.float64), _compilable(allowed, np.bool_)
    _check_shape(ties, values.shape)
    return TopItems(*_top(values, mask, n, *ties))


def ranks(scores: FloatArray, allowed: BoolArray, ties: TieKeys) -> IntArray:
    """Return the rank of each item among the allowed ones of its row, from 1, shape (rows, items).

    Items that are not allowed have the rank after all others.
    """
    order = top_items(scores, allowed, scores.shape[1], ties)
    row, place = np.nonzero(order >= 0)
    return _placed(allowed, row, order[row, place], place)


def shared_ranks(scores: FloatArray, allowed: BoolArray) -> IntArray:
    """Return ranks as `ranks` does, but give tied items the rank of the first of them, shape (rows, items)."""
    hidden = np.where(allowed, scores, -np.inf)
    order = np.argsort(-hidden, axis=1, kind="stable")
    ordered = np.take_along_axis(hidden, order, axis=1)
    gap = TIE * np.where(allowed, np.abs(scores), 0.0).max(axis=1, initial=0.0)
    with np.errstate(invalid="ignore"):  # what is not allowed comes last, at minus infinity
        apart = np.diff(ordered, axis=1, prepend=np.inf) < -gap[:, None]
    first = np.maximum.accumulate(np.where(apart, np.arange(scores.shape[1]), 0), axis=1)
    row, place = np.nonzero(np.take_along_axis(allowed, order, axis=1))
    return _placed(allowed, row, order[row, place], first[row, place])


def _placed(allowed: BoolArray, row: IntArray, item: IntArray, place: IntArray) -> IntArray:
    """Return ranks of items that stand in these places, from 0; after all allowed ones for the others."""
    out: IntArray = np.repeat(allowed.sum(axis=1, keepdims=True) + 1, allowed.shape[1], axis=1)
    out[row, item] = place + 1
    return out


def _compilable(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    """Return the array, copied if it is read-only or not contiguous: numba compiles a kernel for each kind of array."""
    return np.require(array, dtype, ["C", "W"])


def _check_shape(ties: TieKeys, shape: tuple[int, ...]) -> None:
    """Compiled code does not look whether a position is there."""
    if len(ties.items) != shape[1] or len(ties.users) not in (0, shape[0]):
        raise ValueError(f"tie keys of shape {len(ties.users), len(ties.items)} for scores of shape {shape}")


def rank_of(scores: FloatArray, items: IntArray, ties: TieKeys) -> IntArray:
    """Return the rank of each row's own item among all columns of `scores`.

    Args:
        scores: Scores, shape (rows, columns).
        items: Position of each row's item, shape (rows,).
        ties: Tie keys of the rows and columns.

    Returns:
        Ranks from 1, shape (rows,).
    """
    values, own = _compilable(scores, np.float64), _compilable(items, np.int64)
    out = np.empty(len(values), dtype=np.int64)
    gaps = np.empty(len(values))
    _check_shape(ties, values.shape)
    _ranks_apart(values, own, out, gaps)
    for row in np.flatnonzero(out == 0).tolist():
        place = _rank_of_tied(values[row], int(own[row]), gaps[row], *ties, row)
        if place == 0:
            every = np.ones((1, values.shape[1]), dtype=np.bool_)
            place = int(ranks(values[None, row], every, ties.repeated(1, row))[0, own[row]])
        out[row] = place
    return out


@njit(nogil=True, cache=True, fastmath={"nsz"})
def _ranks_apart(scores: FloatArray, items: IntArray, out: IntArray, gaps: FloatArray) -> None:
    """Of each row the rank of its item, 0 where another score is within the row's gap, which is filled in."""
    for row in range(len(scores)):
        values, largest = scores[row], 0.0
        for column in range(len(values)):
            largest = max(largest, abs(values[column]))
        gaps[row] = TIE * largest
        high, low = values[items[row]] + gaps[row], values[items[row]] - gaps[row]
        above, within = 0, 0
        for column in range(len(values)):
            above += values[column] > high
            within += values[column] >= low
        out[row] = above + 1 if within <= above + 1 else 0


def affine_rank_of(
    slope: FloatArray, intercept: FloatArray, points: FloatArray, items: IntArray, ties: TieKeys
) -> IntArray:
    """Return `rank_of` for the scores `slope @ point + intercept` at each row's own point.

    In single precision, which takes a third of the time; scores that are as near to a row's own as single precision
    can tell are computed again, and a row that may have a tie is ranked again.

    Args:
        slope: Slopes, shape (columns, actions).
        intercept: Intercepts, shape (columns,).
        points: Actions, shape (rows, actions).
        items: Position of each row's item, shape (rows,).
        ties: Tie keys with one row, that of the user.

    Returns:
        Ranks from 1, shape (rows,).
    """
    if not len(points):
        return np.empty(0, dtype=np.int64)
    slope, intercept, points = (_compilable(part, np.float64) for part in (slope, intercept, points))
    items = _compilable(items, np.int64)
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    level = intercept + slope @ middle
    offsets, sizes = level - level.mean(), np.abs(slope)
    # Nothing in the sum that makes a score, less the mean one, is larger than the first, and no score than the second.
    part = np.abs(offsets) + sizes @ half
    largest = np.abs(intercept) + sizes @ np.maximum(np.abs(low), np.abs(high))
    gap = 2 * TIE * float(largest.max())
    near = _SINGLE * (slope.shape[1] + 8) * float(part.max()) + 2 * gap
    level_single, slope_single = offsets.astype(np.float32), slope.T.astype(np.float32, order="C")
    points_single = (points - middle).astype(np.float32)
    out = np.empty(len(points), dtype=np.int64)
    height = max(1, min(_ROWS, _SCORES // len(slope)))
    scores = np.empty((height, len(slope)), dtype=np.float32)
    for start in range(0, len(points), height):
        rows = slice(start, min(start + height, len(points)))
        block = np.matmul(points_single[rows], slope_single, out=scores[: rows.stop - start])
        block += level_single
        _ranks_near(block, near, gap, slope, intercept, points[rows], items[rows], out[rows])
    tied = np.flatnonzero(out == 0)
    for start in range(0, len(tied), height):  # all rows may be tied: their scores together do not fit into memory
        again = tied[start : start + height]
        out[again] = rank_of(intercept + points[again] @ slope.T, items[again], ties.repeated(len(again)))
    return out


@njit(nogil=True, cache=True)
def _ranks_near(
    scores: SingleArray,
    near: float,
    gap: float,
    slope: FloatArray,
    intercept: FloatArray,
    points: FloatArray,
    items: IntArray,
    out: IntArray,
) -> None:
    """Of each row the rank of its item, 0 where another score is within the `gap`: those that are farther than `near`
    from its own in single precision are above or below, the others are computed in double."""
    for row in range(len(scores)):
        values, item = scores[row], items[row]
        high, low = np.float32(values[item] + near), np.float32(values[item] - near)
        above, within = 0, 0
        for column in range(len(values)):
            above += values[column] > high
            within += values[column] >= low
        out[row] = above + 1
        if within == above + 1:
            continue
        own = intercept[item] + np.dot(slope[item], points[row])
        for column in range(len(values)):
            if column != item and low <= values[column] <= high:
                other = intercept[column] + np.dot(slope[column], points[row])
                if abs(other - own) <= gap:
                    out[row] = 0
                    break
                out[row] += other > own


@njit(nogil=True, cache=True)
def _rank_of_tied(values: FloatArray, item: int, gap: float, users: Keys, items: Keys, row: int) -> int:
    """The rank of an item that others are tied with: those above its chain of ties, and those of it that come first.

    0 for a chain of more than `_LINKS` links.
    """
    low = high = values[item]
    own = tie_key(users, items, row, item)
    for _ in range(_LINKS):
        above, lower, higher = 0, low, high
        for column in range(len(values)):
            value = values[column]
            if value > high:
                above += 1
                if _tied(value, high, gap):
                    higher = max(higher, value)
            elif value < low and _tied(low, value, gap):
                lower = min(lower, value)
        if lower == low and higher == high:
            before = 0
            for column in range(len(values)):
                if low <= values[column] <= high:
                    key = tie_key(users, items, row, column)
                    before += int(key < own or (key == own and column < item))
            return int(above + before + 1)
        low, high = lower, higher
    return 0


@njit(nogil=True, cache=True)
def _top(scores: FloatArray, allowed: BoolArray, n: int, users: Keys, items: Keys) -> tuple[IntArray, IntArray]:
    rows = len(scores)
    best = np.full((rows, n), -1, dtype=np.int64)
    untied = np.full(rows, n, dtype=np.int64)
    for row in range(rows):
        values, gap = scores[row], _gap(scores[row], allowed[row])
        # One more than asked for tells whether the last place is tied with what comes after it.
        chosen = _highest(values, allowed[row], n + 1)
        if n > _FEW or (len(chosen) > n and _tied(values[chosen[n - 1]], values[chosen[n]], gap)):
            chosen = np.flatnonzero(allowed[row])
            if n < len(chosen):
                own = values[chosen]
                chosen = chosen[own >= _lowest_tied(own, nth_highest(own, n), gap)]
            chosen = chosen[descending(values[chosen])]
        start = 0
        for end in range(1, len(chosen) + 1):
            if end < len(chosen) and _tied(values[chosen[end - 1]], values[chosen[end]], gap):
                continue
            if end - start > 1:
                sort_tied(chosen[start:end], min(end, n) - start, users, items, row)
                untied[row] = min(untied[row], start)
            start = end
            if start >= n:
                break
        copy_into(best[row, : min(n, len(chosen))], chosen)
    return best, untied


@njit(nogil=True, cache=True)
def descending(values: FloatArray) -> IntArray:
    """(values,): their positions, the highest value first; for compiled code, so that a sort is compiled once."""
    return np.argsort(-values)


@njit(nogil=True, cache=True)
def nth_highest(values: NDArray[Any], n: int) -> float:
    """For compiled code: what is lower goes before a value, what is higher behind, until the n-th is in place."""
    parted, place = values.copy(), len(values) - n
    low, high = 0, len(values) - 1
    while low < high:
        pivot = parted[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while parted[left] < pivot:
                left += 1
            while parted[right] > pivot:
                right -= 1
            if left <= right:
                parted[left], parted[right] = parted[right], parted[left]
                left, right = left + 1, right - 1
        low = left if place > right else low
        high = right if place < left else high
    return float(parted[place])


@njit(nogil=True, cache=True)
def _highest(values: FloatArray, allowed: BoolArray, n: int) -> IntArray:
    """Positions of the n highest, best first, by insertion; none where that would take longer than finding the last."""
    best = np.empty(n if n <= _FEW + 1 else 0, dtype=np.int64)
    filled = 0
    for column in range(len(values) if len(best) else 0):
        if not allowed[column]:
            continue
        place = filled
        while place > 0 and values[column] > values[best[place - 1]]:
            place -= 1
        if place == n:
            continue
        filled = min(filled + 1, n)
        for position in range(filled - 1, place, -1):
            best[position] = best[position - 1]
        best[place] = column
    return best[:filled]


@njit(nogil=True, cache=True)
def _lowest_tied(values: FloatArray, low: float, gap: float) -> float:
    """The last of the chain of ties that goes down from `low`; minus infinity if it has more than `_LINKS` links."""
    for _ in range(_LINKS):
        lower = low
        for value in values:
            if value < lower and _tied(low, value, gap):
                lower = value
        if lower == low:
            return low
        low = lower
    return -np.inf


@njit(nogil=True, cache=True)
def _gap(values: FloatArray, allowed: BoolArray) -> float:
    """The widest gap that still ties two neighbouring scores."""
    largest = 0.0
    for column in range(len(values)):
        # Two questions, not one: as one, the compiler makes each turn of the loop wait for the one before.
        if allowed[column]:
            size = abs(values[column])
            if size > largest and size != np.inf:
                largest = size
    return TIE * largest


@njit(nogil=True, cache=True)
def _tied(higher: float, lower: float, gap: float) -> bool:
    return higher == lower or higher - lower <= gap  # the first for two infinities

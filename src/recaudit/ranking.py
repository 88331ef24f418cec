"""The order of items by score, with ties decided by `recaudit.ties`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from recaudit.arithmetic import copy_into
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.ties import TIE

_FEW = 64
"""Up to so many places are filled in one pass over the scores; for more, the last of them is found first."""

_ROWS, _SCORES = 64, 1 << 18
"""Rows whose scores are compared together, and scores, so that they stay in a core's cache."""
_LINKS = 50
"""So many links of a chain of ties are looked for one after the other; for longer ones all scores are sorted."""
_SINGLE = 2.0**-22
"""Four times the rounding of single precision: of two scores, each in its parts and in their sum."""
SingleArray = NDArray[np.float32]


def top_items(scores: torch.Tensor, allowed: torch.Tensor, n: int) -> IntArray:
    """(rows, n): positions of the n highest allowed scores, best first; -1 where fewer are allowed.

    Of tied scores the first position goes first, so that a list depends neither on the sorting routine nor on rounding.
    """
    return _top(scores.detach().double().contiguous().numpy(), allowed.contiguous().numpy(), n)


def ranks(scores: torch.Tensor, allowed: torch.Tensor, *, shared: bool = False) -> IntArray:
    """(rows, items): where each item stands in the list of all allowed ones, from 1; after all of them if it is not.

    With `shared`, tied items all have the place of the first of them.
    """
    if scores.device.type != "cpu" and not shared:
        return ranks_by_sorting(scores, allowed)
    order = top_items(scores, allowed, scores.shape[1])
    row, index = np.nonzero(order >= 0)
    place = index
    if shared:
        values = scores.masked_fill(~allowed, -torch.inf).sort(dim=1, descending=True).values.numpy()
        gap = TIE * np.where(allowed.numpy(), np.abs(scores.numpy()), 0.0).max(axis=1, initial=0.0)
        with np.errstate(invalid="ignore"):  # what is not allowed comes last, at minus infinity
            apart = np.diff(values, axis=1, prepend=np.inf) < -gap[:, None]
        place = np.maximum.accumulate(np.where(apart, np.arange(values.shape[1]), 0), axis=1)[row, index]
    out = np.repeat(allowed.sum(dim=1, keepdim=True).numpy() + 1, scores.shape[1], axis=1)
    out[row, order[row, index]] = place + 1
    return out


def ranks_by_sorting(scores: torch.Tensor, allowed: torch.Tensor) -> IntArray:
    """`ranks` where the scores are: all rows are sorted at once, by score and then, within a tie, by position."""
    gap = TIE * scores.abs().masked_fill(~(allowed & scores.isfinite()), 0.0).amax(dim=1, keepdim=True)
    values, order = scores.masked_fill(~allowed, -torch.inf).sort(dim=1, descending=True)
    higher, lower = values[:, :-1], values[:, 1:]
    apart = (higher != lower) & (higher - lower > gap)
    group = torch.zeros_like(order).scatter(1, order[:, 1:], apart.cumsum(dim=1)).masked_fill(~allowed, len(order.T))
    place = torch.arange(1, len(order.T) + 1, device=scores.device).expand_as(order)
    out = torch.empty_like(order).scatter(1, group.argsort(dim=1, stable=True), place)
    return torch.where(allowed, out, allowed.sum(dim=1, keepdim=True) + 1).cpu().numpy()


def rank_of(scores: torch.Tensor, items: torch.Tensor) -> IntArray:
    """(rows,): where each row's own item (rows,) stands in the list of all columns of `scores` (rows, columns)."""
    out = np.empty(len(scores), dtype=np.int64)
    gaps = np.empty(len(scores))
    _ranks_apart(scores.contiguous().numpy(), items.numpy(), out, gaps)
    for row in np.flatnonzero(out == 0):
        place = _rank_of_tied(scores[row].numpy(), int(items[row]), gaps[row])
        out[row] = (
            place or ranks(scores[None, row], torch.ones_like(scores[None, row], dtype=torch.bool))[0, items[row]]
        )
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


def affine_rank_of(slope: torch.Tensor, intercept: torch.Tensor, points: torch.Tensor, items: torch.Tensor) -> IntArray:
    """(rows,): `rank_of` for the scores `slope @ point + intercept` at each row's own point (rows, actions).

    `slope` is (columns, actions). In single precision, which takes a third of the time; scores that are as near to a
    row's own as single precision can tell are computed again, and a row that may have a tie is looked at anew.
    """
    low, high = points.amin(dim=0), points.amax(dim=0)
    middle, half = (low + high) / 2, (high - low) / 2
    level = torch.addmv(intercept, slope, middle)
    offsets, sizes = level - level.mean(), slope.abs()
    # Nothing in the sum that makes a score, less the mean one, is larger than the first, and no score than the second.
    part, largest = offsets.abs() + sizes @ half, intercept.abs() + sizes @ torch.maximum(low.abs(), high.abs())
    gap = 2 * TIE * float(largest.max())
    near = _SINGLE * (slope.shape[1] + 8) * float(part.max()) + 2 * gap
    single = offsets.float(), (points - middle).float(), slope.T.contiguous().float()
    whole = slope.contiguous().numpy(), intercept.contiguous().numpy(), points.contiguous().numpy(), items.numpy()
    out = np.empty(len(points), dtype=np.int64)
    height = max(1, min(_ROWS, _SCORES // len(slope)))
    for start in range(0, len(points), height):
        rows = slice(start, start + height)
        scores = torch.addmm(single[0], single[1][rows], single[2])
        _ranks_near(scores.numpy(), near, gap, *whole[:2], whole[2][rows], whole[3][rows], out[rows])
    again = np.flatnonzero(out == 0)
    if len(again):
        some = torch.from_numpy(again)
        out[again] = rank_of(torch.addmm(intercept, points[some], slope.T), items[some])
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
def _rank_of_tied(values: FloatArray, item: int, gap: float) -> int:
    """The rank of an item that others are tied with: those above its chain of ties, and those of it that come first.

    0 for a chain of more than `_LINKS` links.
    """
    low = high = values[item]
    for _ in range(_LINKS):
        above, before, lower, higher = 0, 0, low, high
        for column in range(len(values)):
            value = values[column]
            if value > high:
                above += 1
                if _tied(value, high, gap):
                    higher = max(higher, value)
            elif value >= low:
                before += column < item
            elif _tied(low, value, gap):
                lower = min(lower, value)
        if lower == low and higher == high:
            return above + before + 1
        low, high = lower, higher
    return 0


@njit(nogil=True, cache=True)
def _top(scores: FloatArray, allowed: BoolArray, n: int) -> IntArray:
    rows = len(scores)
    best = np.full((rows, n), -1, dtype=np.int64)
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
                chosen[start:end].sort()
            start = end
            if start >= n:
                break
        copy_into(best[row, : min(n, len(chosen))], chosen)
    return best


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

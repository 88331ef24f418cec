"""The order of items by score, with ties decided by `recaudit.ties`."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.ties import TIE

_FEW = 64
"""Up to so many places are filled in one pass over the scores; for more, sorting them all is quicker."""

_ROWS = 64
"""Rows whose scores are compared together: with a few thousand items they stay in a core's cache."""
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


def rank_of(scores: torch.Tensor, items: torch.Tensor) -> IntArray:
    """(rows,): where each row's own item (rows,) stands in the list of all columns of `scores` (rows, columns)."""
    low, high = torch.aminmax(scores, dim=1, keepdim=True)
    gap = TIE * torch.maximum(-low, high)
    own = scores.gather(1, items[:, None])
    # numpy counts a mask several times faster than torch.
    out: IntArray = np.count_nonzero((scores > own + gap).numpy(), axis=1) + 1
    near = np.count_nonzero((scores >= own - gap).numpy(), axis=1)
    # Only an item that has another one within the gap can be tied.
    tied = np.flatnonzero(near > out)
    if len(tied):
        rows = scores[torch.from_numpy(tied)]
        out[tied] = ranks(rows, torch.ones_like(rows, dtype=torch.bool))[np.arange(len(tied)), items.numpy()[tied]]
    return out


def affine_rank_of(slope: torch.Tensor, intercept: torch.Tensor, points: torch.Tensor, items: torch.Tensor) -> IntArray:
    """(rows,): `rank_of` for the scores `slope @ point + intercept` at each row's own point (rows, actions).

    `slope` is (columns, actions). In single precision, which takes a third of the time; a row in which another score is
    as near to its own as single precision can tell, or as a tie, is looked at again.
    """
    low, high = points.amin(dim=0), points.amax(dim=0)
    middle, half = (low + high) / 2, (high - low) / 2
    level = torch.addmv(intercept, slope, middle)
    offsets, sizes = level - level.mean(), slope.abs()
    # Nothing in the sum that makes a score, less the mean one, is larger than the first, and no score than the second.
    part, largest = offsets.abs() + sizes @ half, intercept.abs() + sizes @ torch.maximum(low.abs(), high.abs())
    near = _SINGLE * (slope.shape[1] + 8) * float(part.max()) + 4 * TIE * float(largest.max())
    single = offsets.float(), (points - middle).float(), slope.T.contiguous().float()
    out, unsure = np.empty(len(points), dtype=np.int64), np.empty(len(points), dtype=np.bool_)
    for start in range(0, len(points), _ROWS):
        rows = slice(start, start + _ROWS)
        scores = torch.addmm(single[0], single[1][rows], single[2])
        own = scores.gather(1, items[rows, None])[:, 0]
        _count(scores.numpy(), own.numpy(), near, out[rows], unsure[rows])
    again = torch.from_numpy(np.flatnonzero(unsure))
    if len(again):
        out[unsure] = rank_of(torch.addmm(intercept, points[again], slope.T), items[again])
    return out


@njit(nogil=True, cache=True)
def _count(scores: SingleArray, own: SingleArray, near: float, rank: IntArray, unsure: BoolArray) -> None:
    """Of each row: one more than how many scores are above its own by more than `near`; whether others are as near."""
    for row in range(len(scores)):
        values, high, low = scores[row], np.float32(own[row] + near), np.float32(own[row] - near)
        above, within = 0, 0
        for column in range(len(values)):
            above += values[column] > high
            within += values[column] >= low
        rank[row] = above + 1
        unsure[row] = within > above + 1


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
            chosen = chosen[np.argsort(-values[chosen])]
        start = 0
        for end in range(1, len(chosen) + 1):
            if end < len(chosen) and _tied(values[chosen[end - 1]], values[chosen[end]], gap):
                continue
            if end - start > 1:
                chosen[start:end] = np.sort(chosen[start:end])
            start = end
            if start >= n:
                break
        filled = min(n, len(chosen))
        best[row, :filled] = chosen[:filled]
    return best


@njit(nogil=True, cache=True)
def _highest(values: FloatArray, allowed: BoolArray, n: int) -> IntArray:
    """Positions of the n highest, best first, by insertion; none where that would take longer than sorting."""
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

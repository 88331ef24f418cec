"""Coordinate descent for SLIM: one lasso an item, all of them on one Gram matrix."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from recaudit.engines.progress import track
from recaudit.models.base import FloatArray, IntArray

_BLOCK = 128
"""Items between two reports of progress; no number depends on it."""


def sparse_weights(
    gram: FloatArray, *, l1: float, l2: float, nonnegative: bool, max_iter: int, tolerance: float
) -> tuple[FloatArray, IntArray]:
    """The weights W (items, items) of SLIM, and the items (n,) whose column did not converge in `max_iter` rounds.

    Column i minimises `|x_i - X w|^2 / 2 + l2 |w|^2 / 2 + l1 |w|_1` with `w_i = 0` (and `w >= 0`), which depends
    on the data only through `gram = X^T X` (items, items). Converged: a round over all coordinates moves none
    of them by more than `tolerance`.
    """
    count = len(gram)
    # Rows of `columns` are columns of W: each is written by one thread, in one piece of memory.
    columns = np.zeros((count, count))
    converged = np.zeros(count, dtype=np.bool_)
    for start in track(range(0, count, _BLOCK), "SLIM", -(-count // _BLOCK)):
        targets = np.arange(start, min(start + _BLOCK, count))
        _descend(targets, gram, columns, converged, l1, l2, nonnegative, max_iter, tolerance)
    return np.ascontiguousarray(columns.T), np.flatnonzero(~converged)


@njit(parallel=True, cache=True)
def _descend(
    targets: IntArray,
    gram: FloatArray,
    columns: FloatArray,
    converged: NDArray[np.bool_],
    l1: float,
    l2: float,
    nonnegative: bool,
    max_iter: int,
    tolerance: float,
) -> None:
    """Fill `columns[i]` and `converged[i]` for each target i.

    Coordinates are descended on in rounds over a growing active set, so that a round costs the square of its
    size, not items times it. The set starts empty and takes in, each time it has settled, the coordinates
    that would lower the objective the most; at the end none outside it would move.
    """
    count = len(gram)
    for at in prange(len(targets)):
        target = targets[at]
        weights = columns[target]
        # `left` is the part of each item's product with the target that is not yet explained: X^T (x_i - X w).
        left = gram[target].copy()
        active = np.empty(count, dtype=np.int64)
        is_active = np.zeros(count, dtype=np.bool_)
        is_active[target] = True
        size = 0
        rounds = 0
        gains = np.zeros(count)
        while True:
            furthest, largest_gain = 0.0, 0.0
            for j in range(count):
                gains[j] = 0.0
                if j != target:
                    move = abs(_coordinate_minimum(j, gram, left, weights, l1, l2, nonnegative) - weights[j])
                    furthest = max(furthest, move)
                    if not is_active[j]:
                        # The objective falls by half the square of this.
                        gains[j] = move * np.sqrt(gram[j, j] + l2)
                        largest_gain = max(largest_gain, gains[j])
            if furthest <= tolerance:
                converged[target] = True
                break
            if rounds >= max_iter:
                break
            for j in range(count):
                if gains[j] > 0 and gains[j] >= 0.5 * largest_gain:
                    active[size] = j
                    is_active[j] = True
                    size += 1
            rounds += _settle(active[:size], gram, left, weights, l1, l2, nonnegative, max_iter - rounds, tolerance)
            left[:] = gram[target]
            for j in active[:size]:
                if weights[j] != 0:
                    left -= weights[j] * gram[j]


@njit(cache=True)
def _settle(
    active: IntArray,
    gram: FloatArray,
    left: FloatArray,
    weights: FloatArray,
    l1: float,
    l2: float,
    nonnegative: bool,
    max_iter: int,
    tolerance: float,
) -> int:
    """Rounds over the active coordinates until none moves by more than `tolerance`; returns how many."""
    for done in range(1, max_iter + 1):
        furthest = 0.0
        for j in active:
            new = _coordinate_minimum(j, gram, left, weights, l1, l2, nonnegative)
            move = new - weights[j]
            if move != 0:
                weights[j] = new
                for other in active:
                    left[other] -= move * gram[j, other]
                furthest = max(furthest, abs(move))
        if furthest <= tolerance:
            return done
    return max_iter


@njit(cache=True)
def _coordinate_minimum(
    j: int, gram: FloatArray, left: FloatArray, weights: FloatArray, l1: float, l2: float, nonnegative: bool
) -> float:
    """The w_j that minimises the objective with every other weight held: soft thresholding."""
    if gram[j, j] <= 0:
        return 0.0
    pull = left[j] + gram[j, j] * weights[j]
    if pull > l1:
        return (pull - l1) / (gram[j, j] + l2)
    if pull < -l1 and not nonnegative:
        return (pull + l1) / (gram[j, j] + l2)
    return 0.0

"""The inverse of a Gram matrix: what few others meet is eliminated by itself, the rest by Cholesky.

Where ratings are few, most products of two items are 0. An item that d others are rated with is then eliminated at the
price of d squared, and gives those others products (minimum degree, Tinney and Walker 1967); what is left is dense.
With p an eliminated item's pivot, l its products over p, and Q the inverse for those that were left after it, its own
row of the inverse is `-l Q`, and `1 / p + l Q l` on the diagonal. All of it happens in the place of the matrix.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from scipy.linalg import lapack

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import working
from recaudit.engines.steady import one_blas_thread
from recaudit.errors import InputError

_ONE_THREAD = 4096
"""Up to so many rows one thread inverts: a second or two at most, and the same numbers on any machine of a kind."""
_WORTH = 0.1
"""An item is eliminated by itself while its products, times all items, are fewer than this share of the square of what
is left: Cholesky would take longer over it."""
_MOST = 32
"""At most one in so many entries of the matrix is remembered of what was eliminated: it costs no memory to speak of."""
_TILE = 32
"""Columns that are worked on together, so that they stay in the cache from row to row."""


class Eliminated(NamedTuple):
    """What was eliminated by itself, in this order, of a matrix (n, n)."""

    items: IntArray  # (eliminated,)
    pivots: FloatArray  # (eliminated,)
    ends: IntArray  # (eliminated + 1,): where the others of each begin and end
    others: IntArray  # the items that were left, and met it
    shares: FloatArray  # their products with it, over its pivot


def inverted(gram: FloatArray, regularization: float) -> FloatArray:
    """(n, n): the inverse of `gram + regularization I`, in the place of `gram` (n, n).

    LAPACK sums in another order on two threads than on one. Small matrices are therefore left to one thread, which also
    spends least; for large ones the last digits may depend on how many there are.
    """
    np.einsum("ii->i", gram)[:] += regularization
    left, steps = _eliminate(gram)
    if left.all():
        return _by_cholesky(gram)
    rest = np.flatnonzero(left)
    _by_cholesky(_gathered(gram, rest))
    _spread(gram, rest)
    _fill_left(gram, rest, steps)
    _fill_eliminated(gram, rest, steps)
    return gram


def _by_cholesky(matrix: FloatArray) -> FloatArray:
    """(n, n): the inverse, in the place of the matrix."""
    # LAPACK's matrices are by columns; this one is symmetric, so that its transpose can be worked on where it is.
    with one_blas_thread() if len(matrix) <= _ONE_THREAD else nullcontext(), working("matrix inversion"):
        factor, info = lapack.dpotrf(matrix.T, lower=True, clean=False, overwrite_a=True)
        if info:
            raise InputError(
                "regularization",
                received="a penalty that rounding loses beside these ratings",
                expected="one that makes their equations solvable",
                remedy="Make it larger, or the ratings smaller.",
            )
        lapack.dpotri(factor, lower=True, overwrite_c=True)
    _mirror(matrix)
    return matrix


@parallel_njit()
def _mirror(matrix: FloatArray) -> None:
    """Copy what is above the diagonal below it."""
    for tile in prange(-(-len(matrix) // _TILE)):
        start, end = tile * _TILE, min((tile + 1) * _TILE, len(matrix))
        for column in range(end):
            for row in range(max(start, column + 1), end):
                matrix[row, column] = matrix[column, row]


@parallel_njit()
def _degrees(matrix: FloatArray) -> IntArray:
    """(n,): how many entries of each row are not 0, the diagonal aside."""
    count = np.empty(len(matrix), dtype=np.int64)
    for row in prange(len(matrix)):
        met = -1
        for value in matrix[row]:
            met += value != 0.0
        count[row] = met
    return count


@njit(nogil=True, cache=True)
def _eliminate_least(
    matrix: FloatArray, degrees: IntArray, worth: float
) -> tuple[BoolArray, IntArray, FloatArray, IntArray, IntArray, FloatArray]:
    """Which are left (n,), and the fields of `Eliminated`; the matrix of those that are left is their complement."""
    n = len(matrix)
    left, remaining = np.ones(n, dtype=np.bool_), n
    items, pivots, ends = np.empty(n, dtype=np.int64), np.empty(n), np.zeros(n + 1, dtype=np.int64)
    others, shares, total = np.empty(16 * n + 1, dtype=np.int64), np.empty(16 * n + 1), 0
    while remaining:
        item, least = -1, n + 1
        for other in range(n):
            if left[other] and degrees[other] < least:
                item, least = other, degrees[other]
        pivot = matrix[item, item]
        if least * n > worth * remaining * remaining or total > n * n // _MOST or not pivot > 0.0:
            break  # Cholesky goes on, and refuses what is not positive
        if total + n > len(others):
            others = np.concatenate((others, np.empty_like(others)))
            shares = np.concatenate((shares, np.empty_like(shares)))
        row, first, per = matrix[item], total, 1.0 / pivot
        left[item] = False
        for other in range(n):
            if row[other] != 0.0 and left[other]:
                others[total], shares[total] = other, row[other]
                total += 1
        for a in range(first, total):
            met = matrix[others[a]]
            degrees[others[a]] -= 1
            for b in range(first, total):
                degrees[others[a]] += met[others[b]] == 0.0
                met[others[b]] -= shares[a] * shares[b] * per
        shares[first:total] *= per
        done = n - remaining
        items[done], pivots[done], ends[done + 1] = item, pivot, total
        remaining -= 1
    done = n - remaining
    return left, items[:done], pivots[:done], ends[: done + 1], others[:total], shares[:total]


def _eliminate(matrix: FloatArray) -> tuple[BoolArray, Eliminated]:
    left, items, pivots, ends, others, shares = _eliminate_least(matrix, _degrees(matrix), _WORTH)
    return left, Eliminated(items, pivots, ends, others, shares)


@njit(nogil=True, cache=True)
def _gathered(matrix: FloatArray, rest: IntArray) -> FloatArray:
    """(rest, rest): the entries of the rest, at the beginning of the matrix's own memory, which loses the others."""
    flat, count = matrix.ravel(), len(rest)
    for row in range(count):
        for column in range(count):  # never behind what is still to be read
            flat[row * count + column] = matrix[rest[row], rest[column]]
    return flat[: count * count].reshape(count, count)


@njit(nogil=True, cache=True)
def _spread(matrix: FloatArray, rest: IntArray) -> None:
    """Put what `_gathered` has brought together where it belongs."""
    flat, count = matrix.ravel(), len(rest)
    for row in range(count - 1, -1, -1):
        for column in range(count - 1, -1, -1):
            matrix[rest[row], rest[column]] = flat[row * count + column]


@parallel_njit()
def _fill_left(inverse: FloatArray, rest: IntArray, steps: Eliminated) -> None:
    """The rows of those that are left, of which `inverse` has the entries among themselves."""
    count = len(rest)
    for tile in prange(-(-count // _TILE)):
        start, end = tile * _TILE, min((tile + 1) * _TILE, count)
        x = np.zeros((len(inverse), end - start))
        for row in rest:
            for at in range(start, end):
                x[row, at - start] = inverse[rest[at], row]
        _substitute_back(x, steps)
        for at in range(start, end):
            for row in steps.items:
                inverse[rest[at], row] = x[row, at - start]


@parallel_njit()
def _fill_eliminated(inverse: FloatArray, rest: IntArray, steps: Eliminated) -> None:
    """The other rows, once those of the rest are there."""
    count = len(steps.items)
    for tile in prange(-(-count // _TILE)):
        start, end = tile * _TILE, min((tile + 1) * _TILE, count)
        x = np.zeros((len(inverse), end - start))
        for at in range(start, end):
            x[steps.items[at], at - start] = 1.0
        for at in range(start, count):
            own = x[steps.items[at]]
            for entry in range(steps.ends[at], steps.ends[at + 1]):
                share, below = steps.shares[entry], x[steps.others[entry]]
                for column in range(len(own)):
                    below[column] -= share * own[column]
            own /= steps.pivots[at]
        for row in rest:
            for at in range(start, end):
                x[row, at - start] = inverse[row, steps.items[at]]
        _substitute_back(x, steps)
        for at in range(start, end):
            for row in range(len(inverse)):
                inverse[steps.items[at], row] = x[row, at - start]


@njit(cache=True)
def _substitute_back(x: FloatArray, steps: Eliminated) -> None:
    """Take the others, times their shares, off the rows of `x` (n, columns) that were eliminated, the last first."""
    for at in range(len(steps.items) - 1, -1, -1):
        own = x[steps.items[at]]
        for entry in range(steps.ends[at], steps.ends[at + 1]):
            share, other = steps.shares[entry], x[steps.others[entry]]
            for column in range(len(own)):
                own[column] -= share * other[column]

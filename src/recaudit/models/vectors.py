"""Sums for compiled loops, written so that the compiler adds whole vectors: in single and in double precision.

A row that is added to a sum costs a load and a store of the sum. So four rows are added at a time, and each number of
the sum is loaded and stored once for the four.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from recaudit.arrays import FloatArray, IntArray
from recaudit.models.rows import Singles

LANES = 16
"""Single-precision numbers of a cache line; rows are a multiple of it long."""
SIDE = 8
"""Double-precision numbers of a cache line; equations are a multiple of it long."""
_LARGE_PAGE = 2**21


def zeros(*shape: int) -> Singles:
    """Return zeros in memory that begins on a boundary: of a cache line, or of a large page if there are many numbers.

    Rows are read from all over it: with small pages the core would look up where most of them are. From 4 MB on numpy
    requests large ones from the system.
    """
    count = math.prod(shape)
    boundary = _LARGE_PAGE if 4 * count >= _LARGE_PAGE // 4 else 4 * LANES
    memory = np.zeros(4 * count + 2 * boundary, dtype=np.uint8)
    start = -memory.ctypes.data % boundary
    return memory[start : start + 4 * count].view(np.float32).reshape(shape)


def filled_up(rows: Singles) -> Singles:
    """Copy `rows`, shape (..., n), to (..., n rounded up to `LANES`), with zeros behind."""
    *shape, length = rows.shape
    copied = zeros(*shape, -(-length // LANES) * LANES)
    copied[..., :length] = rows
    return copied


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def dot(left: Singles, right: Singles) -> np.float32:
    """Return the sum of the products of two arrays of shape (n,)."""
    total = np.float32(0.0)
    for k in range(len(left)):
        total += left[k] * right[k]
    return total


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_rows(total: Singles, rows: Singles, places: IntArray, factors: Singles) -> None:
    """Add the sum of `rows[places[j]]` times `factors[j]` to `total`, shape (n,), in the order of j."""
    whole = len(places) - len(places) % 4
    for j in range(0, whole, 4):
        r0, r1, r2, r3 = rows[places[j]], rows[places[j + 1]], rows[places[j + 2]], rows[places[j + 3]]
        f0, f1, f2, f3 = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        for k in range(len(total)):
            total[k] = total[k] + r0[k] * f0 + r1[k] * f1 + r2[k] * f2 + r3[k] * f3
    for j in range(whole, len(places)):
        row, factor = rows[places[j]], factors[j]
        for k in range(len(total)):
            total[k] += row[k] * factor


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_products(left: FloatArray, right: FloatArray, total: FloatArray, count: int, start: int) -> None:
    """Add `left[:count].T @ right[:count]` to `total`, shape (n, n), from row and column `start` on.

    Only the lower triangle is added to, and above it what belongs to the same blocks of `SIDE` rows and columns. `left`
    and `right` have the shape (rows, n); n and `start` are multiples of `SIDE`.
    """
    whole = count - count % 4
    for k in range(start, len(total), 2):
        # Unsigned positions need no test for "counted from the end".
        first, end = np.uint64(start), np.uint64(k - k % SIDE + SIDE)
        t0, t1 = total[k], total[k + 1]
        for c in range(0, whole, 4):
            a0, a1, a2, a3 = left[c, k], left[c + 1, k], left[c + 2, k], left[c + 3, k]
            b0, b1, b2, b3 = left[c, k + 1], left[c + 1, k + 1], left[c + 2, k + 1], left[c + 3, k + 1]
            r0, r1, r2, r3 = right[c], right[c + 1], right[c + 2], right[c + 3]
            for j in range(first, end):
                t0[j] = t0[j] + a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]
                t1[j] = t1[j] + b0 * r0[j] + b1 * r1[j] + b2 * r2[j] + b3 * r3[j]
        for c in range(whole, count):
            a, b, r = left[c, k], left[c, k + 1], right[c]
            for j in range(first, end):
                t0[j] += a * r[j]
                t1[j] += b * r[j]

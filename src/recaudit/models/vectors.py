"""Sums of products for compiled loops, written so that the compiler adds whole vectors."""

from __future__ import annotations

import numpy as np
from numba import njit

from recaudit.arrays import FloatArray

SIDE = 8
"""Double-precision numbers of a cache line; equations are a multiple of it long."""


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

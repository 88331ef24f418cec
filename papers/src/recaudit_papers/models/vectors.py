"""Sums for compiled loops, written so that the compiler adds whole vectors, in single precision.

A row that is added to a sum costs a load and a store of the sum. So four rows are added at a time, and each number of
the sum is loaded and stored once for the four.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from recaudit_papers.models.numerics import Indices, Singles

LANES = 16
"""Single-precision numbers of a cache line; rows are a multiple of it long."""
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
def add_rows(total: Singles, rows: Singles, places: Indices, factors: Singles) -> None:
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

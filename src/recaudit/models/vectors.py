"""Sums of products for compiled loops, in blocks of 8 x 8 that stay in the processor's registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numba
import numpy as np
from numba import njit

from recaudit.arrays import FloatArray

Eight: TypeAlias = tuple[float, float, float, float, float, float, float, float]

SIDE = 8
"""Rows and columns of a block. Eight double-precision numbers are a cache line, and fill the widest registers."""
_OPTIONS: Any = {"nogil": True, "cache": True, "fastmath": {"contract"}}


@contextmanager
def _scalars_joined_into_vectors() -> Iterator[None]:
    """Let LLVM join scalars into vectors (SLP vectorization) in functions compiled inside the `with` block.

    Numba offers this setting only for the whole process, and it is off by default. Without it, `add_products` returns
    the same numbers but takes several times as long.
    """
    config: Any = numba.config
    before = config.SLP_VECTORIZE
    config.SLP_VECTORIZE = 1
    try:
        yield
    finally:
        config.SLP_VECTORIZE = before


# Unsigned positions need no test for "counted from the end".
@njit(**_OPTIONS)
def _load(matrix: FloatArray, i: int, j: int) -> Eight:
    """Return `matrix[i, j : j + 8]` as scalars."""
    row, at = matrix[np.uint64(i)], np.uint64(j)
    # fmt: off
    return (
        row[at], row[at + np.uint64(1)], row[at + np.uint64(2)], row[at + np.uint64(3)],
        row[at + np.uint64(4)], row[at + np.uint64(5)], row[at + np.uint64(6)], row[at + np.uint64(7)],
    )
    # fmt: on


@njit(**_OPTIONS)
def _store(total: Eight, matrix: FloatArray, i: int, j: int) -> None:
    """Set `matrix[i, j : j + 8]` to `total`."""
    row, at = matrix[np.uint64(i)], np.uint64(j)
    for step in range(SIDE):
        row[at + np.uint64(step)] = total[step]


@njit(**_OPTIONS)
def _plus(total: Eight, factor: float, r: Eight) -> Eight:
    """Return `total + factor * r`."""
    t0, t1, t2, t3, t4, t5, t6, t7 = total
    r0, r1, r2, r3, r4, r5, r6, r7 = r
    # fmt: off
    return (
        t0 + factor * r0, t1 + factor * r1, t2 + factor * r2, t3 + factor * r3,
        t4 + factor * r4, t5 + factor * r5, t6 + factor * r6, t7 + factor * r7,
    )
    # fmt: on


def _add_products(left: FloatArray, right: FloatArray, total: FloatArray, count: int, start: int) -> None:
    """Add `left[:count].T @ right[:count]` to `total`, shape (n, n), from row and column `start` on.

    Only the lower triangle is added to, and above it what belongs to the same blocks of `SIDE` rows and columns. `left`
    and `right` have the shape (rows, n); n and `start` are multiples of `SIDE`.
    """
    for k in range(start, len(total), SIDE):
        for j in range(start, k + SIDE, SIDE):
            t0, t1, t2, t3 = _load(total, k, j), _load(total, k + 1, j), _load(total, k + 2, j), _load(total, k + 3, j)
            t4, t5, t6, t7 = (
                _load(total, k + 4, j),
                _load(total, k + 5, j),
                _load(total, k + 6, j),
                _load(total, k + 7, j),
            )
            for c in range(count):
                factors, r = _load(left, c, k), _load(right, c, j)
                t0, t1, t2, t3 = (
                    _plus(t0, factors[0], r),
                    _plus(t1, factors[1], r),
                    _plus(t2, factors[2], r),
                    _plus(t3, factors[3], r),
                )
                t4, t5, t6, t7 = (
                    _plus(t4, factors[4], r),
                    _plus(t5, factors[5], r),
                    _plus(t6, factors[6], r),
                    _plus(t7, factors[7], r),
                )
            for i, row in enumerate((t0, t1, t2, t3, t4, t5, t6, t7)):
                _store(row, total, k + i, j)


_ARGUMENTS = "void(float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, int64)"
with _scalars_joined_into_vectors():
    # With its argument types, numba compiles the function (or reads its cache) here, and not at the first call.
    add_products: Any = njit(_ARGUMENTS, **_OPTIONS)(_add_products)

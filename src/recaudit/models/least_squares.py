"""The normal equations of one vector, which ALS and WALS solve for every user and every item.

Called inside loops that run over the vectors in parallel. Each vector's numbers depend on its own ratings only, so that
they are the same on any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.models.arrays import FloatArray, IntArray


@njit(cache=True)
def padded(factors: int) -> int:
    """The size of the equations: `factors`, rounded up to fours. What is added stays apart, and solves to zero."""
    return (factors + 3) // 4 * 4


@njit(fastmath=True, cache=True)
def add_ratings(
    others: NDArray[np.int32] | IntArray, targets: FloatArray, Y: FloatArray, G: FloatArray, b: FloatArray
) -> None:
    """G += sum of y y^T, its lower triangle; b += sum of target * y; y over the rows `others` (ratings,) of Y.

    Y (rows, factors), G (padded, padded), b (padded,).
    """
    four = np.zeros((4, len(b)))
    for first in range(0, len(others), 4):
        for c in range(4):
            if first + c < len(others):
                y = others[first + c]
                target = targets[first + c]
                for k in range(Y.shape[1]):
                    four[c, k] = Y[y, k]
                    b[k] += target * Y[y, k]
            else:
                four[c, :] = 0.0
        _add_four(four, G)


@njit(fastmath=True, cache=True)
def _add_four(four: FloatArray, G: FloatArray) -> None:
    """G += four^T four, its lower triangle and no more above it than rounds up to fours.

    Four ratings in four rows of G at a time: sixteen multiplications for eight loads and four stores.
    """
    for k in range(0, len(G), 4):
        p0, p1, p2, p3 = four[0, k], four[1, k], four[2, k], four[3, k]
        q0, q1, q2, q3 = four[0, k + 1], four[1, k + 1], four[2, k + 1], four[3, k + 1]
        r0, r1, r2, r3 = four[0, k + 2], four[1, k + 2], four[2, k + 2], four[3, k + 2]
        s0, s1, s2, s3 = four[0, k + 3], four[1, k + 3], four[2, k + 3], four[3, k + 3]
        for j in range(k + 4):
            y0, y1, y2, y3 = four[0, j], four[1, j], four[2, j], four[3, j]
            G[k, j] += p0 * y0 + p1 * y1 + p2 * y2 + p3 * y3
            G[k + 1, j] += q0 * y0 + q1 * y1 + q2 * y2 + q3 * y3
            G[k + 2, j] += r0 * y0 + r1 * y1 + r2 * y2 + r3 * y3
            G[k + 3, j] += s0 * y0 + s1 * y1 + s2 * y2 + s3 * y3


@njit(fastmath=True, cache=True)
def cholesky_solve(G: FloatArray, b: FloatArray) -> None:
    """Solve G x = b in place for a positive definite G given by its lower triangle; x is left in b."""
    d = len(b)
    for i in range(d):
        for j in range(i + 1):
            total = G[i, j]
            for k in range(j):
                total -= G[i, k] * G[j, k]
            G[i, j] = np.sqrt(total) if i == j else total / G[j, j]
    for i in range(d):
        for k in range(i):
            b[i] -= G[i, k] * b[k]
        b[i] /= G[i, i]
    for i in range(d - 1, -1, -1):
        b[i] /= G[i, i]
        for k in range(i):
            b[k] -= G[i, k] * b[i]

"""Box-constrained quadratics: the step of a projected Newton method.

Minimize r.s + s^T (H + d I) s / 2 subject to -1 <= u + s <= 1, one small problem per target. Two sweeps of coordinate
descent find most of the active bounds; Newton steps on the free coordinates do the rest.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray

# Newton steps on the free coordinates; what is still inexact then, the outer method corrects.
_ROUNDS = 5


def minimize_box_quadratics(
    hessian: FloatArray, gradient: FloatArray, points: FloatArray, damping: FloatArray, tol: FloatArray
) -> FloatArray:
    """Return the points u + s, shape (rows, K), with a duality gap of at most `tol` unless the rounds run out.

    Args:
        hessian: H, shape (rows, K, K).
        gradient: r, shape (rows, K).
        points: u, shape (rows, K).
        damping: d > 0, shape (rows,).
        tol: Largest gap, shape (rows,).
    """
    result = np.empty(points.shape)
    H, r, u, d, gap = (np.ascontiguousarray(part) for part in (hessian, gradient, points, damping, tol))
    _minimize_each(H, r, u, d, gap, result)
    return result


@numba.njit(nogil=True, cache=True)
def _minimize_each(
    hessian: FloatArray, gradient: FloatArray, points: FloatArray, damping: FloatArray, tol: FloatArray, out: FloatArray
) -> None:
    rows, size = points.shape
    x, r = np.empty(size), np.empty(size)
    new_x, new_r, direction = np.empty(size), np.empty(size), np.empty(size)
    factor, free = np.empty((size, size)), np.empty(size, np.int64)
    for row in range(rows):
        H, d = hessian[row], damping[row]
        copy_into(x, points[row])
        copy_into(r, gradient[row])
        _sweep(H, d, x, r)
        _sweep(H, d, x, r)
        for _ in range(_ROUNDS):
            gap, count = 0.0, 0
            for k in range(size):
                gap += r[k] * x[k] + abs(r[k])
                if not ((x[k] <= -1.0 and r[k] >= 0.0) or (x[k] >= 1.0 and r[k] <= 0.0)):
                    free[count] = k
                    count += 1
            if gap <= tol[row] or count == 0:
                break
            _newton_direction(H, d, r, free[:count], factor, direction)
            length = 1.0
            for _ in range(2):
                copy_into(new_x, x)
                copy_into(new_r, r)
                for i in range(count):
                    k = free[i]
                    move_coordinate(H, d, new_x, new_r, k, min(max(x[k] + length * direction[i], -1.0), 1.0))
                change = 0.0
                for k in range(size):
                    change += 0.5 * (new_x[k] - x[k]) * (r[k] + new_r[k])
                if not change > 0.0:
                    break
                # The projected full step climbs: stop at the first bound instead, which always descends.
                for i in range(count):
                    if direction[i] != 0.0:
                        bound = 1.0 if direction[i] > 0.0 else -1.0
                        length = min(length, (bound - x[free[i]]) / direction[i])
            copy_into(x, new_x)
            copy_into(r, new_r)
            _sweep(H, d, x, r)
        copy_into(out[row], x)


@numba.njit(nogil=True, cache=True)
def move_coordinate(H: FloatArray, d: float, x: FloatArray, r: FloatArray, k: int, new: float) -> None:
    """Move coordinate k of `x` to `new`; `r` stays the gradient there, of the quadratic with the Hessian H + d I."""
    step = new - x[k]
    if step != 0.0:
        x[k] = new
        for m in range(len(x)):
            r[m] += step * H[k, m]
        r[k] += step * d


@numba.njit(nogil=True, cache=True)
def _sweep(H: FloatArray, d: float, x: FloatArray, r: FloatArray) -> None:
    """One pass of exact coordinate minimisation; `r` stays the gradient at `x`."""
    for k in range(len(x)):
        h = H[k, k] + d  # H[k, k] may be negative by rounding; d is above that
        move_coordinate(H, d, x, r, k, min(max(x[k] - r[k] / h, -1.0), 1.0))


@numba.njit(nogil=True, cache=True)
def _newton_direction(
    H: FloatArray, d: float, r: FloatArray, free: IntArray, factor: FloatArray, direction: FloatArray
) -> None:
    """direction[: len(free)] = -(H + d I)^-1 r on the free coordinates, by a Cholesky factor."""
    count = len(free)
    for i in range(count):
        for j in range(i + 1):
            total = H[free[i], free[j]]
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i == j:
                # H is positive semidefinite, so no exact pivot is below d; what is, is rounding.
                factor[i, i] = math.sqrt(max(total, 0.0) + d)
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(count):
        total = -r[free[i]]
        for m in range(i):
            total -= factor[i, m] * direction[m]
        direction[i] = total / factor[i, i]
    for i in range(count - 1, -1, -1):
        total = direction[i]
        for m in range(i + 1, count):
            total -= factor[m, i] * direction[m]
        direction[i] = total / factor[i, i]

"""The minimum of a quadratic over a polytope, for many rows: a step of damped Newton (see `cells`).

Wolfe's algorithm: hold a mixture of few vertices; let the vertex that promises most enter; move to the best mixture of
those held, weights of any sign; where that leaves the hull, stop at its border and let a vertex go. Whatever step it
stops at, the answer is a mixture of vertices, hence feasible.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from recaudit.arithmetic import copy_into, copy_rows
from recaudit.arrays import FloatArray, IntArray

# Vertices that may enter; what is inexact then, the outer method corrects.
_ENTERING = 60
# How exact: the promise of the best vertex, as a part of the largest one at the start.
_RELATIVE_TOL = 1e-10
# A mixture's weight below this is none.
_LEAST = 1e-13
# Pivots are kept above this part of the diagonal: vertices held can be affinely dependent up to rounding.
_PIVOT = 1e-14


@njit(nogil=True, cache=True)
def minimize_over_hull(
    hessian: FloatArray, gradient: FloatArray, points: FloatArray, damping: FloatArray, vertices: FloatArray
) -> FloatArray:
    """(rows, K): the minimiser of r.s + s^T (H + d I) s / 2 over x + s in the hull of `vertices` (vertices, K);
    `hessian` H (rows, K, K), `gradient` r (rows, K), `points` x (rows, K), `damping` d > 0 (rows,)."""
    rows, size = points.shape
    found = np.empty((rows, size))
    held, weights = np.empty(size + 2, np.int64), np.empty(size + 2)
    curvature, slope = np.empty((size, size)), np.empty(size)
    for row in range(rows):
        x, target = points[row], found[row]
        copy_rows(curvature, hessian[row])
        for k in range(size):
            curvature[k, k] += damping[row]
        held[0], used = _most_promising(gradient[row], vertices), 1
        weights[0] = 1.0
        copy_into(target, vertices[held[0]])
        first = 0.0
        for step in range(_ENTERING):
            for k in range(size):
                slope[k] = gradient[row, k]
                for j in range(size):
                    slope[k] += curvature[k, j] * (target[j] - x[j])
            entering = _most_promising(slope, vertices)
            promise, known = 0.0, False
            for k in range(size):
                promise += slope[k] * (target[k] - vertices[entering, k])
            for c in range(used):
                known |= held[c] == entering
            first = promise if step == 0 else first
            if promise <= _RELATIVE_TOL * first or known or used > size + 1:
                break
            held[used], weights[used] = entering, 0.0
            used = _improve(curvature, gradient[row], x, vertices, held, weights, used + 1)
            target[:] = 0.0
            for c in range(used):
                for k in range(size):
                    target[k] += weights[c] * vertices[held[c], k]
    return found


@njit(nogil=True, cache=True)
def _most_promising(slope: FloatArray, vertices: FloatArray) -> int:
    """The vertex at which a linear function is lowest."""
    best, lowest = 0, np.inf
    for v in range(len(vertices)):
        value = 0.0
        for k in range(len(slope)):
            value += slope[k] * vertices[v, k]
        if value < lowest:
            best, lowest = v, value
    return best


@njit(nogil=True, cache=True)
def _improve(
    curvature: FloatArray,
    gradient: FloatArray,
    x: FloatArray,
    vertices: FloatArray,
    held: IntArray,
    weights: FloatArray,
    used: int,
) -> int:
    """Move the weights to the best mixture of the held vertices, letting go of those in the way; how many are left."""
    while used > 1:
        wanted = _best_mixture(curvature, gradient, x, vertices[held[:used]])
        part, leaving = 1.0, -1
        for c in range(used):
            if wanted[c] < _LEAST:
                ratio = weights[c] / max(weights[c] - wanted[c], 1e-300)
                if leaving < 0 or ratio < part:
                    part, leaving = min(ratio, 1.0), c
        for c in range(used):
            weights[c] += part * (wanted[c] - weights[c])
        if leaving < 0:
            break
        weights[leaving] = 0.0
        kept, total = 0, 0.0
        for c in range(used):
            if weights[c] > _LEAST:
                held[kept], weights[kept] = held[c], weights[c]
                total += weights[c]
                kept += 1
        used = kept
        for c in range(used):
            weights[c] /= total
    if used == 1:
        weights[0] = 1.0
    return used


@njit(nogil=True, cache=True)
def _best_mixture(curvature: FloatArray, gradient: FloatArray, x: FloatArray, held: FloatArray) -> FloatArray:
    """(vertices,): the weights, of any sign, that sum to 1 and minimise the quadratic over mixtures of `held`
    (vertices, K): w with D H D^T w = -D slope(v_0), where the rows of D are v_c - v_0 for the other vertices."""
    size, count = len(x), len(held) - 1
    wanted, space = np.zeros(count + 1), np.zeros((count, count))
    base = held[0]
    for a in range(count):
        one = held[a + 1]
        for k in range(size):
            along, towards = 0.0, gradient[k]
            for j in range(size):
                along += curvature[k, j] * (one[j] - base[j])
                towards += curvature[k, j] * (base[j] - x[j])
            wanted[a + 1] -= (one[k] - base[k]) * towards
            for b in range(a + 1):
                space[a, b] += (held[b + 1, k] - base[k]) * along
    for i in range(count):
        pivot = space[i, i]
        for j in range(i + 1):
            total = space[i, j]
            for k in range(j):
                total -= space[i, k] * space[j, k]
            space[i, j] = math.sqrt(max(total, _PIVOT * pivot + 1e-300)) if i == j else total / space[j, j]
        total = wanted[i + 1]
        for k in range(i):
            total -= space[i, k] * wanted[k + 1]
        wanted[i + 1] = total / space[i, i]
    wanted[0] = 1.0
    for i in range(count - 1, -1, -1):
        total = wanted[i + 1]
        for k in range(i + 1, count):
            total -= space[k, i] * wanted[k + 1]
        wanted[i + 1] = total / space[i, i]
        wanted[0] -= wanted[i + 1]
    return wanted

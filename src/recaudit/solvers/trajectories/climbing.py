"""The largest log-probability of targets on one cell: maximise b_i.y - g(y) over the hull of points, g a log-sum-exp.

g does not depend on the target. Whatever point it is evaluated at, it serves every target: the target's log-probability
there is reached, and the tangent of g there bounds the log-probability on the whole cell, because the latter is
concave:

    b_i.y - g(y) <= b_i.y - g(p) - dg(p).(y - p) for all y, and the right side is largest at a vertex.

So one target is solved after the other by damped Newton steps, each from the best of the points that others left.

A cell is a base times the interval of the last rating, and only half of its vertices have to be looked at: the other
end of the interval moves them all by the same amount.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from recaudit.arithmetic import copy_into, copy_rows, summed, summed_products
from recaudit.arrays import BoolArray, FloatArray
from recaudit.solvers.softmax.moments import exponential
from recaudit.solvers.trajectories.descent import minimize_over_hull

# Items of which scores and exponentials are held at once.
_ITEMS = 256
# What is farther below the largest score adds nothing to a sum.
_LOWEST = -600.0
# Tangents kept for the targets to come.
_KEPT = 48
# Levenberg and Marquardt's damping, as a part of the curvature: the first, the least, and what is always added.
_FIRST_DAMPING, _LEAST_DAMPING, _RIDGE = 1e-2, 1e-6, 1e-13
_TINY = 1e-300


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy")
def log_sum_exp(
    level: FloatArray, columns: FloatArray, point: FloatArray, weights: FloatArray, gradient: FloatArray
) -> float:
    """log sum_j exp(level_j + columns_j.point); `level` (items,), `columns` (K, items), `point` (K,). Its derivatives
    go into `gradient` (K,), the exponentials, of the largest, into `weights` (items,)."""
    K, items = columns.shape
    peak, total = _scores(level, columns, point, weights), 0.0
    gradient[:] = 0.0
    for start in range(0, items, _ITEMS):
        part = slice(start, min(start + _ITEMS, items))
        scores = weights[part]
        for j in range(len(scores)):
            scores[j] = exponential(max(scores[j] - peak, _LOWEST))
        total += summed(scores)
        for k in range(K):
            gradient[k] += summed_products(scores, columns[k, part])
    gradient /= total
    return float(np.log(total) + peak)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy")
def second_derivatives(columns: FloatArray, weights: FloatArray, gradient: FloatArray, hessian: FloatArray) -> None:
    """Those of the log-sum-exp (K, K), where its `weights` (items,) and `gradient` (K,) are known."""
    K, items = columns.shape
    total, weighted = 0.0, np.empty(_ITEMS)
    hessian[:] = 0.0
    for start in range(0, items, _ITEMS):
        part = slice(start, min(start + _ITEMS, items))
        own = weights[part]
        total += summed(own)
        for k in range(K):
            column, by = columns[k, part], weighted[: len(own)]
            for j in range(len(own)):
                by[j] = own[j] * column[j]
            for m in range(k + 1):
                hessian[k, m] += summed_products(by, columns[m, part])
    for k in range(K):
        for m in range(k + 1):
            hessian[k, m] = hessian[k, m] / total - gradient[k] * gradient[m]
            hessian[m, k] = hessian[k, m]


class Tangent(NamedTuple):
    """A log-sum-exp at 0."""

    value: float
    gradient: FloatArray  # (K,)
    hessian: FloatArray  # (K, K)


def tangent(level: FloatArray, columns: FloatArray) -> tuple[Tangent, FloatArray]:
    """The log-sum-exp at 0, and (items,) the exponentials in it, of the largest."""
    K = len(columns)
    weights, gradient, hessian = np.empty(len(level)), np.empty(K), np.empty((K, K))
    value = log_sum_exp(level, columns, np.zeros(K), weights, gradient)
    second_derivatives(columns, weights, gradient, hessian)
    return Tangent(value, gradient, hessian), weights


@njit(nogil=True, cache=True)
def scores_at(level: FloatArray, columns: FloatArray, point: FloatArray, allowed: BoolArray) -> FloatArray:
    """(items,): `level + point @ columns`; -inf where not `allowed` (items,)."""
    scores = np.empty(len(level))
    _scores(level, columns, point, scores)
    for j in range(len(level)):
        scores[j] = scores[j] if allowed[j] else -np.inf
    return scores


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy")
def _scores(level: FloatArray, columns: FloatArray, point: FloatArray, scores: FloatArray) -> float:
    """The largest of all `scores` (items,), which are filled in."""
    peak = -np.inf
    for start in range(0, len(level), _ITEMS):
        part = slice(start, min(start + _ITEMS, len(level)))
        own = scores[part]
        copy_into(own, level[part])
        for k in range(len(columns)):
            column, by = columns[k, part], point[k]
            for j in range(len(own)):
                own[j] += by * column[j]
        for j in range(len(own)):
            peak = max(peak, own[j])
    return peak


@njit(nogil=True, cache=True)
def climb(
    level: FloatArray,
    columns: FloatArray,
    vertices: FloatArray,
    own_level: FloatArray,
    own_slopes: FloatArray,
    needed: FloatArray,
    starts: FloatArray,
    close: float,
    steps: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(rows,) twice and (rows, K): what targets do not exceed in a cell, the best value found, and where.

    `level` (items,) and `columns` (K, items): the scores; `own_level` (rows,) and `own_slopes` (rows, K): those of the
    targets. `vertices` (vertices, K): the second half is the first moved by one vector. A target is left once it cannot
    reach what is `needed` (rows,), once its bounds are `close`, or after so many `steps`, the first of them to its
    place in `starts` (rows, K), where that has rows.
    """
    half, K = len(vertices) // 2, vertices.shape[1]
    # The last place is for what is not kept; of the second derivatives few are asked for.
    points, gradients, hessians = np.zeros((_KEPT + 1, K)), np.zeros((_KEPT + 1, K)), np.zeros((_KEPT + 1, K, K))
    curved, nowhere = np.zeros(_KEPT + 1, np.bool_), _KEPT
    # Of the tangents: at the vertices of the base, from one half to the other, the constant; and the value.
    ahead, risen, constants, values = np.empty((_KEPT, half)), np.empty(_KEPT), np.empty(_KEPT), np.empty(_KEPT)
    base, rise = vertices[:half].T.copy(), vertices[half] - vertices[0]
    # The last two are of the target that is being solved: one row each, as `minimize_over_hull` takes them.
    weights, along, residual, curvature = np.empty(len(level)), np.empty(half), np.empty((1, K)), np.empty((1, K, K))
    rows, kept, newest = len(own_level), 0, -1
    bounds, found, places = np.full(rows, np.inf), np.full(rows, -np.inf), np.zeros((rows, K))
    for row in range(rows):
        b, at, risen_b = own_slopes[row], places[row : row + 1], _dot(own_slopes[row], rise)
        _products(base, b, along)
        bound, value, best = np.inf, -np.inf, nowhere
        for back in range(kept):
            p = (newest - back) % _KEPT
            bound = min(bound, _bound(along, risen_b, ahead[p], risen[p], constants[p]) + own_level[row])
            reached = own_level[row] + _dot(b, points[p]) - values[p]
            if reached > value:
                value, best = reached, p
            if bound <= needed[row]:
                break
        _stand(points[best], gradients[best], b, at[0], residual[0])
        copy_rows(curvature[0], hessians[best])
        strength, bent = 0.0, curved[best]
        for step in range(steps):
            if bound <= needed[row] or bound - value <= close:
                break
            first = step == 0 and len(starts) > 0
            if not first and not bent and value > -np.inf:
                slope = residual[0] + b
                if best != newest:
                    log_sum_exp(level, columns, at[0], weights, slope)
                second_derivatives(columns, weights, slope, curvature[0])
                copy_rows(hessians[best], curvature[0])
                curved[best] = bent = True
            newest, kept = (newest + 1) % _KEPT, min(kept + 1, _KEPT)
            p, predicted, best = newest, 0.0, nowhere if best == newest else best
            if first:
                copy_into(points[p], starts[row])
            elif value == -np.inf:
                points[p] = 0.0
            else:
                predicted = _newton(curvature, residual, at, strength, vertices, points[p])
            values[p], curved[p] = log_sum_exp(level, columns, points[p], weights, gradients[p]), False
            constants[p], risen[p] = values[p] - _dot(gradients[p], points[p]), _dot(gradients[p], rise)
            _products(base, gradients[p], ahead[p])
            bound = min(bound, _bound(along, risen_b, ahead[p], risen[p], constants[p]) + own_level[row])
            reached = own_level[row] + _dot(b, points[p]) - values[p]
            strength = _next_strength(strength, reached - value, predicted)
            if reached > value:
                value, best, bent = reached, p, False
                _stand(points[p], gradients[p], b, at[0], residual[0])
        bounds[row], found[row] = bound, value
    return bounds, found, places


@njit(nogil=True, cache=True)
def _stand(point: FloatArray, gradient: FloatArray, slope: FloatArray, at: FloatArray, residual: FloatArray) -> None:
    """`at` (K,) becomes the point, `residual` (K,) the gradient there, less the target's slope."""
    for k in range(len(at)):
        at[k], residual[k] = point[k], gradient[k] - slope[k]


@njit(nogil=True, cache=True)
def _newton(
    curvature: FloatArray,
    residual: FloatArray,
    at: FloatArray,
    strength: float,
    vertices: FloatArray,
    tried: FloatArray,
) -> float:
    """What a damped Newton step from `at` (1, K) promises; where it leads goes into `tried` (K,)."""
    largest, steepest = _TINY, np.abs(residual).max()
    for k in range(len(tried)):
        largest = max(largest, curvature[0, k, k])
    damping = np.full(1, strength * max(largest, steepest) + _RIDGE * largest + _TINY)
    copy_into(tried, minimize_over_hull(curvature, residual, at, damping, vertices)[0])
    moved, promised = tried - at[0], 0.0
    for k in range(len(tried)):
        promised -= moved[k] * (residual[0, k] + _dot(curvature[0, k], moved) / 2)
    return promised


@njit(nogil=True, cache=True)
def _next_strength(strength: float, gained: float, promised: float) -> float:
    """Of the damping: less where the step was as good as promised, more where it was not."""
    if promised <= 0:
        return strength
    if gained <= 0:
        return max(4 * strength, _FIRST_DAMPING)
    ratio = gained / promised
    strength = strength / 8 if ratio > 0.75 else (strength * 4 if ratio < 0.25 else strength)
    return strength if strength > _LEAST_DAMPING else 0.0


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"})
def _products(points: FloatArray, by: FloatArray, out: FloatArray) -> None:
    """Of `points` (K, points) and `by` (K,), into `out` (points,)."""
    for v in range(len(out)):
        out[v] = points[0, v] * by[0]
    for k in range(1, len(by)):
        for v in range(len(out)):
            out[v] += points[k, v] * by[k]


@njit(nogil=True, cache=True)
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@njit(nogil=True, cache=True, fastmath={"nsz", "nnan"})
def _bound(along: FloatArray, rise: float, ahead: FloatArray, risen: float, constant: float) -> float:
    most = -np.inf
    for v in range(len(along)):
        most = max(most, along[v] - ahead[v])
    return most + max(rise - risen, 0.0) - constant

"""Which targets a cell holds nothing for, from a short stand-in for the catalogue.

Candidates whose scores move alike on the cell are put together. With w_j = exp(score at the centre), W their sum in a
group and m the weighted mean of their slopes, Jensen's inequality says

    sum over the group of exp(score_j(y)) >= W exp(m.y) for every y,

so that the log-sum-exp of some hundred groups is nowhere above that of all items, and what no target exceeds with it,
no target exceeds. It is convex as well, and one evaluation costs a fraction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.trajectories.descent import minimize_over_hull

# Groups at most; more are closer to the items, and take longer.
_GROUPS = 512
# A group is not narrower than this, in units of the score, and reaches to this many standard deviations.
_NARROWEST, _REACH = 0.2, 2.0
_WIDER = 1.15
# Tangents kept for the targets to come, and steps for one target.
_KEPT, _STEPS = 48, 3
_RIDGE = 1e-9


class Groups(NamedTuple):
    """A stand-in for the candidates."""

    level: FloatArray  # (groups,)
    slopes: FloatArray  # (groups, K)


def group_items(
    level: FloatArray, columns: FloatArray, gradient: FloatArray, hessian: FloatArray, vertices: FloatArray
) -> Groups:
    """The items of a cell in groups: `level` (items,), -inf for none, and `columns` (K, items) of their scores, the
    `gradient` (K,) and the `hessian` (K, K) of their log-sum-exp at 0, and the cell's `vertices` (vertices, K).

    Groups are cut along the principal axes of what moves scores apart: slopes times the cell's extent.
    """
    spread, turn = np.linalg.eigh(vertices.T @ vertices / len(vertices))
    extent = (turn * np.sqrt(np.maximum(spread, 0.0))) @ turn.T
    variance, axes = np.linalg.eigh(extent @ hessian @ extent)
    deviation, onto = np.sqrt(np.maximum(variance, 0.0)), np.ascontiguousarray(axes.T @ extent)
    width = _NARROWEST
    while True:
        counts = np.maximum(1, np.ceil(2 * _REACH * deviation / width))
        if counts.prod() <= _GROUPS:
            break
        width *= _WIDER
    total, sums = _gather(level, columns, onto / width, onto @ gradient / width, counts.astype(np.int64))
    used = total > 0
    return Groups(np.log(total[used]) + level.max(), sums[used] / total[used, None])


@njit(nogil=True, cache=True)
def _gather(
    level: FloatArray, columns: FloatArray, onto: FloatArray, middle: FloatArray, counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(groups,) and (groups, K): the weights of the items of each group, and what they and the columns sum to. An item
    is where `onto` (K, K) puts its slopes, in units of a group, beside the `middle` (K,) of `counts` (K,) of them."""
    K, items = columns.shape
    groups = 1
    for n in counts:
        groups *= n
    total, sums, slopes = np.zeros(groups), np.zeros((groups, K)), np.empty(K)
    peak = level.max()
    for j in range(items):
        weight = np.exp(level[j] - peak)
        if weight == 0:
            continue
        for k in range(K):
            slopes[k] = columns[k, j]
        group = 0
        for k in range(K):
            place = counts[k] / 2 - middle[k]
            for m in range(K):
                place += onto[k, m] * slopes[m]
            group = group * counts[k] + min(max(int(np.floor(place)), 0), counts[k] - 1)
        total[group] += weight
        for k in range(K):
            sums[group, k] += weight * slopes[k]
    return total, sums


@njit(nogil=True, cache=True)
def rule_out(
    level: FloatArray,
    slopes: FloatArray,
    vertices: FloatArray,
    own_level: FloatArray,
    own_slopes: FloatArray,
    needed: FloatArray,
) -> FloatArray:
    """(rows,): what targets with `own_level` (rows,) and `own_slopes` (rows, K) do not exceed in the hull of `vertices`
    (vertices, K), whose second half is the first moved by one vector; no effort is made below what is `needed` (rows,),
    or where a value of the stand-in exceeds that. `level` (groups,) and `slopes` (groups, K) are the stand-in."""
    half, K = len(vertices) // 2, vertices.shape[1]
    points, gradients, hessians = np.zeros((_KEPT, K)), np.empty((_KEPT, K)), np.empty((_KEPT, K, K))
    # Of the tangents: at the vertices of the base, from one half to the other, and the constant.
    ahead, risen, constants = np.empty((_KEPT, half)), np.empty(_KEPT), np.empty(_KEPT)
    rise = vertices[half] - vertices[0]
    along, damping = np.empty(half), np.full(1, _RIDGE)
    bounds = np.empty(len(own_level))
    kept, newest = 0, -1
    for row in range(len(own_level)):
        b = own_slopes[row]
        risen_b = _dot(b, rise)
        for v in range(half):
            along[v] = _dot(b, vertices[v])
        bound, best = np.inf, -1
        for back in range(kept):
            p = (newest - back) % _KEPT
            here = _bound(along, risen_b, ahead[p], risen[p], constants[p]) + own_level[row]
            if here < bound:
                bound, best = here, p
            if bound <= needed[row]:
                break
        step = 0
        while bound > needed[row] and step < _STEPS:
            tried = np.zeros(K)
            if best >= 0:
                start, residual = points[best : best + 1].copy(), gradients[best : best + 1] - b
                tried = minimize_over_hull(hessians[best : best + 1].copy(), residual, start, damping, vertices)[0]
            newest, kept = (newest + 1) % _KEPT, min(kept + 1, _KEPT)
            points[newest] = tried
            value = _evaluate(level, slopes, tried, gradients[newest], hessians[newest])
            constants[newest] = value - _dot(gradients[newest], tried)
            risen[newest] = _dot(gradients[newest], rise)
            for v in range(half):
                ahead[newest, v] = _dot(gradients[newest], vertices[v])
            here = _bound(along, risen_b, ahead[newest], risen[newest], constants[newest]) + own_level[row]
            bound, best = min(bound, here), newest
            if own_level[row] + _dot(b, tried) - value > needed[row]:
                break
            step += 1
        bounds[row] = bound
    return bounds


@njit(nogil=True, cache=True)
def _dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@njit(nogil=True, cache=True)
def _bound(along: FloatArray, rise: float, ahead: FloatArray, risen: float, constant: float) -> float:
    most = -np.inf
    for v in range(len(along)):
        most = max(most, along[v] - ahead[v])
    return most + max(rise - risen, 0.0) - constant


@njit(nogil=True, cache=True)
def _evaluate(
    level: FloatArray, slopes: FloatArray, point: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> float:
    """The log-sum-exp at a point (K,); its derivatives go into `gradient` (K,) and `hessian` (K, K)."""
    groups, K = slopes.shape
    scores, peak = np.empty(groups), -np.inf
    for j in range(groups):
        score = level[j]
        for k in range(K):
            score += slopes[j, k] * point[k]
        scores[j] = score
        peak = max(peak, score)
    total = 0.0
    gradient[:], hessian[:] = 0.0, 0.0
    for j in range(groups):
        weight = np.exp(scores[j] - peak)
        total += weight
        for k in range(K):
            part = weight * slopes[j, k]
            gradient[k] += part
            for m in range(k + 1):
                hessian[k, m] += part * slopes[j, m]
    for k in range(K):
        gradient[k] /= total
    for k in range(K):
        for m in range(k + 1):
            hessian[k, m] = hessian[k, m] / total - gradient[k] * gradient[m]
            hessian[m, k] = hessian[k, m]
    return float(np.log(total) + peak)

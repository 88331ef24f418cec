"""A lower bound of the minimum that knows the curvature: its gap is the square of the tangent's.

The tangent of g at a point u bounds f(v) = g(v) - b.v over the box with a gap as large as the gradient r of f that is
left; a Newton step leaves a value that is off by r^2 only. So take the curvature in. Let rho(d) = max_j S_j.d -
min_j S_j.d. Along a line, the third derivative of a log-sum-exp is at most its second one times rho of the direction,
because |E (x - m)^2 (y - E y)| <= Var(x) (max y - min y). Hence, with H the Hessian at a point p that is known,

- the Hessian at u is at least exp(-rho(u - p)) H;
- f(u + d) >= f(u) + r.d + d^T A d wherever rho(d) <= D, with A = psi(D) exp(-rho(u - p)) H and psi(D) = (exp(-D) + D -
  1) / D^2.

Let -m be the minimum over the box of r.d + d^T A d. Then the minimum of f is at least f(u) - m, provided that it lies
where rho(d) <= D. It does if 4 m < least, the smallest e^T A e with rho(e) = D: otherwise the way from u to it would
leave that region at a point e with f(u + e) <= f(u), where r.e + e^T A e <= 0; but r.e + e^T A e / 2 >= -2 m (halve e:
the box is convex and contains u), so that e^T A e / 2 <= 2 m.

For `least`, let C be the covariance of the slopes over the items, without weights, and radius the largest distance of
an item from their mean in the metric of C: rho(d) <= 2 radius sqrt(d^T C d), and e^T C e <= e^T H e trace(C H^-1), so
that rho(e)^2 <= stretch e^T H e with stretch = 4 radius^2 trace(C H^-1). Where items hardly differ along some axis C
says nothing, and neither does this bound.
"""

from __future__ import annotations

import math
from typing import final

import numba
import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.softmax.box_qp import minimize_box_quadratics

# D, and psi there.
_REACH = 1.0
_PSI = (math.exp(-_REACH) + _REACH - 1) / _REACH**2
# Axes along which items differ by less than this part of the widest one are left to themselves.
_NARROW = 1e-9
_SAFETY = 1 + 1e-6
_TINY = 1e-200
_UNIT = float(np.finfo(np.float64).eps)
# How well the quadratic is minimized, next to what is wanted: what is left is part of the gap.
_INNER = 0.05


@final
class Curvature:
    """Distances between the items of several problems, in every direction."""

    def __init__(self, slopes: FloatArray, real: BoolArray) -> None:
        """Measure `slopes`, shape (problems, items, K), of the items that are `real`, shape (problems, items).

        The others are padding.
        """
        count = real.sum(axis=1)[:, None]
        centred = np.where(real[:, :, None], slopes - (slopes.sum(axis=1) / count)[:, None], 0.0)
        spread, axes = np.linalg.eigh(centred.mT @ centred / count[:, :, None])
        wide = spread > _NARROW * spread[:, -1:]
        lengths = np.sqrt(np.where(wide, spread, 1.0))
        white = np.where(wide, 1 / lengths, 0.0)
        radius = np.sqrt(np.square((centred @ axes) * white[:, None]).sum(axis=2).max(axis=1))
        self._radius = 2 * _SAFETY * radius
        self._lengths = axes * np.where(wide, lengths, 0.0)[:, None]  # |d @ lengths|^2 is d^T C d
        self._white = axes * white[:, None]
        self._narrow = np.where(wide, 0.0, 1.0)
        self._room = np.where(wide.all(axis=1), _REACH, 0.0)

    def stretch(self, hessian: FloatArray, owner: IntArray) -> FloatArray:
        """Return the largest value of rho(e)^2 / e^T H e, shape (rows,); infinite where H is too flat.

        `hessian` H has the shape (rows, K, K), `owner`, the problem of each row, (rows,).
        """
        white = self._white[owner]
        turned = white.mT @ hessian @ white
        diagonal(turned)[:] += self._narrow[owner]
        return np.asarray(np.square(self._radius[owner]) * inverse_trace(turned))

    def gap(
        self,
        owner: IntArray,
        points: FloatArray,
        residual: FloatArray,
        anchor: FloatArray,
        hessian: FloatArray,
        stretch: FloatArray,
        tol: FloatArray,
    ) -> FloatArray:
        """Return a limit of f at `points` less its minimum, shape (rows,).

        Infinite where this bound says nothing, rough where it is beyond `tol`.

        Args:
            owner: Problem of each row, shape (rows,).
            points: Points, shape (rows, K).
            residual: Gradient of f there, shape (rows, K).
            anchor: Points at which the Hessian is known, shape (rows, K).
            hessian: A matrix that is not above the Hessian at `anchor`, shape (rows, K, K).
            stretch: `stretch` of it, shape (rows,).
            tol: Gap that is small enough, shape (rows,).
        """
        along = ((points - anchor)[:, None] @ self._lengths[owner])[:, 0]
        kept = _PSI * np.exp(-self._radius[owner] * np.sqrt(np.square(along).sum(axis=1)))
        quadratic = (2 * kept)[:, None, None] * hessian
        flat = _UNIT * diagonal(quadratic).max(axis=1) + _TINY
        lowest = minimize_box_quadratics(quadratic, residual, points, flat, _INNER * tol)
        step = lowest - points
        change = (quadratic @ step[:, :, None])[:, :, 0]
        slope = residual + change
        depth = (slope * lowest + np.abs(slope)).sum(axis=1) - (step * (residual + change / 2)).sum(axis=1)
        # Sums of K products each, of numbers no larger than these; |lowest| <= 1, |step| <= 2.
        sizes = np.abs(residual) + (np.abs(quadratic) @ np.abs(step)[:, :, None])[:, :, 0]
        rounding = 8 * (points.shape[1] + 4) * _UNIT * sizes.sum(axis=1)
        depth = np.maximum(depth, 0.0) + rounding
        least = kept * np.square(self._room[owner]) / stretch
        return np.where(4 * depth < least, depth, np.inf)


def diagonal(matrices: FloatArray) -> FloatArray:
    """Return the diagonals of contiguous `matrices`, shape (rows, K, K), as a view of shape (rows, K)."""
    rows, size, _ = matrices.shape
    return matrices.reshape(rows, size * size)[:, :: size + 1]


def inverse_trace(matrices: FloatArray) -> FloatArray:
    """Return the trace of the inverse of each of `matrices`, shape (rows, K, K); infinite where one is not positive."""
    trace = np.empty(len(matrices))
    _inverse_traces(np.ascontiguousarray(matrices), trace)
    return trace


@numba.njit(nogil=True, cache=True)
def _inverse_traces(matrices: FloatArray, out: FloatArray) -> None:
    """By a Cholesky factor L: the sum of the squares of its inverse."""
    rows, size = len(matrices), matrices.shape[1]
    factor, column = np.zeros((size, size)), np.empty(size)
    for row in range(rows):
        A, total = matrices[row], 0.0
        for i in range(size):
            for j in range(i + 1):
                entry = A[i, j]
                for m in range(j):
                    entry -= factor[i, m] * factor[j, m]
                if i > j:
                    factor[i, j] = entry * factor[j, j]
                elif entry > 0.0:
                    factor[i, i] = 1.0 / math.sqrt(entry)  # one over the pivot
                else:
                    total, factor[i, i] = np.inf, 0.0
        for k in range(size):
            for i in range(k, size):
                entry = 1.0 if i == k else 0.0
                for m in range(k, i):
                    entry -= factor[i, m] * column[m]
                column[i] = entry * factor[i, i]
                total += column[i] * column[i]
        out[row] = total

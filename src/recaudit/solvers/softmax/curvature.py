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
import torch
from torch import Tensor

from recaudit.arrays import FloatArray
from recaudit.solvers.softmax.box_qp import minimize_box_quadratics

# D, and psi there.
_REACH = 1.0
_PSI = (math.exp(-_REACH) + _REACH - 1) / _REACH**2
# Axes along which items differ by less than this part of the widest one are left to themselves.
_NARROW = 1e-9
_SAFETY = 1 + 1e-6
_TINY = 1e-200
# How well the quadratic is minimised, beside what is asked: what is left is part of the gap.
_INNER = 0.05


@final
class Curvature:
    """How far apart the items of several problems are, in every direction."""

    def __init__(self, slopes: Tensor, real: Tensor) -> None:
        """`slopes` (problems, items, K) of the items that are `real` (problems, items), the rest is padding."""
        count = real.sum(dim=1)[:, None]
        centred = (slopes - (slopes.sum(dim=1) / count).unsqueeze(1)).masked_fill_(~real.unsqueeze(2), 0.0)
        spread, axes = torch.linalg.eigh(centred.mT @ centred / count.unsqueeze(2))
        wide = spread > _NARROW * spread[:, -1:]
        lengths = torch.where(wide, spread, 1.0).sqrt()
        along = centred @ axes
        white = torch.where(wide, 1 / lengths, 0.0)
        radius = (along * white.unsqueeze(1)).square().sum(dim=2).amax(dim=1).sqrt()
        self._radius = 2 * _SAFETY * radius
        self._lengths = axes * torch.where(wide, lengths, 0.0).unsqueeze(1)  # |d @ lengths|^2 is d^T C d
        self._white = axes * white.unsqueeze(1)
        self._wide = wide
        self._room = torch.where(wide.all(dim=1), _REACH, 0.0)

    def stretch(self, hessian: Tensor, owner: Tensor) -> Tensor:
        """(rows,): how large rho(e)^2 / e^T H e can be, for `hessian` H (rows, K, K) of the problems `owner` (rows,);
        infinite where H is too flat to say."""
        white, wide = self._white[owner], self._wide[owner]
        turned = white.mT @ hessian @ white
        turned.diagonal(dim1=1, dim2=2).add_(~wide)
        radius: Tensor = self._radius[owner]
        return radius.square() * inverse_trace(turned)

    def gap(
        self,
        owner: Tensor,
        points: Tensor,
        residual: Tensor,
        anchor: Tensor,
        hessian: Tensor,
        stretch: Tensor,
        tol: Tensor,
    ) -> Tensor:
        """(rows,): how much lower the minimum of f can be than at `points` (rows, K), where its gradient is `residual`
        (rows, K); infinite where this bound says nothing, rough where it is beyond `tol` (rows,). `hessian` (rows, K,
        K) is not above the one at `anchor` (rows, K), `stretch` (rows,) goes with it."""
        along = ((points - anchor).unsqueeze(1) @ self._lengths[owner]).squeeze(1)
        kept = _PSI * torch.exp(-self._radius[owner] * along.square().sum(dim=1).sqrt())
        quadratic = (2 * kept)[:, None, None] * hessian
        flat = torch.finfo(points.dtype).eps * quadratic.diagonal(dim1=1, dim2=2).amax(dim=1) + _TINY
        found = minimize_box_quadratics(quadratic, residual, points, flat, _INNER * tol)
        step = found - points
        change = torch.bmm(quadratic, step.unsqueeze(2)).squeeze(2)
        slope = residual + change
        depth = (slope * found + slope.abs()).sum(dim=1) - (step * (residual + change / 2)).sum(dim=1)
        # Sums of K products each, of numbers no larger than these; |found| <= 1, |step| <= 2.
        sizes = residual.abs() + torch.bmm(quadratic.abs(), step.abs().unsqueeze(2)).squeeze(2)
        rounding = 8 * (points.shape[1] + 4) * torch.finfo(points.dtype).eps * sizes.sum(dim=1)
        depth = depth.clamp(min=0.0) + rounding
        least = kept * self._room[owner].clamp(min=0.0).square() / stretch
        return torch.where(4 * depth < least, depth, torch.inf)


def inverse_trace(matrices: Tensor) -> Tensor:
    """(rows,): the trace of the inverse of each of `matrices` (rows, K, K); infinite where one is not positive."""
    if matrices.device.type == "cpu":
        trace = matrices.new_empty(len(matrices))
        _inverse_traces(matrices.contiguous().numpy(), trace.numpy())
        return trace
    factor, failed = torch.linalg.cholesky_ex(matrices)
    unit = torch.eye(matrices.shape[1], dtype=matrices.dtype, device=matrices.device)
    inverse = torch.linalg.solve_triangular(factor, unit.expand_as(factor), upper=False)
    trace = inverse.square().sum(dim=(1, 2))
    return torch.where((failed == 0) & torch.isfinite(trace), trace, torch.inf)


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

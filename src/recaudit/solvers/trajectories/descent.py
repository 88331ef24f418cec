"""Damped Newton over a polytope for many targets of one cell: minimise g(u) - b_i.u over the hull of some points.

As for boxes (mathematics, section 1): g does not depend on the target, so that what is known of it at the vertices and
the centre is where every target starts. Any point gives a bound: with r the gradient of the objective at u, no point of
the hull is lower by more than max over vertices v of r.(u - v) (Frank and Wolfe's gap).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.solvers.softmax.logsumexp import Evaluation, LogSumExp
from recaudit.solvers.trajectories.quadratic import minimize_over_hull

# Levenberg-Marquardt: the first damping after a rejected step, how it grows and falls, when it is dropped.
_FIRST_DAMPING, _GROWTH, _DECAY, _LAST_DAMPING = 1e-2, 8.0, 0.1, 1e-5
# A step is kept when the objective falls by at least this part of what the model predicts.
_ACCEPTED = 1e-3
# Ridge, relative to the second moments, that keeps a singular Hessian factorisable.
_RIDGE = 1e-13
_TINY = 1e-200


@final
@dataclass(frozen=True, eq=False)
class HullStart:
    """Where the targets of a cell stand before any step."""

    place: Tensor
    """(rows,): positions among the hull's points."""
    objective: Tensor
    """(rows,): g(u) - b.u there."""
    floor: Tensor
    """(rows,): the minimum is not below."""


@final
@dataclass(frozen=True, eq=False)
class Hull:
    """A cell: its vertices in the box [-1, 1]^K, and g with its derivatives there and at their mean."""

    vertices: Tensor
    """(vertices, K)"""
    points: Tensor
    """(vertices + 1, K): the mean comes last."""
    known: Evaluation

    @classmethod
    def of(cls, family: LogSumExp, vertices: Tensor) -> Hull:
        """`vertices` (vertices, K) of the single problem of the family."""
        points = torch.cat([vertices, vertices.mean(dim=0, keepdim=True)])
        return cls(vertices, points, _evaluate(family, points))

    def start(self, slopes: Tensor) -> HullStart:
        """For each row b of `slopes` (rows, K): the best known point, and what it and the mean say of the minimum."""
        at = slopes @ self.points.T
        objective, place = (self.known.value - at).min(dim=1)
        ahead = self.known.gradient @ self.vertices.T
        # The tangent of g at a point p, less b.v, is lowest at a vertex v: g(p) - dg.p + min over v of (dg - b).v
        level = self.known.value - (self.known.gradient * self.points).sum(dim=1)
        at = at[:, :-1]
        floors = [level[-1] + (ahead[-1] - at).amin(dim=1), level[place] + (ahead[place] - at).amin(dim=1)]
        return HullStart(place, objective, torch.maximum(*floors))


def minimize(
    family: LogSumExp, hull: Hull, slopes: Tensor, enough: Tensor, tol: Tensor, rounds: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The minimum of g(u) - b.u over the hull for every row b of `slopes` (rows, K), by damped Newton steps.

    Points (rows, K), the objective there and what the minimum is not below (rows,). A row ends when its objective is
    within `tol` (rows,) of its floor, when its floor reaches `enough` (rows,) - no point of this cell then matters - or
    after `rounds` steps.
    """
    start = hull.start(slopes)
    points, objective, floor = hull.points[start.place], start.objective, start.floor
    gradient, hessian = hull.known.gradient[start.place], hull.known.hessian[start.place]
    damping = torch.zeros_like(objective)
    for _ in range(rounds):
        row = ((objective - floor > tol) & (floor < enough)).nonzero().squeeze(1)
        if not len(row):
            break
        b, u, slope, curvature, damped = slopes[row], points[row], gradient[row], hessian[row], damping[row]
        residual = slope - b
        largest = curvature.diagonal(dim1=1, dim2=2).amax(dim=1)
        ridge = damped * torch.maximum(largest, residual.abs().amax(dim=1))
        ridge += _RIDGE * (largest + slope.square().amax(dim=1)) + _TINY
        arrays = (curvature, residual, u, ridge, hull.vertices)
        tried = aligned(minimize_over_hull(*(np.ascontiguousarray(array.numpy()) for array in arrays)))
        known = _evaluate(family, tried)

        step, after = tried - u, known.gradient - b
        reached = known.value - (b * tried).sum(dim=1)
        bound = reached - ((after * tried).sum(dim=1) - (after @ hull.vertices.T).amin(dim=1))
        floor[row] = torch.maximum(floor[row], bound)
        curved = (step * torch.bmm(curvature, step.unsqueeze(2)).squeeze(2)).sum(dim=1)
        predicted = -(step * residual).sum(dim=1) - curved / 2
        fall = objective[row] - reached
        ratio = fall / predicted.clamp(min=_TINY)
        in_rounding = (fall.abs() <= family.rounding) & (bound >= floor[row])
        kept = (ratio > _ACCEPTED) | in_rounding

        changed = torch.where(ratio > 0.75, damped * _DECAY, damped)
        changed = torch.where(ratio < 0.25, damped * _GROWTH, changed)
        changed = torch.where(changed < _LAST_DAMPING, 0.0, changed)
        damping[row] = torch.where(kept, changed, (damped * _GROWTH).clamp(min=_FIRST_DAMPING))
        better = row[kept]
        points[better], objective[better] = tried[kept], reached[kept]
        gradient[better], hessian[better] = known.gradient[kept], known.hessian[kept]
    return points, objective, floor


def _evaluate(family: LogSumExp, points: Tensor) -> Evaluation:
    return family.evaluate(points, torch.zeros(len(points), dtype=torch.long), hessian=True)

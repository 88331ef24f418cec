"""Damped Newton over a polytope for many targets of one cell: minimise g(u) - b_i.u over the hull of some points.

As for boxes (mathematics, section 1): g does not depend on the target, so that what is known of it at the vertices and
the centre is where every target starts. Any point gives a bound: with r the gradient of the objective at u, no point of
the hull is lower by more than max over vertices v of r.(u - v) (Frank and Wolfe's gap).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
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
        known = family.evaluate(points, torch.zeros(len(points), dtype=torch.long), hessian=True)
        return cls(vertices, points, known)

    def start(self, slopes: Tensor) -> Start:
        """For each row b of `slopes` (rows, K): the best known point, and what it and the mean say of the minimum."""
        at = slopes @ self.points.T
        objective, place = (self.known.value - at).min(dim=1)
        ahead = self.known.gradient @ self.vertices.T
        # The tangent of g at a point p, less b.v, is lowest at a vertex v: g(p) - dg.p + min over v of (dg - b).v
        level = self.known.value - (self.known.gradient * self.points).sum(dim=1)
        at = at[:, :-1]
        floors = [level[-1] + (ahead[-1] - at).amin(dim=1), level[place] + (ahead[place] - at).amin(dim=1)]
        return Start(place, objective, torch.maximum(*floors))


@final
@dataclass(frozen=True, eq=False)
class Start:
    """Where the targets of a cell stand before any step."""

    place: Tensor
    """(rows,): positions among the hull's points."""
    objective: Tensor
    """(rows,): g(u) - b.u there."""
    floor: Tensor
    """(rows,): the minimum is not below."""


@final
@dataclass(frozen=True, eq=False)
class Minima:
    """What was found for each target."""

    points: Tensor
    """(rows, K)"""
    objective: Tensor
    """(rows,)"""
    floor: Tensor
    """(rows,)"""


def minimize(
    family: LogSumExp, hull: Hull, slopes: Tensor, start: Start, enough: Tensor, tol: Tensor, rounds: int
) -> Minima:
    """The minimum of g(u) - b.u over the hull for every row b of `slopes` (rows, K).

    A row ends when its objective is within `tol` (rows,) of its floor, when its floor reaches `enough` (rows,) - no
    point of this cell then matters - or after `rounds` steps.
    """
    found = Minima(hull.points[start.place], start.objective.clone(), start.floor.clone())
    rows = _Rows.starting(hull, slopes, start, enough, tol)
    for _ in range(rounds):
        rows = rows.still_open(found)
        if not len(rows.row):
            return found
        rows.step(family, hull.vertices)
    rows.still_open(found)
    return found


@final
@dataclass(eq=False)
class _Rows:
    """Targets under way."""

    row: Tensor
    slopes: Tensor
    enough: Tensor
    tol: Tensor
    u: Tensor
    gradient: Tensor
    hessian: Tensor
    objective: Tensor
    floor: Tensor
    damping: Tensor

    @classmethod
    def starting(cls, hull: Hull, slopes: Tensor, start: Start, enough: Tensor, tol: Tensor) -> _Rows:
        at = start.place
        return cls(
            torch.arange(len(slopes)),
            slopes,
            enough,
            tol,
            hull.points[at],
            hull.known.gradient[at],
            hull.known.hessian[at],
            start.objective,
            start.floor,
            torch.zeros_like(start.objective),
        )

    def still_open(self, found: Minima) -> _Rows:
        """Write down where every row stands; the rows that are not done."""
        found.points[self.row], found.objective[self.row], found.floor[self.row] = self.u, self.objective, self.floor
        left = ((self.objective - self.floor > self.tol) & (self.floor < self.enough)).nonzero().squeeze(1)
        return _Rows(*(getattr(self, field.name).index_select(0, left) for field in fields(self)))

    def step(self, family: LogSumExp, vertices: Tensor) -> None:
        """One damped Newton step of every row: kept where the objective falls as the model says."""
        residual = self.gradient - self.slopes
        largest = self.hessian.diagonal(dim1=1, dim2=2).amax(dim=1)
        damping = self.damping * torch.maximum(largest, residual.abs().amax(dim=1))
        damping += _RIDGE * (largest + self.gradient.square().amax(dim=1)) + _TINY
        arrays = (self.hessian, residual, self.u, damping, vertices)
        points = aligned(minimize_over_hull(*(np.ascontiguousarray(array.numpy()) for array in arrays)))
        known = family.evaluate(points, torch.zeros(len(points), dtype=torch.long), hessian=True)

        step = points - self.u
        objective = known.value - (self.slopes * points).sum(dim=1)
        after = known.gradient - self.slopes
        gap = (after * points).sum(dim=1) - (after @ vertices.T).amin(dim=1)
        self.floor = torch.maximum(self.floor, objective - gap)
        curved = (step * torch.bmm(self.hessian, step.unsqueeze(2)).squeeze(2)).sum(dim=1)
        predicted = -(step * residual).sum(dim=1) - curved / 2
        fall = self.objective - objective
        ratio = fall / predicted.clamp(min=_TINY)
        in_rounding = (fall.abs() <= family.rounding) & (objective - gap >= self.floor)
        kept = (ratio > _ACCEPTED) | in_rounding

        grown = torch.where(ratio > 0.75, self.damping * _DECAY, self.damping)
        grown = torch.where(ratio < 0.25, self.damping * _GROWTH, grown)
        grown = torch.where(grown < _LAST_DAMPING, 0.0, grown)
        self.damping = torch.where(kept, grown, (self.damping * _GROWTH).clamp(min=_FIRST_DAMPING))
        self.u = torch.where(kept[:, None], points, self.u)
        self.gradient = torch.where(kept[:, None], known.gradient, self.gradient)
        self.hessian = torch.where(kept[:, None, None], known.hessian, self.hessian)
        self.objective = torch.where(kept, objective, self.objective)

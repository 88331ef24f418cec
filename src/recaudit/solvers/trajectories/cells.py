"""The targets' log-probabilities on one cell, for many targets at once: maximise b_i.y - g(y) over the hull of points.

Scores are `level + y @ columns` (see `models.rollouts.Basis`), so that y, which is affine in the ratings, is what is
moved, and g(y) is the log-sum-exp of all candidates. g does not depend on the target. Whatever point it is evaluated
at, it serves every target: the target's log-probability there is reached, and the tangent of g there bounds the
log-probability on the whole cell, because the latter is concave:

    b_i.y - g(y) <= b_i.y - g(p) - dg(p).(y - p) for all y, and the right side is largest at a vertex.

So points are evaluated for a few targets at a time, those that promise most, and their tangents rule out most of the
others, for the price of a product with the vertices. What is left goes on by damped Newton steps of its own.

A cell is a base times the interval of the last rating, and only half of its vertices have to be looked at: the other
end of the interval moves them all by the same amount.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from numba import njit
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.softmax.newton import ACCEPTED, TINY, next_damping, ridge
from recaudit.solvers.trajectories.descent import minimize_over_hull
from recaudit.solvers.trajectories.polytope import RatingCell
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem, without
from recaudit.solvers.trajectories.screening import group_items, rule_out

# Vertices at which a cell is looked at, beside its centre.
_LOOKED_AT = 8
# Targets that take a step before the others are looked at again; twice as many each time.
_FIRST = 16
# Tangents of one round that are shared by all targets: more rule out little more.
_SHARED = 32
_ROUNDS = 100
# Scores held at once: 3 MB, which the cache of a core or two keeps.
_BLOCK = 400_000
# Targets whose bounds are computed together: they stay in the fastest cache.
_ROWS = 512
_UNIT = float(np.finfo(np.float64).eps)


class Tangents(NamedTuple):
    """g and its derivatives at some points of a cell."""

    points: FloatArray  # (points, K)
    value: FloatArray  # (points,)
    gradient: FloatArray  # (points, K)
    hessian: FloatArray  # (points, K, K)

    def joined(self, other: Tangents) -> Tangents:
        """These points and more."""
        return Tangents(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


@final
class CellObjective:
    """The targets' log-probabilities on one cell; beta is 1, and the vertices' mean is at 0."""

    def __init__(self, cell: RatingCell, problem: RollOutProblem, beta: float) -> None:
        self.cell, self.problem = cell, problem
        basis, ratings = cell.state.basis(), cell.ratings.vertices
        weights = beta * (ratings @ basis.matrix.T + basis.constant)
        centre = weights.mean(axis=0)
        self._beta, self._centre, self._matrix, self._constant = beta, centre, basis.matrix, basis.constant
        allowed = without(problem.candidates, cell.state.items)
        # What all scores share moves no probability: it goes before it can round.
        moved = centre @ basis.columns
        leader = int(np.where(allowed, beta * basis.level + moved, -np.inf).argmax())
        level = beta * (basis.level - basis.level[leader])
        level[~allowed] = 0.0
        reach = beta * (np.abs(ratings) @ np.abs(basis.matrix.T) + np.abs(basis.constant)).max(axis=0)
        size = np.abs(level).max() + reach @ np.maximum(basis.columns.max(axis=1), -basis.columns.min(axis=1))
        # Sums of K + 1 products, thrice: of the weights, of the scores, of the tangents; and of all the items.
        self.rounding = _UNIT * ((6 * len(reach) + 32) * size + len(level) + 64)
        level += moved
        level[~allowed] = -np.inf
        self.columns, self.level = aligned(basis.columns), aligned(level)
        self._pairs: Tensor | None = None
        self.vertices = weights - centre
        half = len(ratings) // 2
        step = max(1, len(ratings) // _LOOKED_AT)
        self._first_points = np.concatenate([np.zeros((1, len(centre))), self.vertices[::step]])
        self.base, self.rise = self.vertices[:half], self.vertices[half] - self.vertices[0]

    def evaluate(self, points: FloatArray, *, hessian: bool) -> Tangents:
        """g, its gradient and, on request, its Hessian at `points` (points, K)."""
        K, n = self.columns.shape
        rows = max(1, _BLOCK // n)
        parts = [self._evaluate(points[at : at + rows], hessian) for at in range(0, len(points), rows)]
        value, gradient, raw = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
        curvature = np.empty((len(points) if hessian else 0, K, K))
        if hessian:
            first, second = np.triu_indices(K)
            curvature[:, first, second] = curvature[:, second, first] = raw
            curvature -= gradient[:, :, None] * gradient[:, None, :]
        return Tangents(points, value, gradient, curvature)

    def _evaluate(self, points: FloatArray, hessian: bool) -> tuple[Tensor, Tensor, Tensor]:
        scores = torch.addmm(self.level, aligned(np.ascontiguousarray(points)), self.columns)
        peak = scores.amax(dim=1, keepdim=True)
        # Denormal numbers are many times slower, and e^-600 of the largest adds nothing to a sum.
        weights = scores.sub_(peak).clamp_(min=-600.0).exp_()
        total = weights.sum(dim=1, keepdim=True)
        first_moments = weights @ self.columns.T / total
        second = total[:, :0]
        if hessian:
            if self._pairs is None:
                first, other = np.triu_indices(len(self.columns))
                self._pairs = self.columns[first] * self.columns[other]
            second = weights @ self._pairs.T / total
        return total[:, 0].log() + peak[:, 0], first_moments, second

    def look(self, rows: IntArray, best: BestRollOuts) -> FloatArray:
        """(rows,): no target of these rows exceeds this in the cell, from its centre; -inf for those rated on the way.
        What is reached at the centre and at some vertices is offered to `best`."""
        known = self.evaluate(self._first_points, hessian=False)
        targets = _CellTargets(self, rows)
        values = targets.values(known)
        place = values.argmax(axis=1)
        self._offer(best, rows, values[np.arange(len(rows)), place], known.points[place])
        return np.asarray(targets.bounds(Tangents(*(part[:1] for part in known))) + self.rounding)

    def solve(self, rows: IntArray, best: BestRollOuts, tol: float, *, screen: bool) -> FloatArray:
        """(rows,): these targets do not exceed this in the cell, within `tol` of the best value of each anywhere.
        With `screen` those for which the cell holds nothing are looked for first, see `screening`."""
        if not screen:
            return self._solve(rows, best, tol)
        centre = self.evaluate(self._first_points[:1], hessian=True)
        scores = self.level.numpy(), self.columns.numpy()
        groups = group_items(*scores, centre.gradient[0], centre.hessian[0], self.vertices)
        targets, needed = _CellTargets(self, rows), best.lower[rows] + tol - self.rounding
        bounds = rule_out(*groups, self.vertices, targets.level, targets.slopes, needed) + self.rounding
        left = np.flatnonzero(bounds > needed + self.rounding)
        if len(left):
            bounds[left] = np.minimum(bounds[left], self._solve(rows[left], best, tol))
        return np.asarray(bounds)

    def _solve(self, rows: IntArray, best: BestRollOuts, tol: float) -> FloatArray:
        targets, aim = _CellTargets(self, rows), max(tol / 2 - 3 * self.rounding, self.rounding)
        known = self.evaluate(self._first_points, hessian=True)
        values = targets.values(known)
        at = values.argmax(axis=1)
        value = values[np.arange(len(rows)), at]
        self._offer(best, rows, value, known.points[at])
        bound, damping, batch = targets.bounds(known), np.zeros(len(rows)), _FIRST
        for _ in range(_ROUNDS):
            needed = best.lower[rows] + tol - self.rounding
            open_ = np.flatnonzero((bound > needed) & (bound - value > aim))
            if not len(open_):
                break
            own = open_[:: max(1, len(open_) // batch)]
            at_own, slopes = at[own], targets.slopes[own]
            residual = known.gradient[at_own] - slopes
            curvature, start = known.hessian[at_own], known.points[at_own]
            parts = (torch.from_numpy(part) for part in (damping[own], curvature, known.gradient[at_own], residual))
            damped = ridge(*parts).numpy()
            tried = minimize_over_hull(curvature, residual, start, damped, self.vertices)
            found = self.evaluate(tried, hessian=True)
            reached = targets.level[own] + (slopes * tried).sum(axis=1) - found.value

            step = tried - start
            predicted = -(step * residual).sum(axis=1) - np.einsum("rk,rkl,rl->r", step, curvature, step) / 2
            ratio = (reached - value[own]) / np.maximum(predicted, TINY)
            kept = (ratio > ACCEPTED) | (np.abs(reached - value[own]) <= self.rounding)
            flags = (torch.from_numpy(part) for part in (damping[own], kept, ratio))
            damping[own] = next_damping(*flags).numpy()

            first = len(known.value)
            known = known.joined(found)
            better = kept & (reached >= value[own] - self.rounding)
            at[own[better]], value[own[better]] = first + np.flatnonzero(better), reached[better]
            bound[own] = np.minimum(bound[own], targets.own_bounds(own, found))
            # What was found for some serves all.
            shared = slice(None, None, max(1, len(own) // _SHARED))
            some = Tangents(*(part[shared] for part in found))
            bound[open_] = np.minimum(bound[open_], targets.bounds(some, open_))
            values = targets.values(some, open_)
            place = values.argmax(axis=1)
            most = values[np.arange(len(open_)), place]
            gained = most > value[open_] + self.rounding
            lucky = open_[gained]
            at[lucky], value[lucky] = first + np.arange(len(own))[shared][place[gained]], most[gained]
            damping[lucky] = 0.0
            batch *= 2
            self._offer(best, rows[open_], value[open_], known.points[at[open_]])
        return np.asarray(bound + self.rounding)

    def _offer(self, best: BestRollOuts, rows: IntArray, value: FloatArray, points: FloatArray) -> None:
        """Take over what is better than before, `value` (rows,) at `points` (rows, K)."""
        lower = np.minimum(value, 0.0) - self.rounding
        better = lower > best.lower[rows]
        if better.any():
            best.put(
                rows[better],
                np.minimum(value, 0.0)[better],
                lower[better],
                self.cell.state.items,
                self.ratings(points[better]),
            )

    def ratings(self, points: FloatArray) -> FloatArray:
        """(points, K): the ratings that lead there."""
        given = np.linalg.solve(self._matrix, (points + self._centre).T / self._beta - self._constant[:, None]).T
        return np.clip(given, self.problem.low, self.problem.high)


@final
class _CellTargets:
    """Some targets of a cell."""

    def __init__(self, cell: CellObjective, rows: IntArray) -> None:
        targets = torch.from_numpy(cell.problem.targets[rows])
        self.slopes = np.ascontiguousarray(cell.columns[:, targets].numpy().T)  # (rows, K)
        self.level = cell.level[targets].numpy()  # (rows,)
        self._base, self._rise = cell.base, cell.rise
        # (base vertices, rows): how much higher they score there than at the centre.
        self._along = (aligned(cell.base) @ aligned(self.slopes).T).numpy()

    def values(self, known: Tangents, some: IntArray | slice = slice(None)) -> FloatArray:
        """(rows, points): the log-probabilities of `some` rows at these points."""
        moved = aligned(self.slopes[some]) @ aligned(known.points).T
        return np.asarray(self.level[some, None] + moved.numpy() - known.value)

    def bounds(self, known: Tangents, some: IntArray | slice = slice(None)) -> FloatArray:
        """(rows,): what `some` rows do not exceed in the cell, by the best of these tangents."""
        level = known.value - (known.gradient * known.points).sum(axis=1)
        rise = self.slopes[some] @ self._rise
        ahead = known.gradient @ self._base.T
        along = np.ascontiguousarray(self._along[:, some])
        return self.level[some] + tangent_bounds(along, rise, ahead, known.gradient @ self._rise, level)

    def own_bounds(self, own: IntArray, known: Tangents) -> FloatArray:
        """(rows,): what the rows `own` do not exceed in the cell, each by the tangent of its own point."""
        residual = self.slopes[own] - known.gradient
        ahead = (residual @ self._base.T).max(axis=1) + np.maximum(residual @ self._rise, 0.0)
        return np.asarray(self.level[own] + ahead - known.value + (known.gradient * known.points).sum(axis=1))


@njit(nogil=True, cache=True)
def tangent_bounds(
    along: FloatArray, rise: FloatArray, ahead: FloatArray, risen: FloatArray, level: FloatArray
) -> FloatArray:
    """(rows,): the least over points of max over vertices of `along[v, row] - ahead[point, v]`, and the better end of
    the last rating, `rise` (rows,) and `risen` (points,) from one to the other, less the tangent's `level` (points,);
    `along` (vertices, rows), `ahead` (points, vertices)."""
    vertices, rows = along.shape
    least = np.full(rows, np.inf)
    most = np.empty(_ROWS)
    for start in range(0, rows, _ROWS):
        end = min(start + _ROWS, rows)
        for p in range(len(ahead)):
            for r in range(start, end):
                most[r - start] = along[0, r] - ahead[p, 0]
            for v in range(1, vertices):
                away = ahead[p, v]
                for r in range(start, end):
                    here = along[v, r] - away
                    most[r - start] = here if here > most[r - start] else most[r - start]
            for r in range(start, end):
                here = most[r - start] + max(rise[r] - risen[p], 0.0) - level[p]
                least[r] = here if here < least[r] else least[r]
    return least

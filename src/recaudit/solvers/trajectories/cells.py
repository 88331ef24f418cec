"""The targets' log-probabilities on one cell, for many targets at once: maximise b_i.y - g(y) over the hull of points.

Scores are `level + y @ columns` (see `models.rollouts.Basis`), so that y, which is affine in the ratings, is what is
moved, and g(y) is the log-sum-exp of all candidates. A stand-in for the candidates says for which targets the cell may
hold something, and where (see `screening`); these alone are solved (see `climbing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.models.rollouts import Basis
from recaudit.solvers.trajectories.climbing import climb, log_sum_exp, scores_at, second_derivatives
from recaudit.solvers.trajectories.polytope import RatingCell
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem, without
from recaudit.solvers.trajectories.screening import Groups, Survey, Tangent, group_items, log_sums

# Targets for which a stand-in is not worth its making.
_FEW = 1000
# Vertices at which it is compared with the items.
_COMPARED = 4
# Steps of a target with the stand-in, how close they come to its best, and steps with all items.
_STEPS, _CLOSE, _ALL_STEPS = 8, 1e-3, 100
_UNIT = float(np.finfo(np.float64).eps)


@final
class CellObjective:
    """The targets' log-probabilities on one cell; beta is 1, and the vertices' mean is at 0."""

    def __init__(self, cell: RatingCell, problem: RollOutProblem, beta: float) -> None:
        self.cell, self.problem = cell, problem
        self.groups: Groups | None = None
        basis, ratings = cell.state.basis(), cell.ratings.vertices
        weights = beta * (ratings @ basis.matrix.T + basis.constant)
        centre = weights.mean(axis=0)
        self._beta, self._centre, self._matrix, self._constant = beta, centre, basis.matrix, basis.constant
        self.vertices = weights - centre
        apart, widest = self._hold(basis)
        reach = beta * (np.abs(ratings) @ np.abs(basis.matrix.T) + np.abs(basis.constant)).max(axis=0)
        # Sums of K + 1 products, thrice: of the weights, of the scores, of the tangents; and of all the items.
        self.rounding = _UNIT * ((6 * len(reach) + 32) * (apart + reach @ widest) + len(self.level) + 64)

    def _hold(self, basis: Basis) -> tuple[float, FloatArray]:
        allowed = without(self.problem.candidates, self.cell.state.items)
        self.columns = basis.columns
        self.level, apart, widest = scores_at(basis.level, basis.columns, self._beta, self._centre, allowed)
        return apart, widest

    @contextmanager
    def at_hand(self) -> Iterator[CellObjective]:
        """The objective, whose long arrays are computed again where they were let go, and are let go at the end: a user
        has thousands of cells."""
        if not len(self.level):
            self._hold(self.cell.state.basis())
        yield self
        self.columns, self.level = self.columns[:, :0].copy(), self.level[:0].copy()

    def survey(self, rows: IntArray, place: int, survey: Survey) -> None:
        """What the cell, in its `place`, may hold for the targets of these rows goes into the survey."""
        K, vertices, targets = len(self.columns), self.vertices, self.problem.targets[rows]
        weights, gradient, hessian = np.empty(len(self.level)), np.empty(K), np.empty((K, K))
        value = log_sum_exp(self.level, self.columns, np.zeros(K), weights, gradient)
        second_derivatives(self.columns, weights, gradient, hessian)
        centre = Tangent(value, gradient, hessian)
        if len(rows) < _FEW:
            at_vertices = value + vertices @ gradient + ((vertices @ hessian) * vertices).sum(axis=1) / 2
        else:
            self.groups = group_items(weights, self.columns, centre, vertices)
            some = vertices[:: max(1, len(vertices) // _COMPARED)]
            below = log_sums(self.level, self.columns, some) - log_sums(*self.groups, some)
            at_vertices = log_sums(*self.groups, vertices) + below.max()
        own = self.level[targets], np.take(self.columns, targets, axis=1)
        survey.add(place, vertices, centre, at_vertices, self.rounding, *own)

    def solve(self, rows: IntArray, best: BestRollOuts, tol: float) -> FloatArray:
        """(rows,): these targets do not exceed this in the cell, within `tol` of the best value of each anywhere. Where
        there are many, those for which the cell holds nothing are ruled out by what stands in for the items, which
        tells the others where to begin. What is reached is offered to `best`."""
        K, targets = len(self.columns), self.problem.targets[rows]
        level, slopes = self.level[targets], np.ascontiguousarray(self.columns[:, targets].T)
        needed = best.lower[rows] + tol - self.rounding
        bounds, starts = np.full(len(rows), np.inf), np.empty((0, K))
        if self.groups is not None:
            bounds, _, starts = climb(
                *self.groups, self.vertices, level, slopes, needed, starts, max(_CLOSE, tol), _STEPS
            )
        left = np.flatnonzero(bounds > needed)
        if len(left):
            own = level[left], slopes[left], needed[left], starts[left] if len(starts) else starts
            aim = max(tol / 2 - 3 * self.rounding, self.rounding)
            exact, value, points = climb(self.level, self.columns, self.vertices, *own, aim, _ALL_STEPS)
            bounds[left] = np.minimum(bounds[left], exact)
            self._offer(best, rows[left], value, points)
        return np.asarray(bounds + self.rounding)

    def _offer(self, best: BestRollOuts, rows: IntArray, value: FloatArray, points: FloatArray) -> None:
        """Take over what is better than before, `value` (rows,) at `points` (rows, K)."""
        lower = np.minimum(value, 0.0) - self.rounding
        better = lower > best.lower[rows]
        if better.any():
            reached, ratings = np.minimum(value, 0.0)[better], self.ratings(points[better])
            best.put(rows[better], reached, lower[better], self.cell.state.items, ratings)

    def ratings(self, points: FloatArray) -> FloatArray:
        """(points, K): the ratings that lead there."""
        given = np.linalg.solve(self._matrix, (points + self._centre).T / self._beta - self._constant[:, None]).T
        return np.clip(given, self.problem.low, self.problem.high)

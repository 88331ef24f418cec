"""The targets' log-probabilities on one cell, for many targets at once: maximise b_i.y - g(y) over the hull of points.

Scores are `level + y @ columns` (see `models.rollouts.Basis`), so that y, which is affine in the ratings, is what is
moved, and g(y) is the log-sum-exp of all candidates. A stand-in for the candidates says for which targets the cell may
hold something, and where (see `screening`); these alone are solved (see `climbing`).
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.trajectories.climbing import climb, scores_at, tangent
from recaudit.solvers.trajectories.polytope import RatingCell
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem, without
from recaudit.solvers.trajectories.screening import Groups, Survey, group_items, log_sums

# Targets for which a stand-in is not worth its making.
_FEW = 1000
# Steps of a target with the stand-in, how close they come to its best, and steps with all items.
_STEPS, _CLOSE, _ALL_STEPS = 8, 1e-3, 100
_UNIT = float(np.finfo(np.float64).eps)


class StandIn(NamedTuple):
    """Groups of items, and (K, K) about what their second derivatives lack of those of the items."""

    groups: Groups
    lacks: FloatArray


@final
class CellObjective:
    """The targets' log-probabilities on one cell; beta is 1, and the vertices' mean is at 0."""

    def __init__(self, cell: RatingCell, problem: RollOutProblem, beta: float) -> None:
        self.cell, self.problem = cell, problem
        self._beta, basis, ratings = beta, cell.state.basis(), cell.ratings.vertices
        self._matrix, self._constant = basis.matrix, basis.constant
        weights = beta * (ratings @ basis.matrix.T + basis.constant)
        self._centre = weights.mean(axis=0)
        self.vertices = weights - self._centre
        self._allowed = without(problem.candidates, cell.state.items)
        # What all scores share moves no probability: one item's level goes from all before it can round.
        self._shared = float(basis.level[self._allowed.argmax()])
        self._rounding, self.stand_in = np.inf, None  # type: float, StandIn | None

    def survey(self, rows: IntArray, place: int, survey: Survey) -> None:
        """What the cell, in its `place`, may hold for the targets of these rows goes into the survey."""
        level, columns = self.scores()
        vertices, targets = self.vertices, self.problem.targets[rows]
        self._rounding = self._rounding_of(level, columns)
        centre, weights = tangent(level, columns)
        if len(rows) < _FEW:
            at_vertices = centre.value + vertices @ centre.gradient + _quadratic(centre.hessian, vertices)
        else:
            groups = group_items(weights, columns, centre, vertices)
            # They agree with the items in value and slope at the centre.
            self.stand_in = StandIn(groups, centre.hessian - tangent(*groups)[0].hessian)
            at_vertices = log_sums(*groups, vertices) + _quadratic(self.stand_in.lacks, vertices)
        own = level[targets], np.take(columns, targets, axis=1)
        survey.add(place, vertices, centre, at_vertices, self._rounding, *own)

    def screen(self, rows: IntArray, place: int, survey: Survey) -> None:
        """What the stand-in says of targets that may do better here than it seemed anywhere goes into the survey."""
        left = survey.may_be_best(place)
        if self.stand_in is not None and len(left):
            bounds, points = self._climb_groups(self.stand_in, *self._of(rows[left]), survey.most[left], _CLOSE)
            survey.narrow(place, left, bounds + self._rounding, _quadratic(self.stand_in.lacks, points))

    def solve(self, rows: IntArray, best: BestRollOuts, tol: float) -> FloatArray:
        """(rows,): these targets do not exceed this in the cell, within `tol` of the best value of each anywhere. Where
        there are many, those for which the cell holds nothing are ruled out by what stands in for the items, which
        tells the others where to begin. What is reached is offered to `best`."""
        own_level, slopes = self._of(rows)
        needed = best.lower[rows] + tol - self._rounding
        bounds, starts = np.full(len(rows), np.inf), np.empty((0, slopes.shape[1]))
        if self.stand_in is not None:
            bounds, starts = self._climb_groups(self.stand_in, own_level, slopes, needed, max(_CLOSE, tol))
        left = np.flatnonzero(bounds > needed)
        if len(left):
            own = own_level[left], slopes[left], needed[left], starts[left] if len(starts) else starts
            aim = max(tol / 2 - 3 * self._rounding, self._rounding)
            exact, value, points = climb(*self.scores(), self.vertices, *own, aim, _ALL_STEPS)
            bounds[left] = np.minimum(bounds[left], exact)
            self._offer(best, rows[left], value, points)
        return np.asarray(bounds + self._rounding)

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """(items,) and (K, items): level and columns of all items, made anew each time: a user has thousands of cells.
        -inf where an item may not be recommended."""
        basis = self.cell.state.basis()
        columns = basis.columns
        return scores_at(self._beta * (basis.level - self._shared), columns, self._centre, self._allowed), columns

    def _of(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """(rows,) and (rows, K): level and slopes of the targets of these rows, which may be recommended."""
        level, columns = self.cell.state.basis().of(self.problem.targets[rows])
        return self._beta * (level - self._shared) + self._centre @ columns, columns.T.copy()

    def _rounding_of(self, level: FloatArray, columns: FloatArray) -> float:
        """How far rounding moves a log-probability at most: sums of K + 1 products, thrice, of the weights, of the
        scores, of the tangents; and of all the items."""
        widest, ratings = np.abs(columns).max(axis=1), np.abs(self.cell.ratings.vertices)
        reach = self._beta * (ratings @ np.abs(self._matrix.T) + np.abs(self._constant)).max(axis=0) @ widest
        apart = np.abs(level[self._allowed]).max() + np.abs(self._centre) @ widest
        return float(_UNIT * ((6 * len(widest) + 32) * (apart + reach) + len(level) + 64))

    def _climb_groups(
        self, stand_in: StandIn, level: FloatArray, slopes: FloatArray, needed: FloatArray, close: float
    ) -> tuple[FloatArray, FloatArray]:
        """(rows,) and (rows, K): `climb` with what stands in for the items."""
        nowhere = np.empty((0, slopes.shape[1]))
        bounds, _, points = climb(*stand_in.groups, self.vertices, level, slopes, needed, nowhere, close, _STEPS)
        return bounds, points

    def _offer(self, best: BestRollOuts, rows: IntArray, value: FloatArray, points: FloatArray) -> None:
        """Take over what is better than before, `value` (rows,) at `points` (rows, K)."""
        lower = np.minimum(value, 0.0) - self._rounding
        better = lower > best.lower[rows]
        if better.any():
            reached, ratings = np.minimum(value, 0.0)[better], self.ratings(points[better])
            best.put(rows[better], reached, lower[better], self.cell.state.items, ratings)

    def ratings(self, points: FloatArray) -> FloatArray:
        """(points, K): the ratings that lead there."""
        given = np.linalg.solve(self._matrix, (points + self._centre).T / self._beta - self._constant[:, None]).T
        return np.clip(given, self.problem.low, self.problem.high)


def _quadratic(matrix: FloatArray, points: FloatArray) -> FloatArray:
    """(points,): y^T M y / 2."""
    return np.asarray(((points @ matrix) * points).sum(axis=1) / 2)

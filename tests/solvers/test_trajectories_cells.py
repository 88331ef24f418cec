"""One cell: what is shared between targets is never wrong for one of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from recaudit.arrays import FloatArray
from recaudit.models.rollouts import RollOut
from recaudit.solvers.trajectories.cells import CellObjective
from recaudit.solvers.trajectories.polytope import SINGLE_POINT, Polytope, RatingCell, enumerate_cells, with_interval
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem
from recaudit.solvers.trajectories.screening import group_items, rule_out

BETA = 1.5


class Straight(RollOut):
    """`s = base + sum_t a_t D[item_t]`."""

    def __init__(self, base: FloatArray, directions: FloatArray, items: tuple[int, ...] = ()) -> None:
        self.base, self.directions, self.items = base, directions, items

    def then(self, item: int) -> Straight:
        return Straight(self.base, self.directions, (*self.items, item))

    def affine(self) -> tuple[FloatArray, FloatArray]:
        return self.directions[list(self.items)].T.reshape(len(self.base), len(self.items)), self.base


def problem(seed: int, items: int = 400, steps: int = 3) -> RollOutProblem:
    draw = np.random.default_rng(seed)
    state = Straight(draw.normal(size=items), 0.2 * draw.normal(size=(items, items)))
    every = np.ones(items, dtype=bool)
    return RollOutProblem(state, every, every, np.arange(0, items, 3), steps, 1.0, 5.0)


def whole_box(asked: RollOutProblem) -> RatingCell:
    """The items 0, 1, 2, ... shown whatever is rated."""
    ratings: Polytope | None = SINGLE_POINT
    state = asked.start
    for item in range(asked.steps):
        assert ratings is not None
        state, ratings = state.then(item), with_interval(ratings, asked.low, asked.high)
    assert ratings is not None
    return RatingCell(state, ratings)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_nowhere_above_the_items(seed: int) -> None:
    asked = problem(seed)
    cell = CellObjective(whole_box(asked), asked, BETA)
    level, columns = cell.level.numpy(), cell.columns.numpy()
    known = cell.evaluate(np.zeros((1, 3)), hessian=True)
    groups = group_items(level, columns, known.gradient[0], known.hessian[0], cell.vertices)
    assert 20 < len(groups.level) <= 512
    draw = np.random.default_rng(seed)
    points = draw.dirichlet(np.full(len(cell.vertices), 0.3), 200) @ cell.vertices
    exact = logsumexp(level + points @ columns, axis=1)
    stand_in = logsumexp(groups.level + points @ groups.slopes.T, axis=1)
    assert (stand_in <= exact + 1e-12).all()
    assert np.median(exact - stand_in) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_what_is_ruled_out_is_not_there(seed: int) -> None:
    asked = problem(seed)
    cell = CellObjective(whole_box(asked), asked, BETA)
    rows, best = np.arange(3, len(asked.targets)), BestRollOuts(asked)
    exact = cell.solve(rows, best, 1e-8, screen=False)
    targets = asked.targets[rows]
    level, columns = cell.level.numpy(), cell.columns.numpy()
    known = cell.evaluate(np.zeros((1, 3)), hessian=True)
    groups = group_items(level, columns, known.gradient[0], known.hessian[0], cell.vertices)
    own = level[targets], np.ascontiguousarray(columns[:, targets].T)
    for slack in (-1.0, 0.0, 0.3):
        needed = best.lower[rows] + slack
        bounds = rule_out(*groups, cell.vertices, *own, needed)
        assert (bounds >= exact - 1e-6).all()
        if slack > 0:
            assert (bounds <= needed).mean() > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_values_are_reached_and_bounds_hold(seed: int) -> None:
    """Beside the softmax itself at many points of the cell."""
    asked = problem(seed, items=60)
    cells, complete = enumerate_cells(asked, 10_000)
    assert complete
    draw = np.random.default_rng(seed)
    for cell in cells[:10]:
        objective, best = CellObjective(cell, asked, BETA), BestRollOuts(asked)
        rows = np.flatnonzero(~np.isin(asked.targets, cell.state.items))
        looked = objective.look(rows, best)
        upper = objective.solve(rows, best, 1e-6, screen=False)
        slope, intercept = cell.state.affine()
        left = np.setdiff1d(np.arange(60), cell.state.items)
        tried = draw.dirichlet(np.full(len(cell.ratings.vertices), 0.3), 300) @ cell.ratings.vertices
        logits = BETA * (tried @ slope.T + intercept)
        logs = (logits - logsumexp(logits[:, left], axis=1, keepdims=True))[:, asked.targets[rows]]
        assert (logs.max(axis=0) <= np.minimum(upper, looked) + 1e-9).all()
        for row in rows:
            logits = BETA * (slope @ best.ratings[row] + intercept)
            reached = logits[asked.targets[row]] - logsumexp(logits[left])
            assert reached == pytest.approx(best.value[row], abs=1e-9)
        assert (upper - best.value[rows] <= 1e-6).all()

"""One cell: what is shared between targets is never wrong for one of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from recaudit.arrays import FloatArray, IntArray
from recaudit.models.rollouts import RollOut
from recaudit.solvers.trajectories import cells as cells_module
from recaudit.solvers.trajectories.cells import CellObjective
from recaudit.solvers.trajectories.climbing import Tangent, climb, log_sum_exp, second_derivatives
from recaudit.solvers.trajectories.polytope import SINGLE_POINT, Polytope, RatingCell, enumerate_cells, with_interval
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem
from recaudit.solvers.trajectories.screening import Survey

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


def surveyed(asked: RollOutProblem, cell: RatingCell, rows: IntArray, few: int = 0) -> tuple[CellObjective, Survey]:
    """One cell, looked at for these rows; up to `few` of them without a stand-in for the items."""
    objective, survey = CellObjective(cell, asked, BETA), Survey(1, len(rows))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cells_module, "_FEW", few)
        objective.survey(rows, 0, survey)
    return objective, survey


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_nowhere_above_the_items(seed: int) -> None:
    asked = problem(seed)
    cell, _ = surveyed(asked, whole_box(asked), np.arange(4))
    assert cell.stand_in is not None
    (level, columns), groups = cell.scores(), cell.stand_in.groups
    assert 20 < len(groups.level) < len(level)
    draw = np.random.default_rng(seed)
    points = draw.dirichlet(np.full(len(cell.vertices), 0.3), 200) @ cell.vertices
    exact = logsumexp(level + points @ columns, axis=1)
    stand_in = logsumexp(groups.level + points @ groups.columns, axis=1)
    assert (stand_in <= exact + 1e-12).all()
    assert np.median(exact - stand_in) < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_what_is_ruled_out_is_not_there(seed: int) -> None:
    asked = problem(seed)
    rows, best = np.arange(3, len(asked.targets)), BestRollOuts(asked)
    cell, _ = surveyed(asked, whole_box(asked), rows)
    exact, (level, columns) = cell.solve(rows, best, 1e-8), cell.scores()
    assert cell.stand_in is not None
    groups, targets = cell.stand_in.groups, asked.targets[rows]
    own = level[targets], np.ascontiguousarray(columns[:, targets].T)
    for slack in (-1.0, 0.0, 0.3):
        needed = best.lower[rows] + slack
        bounds, promised, points = climb(*groups, cell.vertices, *own, needed, np.empty((0, 3)), 1e-3, 8)
        assert (bounds >= exact - 1e-6).all()
        if slack > 0:
            assert (bounds <= needed).mean() > 0.8
        if slack < 0:
            # Nothing is ruled out: the stand-in's best points are found.
            reached = own[0] + (own[1] * points).sum(axis=1)
            reached -= logsumexp(groups.level + points @ groups.columns, axis=1)
            np.testing.assert_allclose(promised, reached, atol=1e-12)
            assert (bounds - promised <= 1e-3).all()


@pytest.mark.parametrize("few", [0, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_a_survey_is_the_tangent_at_the_centre_and_the_best_vertex(seed: int, few: int) -> None:
    """What is reached is judged by the stand-in, or where targets are few by the second derivatives."""
    asked = problem(seed, items=1300)
    cell, survey = surveyed(asked, whole_box(asked), np.arange(len(asked.targets)), few)
    bounds, (level, columns) = survey.bounds[0], cell.scores()
    own = level[asked.targets] + cell.vertices @ columns[:, asked.targets]  # (vertices, rows)
    likely = np.exp(level - logsumexp(level))
    tangent = logsumexp(level) + cell.vertices @ (columns @ likely)
    exact = (own - tangent[:, None]).max(axis=0)
    left = np.isfinite(bounds)
    assert (bounds >= exact).all()
    np.testing.assert_allclose(bounds[left], exact[left], atol=2e-4)
    assert np.isneginf(bounds[np.isin(asked.targets, cell.cell.state.items)]).all()
    around = np.cov(columns, aweights=likely, bias=True)
    assert (cell.stand_in is None) == (few > 0)
    if cell.stand_in is None:
        judged = tangent + np.einsum("vk,kl,vl->v", cell.vertices, around, cell.vertices) / 2
    else:
        groups, lacks = cell.stand_in
        share = np.exp(groups.level - logsumexp(groups.level))
        np.testing.assert_allclose(lacks, around - np.cov(groups.columns, aweights=share, bias=True), atol=1e-9)
        judged = logsumexp(groups.level + cell.vertices @ groups.columns, axis=1)
        judged += np.einsum("vk,kl,vl->v", cell.vertices, lacks, cell.vertices) / 2
        assert np.abs(judged - logsumexp(level + cell.vertices @ columns, axis=1)).max() < 0.05
    np.testing.assert_allclose((own - judged[:, None]).max(axis=0)[left], survey.most[left], atol=1e-4)
    assert survey.typical[0] == pytest.approx(survey.most[left].mean())
    assert (survey.home == 0).all()


@pytest.mark.parametrize("K", range(1, 9))
def test_a_survey_in_single_precision_is_a_bound(K: int) -> None:
    """Of any number of ratings, with numbers so large that single precision is off by more than a tolerance."""
    draw = np.random.default_rng(K)
    base, rise = draw.normal(size=(9, K)), draw.normal(size=K)
    vertices = np.concatenate([base, base + rise])
    level, columns = 100 * draw.normal(size=700), 30 * draw.normal(size=(K, 700))
    level[5] = -np.inf
    centre, survey = Tangent(3.0, 50 * draw.normal(size=K), np.eye(K)), Survey(1, 700)
    survey.add(0, vertices, centre, np.zeros(len(vertices)), 0.0, level, columns)
    exact = (level + vertices @ columns - (centre.value + vertices @ centre.gradient)[:, None]).max(axis=0)
    assert (survey.bounds[0] >= exact).all()
    np.testing.assert_allclose(survey.bounds[0], exact, atol=0.05)
    np.testing.assert_allclose(survey.most, (level + vertices @ columns).max(axis=0), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_screened_cell_is_bounded_more_closely(seed: int) -> None:
    """Bounds hold and come down; where a target does best is judged better than by the corners."""
    asked = problem(seed, items=1300)
    rows, best = np.arange(3, len(asked.targets)), BestRollOuts(asked)
    cell, survey = surveyed(asked, whole_box(asked), rows)
    looked, seemed = survey.bounds[0].copy(), survey.most.copy()
    cell.screen(rows, 0, survey)
    cell.solve(rows, best, 1e-8)
    assert (survey.bounds[0] >= best.value[rows]).all()
    assert (survey.bounds[0] <= looked).all()
    assert (survey.bounds[0] - best.value[rows]).mean() < (looked - best.value[rows]).mean() / 5
    assert np.abs(survey.most - best.value[rows]).mean() <= np.abs(seemed - best.value[rows]).mean()


@pytest.mark.parametrize("few", [0, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_reached_and_bounds_hold(seed: int, few: int) -> None:
    """Beside the softmax itself at many points of the cell."""
    asked = problem(seed, items=60)
    cells, complete = enumerate_cells(asked, 10_000)
    assert complete
    draw = np.random.default_rng(seed)
    for cell in cells[:10]:
        rows, best = np.flatnonzero(~np.isin(asked.targets, cell.state.items)), BestRollOuts(asked)
        objective, survey = surveyed(asked, cell, rows, few)
        looked, upper = survey.bounds[0], objective.solve(rows, best, 1e-6)
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


@pytest.mark.parametrize("items", [1, 7, 256, 1000])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_the_log_sum_exp_and_its_derivatives(items: int, K: int) -> None:
    """Beside its definition, with scores that are far apart and some that are none."""
    draw = np.random.default_rng(items + K)
    level, columns, point = 300 * draw.normal(size=items), draw.normal(size=(K, items)), draw.normal(size=K)
    level[1:][draw.random(items - 1) < 0.2] = -np.inf
    weights, gradient, hessian = np.empty(items), np.empty(K), np.empty((K, K))
    value = log_sum_exp(level, columns, point, weights, gradient)
    second_derivatives(columns, weights, gradient, hessian)
    scores = level + point @ columns
    likely = np.exp(scores - logsumexp(scores))
    assert value == pytest.approx(logsumexp(scores), rel=1e-13)
    np.testing.assert_allclose(weights / weights.sum(), likely, atol=1e-14)
    np.testing.assert_allclose(gradient, columns @ likely, atol=1e-13)
    np.testing.assert_allclose(hessian, (columns * likely) @ columns.T - np.outer(gradient, gradient), atol=1e-12)


def test_a_climb_goes_far_from_where_it_starts() -> None:
    """Scores so large that full Newton steps overshoot: still solved, from any corner."""
    asked = problem(5, items=200)
    cell = CellObjective(whole_box(asked), asked, 40.0)
    targets = asked.targets[3:]
    level, columns = cell.scores()
    own = level[targets], np.ascontiguousarray(columns[:, targets].T)
    needed, answers = np.full(len(targets), -np.inf), []
    for corner in (0, 3, 7):
        starts = np.repeat(cell.vertices[corner : corner + 1], len(targets), axis=0)
        bounds, values, _ = climb(level, columns, cell.vertices, *own, needed, starts, 1e-7, 100)
        assert (bounds - values <= 1e-7).all()
        answers.append(values)
    np.testing.assert_allclose(answers[0], answers[1], atol=2e-7)
    np.testing.assert_allclose(answers[0], answers[2], atol=2e-7)

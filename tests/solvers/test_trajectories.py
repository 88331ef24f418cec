"""Exact roll-outs beside trying everything, step by step."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp

from recaudit.data import Interactions
from recaudit.errors import InputError
from recaudit.models import EASE, WALS, AffineResponse, AlsSolve, ItemKNN, SgdStep, from_factors
from recaudit.models.base import FittedModel
from recaudit.policies import EpsilonGreedy, Policy, Softmax, Top1
from recaudit.solvers.trajectories import (
    AscentSettings,
    RollOutProblem,
    TrajectorySolution,
    maximize_after_stars,
    maximize_after_top1,
    reach_top_after_top1,
)
from recaudit.solvers.trajectories.ascent import ascend_after_top1
from recaudit.solvers.trajectories.polytope import SINGLE_POINT, RatingCell, enumerate_cells
from recaudit.solvers.trajectories.problem import without
from recaudit.solvers.trajectories.relaxation import bound_beyond

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
LOW, HIGH, USER = 1.0, 5.0, 1
STARS = np.arange(1.0, 6.0)


def log(rng: int = 3) -> Interactions:
    """Ten users, nine items; each user has rated about a third of them."""
    draw = np.random.default_rng(rng)
    rows = [(u, i, float(draw.integers(1, 6))) for u in range(10) for i in range(9) if (u + i) % 3 == 0 or u >= 7]
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row"), scale=(1, 5))


def factor_model(update: SgdStep | AlsSolve, size: float = 1.0, rng: int = 0) -> FittedModel:
    data, draw = log(), np.random.default_rng(rng)
    P, Q = (size * draw.normal(size=(n, 3)) for n in (data.n_users, data.n_items))
    return from_factors(
        P, Q, data, item_bias=0.1 * draw.normal(size=data.n_items), mean=3.0, update=update, predicts_ratings=True
    )


MODELS: dict[str, FittedModel] = {
    "sgd": factor_model(SgdStep(step=0.4), 0.7, rng=2),
    "als": factor_model(AlsSolve(regularization=2.0), rng=4),
    "als per rating": factor_model(AlsSolve(regularization=0.5, per_rating=True), rng=2),
    "wals": WALS(factors=3, unobserved_weight=0.05, regularization=0.3, weighting="rank-one").fit(log()),
    "knn": ItemKNN(neighbours=4, shrinkage=0.0, minimum_similarity=-1.0).fit(log()),
    "ease": EASE(regularization=20.0).fit(log()),
}


class Naive:
    """The readable twin: one user, one list of ratings at a time, through the model itself."""

    def __init__(self, model: FittedModel, user: int = USER) -> None:
        self.model, self.user = model, user
        self.shown, self.ties = ~model.data.seen(np.array([user]))[0], model.data.tie_keys(np.array([user]))
        self._known: dict[tuple[int, ...], tuple[FloatArray, FloatArray]] = {}

    @property
    def targets(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.flatnonzero(self.shown)

    def scores(self, items: tuple[int, ...], ratings: FloatArray) -> FloatArray:
        if items not in self._known:
            if items:
                response = self.model.respond_in_turn(self.user, np.array(items))
                assert isinstance(response, AffineResponse)
                self._known[items] = response.slope, response.intercept
            else:
                now = self.model.scores(np.array([self.user]))[0]
                self._known[items] = np.zeros((len(now), 0)), now
        slope, intercept = self._known[items]
        return slope @ ratings + intercept

    def follow(self, ratings: FloatArray) -> tuple[tuple[int, ...], FloatArray]:
        """What is shown to a user who gives these ratings, and the scores of what is left; -inf for the rest."""
        items: tuple[int, ...] = ()
        for t in range(len(ratings) + 1):
            left = np.where(self.shown, self.scores(items, ratings[:t]), -np.inf)
            left[list(items)] = -np.inf
            if t < len(ratings):
                items = (*items, int(left.argmax()))
        return items, left

    def best(self, grid: FloatArray, beta: float) -> FloatArray:
        """(items,): the largest log-probability of each item over the rows of `grid`; -inf for those always rated."""
        best = np.full(len(self.shown), -np.inf)
        for ratings in grid:
            logits = beta * self.follow(ratings)[1]
            best = np.maximum(best, logits - logsumexp(logits))
        return best

    def probability(self, items: tuple[int, ...], ratings: FloatArray, target: int, beta: float) -> tuple[float, float]:
        """Log-probability of the target after rating `items`, and the least margin by which one of them was on top."""
        margin = np.inf
        for t in range(len(items) + 1):
            left = np.where(self.shown, self.scores(items[:t], ratings[:t]), -np.inf)
            left[list(items[:t])] = -np.inf
            if t < len(items):
                margin = min(margin, left[items[t]] - left.max())
        return beta * left[target] - logsumexp(beta * left), margin

    def problem(self, steps: int, low: float = LOW, high: float = HIGH) -> RollOutProblem:
        start = self.model.rollout(self.user)
        return RollOutProblem(start, self.shown, self.shown, self.targets, steps, low, high, self.ties)

    def exact(self, beta: float, steps: int, sequences: int = 2000) -> TrajectorySolution:
        return maximize_after_top1(self.problem(steps), beta, sequences=sequences)


def grid(points: int, steps: int) -> FloatArray:
    return np.array(list(itertools.product(np.linspace(LOW, HIGH, points), repeat=steps)))


@pytest.mark.parametrize(("steps", "points", "missed"), [(1, 401, 1e-3), (2, 61, 0.02), (3, 17, 0.2)])
@pytest.mark.parametrize("name", MODELS)
def test_the_exact_value_is_the_best_of_a_fine_grid(name: str, steps: int, points: int, missed: float) -> None:
    naive, beta = Naive(MODELS[name]), 2.0
    found = naive.exact(beta, steps)
    tried = naive.best(grid(points, steps), beta)[naive.targets]

    reached = np.isfinite(tried)
    assert (found.status[reached] == "solved").all()
    assert (tried[reached] <= found.upper[reached] + 1e-9).all()
    # A grid misses what lies between its points, and cells smaller than its meshes.
    assert np.median(found.value[reached] - tried[reached]) <= missed
    assert (found.upper[reached] - found.value[reached] <= 1e-6 + 1e-12).all()
    assert set(found.status[~reached]) <= {"not_applicable", "solved"}


@pytest.mark.parametrize("beta", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("name", MODELS)
def test_the_ratings_lead_through_their_items_to_the_value(name: str, beta: float) -> None:
    naive = Naive(MODELS[name])
    found = naive.exact(beta, 3)
    rows = np.flatnonzero(found.status == "solved")
    assert len(rows) >= 3
    for row in rows:
        items, ratings = tuple(found.items[row].tolist()), found.actions[row]
        value, margin = naive.probability(items, ratings, int(naive.targets[row]), beta)
        assert margin >= -1e-9
        assert value == pytest.approx(found.value[row], abs=1e-9)
        assert (ratings >= LOW).all()
        assert (ratings <= HIGH).all()


def test_three_items_by_hand() -> None:
    """Scores 3 + v q with q = 1, 1/2, -1 for a, b, c; a rating o of q moves v by (o - 3 - v q) q / 2.

    Ada (v = 1) is shown a first. One step: v = o / 2 - 1, from -1/2 to 3/2. P(b against c) is the sigmoid of 3 v / 2,
    so that at best b has it at 9/4 (o = 5) and c at 3/4 (o = 1). Two steps: after o < 2 v is negative and c is shown
    next, after o > 2 b is; the one item left is then certain. Bob (v = -1) is shown c first; likewise.
    """
    rows = pl.DataFrame({"user": ["ada", "bob"], "item": ["d", "d"], "rating": [3.0, 3.0]})
    more = pl.DataFrame({"user": ["eve"] * 3, "item": ["a", "b", "c"], "rating": [3.0] * 3})
    data = Interactions.from_frame(pl.concat([rows, more]), scale=(1, 5))
    by_name = {"a": 1.0, "b": 0.5, "c": -1.0, "d": 0.0}
    Q = np.array([[by_name[item]] for item in data.item_ids])
    P = np.array([[{"ada": 1.0, "bob": -1.0, "eve": 0.0}[user]] for user in data.user_ids])
    model = from_factors(P, Q, data, mean=3.0, update=SgdStep(step=0.5), predicts_ratings=True)
    a, b, c = data.items_at(["a", "b", "c"]).tolist()
    ada, bob = (Naive(model, int(user)) for user in data.users_at(["ada", "bob"]))

    def sigmoid(x: float) -> float:
        return float(1 / (1 + np.exp(-x)))

    one = ada.exact(1.0, 1)
    assert dict(zip(ada.targets.tolist(), one.status.tolist(), strict=True)) == {
        a: "not_applicable",
        b: "solved",
        c: "solved",
    }
    np.testing.assert_allclose(np.exp(one.value[1:]), [sigmoid(9 / 4), sigmoid(3 / 4)], atol=1e-6)
    np.testing.assert_allclose(one.actions[1:, 0], [5.0, 1.0], atol=1e-6)

    two = ada.exact(1.0, 2)
    assert set(two.evaluations) == {2}
    np.testing.assert_allclose(np.exp(two.value), [np.nan, 1.0, 1.0])
    assert two.items[1:].tolist() == [[a, c], [a, b]]
    assert two.actions[1, 0] <= 2 <= two.actions[2, 0]

    two = bob.exact(1.0, 2)
    np.testing.assert_allclose(np.exp(two.value), [1.0, 1.0, np.nan])
    assert two.items[:2].tolist() == [[c, b], [c, a]]


def gradient(naive: Naive, epochs: int) -> TrajectorySolution:
    return ascend_after_top1(naive.problem(3), Softmax(beta=2.0), AscentSettings(epochs=epochs))


@pytest.mark.parametrize("name", MODELS)
def test_the_papers_gradient_never_finds_more(name: str) -> None:
    naive = Naive(MODELS[name])
    exact, random, ascent = naive.exact(2.0, 3), gradient(naive, 1), gradient(naive, 25)
    rows = ascent.status == "bounded"
    assert (ascent.value[rows] <= exact.value[rows] + 1e-6).all()
    assert (ascent.value[rows] > random.value[rows] + 1e-3).any()
    for row in np.flatnonzero(rows):
        assert naive.follow(ascent.actions[row])[0] == tuple(ascent.items[row].tolist())


@pytest.mark.parametrize("policy", [Softmax(beta=3.0), EpsilonGreedy(epsilon=0.2), Top1()])
@pytest.mark.parametrize("name", MODELS)
def test_stars_are_all_tried(name: str, policy: Policy) -> None:
    naive = Naive(MODELS[name])
    found = maximize_after_stars(naive.problem(3), policy, STARS)
    best = np.full(len(naive.shown), np.nan)
    for ratings in itertools.product(STARS, repeat=3):
        left = naive.follow(np.array(ratings))[1]
        allowed = np.isfinite(left)
        logs = policy.log_probabilities(left[None], allowed[None], naive.ties)[0]
        best = np.fmax(best, np.where(np.isfinite(left), logs, np.nan))
    np.testing.assert_allclose(found.value, best[naive.targets], atol=1e-9)
    np.testing.assert_array_equal(found.status == "solved", ~np.isnan(best[naive.targets]))
    np.testing.assert_array_equal(found.status == "not_applicable", np.isnan(best[naive.targets]))


def test_too_many_stars_are_bounded() -> None:
    naive = Naive(MODELS["sgd"])
    every = maximize_after_stars(naive.problem(3), Softmax(beta=2.0), STARS)
    some = maximize_after_stars(naive.problem(3), Softmax(beta=2.0), STARS, sequences=40)
    rows = some.status == "bounded"
    assert rows.any()
    assert "solved" not in some.status
    assert (some.value[rows] <= every.value[rows] + 1e-12).all()
    assert (some.upper == 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_which_items_can_be_made_the_top_one(name: str) -> None:
    naive = Naive(MODELS[name])
    found = reach_top_after_top1(naive.problem(2), 0.1)
    left = int(naive.shown.sum()) - 2
    reached = {int(naive.follow(ratings)[1].argmax()) for ratings in grid(61, 2)}
    often = naive.targets[np.isclose(found.value, np.log(0.9))]
    assert reached <= set(often.tolist())
    for row in np.flatnonzero(np.isin(naive.targets, often)):
        assert naive.follow(found.actions[row])[1].argmax() == naive.targets[row]
    seldom = found.status == "solved"
    seldom[np.isin(naive.targets, often)] = False
    np.testing.assert_allclose(found.value[seldom], np.log(0.1 / (left - 1)))


@pytest.mark.parametrize("sequences", [1, 2, 4, 12])
@pytest.mark.parametrize("name", MODELS)
def test_a_budget_leaves_valid_bounds_on_both_sides(name: str, sequences: int) -> None:
    naive = Naive(MODELS[name])
    exact, some = naive.exact(2.0, 3), naive.exact(2.0, 3, sequences=sequences)
    rows = ~np.isnan(exact.value)
    assert (some.lower[rows] <= exact.upper[rows]).all()
    assert (exact.lower[rows] <= some.upper[rows]).all()
    assert (some.lower <= some.upper).all()
    assert set(some.status) <= {"solved", "bounded", "failed", "not_applicable"}
    for row in np.flatnonzero(~np.isnan(some.value)):
        items = tuple(some.items[row].tolist())
        value, margin = naive.probability(items, some.actions[row], int(naive.targets[row]), 2.0)
        assert value == pytest.approx(some.value[row], abs=1e-9)
        assert margin >= -1e-9


@pytest.mark.parametrize("update", [SgdStep(step=0.01), AlsSolve(regularization=60.0)])
def test_users_who_move_little_are_bounded_closely(update: SgdStep | AlsSolve) -> None:
    naive = Naive(factor_model(update))
    exact = naive.exact(1.0, 1)
    bounds = bound_beyond(RatingCell(naive.problem(1).start, SINGLE_POINT), naive.problem(1), 1.0)
    rows = ~np.isnan(exact.value)
    assert (exact.lower[rows] <= bounds[rows]).all()
    assert np.median(bounds[rows]) < -0.5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("per_rating", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_continuation_exceeds_its_bound(steps: int, per_rating: bool, seed: int) -> None:
    """Whatever is rated, also what would never be shown; under a soft penalty and under a hard one."""
    draw = np.random.default_rng(seed)
    models = [
        factor_model(AlsSolve(regularization=5.0**seed, per_rating=per_rating), rng=seed),
        factor_model(SgdStep(step=0.05, regularization=seed / 10), rng=seed),
        WALS(factors=3, unobserved_weight=0.1, prior=1.0, regularization=5.0**seed).fit(log(), rng=seed),
    ]
    for model in models:
        problem = Naive(model).problem(steps)
        for prefix in range(steps):
            for cell in enumerate_cells(replace(problem, steps=prefix), 10_000)[0]:
                bounds = bound_beyond(cell, problem, 1.5)
                for _ in range(40):
                    free = np.setdiff1d(np.flatnonzero(problem.shown), cell.state.items)
                    state = cell.state
                    for item in draw.choice(free, steps - prefix, replace=False).tolist():
                        state = state.then(item)
                    given = draw.dirichlet(np.ones(len(cell.ratings.vertices))) @ cell.ratings.vertices
                    ratings = np.append(given, draw.choice([LOW, HIGH], steps - prefix))
                    slope, intercept = state.affine()
                    left = without(problem.candidates, state.items)
                    logs = 1.5 * (slope @ ratings + intercept)
                    logs = np.where(left, logs - logsumexp(logs[left]), -np.inf)[problem.targets]
                    assert (logs <= bounds + 1e-12).all()


def test_a_scale_of_one_rating_is_refused() -> None:
    naive = Naive(MODELS["sgd"])
    with pytest.raises(InputError, match="low < high"):
        maximize_after_top1(naive.problem(2, 3.0, 3.0), 1.0)

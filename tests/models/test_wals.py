from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import get_num_threads, set_num_threads
from pydantic import ValidationError

from recaudit.data import Interactions
from recaudit.models.factor.wals import WALS
from recaudit.models.updates import AlsSolve, SgdStep, WalsSolve
from recaudit.testing.models import ModelContract, some_ratings


class TestWALS(ModelContract):
    recommender = WALS(factors=4, iterations=4, regularization=0.5)
    rating_again_as_before_changes_nothing = True


class TestWALSWithAPriorAndActivity(ModelContract):
    recommender = WALS(
        factors=5, iterations=3, unobserved_weight=0.3, prior=2.0, weighting="rank-one", center="none", regularization=1
    )
    rating_again_as_before_changes_nothing = True


class TestWALSOfOnes(ModelContract):
    recommender = WALS(factors=3, iterations=3, unobserved_weight=1.0, values="ones", regularization=0.1)
    rating_again_as_before_changes_nothing = True


CONFIGURATIONS = [
    WALS(factors=5, unobserved_weight=0.2, regularization=0.7),
    WALS(factors=4, unobserved_weight=0.2, prior=2.0, regularization=0.7),
    WALS(factors=3, unobserved_weight=0.5, prior="item", weighting="rank-one", regularization=0.3),
    WALS(factors=6, unobserved_weight=0.05, weighting="rank-one", center="none", regularization=2.0),
    WALS(factors=5, unobserved_weight=1.0, values="ones", regularization=0.1),
    WALS(factors=5, unobserved_weight=0.0, regularization=0.5),
]


def thinned(seed: int = 0) -> Interactions:
    """Some ratings; user 3 and item 7 have none."""
    data = some_ratings(seed)
    return data.subset((data.users != 3) & (data.items != 7))


def dense(recommender: WALS, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
    """The slow readable twin: weights W and targets A (users, items) of every pair, as the docstring has them."""
    shape = (data.n_users, data.n_items)
    rated = np.zeros(shape, dtype=bool)
    rated[data.users, data.items] = True
    ratings = np.zeros(shape)
    ratings[data.users, data.items] = data.ratings
    mean = data.ratings.mean() if recommender.center == "mean" and recommender.values == "ratings" else 0.0
    if recommender.prior == "item":
        means = [
            column[hit].mean() if hit.any() else data.ratings.mean()
            for column, hit in zip(ratings.T, rated.T, strict=True)
        ]
        prior = np.array(means) - mean
    else:
        prior = np.full(data.n_items, 0.0 if recommender.prior is None else float(recommender.prior) - mean)
    background = np.ones(shape)
    if recommender.weighting == "rank-one":
        users, items = rated.sum(axis=1), rated.sum(axis=0)
        background = np.outer(users / users.mean(), items / items.mean())
    W = rated + recommender.unobserved_weight * background
    values = np.ones(shape) if recommender.values == "ones" else ratings - mean
    return W, np.where(rated, values, prior)


def dense_rows(W: np.ndarray, A: np.ndarray, Y: np.ndarray, regularization: float) -> np.ndarray:
    """Each row of A by weighted ridge regression on Y, with a general least-squares routine."""
    penalty = np.sqrt(regularization) * np.eye(Y.shape[1])
    zeros = np.zeros(Y.shape[1])
    solved = []
    for w, a in zip(np.sqrt(W), A, strict=True):
        system, right = np.vstack([w[:, None] * Y, penalty]), np.concatenate([w * a, zeros])
        solved.append(np.linalg.lstsq(system, right, rcond=None)[0])
    return np.array(solved)


def dense_objective(recommender: WALS, data: Interactions, U: np.ndarray, V: np.ndarray) -> float:
    W, A = dense(recommender, data)
    return float((W * (A - U @ V.T) ** 2).sum() + recommender.regularization * ((U**2).sum() + (V**2).sum()))


@pytest.mark.parametrize("recommender", CONFIGURATIONS, ids=repr)
def test_each_half_step_is_the_exact_minimum(recommender: WALS) -> None:
    data = thinned()
    (users, items, _), (W, A) = recommender.problem(data), dense(recommender, data)
    draw = np.random.default_rng(1)
    U, V = draw.normal(size=(data.n_users, recommender.factors)), draw.normal(size=(data.n_items, recommender.factors))
    penalty = recommender.regularization
    np.testing.assert_allclose(users.solve(V, penalty), dense_rows(W, A, V, penalty), atol=1e-10)
    np.testing.assert_allclose(items.solve(U, penalty), dense_rows(W.T, A.T, U, penalty), atol=1e-10)


@settings(max_examples=25)
@given(
    recommender=st.builds(
        WALS,
        factors=st.integers(1, 9),
        unobserved_weight=st.sampled_from([0.0, 0.001, 0.1, 1.0, 30.0]),
        prior=st.sampled_from([None, 2.0, "item"]),
        weighting=st.sampled_from(["uniform", "rank-one"]),
        center=st.sampled_from(["none", "mean"]),
        regularization=st.sampled_from([1e-3, 0.5, 10.0]),
    ),
    seed=st.integers(0, 1000),
)
def test_the_objective_never_rises(recommender: WALS, seed: int) -> None:
    data = thinned(seed)
    (users, items, _), penalty = recommender.problem(data), recommender.regularization
    U = np.random.default_rng(seed).normal(size=(data.n_users, recommender.factors))
    V = items.solve(U, penalty)
    values = [dense_objective(recommender, data, U, V)]
    for _ in range(3):
        U = users.solve(V, penalty)
        values.append(dense_objective(recommender, data, U, V))
        V = items.solve(U, penalty)
        values.append(dense_objective(recommender, data, U, V))
    assert all(later <= earlier * (1 + 1e-11) for earlier, later in pairwise(values))


def test_a_fit_ends_where_no_direction_improves() -> None:
    """At convergence the numerical gradient of the dense objective vanishes, on the items' side too."""
    recommender = WALS(factors=3, iterations=600, unobserved_weight=0.2, prior=2.5, regularization=1.0)
    data = thinned()
    model = recommender.fit(data)
    U, V = model.user_factors, model.item_factors
    W, A = dense(recommender, data)
    error = W * (U @ V.T - A)
    np.testing.assert_allclose(error @ V + recommender.regularization * U, 0, atol=1e-8)
    np.testing.assert_allclose(error.T @ U + recommender.regularization * V, 0, atol=1e-8)


def test_without_unobserved_weight_it_is_explicit_als() -> None:
    """Alternating ridge regressions on the rated pairs alone, from the same start."""
    data = thinned()
    recommender = WALS(factors=3, iterations=1, unobserved_weight=0.0, regularization=0.4)
    model = recommender.fit(data)
    values = {(u, i): r - data.ratings.mean() for u, i, r in zip(data.users, data.items, data.ratings, strict=True)}
    for user in range(data.n_users):
        rated = [i for u, i in values if u == user]
        Q = model.item_factors[rated]
        expected = np.linalg.solve(Q.T @ Q + 0.4 * np.eye(3), Q.T @ np.array([values[user, i] for i in rated]))
        np.testing.assert_allclose(model.user_factors[user], expected, atol=1e-10)
    assert not model.user_factors[3].any()
    assert not model.item_factors[7].any()
    assert model.scores(np.array([3]))[0] == pytest.approx(data.ratings.mean())


def test_a_heavy_background_is_the_truncated_svd_of_the_filled_matrix() -> None:
    """Alpha so large that every pair weighs alike: Eckart and Young say what the best rank two is.

    Rated pairs are fitted to a value between rating and prior; with ones and alpha = 1e9 that is the indicator.
    """
    data = thinned()
    recommender = WALS(
        factors=2, iterations=400, unobserved_weight=1e9, values="ones", regularization=1e-3, init_std=1.0
    )
    model = recommender.fit(data)
    A = dense(recommender, data)[1]
    left, singular, right = np.linalg.svd(A, full_matrices=False)
    best = left[:, :2] * singular[:2] @ right[:2]
    np.testing.assert_allclose(model.scores(np.arange(data.n_users)), best, atol=1e-6)


def test_hu_koren_and_volinsky_are_a_special_case() -> None:
    """Confidence 1 + k where there was an interaction, 1 elsewhere, penalty L: alpha = 1 / k, regularization L / k."""
    data, k, penalty = thinned(), 4.0, 3.0
    model = WALS(factors=3, values="ones", unobserved_weight=1 / k, regularization=penalty / k).fit(data)
    P = np.zeros((data.n_users, data.n_items))
    P[data.users, data.items] = 1.0
    np.testing.assert_allclose(model.user_factors, dense_rows(1 + k * P, P, model.item_factors, penalty), atol=1e-10)


def test_unrated_pairs_are_drawn_to_the_prior() -> None:
    data = thinned()
    unrated = ~data.seen(np.arange(data.n_users))

    def distance(weight: float) -> float:
        model = WALS(factors=4, unobserved_weight=weight, prior=2.0, regularization=0.1).fit(data)
        return float(np.abs(model.scores(np.arange(data.n_users))[unrated] - 2.0).mean())

    assert distance(0.001) > distance(0.1) > distance(10.0)


def test_ones_only_rank_and_ratings_predict() -> None:
    data = thinned()
    assert WALS(factors=2).fit(data).predicts_ratings
    ones = WALS(factors=2, values="ones", unobserved_weight=1.0).fit(data)
    assert not ones.predicts_ratings
    assert ones.mean == 0.0
    assert ones.predict(np.array([3]), np.array([0])) < 1  # not clipped to the scale of the ratings


@pytest.mark.parametrize("recommender", CONFIGURATIONS, ids=repr)
@pytest.mark.parametrize("items", [[0, 5, 11], [7, 2, 19]])
def test_own_edits_re_solve_the_users_row(recommender: WALS, items: list[int]) -> None:
    """A true re-solve of the edited log, the user's activity, the mean and the prior held as fitted."""
    data, user, action = thinned(), 6, np.array([1.0, 4.5, 2.0])
    model = recommender.fit(data)
    W, A = dense(recommender, data)
    background = W - data.seen(np.arange(data.n_users))
    W[user, items] = 1 + background[user, items]
    A[user, items] = 1.0 if recommender.values == "ones" else action - model.mean
    u = dense_rows(W[[user]], A[[user]], model.item_factors, recommender.regularization)[0]
    response = model.respond(user, user, np.array(items))
    np.testing.assert_allclose(response.scores(action), model.item_factors @ u + model.mean, atol=1e-9)


@pytest.mark.parametrize("recommender", CONFIGURATIONS, ids=repr)
def test_anothers_edits_re_solve_the_items_and_move_nothing_else(recommender: WALS) -> None:
    data, viewer, editor, items, action = thinned(), 4, 9, [0, 7, 13], np.array([1.0, 4.5, 2.0])
    model = recommender.fit(data)
    W, A = dense(recommender, data)
    background = W - data.seen(np.arange(data.n_users))
    W[editor, items] = 1 + background[editor, items]
    A[editor, items] = 1.0 if recommender.values == "ones" else action - model.mean
    moved = dense_rows(W.T[items], A.T[items], model.user_factors, recommender.regularization)
    expected = model.scores(np.array([viewer]))[0].copy()
    expected[items] = moved @ model.user_factors[viewer] + model.mean
    response = model.respond(viewer, editor, np.array(items))
    assert model.others_move == "rated items"
    np.testing.assert_allclose(response.scores(action), expected, atol=1e-9)
    block = model.edited_items(np.array([editor]), np.array([[*items, -1]]), np.tile([*action, 3.0], (2, 1)).T[None])
    np.testing.assert_allclose(block.scores(np.array([viewer]))[0, 0, :3, 1], expected[items], atol=1e-9)


def test_an_interaction_moves_a_model_of_ones_whatever_its_rating() -> None:
    data = thinned()
    model = WALS(factors=3, values="ones", unobserved_weight=0.2, regularization=0.1).fit(data)
    user = 6
    new = int(np.setdiff1d(np.arange(data.n_items), data.history(user)[0])[0])
    response = model.respond(user, user, np.array([new]))
    low, high = response.scores(np.array([1.0])), response.scores(np.array([5.0]))
    np.testing.assert_array_equal(low, high)
    assert low[new] > model.scores(np.array([user]))[0, new]


def test_ratings_in_turn_end_where_ratings_at_once_do() -> None:
    model = WALS(factors=3, iterations=3, unobserved_weight=0.1, regularization=0.5).fit(thinned())
    user, action = 6, np.array([2.0, 5.0])
    new = np.setdiff1d(np.arange(model.data.n_items), model.data.history(user)[0])[:2]
    state = model.rollout(user)
    for item in new:
        state = state.then(int(item))
    slope, intercept = state.affine()
    np.testing.assert_allclose(slope @ action + intercept, model.respond(user, user, new).scores(action), atol=1e-12)


def test_the_rule_can_be_another() -> None:
    model = WALS(factors=3, iterations=2, regularization=0.5).fit(thinned())
    assert isinstance(model.update, WalsSolve)
    items, action = np.array([1, 4]), np.array([5.0, 1.0])
    rules: list[SgdStep | AlsSolve | WalsSolve] = [model.update, AlsSolve(regularization=5.0), SgdStep()]
    scores = [model.with_update(rule).respond(2, 2, items).scores(action) for rule in rules]
    assert not np.allclose(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


def test_the_numbers_are_the_same_on_any_number_of_threads() -> None:
    data, recommender = thinned(), WALS(factors=7, iterations=3, unobserved_weight=0.1, weighting="rank-one")
    threads = get_num_threads()
    together = recommender.fit(data)
    set_num_threads(1)
    try:
        alone = recommender.fit(data)
    finally:
        set_num_threads(threads)
    np.testing.assert_array_equal(together.user_factors, alone.user_factors)
    np.testing.assert_array_equal(together.item_factors, alone.item_factors)


def test_both_weightings_have_the_same_total() -> None:
    data = thinned()
    problems = [WALS(unobserved_weight=0.3, weighting=weighting).problem(data) for weighting in ("uniform", "rank-one")]
    totals = [users.weight.sum() * users.other_weight.sum() for users, _, _ in problems]
    assert totals == pytest.approx([0.3 * data.n_users * data.n_items] * 2)


def test_blocks_fold_where_dimensions_are_too_few_and_less_where_unrated_pairs_count() -> None:
    """Two equal blocks of fives, worked by hand.

    In one dimension both blocks land on one axis, and so do the pairs between them. Where nothing else is said, a user
    of one block and an item of the other score some x, and a user of the other and an item of the one 25 / x; where
    alpha = 1, all of them the x = 10/3 that minimises `2 (5 - x)^2 + x^2`. Two dimensions hold the blocks apart.
    """
    rows = [(u, i, 5.0) for u in range(8) for i in range(8) if (u < 4) == (i < 4)]
    frame = pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")
    data = Interactions.from_frame(frame, scale=(1, 5))

    def between(factors: int, weight: float) -> tuple[np.ndarray, np.ndarray]:
        fixed = WALS(factors=factors, iterations=100, center="none", regularization=1e-5)
        scores = fixed.model_copy(update={"unobserved_weight": weight}).fit(data).scores(np.arange(8))
        return scores[:4, 4:], scores[4:, :4]

    one, other = between(1, 0.0)
    np.testing.assert_allclose(one * other, 25, rtol=1e-3)
    np.testing.assert_allclose(np.abs(between(1, 1.0)), 10 / 3, atol=1e-3)
    np.testing.assert_allclose(between(2, 1.0), 0, atol=1e-3)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"unobserved_weight": -0.1}, "unobserved_weight"),
        ({"regularization": 0}, "regularization"),
        ({"prior": "user"}, "prior"),
        ({"prior": float("nan")}, "prior"),
        ({"weighting": "rank-two"}, "weighting"),
        ({"values": "ones", "prior": "item"}, "every item's mean is 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        WALS.model_validate(settings_)

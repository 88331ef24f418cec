"""Ratings given in turn: the incremental roll-outs beside what they stand for."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import (
    ALS,
    EASE,
    WALS,
    AffineResponse,
    AlsSolve,
    FactorVectors,
    ItemKNN,
    SgdStep,
    TopPop,
    from_factors,
)
from recaudit.models.base import FittedModel

USER = 3


def log(users: int = 12, items: int = 14, rng: int = 0) -> Interactions:
    draw = np.random.default_rng(rng)
    rows = [
        (f"u{u:02}", f"i{i:02}", float(draw.integers(1, 6)))
        for u in range(users)
        for i in range(items)
        if draw.random() < 0.3 or i == u % items
    ]
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row"), scale=(1, 5))


def factor_model(update: SgdStep | AlsSolve) -> FactorVectors:
    data, draw = log(), np.random.default_rng(7)
    P, Q, f, g = (
        draw.normal(size=shape) for shape in ((data.n_users, 3), (data.n_items, 3), data.n_users, data.n_items)
    )
    return from_factors(P, Q, data, user_bias=f, item_bias=g, mean=3.0, update=update, predicts_ratings=True)


MODELS: dict[str, FittedModel] = {
    "sgd": factor_model(SgdStep(step=0.4, regularization=0.1)),
    "als": factor_model(AlsSolve(regularization=0.7)),
    "als per rating": ALS(factors=3, iterations=3).fit(log()),
    "wals": WALS(factors=3, iterations=3, unobserved_weight=0.1, prior=2.0, weighting="rank-one").fit(log()),
    "wals of ones": WALS(factors=3, iterations=3, unobserved_weight=0.1, values="ones").fit(log()),
    "knn": ItemKNN(neighbours=5, shrinkage=1.0).fit(log()),
    "ease": EASE(regularization=10.0).fit(log()),
}


def unseen(model: FittedModel, user: int = USER) -> np.ndarray:
    return np.flatnonzero(~model.data.seen(np.array([user]))[0])


@pytest.mark.parametrize("regularization", [0.0, 0.3])
def test_gradient_steps_are_taken_one_after_the_other(regularization: float) -> None:
    step = 0.4
    model = factor_model(SgdStep(step=step, regularization=regularization))
    items, ratings = unseen(model)[[4, 0, 2]], np.array([5.0, 1.5, 3.0])

    v = model.user_factors[USER].copy()
    offset = model.mean + model.user_bias[USER] + model.item_bias
    for item, rating in zip(items, ratings, strict=True):
        q = model.item_factors[item]
        v = (1 - step * regularization) * v + step * q * (rating - offset[item] - q @ v)

    found = model.respond_in_turn(USER, items).scores(ratings)
    np.testing.assert_allclose(found, model.item_factors @ v + offset, atol=1e-12)
    together = model.respond(USER, USER, items).scores(ratings)
    assert np.abs(found - together).max() > 1e-3


@pytest.mark.parametrize("name", ["als", "als per rating", "wals", "wals of ones", "knn", "ease"])
def test_where_only_the_ratings_count_turns_do_not_matter(name: str) -> None:
    model = MODELS[name]
    items = unseen(model)[[1, 3, 0]]
    in_turn, at_once = model.respond_in_turn(USER, items), model.respond(USER, USER, items)
    assert isinstance(at_once, AffineResponse)
    assert isinstance(in_turn, AffineResponse)
    np.testing.assert_allclose(in_turn.slope, at_once.slope)
    np.testing.assert_allclose(in_turn.intercept, at_once.intercept)


@pytest.mark.parametrize("name", MODELS)
def test_a_roll_out_is_the_response_in_turn_step_by_step(name: str) -> None:
    model = MODELS[name]
    state = model.rollout(USER)
    slope, intercept = state.affine()
    assert slope.shape == (model.data.n_items, 0)
    np.testing.assert_allclose(intercept, model.scores(np.array([USER]))[0])

    items = unseen(model)[[2, 0, 4, 1]].tolist()
    for t, item in enumerate(items, start=1):
        state = state.then(item)
        response = model.respond_in_turn(USER, np.array(items[:t]))
        assert isinstance(response, AffineResponse)
        slope, intercept = state.affine()
        assert state.items == tuple(items[:t])
        np.testing.assert_allclose(slope, response.slope, atol=1e-10)
        np.testing.assert_allclose(intercept, response.intercept, atol=1e-10)


def test_two_roll_outs_of_one_user_do_not_mix() -> None:
    model = MODELS["sgd"]
    a, b, c = unseen(model)[:3].tolist()
    start = model.rollout(USER)
    one, other = start.then(a).then(b), start.then(a).then(c)
    for state, items in ((one, [a, b]), (other, [a, c])):
        response = model.respond_in_turn(USER, np.array(items))
        assert isinstance(response, AffineResponse)
        np.testing.assert_allclose(state.affine()[0], response.slope)


def test_a_rated_item_is_not_shown_again() -> None:
    model = MODELS["als"]
    seen = int(model.data.history(USER)[0][0])
    with pytest.raises(InputError, match="not rated"):
        model.rollout(USER).then(seen)


def test_a_model_without_a_formula_says_so() -> None:
    with pytest.raises(NotSupportedError, match="no formula"):
        TopPop().fit(log()).rollout(USER).then(0).affine()

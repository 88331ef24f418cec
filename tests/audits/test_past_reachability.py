"""Past-k reachability: what if the last k ratings had been others (paper 001, Definition 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.interventions import Interval, Past, Stars
from recaudit.models import ALS, AlsSolve, from_factors
from recaudit.policies import Softmax

K = 3


@pytest.fixture(scope="module")
def log(world: World) -> Interactions:
    return world.data


@pytest.fixture(scope="module")
def model(log: Interactions) -> Any:
    return ALS(factors=4, iterations=5).fit(Past(K).before(log))


def test_the_last_ratings_in_the_order_of_time(tiny: Interactions) -> None:
    model = from_factors(np.ones((3, 1)), np.ones((4, 1)), tiny, predicts_ratings=False)
    ada, bob, cem = tiny.users_at(["ada", "bob", "cem"])
    items = Past(2).items(model, np.array([ada, bob, cem]), 0, tiny)
    assert tiny.item_ids.gather(items[0]).to_list() == ["b", "c"]
    assert items[1].tolist() == [tiny.items_at(["b"])[0], -1]
    assert items[2].tolist() == [-1, -1]


def test_what_is_left_before_is_all_but_those(log: Interactions, model: Any) -> None:
    everybody = np.arange(log.n_users)
    acted = Past(K).items(model, everybody, 0, log)
    for user in everybody:
        both = np.concatenate([acted[user][acted[user] >= 0], model.data.history(int(user))[0]])
        assert sorted(both) == log.history(int(user))[0].tolist()


def test_nobody_acts_without_times() -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [1, 2], "rating": [1.0, 5.0]})
    data = Interactions.from_frame(frame)
    with pytest.raises(InputError, match="time='timestamp'"):
        Past(1).items(from_factors(np.ones((1, 1)), np.ones((2, 1)), data, predicts_ratings=False), np.array([0]), 0)


def test_one_rating_and_two_items_by_hand() -> None:
    """Vector of items: film 1, seen = 0 in both; film 2 = 2, the past; film 3 = 1 and film 4 = 0, the candidates.

    ALS with penalty 1: p = (0 * 3 + 2 o) / (0 + 4 + 1) = 0.4 o. Scores: film 3 = 0.4 o, film 4 = 0. At o = 5 film 3
    has probability 1 / (1 + exp(-2)); at the factual o = 1 it has 1 / (1 + exp(-0.4)).
    """
    frame = pl.DataFrame(
        {"user": [1, 1, 2, 2], "item": [1, 2, 3, 4], "rating": [3.0, 1.0, 3.0, 3.0], "time": [1, 2, 1, 2]}
    )
    data = Interactions.from_frame(frame, scale=(1, 5), time="time")
    before = Past(1).before(data)
    model = from_factors(
        np.zeros((2, 1)),
        np.array([[0.0], [2], [1], [0]]),
        before,
        update=AlsSolve(regularization=1),
        predicts_ratings=False,
    )
    asked: dict[str, Any] = {"users": [1], "targets": [3, 4], "policy": Softmax(beta=1.0)}
    result = ra.reachability(model, data, actions=Past(1), **asked, best_actions=True)
    third, fourth = result.pairs.iter_rows(named=True)
    assert third["value"] == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-6)
    assert third["baseline"] == pytest.approx(1 / (1 + np.exp(-0.4)))
    assert third["action_items"] == [2]
    assert third["action_ratings"] == pytest.approx([5.0])
    assert fourth["value"] == pytest.approx(1 / (1 + np.exp(0.4)), abs=1e-6)
    assert fourth["lift"] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("ratings", [None, Stars(1, 5)])
def test_it_is_a_refit_of_the_users_vector(log: Interactions, model: Any, ratings: Any) -> None:
    """The promised probability is what the model says after its user's vector is solved again on the edited log."""
    result = ra.reachability(
        model,
        log,
        actions=Past(K, ratings=ratings),
        policy=Softmax(beta=3),
        users=["user-011"],
        best_actions=True,
    )
    user = log.users_at(["user-011"])[0]
    unseen = ~log.seen(np.array([user]))
    for row in result.pairs.gather_every(11).iter_rows(named=True):
        edited = log.with_ratings(user, log.items_at(row["action_items"]), np.array(row["action_ratings"]))
        seen, given = edited.history(user)
        Q, offset = model.item_factors, model.mean + model.user_bias[user] + model.item_bias
        penalty = model.update.regularization * len(seen)
        vector = np.linalg.solve(Q[seen].T @ Q[seen] + penalty * np.eye(4), Q[seen].T @ (given - offset[seen]))
        scores = (Q @ vector + offset)[None]
        after = np.exp(Softmax(beta=3).log_probabilities(scores, unseen)[0])
        assert row["value"] == pytest.approx(float(after[log.items_at([row["item"]])[0]]), rel=1e-8)
        assert row["status"] == "solved"


def test_doing_nothing_is_the_baseline(log: Interactions, model: Any) -> None:
    """A box that holds little but the factual ratings leaves a lift of 1."""
    user = log.users_at(["user-011"])[0]
    last = Past(1).items(model, np.array([user]), 0, log)[0, 0]
    items, given = log.history(user)
    rating = float(given[items == last][0])
    fitted = ALS(factors=4, iterations=5).fit(Past(1).before(log))
    result = ra.reachability(fitted, log, actions=Past(1, ratings=Interval(rating, rating)), users=["user-011"])
    np.testing.assert_allclose(result.pairs["lift"], 1.0, rtol=1e-9)


def test_a_model_that_saw_everything_is_taken_too(log: Interactions) -> None:
    """Its last step solves the users' vectors, so that doing nothing leaves its own scores."""
    model = ALS(factors=4, iterations=5).fit(log)
    result = ra.reachability(model, log, actions=Past(K), users=["user-011"])
    plain = ra.reachability(model, log, actions=Past(K), users=["user-011"], baseline="scores")
    np.testing.assert_allclose(result.pairs["baseline"], plain.pairs["baseline"], rtol=1e-8)


def test_a_longer_past_reaches_no_less(log: Interactions) -> None:
    model = ALS(factors=4, iterations=5).fit(log)
    values = [ra.reachability(model, actions=Past(k), users=["user-011"]).pairs["value"] for k in (1, 2, 4)]
    assert (values[1] >= values[0] - 1e-9).all()
    assert (values[2] >= values[1] - 1e-9).all()


def test_a_model_of_another_past_is_refused(log: Interactions, model: Any) -> None:
    with pytest.raises(InputError, match=r"Past\(2\)\.before\(data\)"):
        ra.reachability(model, log, actions=Past(2))

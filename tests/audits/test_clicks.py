"""Audits of logs in which every rating is the same: people click or they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit import runs
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import HistoryEdits, Interval, NextK, Past, Stars
from recaudit.interventions.ratings import RATINGS, free_ratings, rating_range
from recaudit.models import (
    ALS,
    EASE,
    SLIM,
    WALS,
    BiasedMF,
    ItemKNN,
    Random,
    SgdStep,
    TopPop,
    UserKNN,
    from_factors,
)
from recaudit.policies import Softmax
from recaudit.specification import as_data

USERS = ["user-004", "user-050"]


@pytest.fixture(scope="module")
def clicks(world: World) -> Interactions:
    liked = world.data.frame().filter(pl.col("rating") >= 4).select("user", "item", "time")
    return Interactions.from_frame(liked, rating=None, time="time")


def test_a_rating_may_be_what_the_log_knows_or_none() -> None:
    assert free_ratings(None, (1.0, 5.0)) == Interval(1, 5)
    assert free_ratings(Stars(1, 5), (1.0, 1.0)) == Stars(1, 5)
    assert free_ratings(None, (1.0, 1.0)) == Stars(0, 1)
    assert free_ratings(None, (3.0, 3.0)).values.tolist() == [0.0, 3.0]  # type: ignore[union-attr]
    assert [rating_range(scale) for scale in ((2.0, 4.0), (3.0, 3.0), (-1.0, -1.0))] == [(2, 4), (0, 3), (-1, 0)]
    with pytest.raises(InputError, match=r"scale: received \(0.0, 0.0\); expected ratings to choose from"):
        free_ratings(None, (0.0, 0.0))


@pytest.mark.parametrize("recommender", [EASE(regularization=10), SLIM(l1=0.1)], ids=lambda r: type(r).__name__)
def test_a_0_is_no_click_where_scores_add_up_clicks(clicks: Interactions, recommender: Any) -> None:
    """The best of all ways to take back some of the last clicks, each tried on a log without them."""
    model = recommender.fit(clicks)
    found = ra.reachability(model, actions=HistoryEdits(3), policy=Softmax(beta=5), users=USERS[:1], best_actions=True)
    assert (found.settings["zero"], found.settings["ratings"]) == (
        "no rating",
        as_data(Stars(0, 1), RATINGS),
    )
    assert found.counts()["solved"] == len(found.pairs)
    assert (found.pairs["lift"] > 1.01).any()
    user = int(clicks.users_at(USERS[:1])[0])
    items = HistoryEdits(3).items(model, np.array([user]), 0)[0]
    free = np.flatnonzero(~clicks.seen(np.array([user]))[0])
    best = np.zeros(len(free))
    for kept in np.ndindex(2, 2, 2):
        gone = items[np.array(kept) == 0]
        history = clicks.csr[[user]].toarray()[0]
        history[gone] = 0.0
        scores = 5 * (history @ model.weights)[free]
        chances = np.exp(scores - scores.max())
        best = np.maximum(best, chances / chances.sum())
    np.testing.assert_allclose(found.pairs["value"], best, rtol=1e-9)


def test_an_interval_can_be_asked_for(clicks: Interactions) -> None:
    model = EASE(regularization=10).fit(clicks)
    relaxed, clicked = (
        ra.reachability(model, actions=NextK(4, ratings=ratings), users=USERS, policy=Softmax(beta=5))
        for ratings in (Interval(0, 1), None)
    )
    assert (relaxed.pairs["upper"] >= clicked.pairs["lower"] * (1 - 1e-9)).all()
    assert relaxed.settings["ratings"] == as_data(Interval(0, 1), RATINGS)


def test_where_a_0_is_a_bad_rating_it_is_said(clicks: Interactions) -> None:
    draw = np.random.default_rng(0)
    P, Q = (draw.normal(size=(n, 3)) for n in (clicks.n_users, clicks.n_items))
    model = from_factors(P, Q, clicks, predicts_ratings=False, update=SgdStep())
    found = ra.reachability(model, actions=NextK(2), users=USERS)
    assert found.settings["zero"] == "the lowest rating, which is not the same as none"


@pytest.mark.parametrize(
    "recommender",
    [
        ALS(),
        BiasedMF(),
        ItemKNN(),
        UserKNN(center="none", compared="ratings"),
        WALS(),
        WALS(center="none", prior="item"),
        EASE(center="item"),
        SLIM(center="item"),
        TopPop(by="mean"),
    ],
    ids=lambda r: type(r).__name__,
)
def test_models_that_learn_from_differences_refuse_clicks(clicks: Interactions, recommender: Any) -> None:
    told = rf"data: received a log in which every rating is 1; expected .* {type(recommender).__name__}.*TopPop, WALS"
    with pytest.raises(InputError, match=told):
        recommender.fit(clicks)


@pytest.mark.parametrize(
    "recommender",
    [
        EASE(),
        SLIM(l1=0.1),
        TopPop(),
        WALS(factors=3, iterations=2, values="ones"),
        WALS(factors=3, iterations=2, regularization=0.1, prior=0.0),
        WALS(factors=3, iterations=2, regularization=0.1, center="none"),
    ],
    ids=lambda r: type(r).__name__,
)
def test_models_for_clicks_tell_items_apart(clicks: Interactions, recommender: Any) -> None:
    scores = recommender.fit(clicks).scores(np.arange(20))
    assert (np.ptp(scores, axis=1) > 1e-6).all()


def test_random_shows_everybody_something_else(clicks: Interactions) -> None:
    train, test = ra.data.splits.leave_last(clicks)
    model = Random().fit(train)
    assert ra.exposure(model, k=5)["coverage"] == 1.0
    found = ra.accuracy(model, test).frame.filter(pl.col("metric") == "rmse")
    assert found["status"].to_list() == ["not_applicable"]


def test_a_model_to_which_a_click_is_as_good_as_none_is_refused(clicks: Interactions) -> None:
    model = WALS(factors=3, iterations=2, values="ones").fit(clicks)
    with pytest.raises(NotSupportedError, match=r"Every rating of this log is 1, and to this .* a rating of 0 is like"):
        ra.reachability(model, actions=NextK(2), users=USERS)


def test_others_clicks_are_asked_the_same_way(clicks: Interactions) -> None:
    ones = WALS(factors=3, iterations=2, values="ones").fit(clicks)
    with pytest.raises(NotSupportedError, match="Every rating of this log is 1"):
        ra.instability(ones, edits=Past(2), viewers=USERS, editors=USERS)
    model = WALS(factors=3, iterations=5, center="none", regularization=0.1).fit(clicks)
    found = ra.instability(model, edits=Past(2), viewers=USERS, editors=USERS)
    assert found.settings["ratings"] == as_data(Stars(0, 1), RATINGS)
    assert (found.pairs["value"] > 0).all()


def test_logs_with_a_scale_say_it_too(world: World) -> None:
    model = ALS(factors=3, iterations=2).fit(world.data)
    found = ra.reachability(model, actions=NextK(2), users=USERS)
    assert found.settings["ratings"] == as_data(Interval(1, 5), RATINGS)
    assert "zero" not in found.settings


def test_a_run_refuses_before_anything_is_fitted(clicks: Interactions, tmp_path: Path) -> None:
    clicks.frame().write_parquet(tmp_path / "clicks.parquet")
    models = '[[model]]\nkind = "ease"\n[[model]]\nkind = "als"\n'
    config = runs.parse(f'[data]\nfile = "clicks.parquet"\nrating = false\n{models}', source="a", folder=tmp_path)
    with pytest.raises(InputError, match=r"every rating is 1.*ALS"):
        runs.execute(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()

"""Future-k reachability of models without an exact solver: lower bounds, and honest ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import recaudit as ra
from models.nonlinear import Nonlinear
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, Stars
from recaudit.models import ALS, BiasedMF, SgdStep, as_black_box, from_system
from recaudit.policies import Softmax

USERS = ["user-003"]


@pytest.fixture(scope="module")
def log(world: World) -> Interactions:
    return world.data


@pytest.fixture(scope="module")
def model(log: Interactions) -> Any:
    return ALS(factors=3, iterations=4).fit(log)


def test_a_black_box_stays_below_the_exact_value_and_within_its_budget(model: Any) -> None:
    targets = model.data.item_ids[[2, 9, 17, 30, 41, 55]].to_list()
    settings: dict[str, Any] = {"actions": Future(3), "policy": Softmax(beta=3), "users": USERS, "targets": targets}
    exact = ra.reachability(model, **settings)
    hidden = as_black_box(model)
    found = ra.reachability(hidden, **settings, budget=90)
    assert set(found.pairs["status"]) <= {"bounded", "not_applicable"}
    known = found.pairs["value"].is_not_null()
    assert known.sum() >= 3
    assert (found.pairs["value"] <= exact.pairs["upper"] + 1e-9).filter(known).all()
    assert (found.pairs["value"] >= 0.8 * exact.pairs["value"]).filter(known).all()
    assert (found.pairs["queries"].filter(known) <= 90).all()
    assert hidden.queries.asked <= found.pairs["queries"].sum()
    np.testing.assert_allclose(found.pairs["baseline"], exact.pairs["baseline"])


@pytest.mark.parametrize("step", [0.05, 0.5])
def test_a_black_box_follows_ratings_one_after_the_other(log: Interactions, step: float) -> None:
    """Gradient steps depend on their order: the black box and the exact solver must take the same ones."""
    model = BiasedMF(factors=4, epochs=5).fit(log).with_update(SgdStep(step=step))
    settings: dict[str, Any] = {"actions": Future(3), "policy": Softmax(beta=3.0), "users": USERS, "targets": 6}
    exact = ra.reachability(model, **settings).pairs
    found = ra.reachability(as_black_box(model), **settings, budget=300, best_actions=True).pairs
    known = found["value"].is_not_null()
    assert known.any()
    assert (found["value"] <= exact["upper"] * (1 + 1e-9)).filter(known).all()
    row = found.filter(pl.col("action_items").list.len() == 3).row(0, named=True)
    user, items = int(log.users_at(USERS)[0]), log.items_at(row["action_items"])
    scores = model.respond_in_turn(user, items).scores(np.array(row["action_ratings"]))
    allowed = ~log.seen(np.array([user]))
    allowed[0, items] = False
    probabilities = np.exp(Softmax(beta=3.0).log_probabilities(scores[None], allowed)[0])
    assert row["value"] == pytest.approx(float(probabilities[int(log.items_at([row["item"]])[0])]), rel=1e-9)


def test_stars_are_tried_one_and_all_where_the_budget_allows(model: Any) -> None:
    """Two steps of five stars: 25 roll-outs, and the answer is the exact solver's."""
    targets = model.data.item_ids[[2, 9, 17, 30]].to_list()
    actions = Future(2, ratings=Stars(1, 5))
    settings: dict[str, Any] = {"actions": actions, "users": USERS, "targets": targets, "best_actions": True}
    settings["policy"] = Softmax(beta=2.0)
    exact, found = (ra.reachability(m, **settings, budget=60) for m in (model, as_black_box(model)))
    for one, other in zip(exact.pairs.iter_rows(named=True), found.pairs.iter_rows(named=True), strict=True):
        if one["value"] is not None:
            assert other["value"] == pytest.approx(one["value"], rel=1e-9)
            assert other["action_items"] == one["action_items"]
            assert other["rank_gain"] == one["rank_gain"]


def test_a_model_that_can_be_differentiated_is_climbed(log: Interactions) -> None:
    """No star sequence beats what ascent finds by much, and ascent stays among what can be reached."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = Nonlinear(hidden=6).fit(log)
        targets = log.item_ids[[5, 11]].to_list()
        settings: dict[str, Any] = {"policy": Softmax(beta=20), "users": USERS, "targets": targets}
        climbed = ra.reachability(model, actions=Future(2), **settings)
        stars = ra.reachability(model, actions=Future(2, ratings=Stars(1, 5)), **settings)
    finally:
        torch.set_num_threads(before)
    assert (climbed.pairs["value"] >= 0.999 * stars.pairs["value"]).all()
    assert (climbed.pairs["upper"] == 1.0).all()
    assert (climbed.pairs["status"] == "bounded").all()


def test_too_small_a_budget_and_random_lists_are_refused(model: Any) -> None:
    with pytest.raises(InputError, match="4 queries a pair at least"):
        ra.reachability(as_black_box(model), actions=Future(3), users=USERS, budget=2)
    system = from_system(model.data, lists=lambda history: [model.data.item_ids[0]], repeats=20)
    with pytest.raises(NotSupportedError, match="no top item to follow"):
        ra.reachability(system, actions=Future(2), users=USERS)

"""Instability where ratings move many scores, where a system can only be asked, and where items are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future, Interval, Past, Stars
from recaudit.models import ALS, ItemKNN, as_black_box
from recaudit.policies import EpsilonGreedy, Softmax

PEOPLE = ["user-003", "user-007", "user-011"]


@pytest.fixture(scope="module")
def log(world: World) -> Interactions:
    return world.data


@pytest.fixture(scope="module")
def model(log: Interactions) -> Any:
    return ALS(factors=3, iterations=4).fit(log)


def test_affine_responses_that_move_many_items_are_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(model), "others_move", "any item")
    with pytest.raises(NotSupportedError, match="affine responses"):
        ra.instability(model, edits=Past(2), viewers=PEOPLE, editors=PEOPLE)


def test_a_black_box_stays_below_the_exact_value(model: Any) -> None:
    settings: dict[str, Any] = {"edits": Past(3), "viewers": PEOPLE, "editors": PEOPLE, "policy": Softmax(beta=5)}
    exact, found = ra.instability(model, **settings), ra.instability(as_black_box(model), **settings, budget=60)
    assert (found.pairs["value"] <= exact.pairs["value"] + 1e-9).all()
    assert (found.pairs["value"] >= 0.8 * exact.pairs["value"] - 1e-6).all()
    assert (found.pairs["status"] == "bounded").all()
    assert found.counts()["bounded"] == len(found.pairs) == 6


def test_models_that_know_nothing_of_others_say_so(log: Interactions) -> None:
    with pytest.raises(NotSupportedError, match="another user"):
        ra.instability(ItemKNN().fit(log), edits=Past(2), viewers=PEOPLE, editors=PEOPLE)


class TestDrawnItems:
    """Whom the editor is shown what by chance: the expectation over trajectories."""

    def test_one_step_is_the_mean_over_items(self, model: Any, log: Interactions) -> None:
        """By its definition: each item that may come, with its chance, at its own worst rating."""
        follows = Softmax(beta=2)
        found = ra.instability(
            model, edits=Future(1, follows=follows), viewers=PEOPLE[:1], editors=PEOPLE[1:2], policy=Softmax(beta=5)
        )
        editor = log.users_at(PEOPLE[1:2])
        chances = np.exp(follows.log_probabilities(model.scores(editor), ~log.seen(editor)))[0]
        expected = 0.0
        for item in np.flatnonzero(chances).tolist():
            one = ra.instability(
                model,
                edits=ra.interventions.GivenItems((log.item_ids[item],)),
                viewers=PEOPLE[:1],
                editors=PEOPLE[1:2],
                policy=Softmax(beta=5),
            )
            expected += float(chances[item]) * one.pairs["value"][0]
        assert found.pairs["value"][0] == pytest.approx(expected, rel=1e-9)
        assert found.pairs["status"][0] == "solved"

    def test_a_sharp_draw_is_the_top_item(self, model: Any) -> None:
        settings: dict[str, Any] = {"viewers": PEOPLE, "editors": PEOPLE, "policy": Softmax(beta=5)}
        drawn = ra.instability(model, edits=Future(3, follows=Softmax(beta=9000)), **settings)
        top = ra.instability(model, edits=Future(3), **settings)
        np.testing.assert_allclose(drawn.pairs["value"], top.pairs["value"], rtol=1e-6)

    def test_a_value_stands_between_its_limits(self, model: Any) -> None:
        found = ra.instability(
            model, edits=Future(2, follows=Softmax(beta=1)), viewers=PEOPLE, editors=PEOPLE, policy=Softmax(beta=5)
        ).pairs
        assert (found["status"] == "bounded").all()
        assert (found["lower"] <= found["value"]).all()
        assert (found["value"] <= found["upper"]).all()
        assert (found["value"] > 0).all()

    def test_a_single_rating_leaves_nothing_to_choose(self, model: Any) -> None:
        """With one allowed rating the value and the ceiling are the same expectation."""
        edits = Future(2, ratings=Stars(5, 5), follows=Softmax(beta=1))
        frame = ra.instability(model, edits=edits, viewers=PEOPLE[:1], editors=PEOPLE[1:], policy=Softmax(beta=5)).pairs
        half = frame["value"] - frame["lower"]
        np.testing.assert_allclose(frame["upper"] - frame["value"], half, rtol=1e-6)

    def test_other_policies_are_refused(self, model: Any) -> None:
        with pytest.raises(NotSupportedError, match="Softmax or Power"):
            ra.instability(model, edits=Future(2, ratings=Interval(1, 5), follows=EpsilonGreedy()), viewers=PEOPLE)

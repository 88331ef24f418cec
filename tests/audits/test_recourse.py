"""Recourse as people ask it: of models, in stars and intervals, for items and for lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.interventions import Future, GivenItems, HistoryEdits, Interval, NextK, Stars
from recaudit.interventions.ratings import observed_stars
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import as_black_box


@pytest.fixture(scope="module")
def model() -> FittedModel:
    return ra.models.ALS(factors=8).fit(ra.datasets.load("demo"))


def first_items(
    model: FittedModel, user: object, acts: NextK | HistoryEdits, row: dict[str, Any], n: int
) -> list[object]:
    """The list after the changes of a row, by the model's own response."""
    data, at = model.data, model.data.users_at([user])
    items = acts.items(model, at, 0)[0]
    ratings = acts.unchanged(model, at, items[None])[0]
    for item, rating in zip(row["action_items"], row["action_ratings"], strict=True):
        ratings[items.tolist().index(int(data.items_at([item])[0]))] = rating
    scores = model.respond(int(at[0]), int(at[0]), items).scores(ratings)
    scores[data.seen(at)[0]] = -np.inf
    scores[items] = -np.inf
    return data.item_ids.gather(np.argsort(-scores, kind="stable")[:n]).to_list()


def test_the_changes_bring_the_item_into_the_list(model: FittedModel) -> None:
    acts = NextK(6, ratings=Stars(1, 5))
    found = ra.recourse(model, actions=acts, users=20, items=10, refits=0)
    reached = found.pairs.filter(pl.col("value") > 0)
    assert len(reached) > 5
    for row in reached.iter_rows(named=True):
        assert row["changes"] == row["value"] == len(row["action_items"])
        assert row["item"] in first_items(model, row["user"], acts, row, 10)
    impossible = found.pairs.filter(pl.col("status") == "impossible")
    assert len(impossible) > 5
    assert impossible["value"].null_count() == len(impossible)


def test_what_is_within_reach_is_what_reachability_can_bring_to_the_top(model: FittedModel) -> None:
    # With many stars the least effort of a place is finite exactly where some ratings bring the item there.
    acts = NextK(3, ratings=Stars(1, 5))
    asked: dict[str, Any] = {"actions": acts, "users": 15, "rng": 0}
    found = ra.recourse(model, goal=ra.AmongFirst(1), items=None, refits=0, **asked)
    top = ra.reachability(model, policy=ra.policies.Top1(), refits=0, **asked)
    reached = {(row["user"], row["item"]) for row in found.pairs.drop_nulls("value").iter_rows(named=True)}
    surely = {(row["user"], row["item"]) for row in top.pairs.filter(pl.col("value") == 1.0).iter_rows(named=True)}
    never = {
        (row["user"], row["item"])
        for row in top.pairs.filter((pl.col("value") == 0.0) & (pl.col("status") == "solved")).iter_rows(named=True)
    }
    assert surely
    assert surely <= reached
    assert not never & reached


def test_an_item_that_is_kept_out_is_out(model: FittedModel) -> None:
    acts = HistoryEdits(6, ratings=Stars(1, 5))
    found = ra.recourse(model, goal=ra.OutOfFirst(5), actions=acts, users=15, items=2, refits=0)
    reached = found.pairs.drop_nulls("value")
    assert (reached["value"] > 0).all()
    assert len(reached) > 3
    for row in reached.iter_rows(named=True):
        assert row["item"] not in first_items(model, row["user"], acts, row, 5)


@pytest.mark.parametrize(
    "goal",
    [
        ra.AmongFirst(10),
        ra.LikelyShown(0.02),
        ra.CategoryShare(category="Drama", at_least=0.3),
        ra.CalibratedWithin(0.6),
    ],
    ids=["top", "likely", "share", "calibrated"],
)
def test_an_interval_takes_no_more_than_its_stars(model: FittedModel, goal: object) -> None:
    if isinstance(goal, ra.CategoryShare):
        goal = ra.CategoryShare(category=model.data.categories["genre"].names[0], at_least=0.3)
    asked: dict[str, Any] = {"goal": goal, "effort": ra.TotalChange(), "users": 4, "items": 4, "refits": 0}
    stars = ra.recourse(model, actions=NextK(3, ratings=Stars(1, 5)), **asked).pairs
    between = ra.recourse(model, actions=NextK(3, ratings=Interval(1, 5)), budget=200, **asked).pairs
    both = stars.with_columns(between=between["value"], least=between["lower"], how=between["status"])
    for row in both.drop_nulls("value").iter_rows(named=True):
        assert row["how"] != "impossible"
        assert row["least"] <= row["value"] * 1.001 + 1e-6


def test_costs_count_by_item(model: FittedModel) -> None:
    data = model.data
    given = tuple(data.item_ids.gather(np.argsort(-data.item_counts)[:4]).to_list())
    acts = GivenItems(given, ratings=Stars(1, 5))
    cheap = ra.recourse(model, actions=acts, users=20, items=5, candidates="all", refits=0)
    costs = ra.ItemCosts(dict.fromkeys(given, 3.0))
    dear = ra.recourse(model, actions=acts, users=20, items=5, candidates="all", effort=costs, refits=0)
    assert dear.pairs["value"].drop_nulls().to_list() == (3 * cheap.pairs["value"].drop_nulls()).to_list()


def test_the_curve_ends_at_the_share_within_reach(model: FittedModel) -> None:
    found = ra.recourse(model, actions=NextK(5, ratings=Stars(1, 5)), users=40, items=8, refits=0)
    curve, whole = found.series.sort("at"), found.frame.filter(metric="within_reach")["value"].item()
    assert curve["value"].to_list() == sorted(curve["value"].to_list())
    assert curve["value"][-1] == pytest.approx(whole)
    assert {"history", "popularity"} <= set(found.groups["by"])
    assert found.has_table("example")


def test_a_system_that_can_only_be_asked_is_searched(model: FittedModel) -> None:
    asked: dict[str, Any] = {"actions": NextK(3, ratings=Stars(1, 5)), "users": 4, "items": 3, "refits": 0}
    exact, searched = ra.recourse(model, **asked).pairs, ra.recourse(as_black_box(model), budget=60, **asked).pairs
    assert "impossible" not in set(searched["status"])
    both = exact.with_columns(found=searched["value"]).drop_nulls("found")
    assert (both["found"] >= both["value"]).all()


def test_a_search_says_that_less_may_do_and_that_more_may_be_within_reach(model: FittedModel) -> None:
    asked: dict[str, Any] = {"actions": NextK(3, ratings=Stars(1, 5)), "users": 4, "items": 3, "refits": 0}
    lines = ra.recourse(as_black_box(model), budget=60, **asked).summary().splitlines()
    within, effort = (next(line for line in lines if label in line) for label in ("Within reach", "Effort  "))
    assert within.endswith("a lower bound")
    assert effort.endswith("less may do")


def test_promises_are_tested_by_refits() -> None:
    data, recommender = ra.datasets.load("demo"), ra.models.ALS(factors=8)
    subject = ra.Subject(recommender.fit(data), recommender, data)
    found = ra.recourse(subject, actions=HistoryEdits(5, ratings=Stars(1, 5)), users=20, items=5, refits=2)
    assert found.facts["fidelity"]["pairs"] == 2
    assert 0 <= found.facts["fidelity"]["kept"] <= 2
    assert "refit" in found.summary()


def test_the_tested_promises_are_a_random_sample() -> None:
    data, recommender = ra.datasets.load("demo"), ra.models.ALS(factors=4, iterations=2)
    subject = ra.Subject(recommender.fit(data), recommender, data)
    asked: dict[str, Any] = {"actions": HistoryEdits(5), "users": 20, "items": 5, "refits": 8}
    found = ra.recourse(subject, **asked)
    efforts = found.pairs.filter(pl.col("value") > 0)["value"].sort()
    fidelity = found.facts["fidelity"]
    assert fidelity["pairs"] == 8
    easiest, all_pairs = efforts.head(8).mean(), efforts.mean()
    assert fidelity["mean_effort"] - easiest > (all_pairs - easiest) / 3  # type: ignore[operator]  # efforts are numbers
    assert ra.recourse(subject, **asked).facts["fidelity"] == fidelity


def test_advice_names_ratings_that_users_can_give() -> None:
    data = ra.datasets.load("demo")
    model = ra.models.ALS(factors=4, iterations=2).fit(data)
    found = ra.recourse(model, actions=HistoryEdits(5), users=20, items=5, refits=0)
    given = found.pairs["action_ratings"].explode().drop_nulls()
    assert len(given) > 10
    assert (given % 1 == 0).all()
    example = ra.reachability(model, users=20, targets=20, refits=0).table("example")
    assert example["action_ratings"].explode().len() > 0
    assert (example["action_ratings"].explode() % 1 == 0).all()


@pytest.mark.parametrize(
    ("ratings", "scale", "step"),
    [
        ([1, 3, 5], (1, 5), 1.0),
        ([0.5, 3, 5], (0.5, 5), 0.5),
        ([1.1, 2], (1, 5), None),
        ([-10.0, 3.5], (-10, 10), 0.5),
        ([1, 2], (1, 4.7), None),
        ([1.0], (1, 1), None),
    ],
)
def test_the_steps_of_the_ratings(ratings: list[float], scale: tuple[float, float], step: float | None) -> None:
    expected = None if step is None else Stars(*scale, step)
    assert observed_stars(np.array(ratings, dtype=np.float64), scale) == expected


def test_what_cannot_be_asked_is_refused(model: FittedModel) -> None:
    with pytest.raises(ra.errors.NotSupportedError, match="future"):
        ra.recourse(model, actions=Future(3))
    with pytest.raises(ra.errors.InputError, match=r"actions\.changes"):
        ra.recourse(model, actions=NextK(3, ratings=Stars(1, 5), changes=1))
    with pytest.raises(ra.errors.InputError, match="category"):
        ra.recourse(model, goal=ra.CategoryShare(category="no such", at_least=0.5))
    with pytest.raises(ValueError, match="one of the two"):
        ra.CategoryShare(category="Drama")

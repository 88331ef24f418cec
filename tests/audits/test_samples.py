"""Who is asked about: everybody, those who are named, or people drawn so that they stand for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.folding import audit as folding
from recaudit.audits.instability import audit as instability
from recaudit.audits.reachability import audit as reachability
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.samples import Effort, draw_facts, drawn_words, resolve_users, stratified
from recaudit.data import Interactions
from recaudit.interventions import NextK
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import aggregate, mean
from recaudit.runs.memory import estimate_memory

USERS = 203
"""No multiple of what is drawn: shares are rounded."""


@pytest.fixture(scope="module")
def log() -> Interactions:
    """Users who rated from 1 to 60 items, most of them few."""
    counts = 1 + (59 * np.linspace(0, 1, USERS) ** 3).astype(int)
    rows = [(user, item, 1.0 + (user + item) % 5) for user, count in enumerate(counts) for item in range(count)]
    return Interactions.from_frame(pl.DataFrame(rows, ["user", "item", "rating"], orient="row"))


def test_everybody_is_as_likely_as_anybody_else(log: Interactions) -> None:
    seeds, count = 4000, 30
    drawn = np.zeros(USERS)
    for seed in range(seeds):
        some = stratified(log, count, seed, "users")
        assert len(np.unique(some)) == count
        drawn[some] += 1
    # 4,000 draws of probability 30 / 203: five standard deviations, over 203 users.
    chance = count / USERS
    assert np.abs(drawn / seeds - chance).max() < 5 * np.sqrt(chance * (1 - chance) / seeds)


def test_every_quartile_of_history_has_its_share(log: Interactions) -> None:
    weights = groupings(log, ["history"])[0].weights
    share = weights.sum(axis=0) * 50 / USERS
    for seed in range(20):
        inside = weights[stratified(log, 50, seed, "users")].sum(axis=0)
        assert (inside >= np.floor(share)).all()
        assert (inside <= np.ceil(share)).all()


def test_means_are_unbiased_and_intervals_cover_what_all_come_to(log: Interactions) -> None:
    values = np.log(log.user_counts) + np.random.default_rng(0).normal(size=USERS)
    truth, seeds, found, covered = values.mean(), 400, [], 0
    for seed in range(seeds):
        own = values[stratified(log, 60, seed, "users")]
        [row] = aggregate([mean("value", own, np.ones(60))], {})[0].iter_rows(named=True)
        found.append(row["value"])
        covered += row["lower"] <= truth <= row["upper"]
    assert abs(np.mean(found) - truth) < 4 * np.std(found) / np.sqrt(seeds)
    assert covered / seeds >= 0.95
    # A simple draw is further off: how much people have rated explains half of what they differ by.
    draw = np.random.default_rng(1)
    simple = [values[draw.choice(USERS, 60, replace=False)].mean() for _ in range(seeds)]
    assert np.std(found) < 0.85 * np.std(simple)


def test_all_are_asked_unless_that_costs_too_much(log: Interactions) -> None:
    everybody, enough, less = np.arange(USERS), Effort(1, USERS, 140), Effort(1, USERS - 1, 140)
    for some, effort in ((None, None), (None, enough), ("all", less)):
        np.testing.assert_array_equal(resolve_users(some, log, 0, effort=effort), everybody)
    drawn = resolve_users(None, log, 0, effort=less)
    assert len(drawn) == 140
    np.testing.assert_array_equal(drawn, resolve_users(None, log, 0, effort=less))
    assert not np.array_equal(drawn, resolve_users(None, log, 1, effort=less))
    assert len(resolve_users(17, log, 0, effort=less)) == 17


@pytest.mark.parametrize(
    ("users", "each", "asked"), [(200, 10, 200), (201, 10, 150), (201, 5, 201), (201, 100, 100), (20, 1000, 20)]
)
def test_how_many_follows_from_what_each_costs(users: int, each: int, asked: int) -> None:
    assert Effort(each, most=2000, drawn=1500).people(users) == asked


def test_a_result_says_that_people_were_drawn(log: Interactions) -> None:
    some = resolve_users(None, log, 0, effort=Effort(1, 1, 140))
    facts = draw_facts(None, len(some), log)
    assert facts == {"drawn": {"users": 140, "of": USERS, "by": "history"}}
    assert drawn_words(facts["drawn"]).startswith("140 of 203 users were asked about")
    assert draw_facts(140, 140, log) == {}
    assert draw_facts(None, USERS, log) == {}


def test_all_is_a_setting() -> None:
    assert Reachability(users="all").users == "all"


def test_audits_draw_where_a_log_is_large(log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ra.models.ALS(factors=2, iterations=2).fit(log)
    monkeypatch.setattr(reachability, "MOST_SCORES", 1)
    monkeypatch.setattr(reachability, "DRAWN_SCORES", 1)
    monkeypatch.setattr(reachability, "DRAWN_TARGETS", 5)
    monkeypatch.setattr(instability, "_MOST_ASKED", 140 * USERS)
    monkeypatch.setattr(folding, "_MOST_PAIRS", 140 * log.n_items)
    rest: dict[str, Any] = {"by": ("history",)}
    reached = ra.reachability(model, actions=NextK(2), refits=0, targets=3, **rest)
    moved = ra.instability(model, edits=NextK(2), refits=0, **rest)
    folded = ra.folding(model, **rest)
    for result, asked in ((reached, 100), (moved, 140), (folded, 140)):
        assert result.facts["drawn"].items() >= {"users": asked, "of": USERS, "by": "history"}.items()
        assert len(result.users) == asked
        assert f"{asked} of 203 users were asked about" in result.summary()
    assert len(moved.editors) == USERS
    few = ra.reachability(model, actions=NextK(2), refits=0, **rest)
    assert few.facts["drawn"] == {"users": 100, "of": USERS, "by": "history", "targets": 5, "items": log.n_items}
    assert few.pairs["item"].n_unique() == 5
    assert f"about 5 targets, drawn from {log.n_items} items" in few.summary()
    assert ra.reachability(model, actions=NextK(2), refits=0, targets="all", **rest).pairs["item"].n_unique() > 5
    everybody = ra.reachability(model, actions=NextK(2), refits=0, targets=3, users="all", **rest)
    assert len(everybody.users) == USERS
    assert everybody.facts["drawn"] == {"targets": 3, "items": log.n_items}
    assert f"The numbers are about 3 targets, drawn from {log.n_items} items." in everybody.summary()
    assert (
        "drawn"
        not in ra.reachability(model, actions=NextK(2), refits=0, targets=log.item_ids[:3], users="all", **rest).facts
    )
    # The same people for another model.
    other = ra.reachability(ra.models.ALS(factors=3).fit(log), actions=NextK(2), refits=0, targets=3, **rest)
    assert other.users["user"].equals(reached.users["user"])


def test_targets_are_sampled_where_all_cost_too_much_for_the_users(
    log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether their number was set or not."""
    monkeypatch.setattr(reachability, "DRAWN_TARGETS", 5)
    monkeypatch.setattr(reachability, "MOST_SCORES", 10 * log.n_items**2)
    model = ra.models.ALS(factors=2, iterations=2).fit(log)
    rest: dict[str, Any] = {"actions": NextK(2), "refits": 0}
    few = ra.reachability(model, users=10, **rest)
    assert few.pairs["item"].n_unique() > 5
    assert "drawn" not in few.facts
    for users in (11, tuple(log.user_ids[:11].to_list()), "all"):
        audit = Reachability(users=users, **rest)
        assert audit.drawn_from(log).targets == 5
        assert audit.model_copy(update={"targets": "all"}).drawn_from(log).targets == "all"
    many = ra.reachability(model, users=11, **rest)
    assert many.pairs["item"].n_unique() == 5
    assert many.facts["drawn"] == {"targets": 5, "items": log.n_items}


def test_memory_counts_the_scores_that_are_solved_together(log: Interactions) -> None:
    """Measured: 28 to 88% of it is used, for 5,000 to 50,000 items, 100 to 2,000 targets, and 4 to 16 users."""
    few, many = (estimate_memory(Reachability(users=16, targets=5, actions=NextK(k)), log) for k in (2, 20))
    assert few is not None
    assert many is not None
    assert many - few > 16 * log.n_items * 8 * 18

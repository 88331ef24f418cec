"""Who is asked about: everybody, those who are named, or people drawn so that they stand for all."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.samples import draw_facts, drawn_words, most_people, resolve_users, stratified
from recaudit.data import Interactions
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import Bootstrap, aggregate, mean

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
        [row] = aggregate([mean("value", own, np.ones(60))], Bootstrap(samples=400, rng=seed))[0].iter_rows(named=True)
        found.append(row["value"])
        covered += row["lower"] <= truth <= row["upper"]
    assert abs(np.mean(found) - truth) < 4 * np.std(found) / np.sqrt(seeds)
    assert covered / seeds >= 0.95
    # A simple draw is further off: how much people have rated explains half of what they differ by.
    draw = np.random.default_rng(1)
    simple = [values[draw.choice(USERS, 60, replace=False)].mean() for _ in range(seeds)]
    assert np.std(found) < 0.85 * np.std(simple)


def test_all_are_asked_unless_they_are_too_many(log: Interactions) -> None:
    everybody = np.arange(USERS)
    for some, most in ((None, None), (None, USERS), ("all", 10)):
        np.testing.assert_array_equal(resolve_users(some, log, 0, most=most), everybody)
    some = resolve_users(None, log, 0, most=10)
    assert len(some) == 10
    np.testing.assert_array_equal(some, resolve_users(None, log, 0, most=10))
    assert not np.array_equal(some, resolve_users(None, log, 1, most=10))
    assert len(resolve_users(17, log, 0, most=10)) == 17


def test_how_many_follows_from_the_pairs() -> None:
    assert most_people(59_000) == 423
    assert most_people(10_000_000) == 200
    assert most_people(10, 1000) == 200


def test_a_result_says_that_people_were_drawn(log: Interactions) -> None:
    some = resolve_users(None, log, 0, most=10)
    facts = draw_facts(None, some, log)
    assert facts == {"drawn": {"users": 10, "of": USERS, "by": "history"}}
    assert drawn_words(facts["drawn"]).startswith("10 of 203 users were asked about")
    assert draw_facts(10, some, log) == {}
    assert draw_facts(None, np.arange(USERS), log) == {}


def test_all_is_a_setting() -> None:
    assert Reachability(users="all").users == "all"

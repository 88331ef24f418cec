"""Instability held against true refits of the edited log."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.audit import Subject
from recaudit.audits.fidelity.audit import Fidelity
from recaudit.audits.instability.audit import Instability
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import FutureEdits, NextK, Past, Stars
from recaudit.models import ALS, EASE, WALS, AlsSolve, FactorVectors, Recommender, from_factors
from recaudit.policies import Softmax

VIEWERS, EDITORS = ["user-003", "user-050"], ["user-007", "user-050", "user-100"]


class FixedUsers(Recommender):
    """Users' vectors never move, and each item's is solved from its own ratings: what the rule assumes, made true."""

    def fit(self, data: Interactions, rng: int = 0) -> FactorVectors:
        users = np.random.default_rng(1).standard_normal((data.n_users, 3))
        items = np.zeros((data.n_items, 3))
        for item in range(data.n_items):
            rated = data.csc[:, [item]].tocoo()
            X = users[rated.row]
            items[item] = np.linalg.solve(X.T @ X + 2.0 * np.eye(3), X.T @ rated.data)
        return from_factors(users, items, data, update=AlsSolve(regularization=2.0), predicts_ratings=False)


class Fragile(Recommender):
    """Refuses a log with more ratings than the one it saw first."""

    ratings: int

    def fit(self, data: Interactions, rng: int = 0) -> FactorVectors:
        if len(data) != self.ratings:
            raise InputError("data", received=f"{len(data)} ratings", expected=f"{self.ratings} ratings")
        return FixedUsers().fit(data)


def checked(recommender: Recommender, model: FactorVectors, *, other_rng: int | None = None, **asked: Any) -> Result:
    """Fidelity of the instability that the model promises."""
    return Fidelity(audit=Instability(**asked), other_rng=other_rng).run(Subject(model=model, recommender=recommender))


@pytest.mark.parametrize("distance", ["hellinger", "tv", "kl"])
@pytest.mark.parametrize("edits", [Past(3), NextK(2), FutureEdits(3, ratings=Stars())], ids=str)
def test_where_the_rule_is_the_refit_every_promise_is_kept(world: World, edits: Any, distance: Any) -> None:
    model = FixedUsers().fit(world.data)
    options: dict[str, Any] = {"viewers": VIEWERS, "editors": EDITORS, "edits": edits, "policy": Softmax(beta=2)}
    found = checked(FixedUsers(), model, distance=distance, other_rng=1, **options)
    promised = ra.instability(model, distance=distance, **options).pairs
    assert found.pairs.select("viewer", "editor").rows() == promised.select("viewer", "editor").rows()
    assert found.pairs["promised"].to_list() == pytest.approx(promised["value"].to_list(), rel=1e-9)
    assert (found.pairs["promised"] > 0).all()
    assert found.pairs["realised"].to_list() == pytest.approx(found.pairs["promised"].to_list(), rel=1e-6)
    assert found.pairs["realised_other_rng"].to_list() == pytest.approx(found.pairs["realised"].to_list(), rel=1e-9)
    assert found["median_error"] == pytest.approx(0, abs=1e-6)
    assert found["realised_share"] == pytest.approx(1)
    assert found["refit_difference"] == pytest.approx(0, abs=1e-9)


def test_each_row_is_two_refits_by_hand(world: World) -> None:
    """ALS moves all vectors when it is fitted again: the rule is not the refit, and the row says by how much."""
    recommender, edits, data = ALS(factors=3, iterations=3, regularization=0.05), Past(2), world.data
    model = recommender.fit(edits.before(data))
    asked: dict[str, Any] = {"edits": edits, "viewers": VIEWERS, "editors": EDITORS[:1], "policy": Softmax(beta=1.0)}
    found = ra.fidelity(recommender, data, audit=Instability(**asked))
    assert found["refit_difference"] == pytest.approx(0, abs=1e-9)
    promised = ra.instability(model, data, best_ratings=True, **asked).pairs.iter_rows(named=True)
    editor = int(data.users_at(EDITORS[:1])[0])
    for row, promise in zip(found.pairs.iter_rows(named=True), promised, strict=True):
        ratings = dict(zip(promise["action_items"], promise["action_ratings"], strict=True))
        frame = data.frame().with_columns(
            rating=pl.when(pl.col("user") == EDITORS[0])
            .then(pl.col("item").replace_strict(ratings, default=None, return_dtype=pl.Float64))
            .fill_null(pl.col("rating"))
        )
        edited = Interactions.from_frame(frame, time="time", scale=data.scale)
        assert (edited.ratings != data.ratings).sum() in (1, 2)
        assert set(np.flatnonzero(edited.ratings != data.ratings)) <= set(
            range(data.indptr[editor], data.indptr[editor + 1])
        )
        viewer = data.users_at([row["viewer"]])
        free = ~data.seen(viewer)[0]
        before, after = (np.exp(recommender.fit(log).scores(viewer)[0][free]) for log in (data, edited))
        p, q = before / before.sum(), after / after.sum()
        assert row["realised"] == pytest.approx(np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2), rel=1e-6)
        assert row["promised"] == pytest.approx(promise["value"], rel=1e-9)
        assert row["error"] == pytest.approx(np.log(row["realised"] / row["promised"]))
        assert row["baseline"] == 0
    assert found["median_error"] > 1e-3


def test_a_click_is_taken_away(world: World) -> None:
    liked = world.data.frame().filter(pl.col("rating") >= 4).select("user", "item", "time")
    clicks = Interactions.from_frame(liked, rating=None, time="time")
    recommender = WALS(factors=3, iterations=4, center="none", regularization=0.5, unobserved_weight=0.1)
    model = recommender.fit(clicks)
    found = checked(recommender, model, edits=Past(2), viewers=VIEWERS[1:], editors=["user-100"])
    assert set(found.pairs["status"]) == {"solved"}
    assert (found.pairs["realised"] > 0).all()
    # One's own clicks: the weights of EASE move too, the clicks that are gone are gone.
    ease = EASE(regularization=10)
    edited = Reachability(actions=ra.interventions.HistoryEdits(2), users=("user-100",))
    own = ra.fidelity(ease, clicks, audit=edited, top=2)
    assert own.pairs["realised"].null_count() == 0


def test_a_refit_that_fails_is_a_status_with_its_cause(split: Split) -> None:
    recommender = Fragile(ratings=len(split.train))
    model = recommender.fit(split.train)
    found = checked(recommender, model, edits=NextK(2), viewers=VIEWERS, editors=EDITORS[:1])
    assert found.pairs["status"].to_list() == ["failed"] * 2
    assert found.pairs["realised"].null_count() == 2
    assert found.pairs["promised"].null_count() == 0
    assert f"expected {len(split.train)} ratings" in found.summary()


def test_pairs_are_drawn_by_the_seed_and_empty_ones_refused(split: Split) -> None:
    model = FixedUsers().fit(split.train)
    found = checked(FixedUsers(), model, edits=Past(1), viewers=2, editors=2)
    again = checked(FixedUsers(), model, edits=Past(1), viewers=2, editors=2)
    assert found.pairs["viewer"].n_unique() == 2
    assert found.pairs.select("viewer", "editor").equals(again.pairs.select("viewer", "editor"))
    with pytest.raises(InputError, match=r"viewers.*: received 0"):
        checked(FixedUsers(), model, viewers=0)
    with pytest.raises(InputError, match="editors: received no ids"):
        checked(FixedUsers(), model, editors=[])
    with pytest.raises(NotSupportedError, match="Instability under Top1"):
        checked(FixedUsers(), model, policy=ra.policies.Top1())

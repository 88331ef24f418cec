"""What pairs come to: discovery whichever pairs are asked, and how a number stands that is made of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from models.nonlinear import Nonlinear
from recaudit.audits import ReachabilityResult, contrast_items, sweep_beta
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.interventions import Future, NextK, Past
from recaudit.metrics.inference import SampleEstimate
from recaudit.metrics.intervals import mean, row, weakest
from recaudit.models import ALS, BiasedMF
from recaudit.policies import Softmax
from recaudit.status import Status

USERS = ["user-003", "user-050", "user-077"]


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return BiasedMF(factors=4, epochs=20).fit(split.train)


class TestDiscoveryOfSomeTargets:
    @pytest.mark.parametrize("actions", [NextK(3), Future(2)], ids=str)
    @pytest.mark.parametrize("count", [1, 4, 30])
    def test_the_verdict_is_the_one_among_all(self, model: Any, actions: Any, count: int) -> None:
        """Discovery asked for some targets is the share of these among the pairs that are discovered when all are."""
        ids = model.data.item_ids.sample(count, seed=5).to_list()
        every = ra.reachability(model, policy=Softmax(beta=2), users=USERS, actions=actions).pairs.drop_nulls("value")
        unseen = (~model.data.seen(model.data.users_at(USERS))).sum(axis=1)
        cut = {user: 1 / (count - actions.k) for user, count in zip(USERS, unseen, strict=True)}
        expected = [
            np.mean([value > cut[user] for value in rows["value"]])
            for user in USERS
            if len(rows := every.filter(pl.col("user") == user, pl.col("item").is_in(ids)))
        ]
        found = ra.reachability(model, policy=Softmax(beta=2), users=USERS, targets=ids, actions=actions)
        assert found["discovery"] == pytest.approx(np.mean(expected))

    def test_one_target_can_be_discovered(self, model: Any) -> None:
        every = ra.reachability(model, policy=Softmax(beta=2), users=USERS[:1], actions=NextK(3))
        best = every.pairs.sort("value")["item"][-1]
        alone = ra.reachability(model, policy=Softmax(beta=2), users=USERS[:1], targets=[best], actions=NextK(3))
        assert alone["discovery"] == 1.0
        assert alone.pairs["candidates"].to_list() == [len(every.pairs)]

    def test_sweeps_and_correlations_follow(self, world: World) -> None:
        ids = world.data.item_ids.to_list()[:8]
        recommender = ALS(factors=3, iterations=3)
        audit = ra.Reachability(actions=Past(2), policy=Softmax(beta=2), targets=tuple(ids), users=tuple(USERS))
        fitted = recommender.fit(Past(2).before(world.data))
        curve = sweep_beta(recommender, world.data, audit=audit, betas=[2.0])
        found = audit.run(ra.Subject(model=fitted, data=world.data))
        assert curve.curve("discovery")["value"][0] == pytest.approx(found["discovery"])
        known = found.pairs.drop_nulls("value").with_columns(hit=pl.col("value") > 1 / pl.col("candidates"))
        assert known["hit"].any()
        own = known.group_by("user", maintain_order=True).agg(pl.col("hit").mean())["hit"].to_list()
        assert found.users["discovery"].to_list() == pytest.approx(own)


def made_of(pairs: pl.DataFrame, found: ReachabilityResult, data: Interactions) -> ReachabilityResult:
    """The result of the same audit with these pairs instead."""
    users = data.users_at(pairs["user"].unique(maintain_order=True))
    return ReachabilityResult.of(found.audit, data, users, pairs, rng=0)  # type: ignore[arg-type]  # its own class


class TestHowAggregatesStand:
    def test_a_mean_over_lower_bounds_is_a_lower_bound(self, model: Any) -> None:
        found = ra.reachability(model, actions=NextK(2), slate=5, users=USERS)
        assert found.counts()["bounded"] > 0
        assert set(found.frame["status"]) == {"bounded"}
        assert set(found.by("genre")["status"]) == {"bounded"}
        assert found.settings["statuses"] == found.counts()
        assert found.summary().count("a lower bound") == 3
        contrast = contrast_items(found, *np.array_split(found.pairs["item"].unique().sort().to_list(), 2))
        assert set(contrast["status"]) == {"bounded"}

    def test_only_what_stands_on_a_bound_is_one(self, model: Any) -> None:
        """One user's pairs with one item are bounded: nothing else than what they are part of is."""
        found = ra.reachability(model, actions=NextK(2), users=USERS)
        data, item = model.data, found.pairs["item"][0]
        one = (pl.col("user") == USERS[0]) & (pl.col("item") == item)
        status = pl.when(one).then(pl.lit("bounded")).otherwise(pl.col("status")).cast(found.pairs["status"].dtype)
        some = made_of(found.pairs.with_columns(status=status), found, data)
        assert set(some.frame["status"]) == {"bounded"}
        genres = data.categories["genre"]
        touched = {genres.names[g] for g in genres.weights.toarray()[data.items_at([item])[0]].nonzero()[0]}
        rows = some.by("genre").filter(pl.col("status") != "not_applicable")
        assert set(rows.filter(pl.col("status") == "bounded")["group"]) == touched
        assert set(rows["status"]) == {"bounded", "solved"}
        by_user = some.by("region").filter(pl.col("users") > 0)
        region = data.attributes["region"][int(data.users_at(USERS[:1])[0])]
        assert dict(by_user.select("group", "status").iter_rows())[region] == "bounded"

    def test_what_failed_is_left_out_and_counted(self, model: Any) -> None:
        found = ra.reachability(model, actions=NextK(2), users=USERS)
        lost = pl.col("user") == USERS[0]
        columns = [pl.when(~lost).then(pl.col(name)).alias(name) for name in ("value", "lower", "upper", "lift")]
        status = pl.when(lost).then(pl.lit("failed")).otherwise(pl.col("status")).cast(found.pairs["status"].dtype)
        pairs = found.pairs.with_columns(*columns, status=status)
        result = made_of(pairs, found, model.data)
        assert set(result.frame["status"]) == {"solved"}
        assert result.frame["excluded"].to_list() == [1] * 3
        assert result.settings["statuses"] == result.counts()
        assert result.counts()["failed"] == (pairs["user"] == USERS[0]).sum()
        alone = made_of(pairs.filter(lost), found, model.data)
        assert set(alone.frame["status"]) == {"failed"}
        assert alone.frame["value"].null_count() == 3

    def test_instability(self, world: World) -> None:
        """The distances of a model that is not affine are found by trying ratings of an interval: lower bounds."""
        recommender = Nonlinear()
        found = ra.instability(
            recommender.fit(Past(2).before(world.data)),
            world.data,
            edits=Past(2),
            viewers=USERS,
            editors=USERS,
        )
        assert found.counts()["bounded"] == 6
        assert set(found.frame["status"]) == {"bounded"}
        groups = found.groups.filter(pl.col("users") > 0)
        assert set(groups["status"]) == {"bounded"}
        assert "editor history" in set(groups["by"])
        assert set(found.contrast(USERS[:1], USERS[1:])["status"]) == {"bounded"}
        exact = ra.instability(ALS(factors=3, iterations=2).fit(world.data), edits=Past(2), viewers=USERS)
        assert set(exact.frame["status"]) == {"solved"}


def test_the_weakest_of_what_counts() -> None:
    values, everybody = np.array([0.5, 0.25, np.nan]), np.ones(3)
    statuses = np.array(["solved", "bounded", "failed"])

    def stands(members: list[int]) -> Status:
        return mean("lift", values, np.array(members), statuses=statuses).status

    assert mean("lift", values, everybody).status is Status.SOLVED
    assert [stands(m) for m in ([1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1])] == [
        "solved",
        "bounded",
        "solved",
        "failed",
    ]
    assert weakest(np.array([], dtype="<U14")) is Status.NOT_APPLICABLE
    nothing = SampleEstimate(value=np.nan, n=0)
    assert row(SampleEstimate(value=0.5, lower=0.4, upper=0.6, n=3), 3, status=Status.BOUNDED)["status"] == "bounded"
    assert row(nothing, 3, status=Status.FAILED)["status"] == "failed"
    assert row(nothing, 3)["status"] == "not_applicable"

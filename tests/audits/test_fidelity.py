from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import recaudit as ra
from recaudit.audits.audit import Subject
from recaudit.audits.fidelity.audit import Fidelity, fidelity
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.engines import Engine
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import Future, GivenItems, HistoryEdits, Interval, NextK, Past
from recaudit.models import (
    ALS,
    EASE,
    BiasedMF,
    FittedModel,
    ItemKNN,
    LinearModel,
    Recommender,
    SgdStep,
    TopPop,
    from_weights,
)
from recaudit.policies import Softmax, Top1


class FixedWeights(Recommender):
    """A refit changes nothing but the user's own row: what the response assumes, made true."""

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        weights = np.random.default_rng(0).standard_normal((data.n_items, data.n_items)) / 40
        return from_weights(weights, data, predicts_ratings=True)


class Fragile(Recommender):
    """Refuses every log but the one it saw first."""

    ratings: int

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        if len(data) != self.ratings:
            raise InputError("data", received=f"{len(data)} ratings", expected=f"{self.ratings} ratings")
        return FixedWeights().fit(data)


def checked(
    recommender: Recommender,
    model: FittedModel,
    rng: int = 0,
    engine: Engine | None = None,
    top: int = 3,
    other_rng: int | None = None,
    users: Any = 5,
    **asked: Any,
) -> Result:
    """Fidelity of the reachability that the model promises."""
    audit = Fidelity(audit=Reachability(users=users, **asked), top=top, other_rng=other_rng)
    return audit.run(Subject(model=model, recommender=recommender), rng=rng, engine=engine)


@pytest.mark.parametrize("policy", [Softmax(beta=2), Top1()])
@pytest.mark.parametrize("actions", [NextK(4), HistoryEdits(4)])
def test_where_the_response_is_the_refit_every_promise_is_kept(split: Split, actions: Any, policy: Any) -> None:
    model = FixedWeights().fit(split.train)
    found = checked(FixedWeights(), model, actions=actions, policy=policy)
    assert len(found.pairs) == 15
    assert found.pairs["realised"].to_list() == pytest.approx(found.pairs["promised"].to_list(), rel=1e-9)
    assert found.pairs["error"].to_list() == pytest.approx([0] * 15, abs=1e-9)
    assert found.pairs["rank_realised"].to_list() == found.pairs["rank_promised"].to_list()
    assert found["median_error"] == pytest.approx(0, abs=1e-9)
    assert found["realised_share"] == pytest.approx(1)
    assert found["refit_difference"] == 0


RECOMMENDERS = [
    EASE(regularization=100, center="item"),
    ItemKNN(),
    ALS(factors=3, iterations=3, regularization=0.1),
    BiasedMF(factors=3, epochs=5),
]


@pytest.mark.parametrize("recommender", RECOMMENDERS, ids=lambda r: type(r).__name__)
def test_each_row_is_a_refit_by_hand(split: Split, recommender: Recommender) -> None:
    """The best ratings put into the log's frame, the recommender fitted, the softmax written out."""
    train, actions = split.train, NextK(3)
    model = recommender.fit(train)
    found = checked(recommender, model, actions=actions, policy=Softmax(beta=2), users=2, top=2)
    assert found["refit_difference"] == 0  # the same log and seed give the same model
    users = found.pairs["user"].unique().to_list()
    promised = ra.reachability(model, actions=actions, policy=Softmax(beta=2), users=users, best_actions=True).pairs
    for row in found.pairs.iter_rows(named=True):
        promise = promised.filter((pl.col("user") == row["user"]) & (pl.col("item") == row["item"])).row(0, named=True)
        assert (row["promised"], row["baseline"]) == (promise["value"], promise["baseline"])
        user, items = train.users_at([row["user"]])[0], train.items_at(promise["action_items"])
        edited = train.csr.toarray()
        edited[user, items] = promise["action_ratings"]
        rows, columns = np.nonzero(edited)
        frame = pl.DataFrame(
            {
                "user": train.user_ids.gather(rows),
                "item": train.item_ids.gather(columns),
                "rating": edited[rows, columns],
            }
        )
        log = Interactions.from_frame(frame, scale=train.scale)
        assert log.item_ids.equals(train.item_ids)
        scores = recommender.fit(log).scores(np.array([user]))[0]
        free = np.setdiff1d(np.flatnonzero(~train.seen(np.array([user]))[0]), items)
        target = train.items_at([row["item"]])[0]
        weights = np.exp(2 * scores)
        assert row["realised"] == pytest.approx(weights[target] / weights[free].sum(), rel=1e-9)
        assert row["error"] == pytest.approx(np.log(row["realised"] / row["promised"]))
        assert row["rank_realised"] == 1 + (scores[free] > scores[target]).sum()
        assert row["rank_promised"] == row["rank_baseline"] - promise["rank_gain"]


class Deaf(Recommender):
    """Makes nothing of anybody's ratings."""

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        return from_weights(np.zeros((data.n_items, data.n_items)), data, predicts_ratings=True)


def test_a_summary_warns_where_refits_keep_hardly_anything_of_what_was_promised(split: Split) -> None:
    model = FixedWeights().fit(split.train)
    deaf = Subject(model=model, recommender=Deaf())
    promising = Reachability(users=5, actions=NextK(4), policy=Softmax(beta=2))
    for found in (promising.run(deaf), Fidelity(audit=promising).run(deaf)):
        tested = found.facts["fidelity"]
        assert tested["shares"]["least"] <= tested["shares"]["median"] < 0.1
        assert f"Caution: the median of {tested['pairs']} refits gave " in found.summary()
    kept = Fidelity(audit=promising).run(Subject(model=model, recommender=FixedWeights()))
    assert kept.facts["fidelity"]["shares"] == pytest.approx({"least": 1, "median": 1, "most": 1})
    assert "Caution" not in kept.summary()


def test_the_highest_promises_are_taken(split: Split) -> None:
    model = ItemKNN().fit(split.train)
    found = checked(ItemKNN(), model, users=["user-003"], top=4, actions=NextK(3)).pairs
    every = ra.reachability(model, users=["user-003"], actions=NextK(3)).pairs
    assert found["promised"].to_list() == every["value"].sort(descending=True).head(4).to_list()


def test_the_summary_of_known_errors(split: Split) -> None:
    model = ALS(factors=3, iterations=3).fit(split.train)
    found = checked(ALS(factors=3, iterations=3), model, users=3, actions=NextK(3))
    frame = found.pairs
    assert found["median_error"] == pytest.approx(np.median(np.abs(np.log(frame["realised"] / frame["promised"]))))
    assert found["promise_correlation"] == pytest.approx(spearmanr(frame["promised"], frame["realised"]).statistic)
    gains = [(frame[name] - frame["baseline"]).to_numpy().sum() for name in ("realised", "promised")]
    assert found["realised_share"] == pytest.approx(gains[0] / gains[1])
    assert f"{found['median_error']:.4f}" in found.summary()
    assert found.facts["statuses"] == {"solved": 9}
    assert found.frame.select("users", "excluded").unique().rows() == [(3, 0)]


def test_the_control_shows_a_model_that_was_fitted_otherwise(split: Split) -> None:
    recommender = ALS(factors=3, iterations=3)
    model = recommender.fit(split.train, rng=1)
    options: dict[str, Any] = {"users": 1, "top": 1, "actions": NextK(3)}
    assert checked(recommender, model, rng=1, **options)["refit_difference"] == 0
    assert checked(recommender, model, rng=0, **options)["refit_difference"] > 1e-6


def test_another_seed_shows_the_noise(split: Split) -> None:
    recommender = BiasedMF(factors=3, epochs=5)
    options: dict[str, Any] = {"users": 2, "top": 1, "actions": NextK(3)}
    model = recommender.fit(split.train)
    found = checked(recommender, model, other_rng=1, **options).pairs
    again = checked(recommender, model, other_rng=0, **options).pairs
    assert (found["realised_other_rng"] != found["realised"]).all()
    assert again["realised_other_rng"].equals(again["realised"], check_names=False)
    without = checked(recommender, model, **options).pairs
    assert without["realised_other_rng"].null_count() == 2
    assert without.drop("realised_other_rng").equals(found.drop("realised_other_rng"))


def test_the_update_rule_is_what_is_tested(split: Split) -> None:
    """The same model, responding by a tiny gradient step, promises next to nothing beyond the baseline."""
    recommender = ALS(factors=3, iterations=5, regularization=0.1)
    model = recommender.fit(split.train)
    options: dict[str, Any] = {"users": 3, "actions": HistoryEdits(5)}
    solved = checked(recommender, model, **options)
    stepped = checked(recommender, model.with_update(SgdStep(step=1e-6)), **options)
    assert stepped["refit_difference"] == 0
    lifts = [(f.pairs["promised"] / f.pairs["baseline"]).to_numpy() for f in (stepped, solved)]
    assert lifts[0].max() < 1.001 < lifts[1].min()


def test_what_cannot_be_asked_is_not_applicable_and_costs_no_refit(split: Split) -> None:
    model = FixedWeights().fit(split.train)
    seen = split.train.item_ids[int(split.train.history(3)[0][0])]
    free = int(np.flatnonzero(~split.train.seen(np.array([3]))[0])[-1])
    targets = [seen, split.train.item_ids[free]]
    found = checked(FixedWeights(), model, users=[split.train.user_ids[3]], targets=targets, actions=NextK(2)).pairs
    by_item = {row["item"]: row for row in found.iter_rows(named=True)}
    assert by_item[seen]["status"] == "not_applicable"
    assert by_item[seen]["realised"] is None
    assert by_item[targets[1]]["status"] == "solved"


def test_nothing_to_compare_is_said_so(tiny: Interactions) -> None:
    """cem has no history in the cut log, hence nothing to edit."""
    data = tiny.subset(tiny.users != 2)
    found = checked(
        FixedWeights(), FixedWeights().fit(data), users=["cem"], actions=HistoryEdits(2), policy=Softmax(beta=2.0)
    )
    assert set(found.pairs["status"]) == {"not_applicable"}
    assert found.frame["value"].to_list()[:3] == [None] * 3
    assert found.frame["status"].to_list()[:3] == ["not_applicable"] * 3
    assert found.frame["users"].to_list() == [0] * 4


def test_nothing_is_promised_to_a_user_without_candidates(tiny: Interactions) -> None:
    """ada has rated all but d, and d is acted on."""
    found = checked(FixedWeights(), FixedWeights().fit(tiny), users=["ada", "bob"], actions=NextK(1)).pairs
    assert set(found.filter(pl.col("user") == "ada")["status"]) == {"not_applicable"}
    assert set(found.filter(pl.col("user") == "bob")["status"]) == {"solved"}


def test_a_refit_that_fails_is_a_status_with_its_cause(split: Split) -> None:
    recommender = Fragile(ratings=len(split.train))
    model = recommender.fit(split.train)
    found = checked(recommender, model, users=2, top=2, actions=NextK(2))
    assert found.pairs["status"].to_list() == ["failed"] * 4
    assert found.pairs["realised"].null_count() == 4
    assert found.pairs["promised"].null_count() == 0
    assert len(found.facts["causes"]) == 1
    assert f"expected {len(split.train)} ratings" in found.summary()
    # Edits of the history add no rating, and succeed.
    assert set(checked(recommender, model, users=2, actions=HistoryEdits(2)).pairs["status"]) == {"solved"}


def test_numbers_do_not_depend_on_the_engine(split: Split) -> None:
    recommender = ALS(factors=3, iterations=3)
    model = recommender.fit(split.train)
    options: dict[str, Any] = {"users": 2, "top": 2, "actions": NextK(3)}
    first = checked(recommender, model, **options).pairs
    assert checked(recommender, model, engine=ra.engines.Threads(2), **options).pairs.equals(first)


def test_the_sample_of_users_follows_the_seed(split: Split, tiny: Interactions) -> None:
    def drawn(data: Interactions, users: int, rng: int) -> set[str]:
        model = FixedWeights().fit(data)
        found = checked(FixedWeights(), model, users=users, top=1, actions=HistoryEdits(1), rng=rng)
        return set(found.pairs["user"])

    assert drawn(split.train, 3, 0) < drawn(split.train, 6, 0)
    assert drawn(split.train, 6, 0) != drawn(split.train, 6, 1)
    assert drawn(tiny, 5, 0) == {"ada", "bob", "cem"}


def test_without_a_model_the_recommender_is_fitted(split: Split) -> None:
    recommender = ALS(factors=3, iterations=3)
    policy = Softmax(beta=2.0)
    audit = Reachability(users=2, actions=NextK(3), policy=policy)
    given = checked(recommender, recommender.fit(split.train), users=2, actions=NextK(3), policy=policy)
    assert fidelity(recommender, split.train, audit=audit).pairs.equals(given.pairs)
    past = fidelity(recommender, split.train, audit=Reachability(users=2, actions=Past(2), policy=policy), top=1)
    promised = ra.reachability(
        recommender.fit(Past(2).before(split.train)),
        split.train,
        actions=Past(2),
        users=past.pairs["user"],
        policy=policy,
    ).pairs.filter(pl.col("value") == pl.col("value").max().over("user"))
    assert past.pairs["promised"].to_list() == promised["value"].to_list()
    with pytest.raises(InputError, match="data: received nothing; expected a log to fit the recommender to"):
        fidelity(recommender)


def test_it_is_read_back_as_it_was_saved(split: Split, tmp_path: Path) -> None:
    found = fidelity(FixedWeights(), split.train, audit=Reachability(users=2, actions=NextK(2)))
    found.save(tmp_path / "kept")
    again = Result.load(tmp_path / "kept")
    assert again.audit == found.audit
    assert again.summary() == found.summary()
    assert again.pairs.equals(found.pairs)


def test_bad_arguments(split: Split) -> None:
    model = FixedWeights().fit(split.train)
    with pytest.raises(InputError, match=r"users.*: received 0; expected how many, 1 or more"):
        checked(FixedWeights(), model, users=0)
    with pytest.raises(InputError, match="users: received no ids"):
        checked(FixedWeights(), model, users=[])
    with pytest.raises(InputError, match="top: received 0"):
        checked(FixedWeights(), model, top=0)
    with pytest.raises(DataError, match="users: received row 0: 'nobody'"):
        checked(FixedWeights(), model, users=["nobody"])
    with pytest.raises(NotSupportedError, match="no formula says"):
        checked(TopPop(), TopPop().fit(split.train))
    wrong: dict[str, Any] = {"accuracy": {"kind": "accuracy"}, "agency": ra.audits.Agency()}
    for name, audit in wrong.items():
        with pytest.raises(InputError, match=f"audit: received '{name}'; expected reachability or instability"):
            Fidelity(audit=audit)
    with pytest.raises(InputError, match="such as NextK"):
        Fidelity(audit=Reachability(actions=Future(2)))
    with pytest.raises(InputError, match="recommender: received nothing"):
        fidelity(model)
    wide = GivenItems((split.train.item_ids[0],), Interval(-9, 9))
    with pytest.raises(InputError, match=r"ratings: received .*scale \[1, 5\]"):
        checked(FixedWeights(), model, users=1, actions=wide)

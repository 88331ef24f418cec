from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import recaudit as ra
from recaudit.audits import fidelity
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import GivenItems, HistoryEdits, Interval, NextK
from recaudit.models import ALS, EASE, BiasedMF, ItemKNN, LinearModel, Recommender, SgdStep, TopPop, from_weights
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


@pytest.mark.parametrize("policy", [Softmax(beta=2), Top1()])
@pytest.mark.parametrize("actions", [NextK(4), HistoryEdits(4)])
def test_where_the_response_is_the_refit_every_promise_is_kept(split: Split, actions: Any, policy: Any) -> None:
    model = FixedWeights().fit(split.train)
    found = fidelity(FixedWeights(), model, actions=actions, policy=policy)
    assert len(found.frame) == 15
    assert found.frame["realised"].to_list() == pytest.approx(found.frame["promised"].to_list(), rel=1e-9)
    assert found.frame["error"].to_list() == pytest.approx([0] * 15, abs=1e-9)
    assert found.frame["rank_realised"].to_list() == found.frame["rank_promised"].to_list()
    assert found.median_error == pytest.approx(0, abs=1e-9)
    assert found.realised_share == pytest.approx(1)
    assert found.control == 0


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
    found = fidelity(recommender, model, actions=actions, policy=Softmax(beta=2), users=2, targets=2)
    assert found.control == 0  # the same log and seed give the same model
    users = found.frame["user"].unique().to_list()
    promised = ra.reachability(model, actions=actions, policy=Softmax(beta=2), users=users, best_actions=True).pairs
    for row in found.frame.iter_rows(named=True):
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
        scores = recommender.fit(log).scores(np.array([user]))[0].numpy()
        free = np.setdiff1d(np.flatnonzero(~train.seen(np.array([user]))[0]), items)
        target = train.items_at([row["item"]])[0]
        weights = np.exp(2 * scores)
        assert row["realised"] == pytest.approx(weights[target] / weights[free].sum(), rel=1e-9)
        assert row["error"] == pytest.approx(np.log(row["realised"] / row["promised"]))
        assert row["rank_realised"] == 1 + (scores[free] > scores[target]).sum()
        assert row["rank_promised"] == row["rank_baseline"] - promise["rank_gain"]


def test_the_highest_promises_are_taken(split: Split) -> None:
    model = ItemKNN().fit(split.train)
    found = fidelity(ItemKNN(), model, users=["user-003"], targets=4, actions=NextK(3)).frame
    every = ra.reachability(model, users=["user-003"], actions=NextK(3), policy=Softmax()).pairs
    assert found["promised"].to_list() == every["value"].sort(descending=True).head(4).to_list()


def test_the_summary_of_known_errors(split: Split) -> None:
    model = ALS(factors=3, iterations=3).fit(split.train)
    found = fidelity(ALS(factors=3, iterations=3), model, users=3, actions=NextK(3))
    frame = found.frame
    assert found.median_error == pytest.approx(np.median(np.abs(np.log(frame["realised"] / frame["promised"]))))
    assert found.spearman == pytest.approx(spearmanr(frame["promised"], frame["realised"]).statistic)
    gains = [(frame[name] - frame["baseline"]).to_numpy().sum() for name in ("realised", "promised")]
    assert found.realised_share == pytest.approx(gains[0] / gains[1])
    assert f"{found.median_error:.3g}" in found.summary()
    assert "9 pairs: 9 solved" in repr(found)
    assert found.to_pandas()["error"].tolist() == frame["error"].to_list()


def test_the_control_shows_a_model_that_was_fitted_otherwise(split: Split) -> None:
    recommender = ALS(factors=3, iterations=3)
    model = recommender.fit(split.train, rng=1)
    options: dict[str, Any] = {"users": 1, "targets": 1, "actions": NextK(3)}
    assert fidelity(recommender, model, rng=1, **options).control == 0
    assert fidelity(recommender, model, rng=0, **options).control > 1e-6


def test_another_seed_shows_the_noise(split: Split) -> None:
    recommender = BiasedMF(factors=3, epochs=5)
    options: dict[str, Any] = {"users": 2, "targets": 1, "actions": NextK(3)}
    model = recommender.fit(split.train)
    found = fidelity(recommender, model, other_rng=1, **options).frame
    again = fidelity(recommender, model, other_rng=0, **options).frame
    assert (found["realised_other_rng"] != found["realised"]).all()
    assert again["realised_other_rng"].equals(again["realised"], check_names=False)
    without = fidelity(recommender, model, **options).frame
    assert without["realised_other_rng"].null_count() == 2
    assert without.drop("realised_other_rng").equals(found.drop("realised_other_rng"))


def test_the_update_rule_is_what_is_tested(split: Split) -> None:
    """The same model, responding by a tiny gradient step, promises next to nothing beyond the baseline."""
    recommender = ALS(factors=3, iterations=5, regularization=0.1)
    model = recommender.fit(split.train)
    options: dict[str, Any] = {"users": 3, "actions": HistoryEdits(5)}
    solved = fidelity(recommender, model, **options)
    stepped = fidelity(recommender, model.with_update(SgdStep(step=1e-6)), **options)
    assert stepped.control == 0
    lifts = [(f.frame["promised"] / f.frame["baseline"]).to_numpy() for f in (stepped, solved)]
    assert lifts[0].max() < 1.001 < lifts[1].min()


def test_what_cannot_be_asked_is_not_applicable_and_costs_no_refit(split: Split) -> None:
    model = FixedWeights().fit(split.train)
    seen = split.train.item_ids[int(split.train.history(3)[0][0])]
    free = int(np.flatnonzero(~split.train.seen(np.array([3]))[0])[-1])
    targets = [seen, split.train.item_ids[free]]
    found = fidelity(FixedWeights(), model, users=[split.train.user_ids[3]], targets=targets, actions=NextK(2)).frame
    by_item = {row["item"]: row for row in found.iter_rows(named=True)}
    assert by_item[seen]["status"] == "not_applicable"
    assert by_item[seen]["realised"] is None
    assert by_item[targets[1]]["status"] == "solved"


def test_nothing_to_compare_is_said_so(tiny: Interactions) -> None:
    """cem has no history in the cut log, hence nothing to edit."""
    data = tiny.subset(tiny.users != 2)
    found = fidelity(FixedWeights(), FixedWeights().fit(data), users=["cem"], actions=HistoryEdits(2))
    assert set(found.frame["status"]) == {"not_applicable"}
    assert (found.median_error, found.spearman, found.realised_share) == (None, None, None)
    assert "not_applicable" in found.summary()


def test_nothing_is_promised_to_a_user_without_candidates(tiny: Interactions) -> None:
    """ada has rated all but d, and d is acted on."""
    found = fidelity(FixedWeights(), FixedWeights().fit(tiny), users=["ada", "bob"], actions=NextK(1)).frame
    assert set(found.filter(pl.col("user") == "ada")["status"]) == {"not_applicable"}
    assert set(found.filter(pl.col("user") == "bob")["status"]) == {"solved"}


def test_a_refit_that_fails_is_a_status_with_its_cause(split: Split) -> None:
    recommender = Fragile(ratings=len(split.train))
    model = recommender.fit(split.train)
    found = fidelity(recommender, model, users=2, targets=2, actions=NextK(2))
    assert found.frame["status"].to_list() == ["failed"] * 4
    assert found.frame["realised"].null_count() == 4
    assert found.frame["promised"].null_count() == 0
    assert len(found.causes) == 1
    assert f"expected {len(split.train)} ratings" in found.summary()
    # Edits of the history add no rating, and succeed.
    assert set(fidelity(recommender, model, users=2, actions=HistoryEdits(2)).frame["status"]) == {"solved"}


def test_numbers_do_not_depend_on_the_engine(split: Split) -> None:
    recommender = ALS(factors=3, iterations=3)
    model = recommender.fit(split.train)
    options: dict[str, Any] = {"users": 2, "targets": 2, "actions": NextK(3)}
    first = fidelity(recommender, model, **options).frame
    assert fidelity(recommender, model, engine=ra.engines.Threads(2), **options).frame.equals(first)


def test_the_sample_of_users_follows_the_seed(split: Split, tiny: Interactions) -> None:
    def drawn(data: Interactions, users: int, rng: int) -> set[str]:
        model = FixedWeights().fit(data)
        found = fidelity(FixedWeights(), model, users=users, targets=1, actions=HistoryEdits(1), rng=rng)
        return set(found.frame["user"])

    assert drawn(split.train, 3, 0) < drawn(split.train, 6, 0)
    assert drawn(split.train, 6, 0) != drawn(split.train, 6, 1)
    assert drawn(tiny, 5, 0) == {"ada", "bob", "cem"}


def test_bad_arguments(split: Split) -> None:
    model = FixedWeights().fit(split.train)
    with pytest.raises(InputError, match="users: received 0; expected how many to draw"):
        fidelity(FixedWeights(), model, users=0)
    with pytest.raises(InputError, match="users: received no ids"):
        fidelity(FixedWeights(), model, users=[])
    with pytest.raises(InputError, match="targets: received 0"):
        fidelity(FixedWeights(), model, targets=0)
    with pytest.raises(DataError, match="users: received row 0: 'nobody'"):
        fidelity(FixedWeights(), model, users=["nobody"])
    with pytest.raises(NotSupportedError, match="no formula says"):
        fidelity(TopPop(), TopPop().fit(split.train))
    wide = GivenItems((split.train.item_ids[0],), Interval(-9, 9))
    with pytest.raises(InputError, match=r"ratings: received .*scale \[1, 5\]"):
        fidelity(FixedWeights(), model, users=1, actions=wide)

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

import recaudit as ra
from recaudit.audits.lists.exposure import _centred_ranks, gini
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.models import ALS, FittedModel, ItemKNN, from_factors
from recaudit.policies import Softmax


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([3, 3, 3], 0), ([0, 0, 6], 2 / 3), ([0, 1], 1 / 2), ([1, 3], 1 / 4), ([1, 2, 3, 4], 0.25)],
)
def test_gini_known_answers(counts: list[float], expected: float) -> None:
    assert gini(np.array([counts], dtype=float))[0] == pytest.approx(expected)


@pytest.mark.parametrize("unit", [1.0, 0.5, 2.0**21])
def test_ranks_are_those_of_scipy(unit: float) -> None:
    """Whole numbers are ranked by counting them, others by sorting."""
    counts = unit * np.random.default_rng(0).poisson(2.0, (3, 400)).astype(np.float64)
    expected = stats.rankdata(counts, axis=1) - 200.5
    np.testing.assert_array_equal(_centred_ranks(counts), expected)
    np.testing.assert_array_equal(_centred_ranks(np.asfortranarray(counts)), expected)


def test_gini_is_the_mean_difference(model: Any) -> None:
    counts = ra.exposure(model).items["recommended"].to_numpy().astype(float)
    n = len(counts)
    expected = np.abs(counts[:, None] - counts[None, :]).sum() / (2 * n * counts.sum())
    assert ra.exposure(model)["gini"] == pytest.approx(expected)


def test_a_case_worked_by_hand() -> None:
    """Scores a 4, b 3, c 2, d 1. u saw a; v saw a and b; w saw a, b and c."""
    frame = pl.DataFrame({"user": list("uvvwwwx"), "item": list("aababcd"), "rating": [3.0] * 7})
    data = Interactions.from_frame(frame, scale=(0, 5))
    model = from_factors(np.ones((4, 1)), np.array([[4.0], [3], [2], [1]]), data, predicts_ratings=False)
    result = ra.exposure(model, k=1)
    # u gets b, v gets c, w gets d, x gets a; popularity a 3, b 2, c 1, d 1.
    assert result.items["recommended"].to_list() == [1, 1, 1, 1]
    assert result["coverage"] == 1
    assert result["gini"] == pytest.approx(0)
    lifts = [2 / 3 - 1, 1 / 2.5 - 1, 1 / 2 - 1, 3 / 1 - 1]
    assert result.users["popularity_lift"].to_list() == pytest.approx(lifts)
    assert result.users["novelty"].to_list() == pytest.approx(
        [-np.log2(2 / 4), -np.log2(1 / 4), -np.log2(1 / 4), -np.log2(3 / 4)]
    )
    assert result["novelty"] == pytest.approx(np.mean([1, 2, 2, -np.log2(0.75)]))
    row = result.frame.row(by_predicate=pl.col("metric") == "popularity_correlation", named=True)
    assert row["status"] == "not_applicable"  # every item is shown equally often: no order to compare


def test_popularity_correlation_is_spearmans(model: Any) -> None:
    result = ra.exposure(model)
    expected = stats.spearmanr(result.items["ratings"], result.items["recommended"]).statistic
    assert result["popularity_correlation"] == pytest.approx(expected)


def test_coverage_counts_distinct_items(model: Any) -> None:
    lists = ra.recommend(model, n=5)
    assert ra.exposure(model, k=5)["coverage"] == lists["item"].n_unique() / model.data.n_items


def test_shares_of_item_groups_sum_to_one_beside_their_baseline(model: Any) -> None:
    result = ra.exposure(model)
    for by in ("popularity", "genre"):
        rows = result.by(by)
        assert rows["value"].sum() == pytest.approx(1)
        assert rows["baseline"].sum() == pytest.approx(1)
    popularity = result.by("popularity")["baseline"].to_list()
    assert popularity == sorted(popularity)


def test_intervals_enclose_the_value(model: Any) -> None:
    for row in ra.exposure(model).frame.iter_rows(named=True):
        assert row["lower"] <= row["value"] <= row["upper"]
        assert row["lower"] < row["upper"]


def test_a_stochastic_policy_spreads_exposure_and_follows_the_seed(model: Any) -> None:
    sharp = ra.exposure(model)
    soft = ra.exposure(model, policy=Softmax(beta=0.1))
    again = ra.exposure(model, policy=Softmax(beta=0.1))
    other = ra.exposure(model, policy=Softmax(beta=0.1), rng=1)
    assert soft["gini"] < sharp["gini"]
    assert soft.items.equals(again.items)
    assert not soft.items.equals(other.items)


def test_numbers_do_not_depend_on_the_engine(model: Any) -> None:
    first = ra.exposure(model, policy=Softmax(beta=1))
    again = ra.exposure(model, policy=Softmax(beta=1), engine=ra.engines.Threads(3))
    assert all(first.tables[name].equals(table) for name, table in again.tables.items())


def test_users_who_have_seen_everything_are_excluded() -> None:
    frame = pl.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "a"], "rating": [1.0, 2.0, 3.0]})
    data = Interactions.from_frame(frame)
    result = ra.exposure(from_factors(np.ones((2, 1)), np.ones((2, 1)), data, predicts_ratings=False), k=2)
    row = result.frame.row(by_predicate=pl.col("metric") == "novelty", named=True)
    assert (row["users"], row["excluded"], row["value"]) == (1, 1, 1.0)


class TestRecommend:
    def test_lists_hold_unseen_items_best_first(self, model: Any) -> None:
        lists = ra.recommend(model, n=4, users=["user-003"])
        position = model.data.users_at(["user-003"])
        scores = model.scores(position)[0]
        seen = model.data.seen(position)[0]
        best = sorted(np.flatnonzero(~seen), key=lambda i: -scores[i])[:4]
        assert lists["item"].to_list() == model.data.item_ids.gather(best).to_list()
        assert lists["rank"].to_list() == [1, 2, 3, 4]
        assert lists["score"].to_list() == pytest.approx(scores[best].tolist())

    def test_block_size_and_company_do_not_matter(self, model: Any) -> None:
        together = ra.recommend(model, n=3, policy=Softmax(beta=1), rng=4)
        alone = ra.recommend(model, n=3, policy=Softmax(beta=1), rng=4, users=["user-010"])
        assert together.filter(pl.col("user") == "user-010").equals(alone)

    def test_unknown_user(self, model: Any) -> None:
        with pytest.raises(ra.errors.DataError, match="user-9999"):
            ra.recommend(model, users=["user-9999"])


class TestListsThatAreKnown:
    """Audit after audit looks at the same lists: they are made once."""

    def scored(self, monkeypatch: pytest.MonkeyPatch, model: FittedModel) -> list[int]:
        users = list[int]()
        real = type(model).scores

        def scores(self: Any, asked: Any) -> Any:
            users.extend(asked)
            return real(self, asked)

        monkeypatch.setattr(type(model), "scores", scores)
        return users

    def test_of_a_model_of_ours_they_are_made_once(self, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
        fresh = [ItemKNN().fit(split.train) for _ in range(3)]
        alone = ra.calibration(fresh[2], k=12), ra.exposure(fresh[1], k=12), ra.exposure(fresh[0], k=7)
        users = self.scored(monkeypatch, model := ItemKNN().fit(split.train))
        assert_frame_equal(
            ra.accuracy(model, split.test, k=6).frame, ra.accuracy(model.from_elsewhere(), split.test, k=6).frame
        )
        users.clear()
        ra.accuracy(model, split.test, k=6)
        together = ra.calibration(model, k=12), ra.exposure(model, k=12), ra.exposure(model, k=7)
        assert len(users) == split.train.n_users
        for one, other in zip(alone, together, strict=True):
            assert_frame_equal(one.frame, other.frame)

    def test_others_are_made_where_policy_or_length_differ(self, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
        users = self.scored(monkeypatch, model := ItemKNN().fit(split.train))
        first = ra.exposure(model, k=5)
        for more in (ra.exposure(model, k=60), ra.exposure(model, k=5, policy=Softmax(beta=1.0))):
            assert more.summary() != first.summary()
        assert len(users) == 3 * split.train.n_users

    def test_a_model_of_somebody_else_is_looked_at_each_time(
        self, split: Split, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        users = self.scored(monkeypatch, model := ItemKNN().fit(split.train).from_elsewhere())
        ra.exposure(model)
        ra.exposure(model)
        assert len(users) == 2 * split.train.n_users


def test_recommendations_of_items_that_nobody_rated_are_counted() -> None:
    """c is rated by nobody; both users are shown it, and one of them d, which has one rating."""
    frame = pl.DataFrame({"user": ["u", "v", "v"], "item": ["a", "a", "d"], "rating": 1.0})
    data = ra.Interactions.from_frame(frame, items=["c"])
    item = {name: place for place, name in enumerate(data.item_ids)}
    found = ra.Exposure(k=2, by=()).of_lists(data, np.array([[item["c"], item["d"]], [item["c"], -1]]))
    assert found.facts["recommended_unrated"] == 2
    assert found.users["novelty"].to_list() == [1.0, 1.0]  # a count of 0 enters as 1, of 2 users


@pytest.mark.parametrize("name", ["novelty", "popularity_lift", "popularity_correlation"])
def test_metrics_of_popularity_name_their_assumption(name: str) -> None:
    [metric] = [metric for metric in ra.Exposure.metrics if metric.name == name]
    assert "taken as given" in metric.definition

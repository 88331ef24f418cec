"""Re-ranking: own lists and re-ranked ones side by side, in the eyes of every audit, and given lists of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.audits import RerankingResult, Result
from recaudit.audits.audit import Subject
from recaudit.audits.calibration.audit import Calibration, calibration
from recaudit.audits.calibration.reranking import Reranking, calibration_curve, reranking
from recaudit.audits.folding.audit import folding
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.data import Interactions, splits
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import InputError, NotSupportedError
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models import ALS, EASE
from recaudit.policies.calibrated import Calibrated

SETTINGS: dict[str, Any] = {
    "k": 8,
    "weight": 0.9,
    "smoothing": 0.02,
    "curve": [0.9, 0.0],
    "relevant": 3,
    "tested": 20,
}
POLICY = Calibrated(weight=0.9, size=8, categories="genre", smoothing=0.02, transform="minmax")
OVERALL: dict[str, Any] = {"k": 8, "by": (), "rng": 3}


@pytest.fixture(scope="module")
def halves(world: World) -> Split:
    return splits.leave_last(world.data, k=2)


@pytest.fixture(scope="module")
def model(halves: Split) -> Any:
    return EASE().fit(halves.train, rng=3)


@pytest.fixture(scope="module")
def result(model: Any, halves: Split) -> RerankingResult:
    return reranking(model, halves.test, **SETTINGS, rng=3)


def numbers(result: Result, column: str = "value") -> dict[str, float]:
    return dict(result.frame.select("metric", column).iter_rows())


def test_re_ranked_lists_are_those_of_the_policy_in_the_eyes_of_every_audit(
    result: RerankingResult, model: Any
) -> None:
    calibrated = calibration(model, policy=POLICY, smoothing=0.02, tested=20, **OVERALL)
    exposed = ra.exposure(model, policy=POLICY, **OVERALL)
    assert dict(result.frame.schema) == SUMMARY_SCHEMA
    after = numbers(result)
    for found in (calibrated, exposed):
        for metric in set(after) & set(found.frame["metric"]):
            assert after[metric] == found[metric]
    assert {"calibration_kl", "uncalibrated_share", "coverage", "gini", "popularity_lift"} <= set(after)


def test_the_baseline_of_a_re_ranked_number_is_that_of_the_own_lists(
    result: RerankingResult, model: Any, halves: Split
) -> None:
    own = calibration(model, smoothing=0.02, tested=20, **OVERALL)
    accurate = ra.accuracy(model, halves.test, relevant=3, **OVERALL)
    exposed = ra.exposure(model, **OVERALL)
    before = numbers(result, "baseline")
    assert before["calibration_kl"] == own["calibration_kl"]
    assert (before["ndcg"], before["recall"]) == (accurate["ndcg"], accurate["recall"])
    assert (before["coverage"], before["novelty"]) == (exposed["coverage"], exposed["novelty"])
    assert_frame_equal(result.users.select(own.users.columns), own.users)


def test_re_ranking_makes_lists_more_calibrated(result: RerankingResult) -> None:
    rows = result.frame.filter(pl.col("metric").str.starts_with("calibration"))
    assert len(rows) == 3
    assert (rows["value"] < rows["baseline"]).all()


def test_a_model_with_vectors_is_also_asked_what_its_lists_fold(result: RerankingResult, halves: Split) -> None:
    als = ALS(factors=3).fit(halves.train, rng=3)
    # Against who rated what: the lists are calibrated to the genres.
    folded = folding(als, relatedness="log", **OVERALL)
    row = reranking(als, halves.test, **SETTINGS, rng=3).frame.filter(pl.col("metric") == "log_folding")
    assert row["baseline"].item() == pytest.approx(folded["shown_folding"], rel=1e-9)
    assert "log_folding" not in result.frame["metric"]


def test_users_have_their_numbers_before_and_after(result: RerankingResult) -> None:
    for metric in ("calibration_kl", "calibration_hellinger", "calibration_tv", "ndcg", "recall"):
        assert result.users[f"{metric}_reranked"].mean() == pytest.approx(result[metric], rel=1e-12)


def test_the_curve_is_that_of_the_audit(result: RerankingResult, model: Any, halves: Split) -> None:
    found = calibration_curve(model, halves.test, weights=[0.0, 0.9], k=[8], policy=POLICY, relevant=3, rng=3)
    assert dict(result.series.schema) == SERIES_SCHEMA
    assert_frame_equal(result.series.drop("metric"), found.series.drop("metric"))
    assert result.series["metric"].to_list() == ["recall", "calibration_kl"] * 2


def test_the_worst_tenth_is_the_same_people_before_and_after(result: RerankingResult) -> None:
    people = result.users.sort("calibration_kl", descending=True)
    worst = people.head(int(np.ceil(0.1 * len(people))))
    table = result.table("worst")
    assert table["history"].sum() == pytest.approx(1)
    # Total variation is half of what lies above and below, whoever the users are.
    for suffix in ("", "_reranked"):
        apart = table[f"over{suffix}", f"under{suffix}"].to_numpy().sum() / 2
        assert apart == pytest.approx(worst[f"calibration_tv{suffix}"].mean())


def test_the_example_is_the_longest_history_of_the_worst_tenth(result: RerankingResult) -> None:
    people = result.users.sort("calibration_kl", descending=True)
    worst = people.head(int(np.ceil(0.1 * len(people))))
    example = result.table("example")
    (user,) = example["user"].unique()
    chosen = worst.row(by_predicate=pl.col("user") == user, named=True)
    assert chosen["history"] == worst["history"].max()
    apart = (example["history"] - example["own"]).abs().sum() / 2
    assert apart == pytest.approx(chosen["calibration_tv"])


def test_the_settings_name_the_smoothing_the_weight_and_the_categories(result: RerankingResult) -> None:
    settings = result.settings
    assert (settings["smoothing"], settings["weight"], settings["transform"]) == (0.02, 0.9, "minmax")
    assert (settings["k"], settings["categories"]) == (8, "genre")


def test_without_anything_to_find_there_is_no_curve_and_the_rest_stands(model: Any, halves: Split) -> None:
    found = reranking(model, halves.test, **(SETTINGS | {"relevant": 9}), rng=3)
    assert found.series.is_empty()
    assert found.frame.filter(pl.col("value").is_null())["metric"].to_list() == ["ndcg", "recall"]


def test_it_is_kept_and_read_again(result: RerankingResult, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    again = Result.load(tmp_path / "kept")
    assert isinstance(again, RerankingResult)
    assert (again.audit, again.settings) == (result.audit, result.settings)
    assert sorted(again.tables) == ["example", "items", "lists", "reranked", "series", "terms", "users", "worst"]
    assert_frame_equal(again.frame, result.frame)


@pytest.mark.parametrize("audit", [Reranking(), Calibration()])
def test_a_log_without_categories_cannot_be_asked_about(audit: Reranking | Calibration, tiny: Interactions) -> None:
    subject = Subject(model=EASE().fit(tiny), test=tiny)
    with pytest.raises(NotSupportedError, match="the log has no categories"):
        audit.run(subject)


@pytest.mark.parametrize("audit", [Reranking(categories="gendre"), Calibration(categories="gendre")])
def test_an_unknown_category_system_is_named_before_anything_is_fitted(
    audit: Reranking | Calibration, world: World
) -> None:
    with pytest.raises(InputError, match=r"Did you mean 'genre'\?"):
        audit.check(world.data)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("k", 0), ("weight", 1.5), ("smoothing", 0.0), ("curve", [0.5]), ("transform", "log"), ("tested", -1)],
)
def test_settings_that_cannot_be_are_named(setting: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{setting}: "):
        Reranking(**{setting: value})


class TestGivenLists:
    """Every audit of lists says about given lists what it says about a model that makes the same."""

    @pytest.fixture
    def lists(self, model: Any) -> Any:
        shown = ra.recommend(model, n=8)
        return model.data.items_at(shown["item"]).reshape(-1, 8)

    def test_exposure(self, model: Any, lists: Any) -> None:
        audit = Exposure(k=8)
        expected, found = audit.run(model, rng=3), audit.of_lists(model.data, lists, rng=3)
        assert all(found.tables[name].equals(table) for name, table in expected.tables.items())

    def test_calibration(self, model: Any, lists: Any) -> None:
        audit = Calibration(k=8)
        expected, found = audit.run(model, rng=3), audit.of_lists(model.data, lists, rng=3)
        assert all(found.tables[name].equals(table) for name, table in expected.tables.items())

    def test_accuracy(self, model: Any, lists: Any, halves: Split) -> None:
        audit = Accuracy(k=8, relevant=3)
        expected = audit.run(Subject(model, test=halves.test), rng=3)
        found = audit.of_lists(model.data, halves.test, lists, rng=3)
        for name, table in expected.tables.items():
            assert_frame_equal(found.tables[name], table)

    def test_a_short_list_stays_short(self, tiny: Interactions) -> None:
        lists = np.array([[2, 0], [3, -1], [-1, -1]])
        found = Exposure(k=2).of_lists(tiny, lists)
        assert found.items["recommended"].to_list() == [1, 0, 1, 1]
        accurate = Accuracy(k=2, by=()).of_lists(tiny, tiny, lists)
        assert accurate.frame.filter(metric="rmse")["status"].to_list() == ["not_applicable"]
        held = {user: set(tiny.history(user)[0]) for user in range(3)}
        expected = [len(held[user] & set(row[row >= 0])) / 2 for user, row in enumerate(lists)]
        assert accurate.users["precision"].to_list() == expected

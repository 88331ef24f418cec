"""Calibration of a model's lists, and of lists in a frame or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.calibration.audit import calibration
from recaudit.data import Interactions
from recaudit.data.lists import ListColumns
from recaudit.data.splits import Split
from recaudit.errors import DataError, InputError
from recaudit.models import ALS
from recaudit.policies import Calibrated, Top1


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.fixture(scope="module")
def films() -> Interactions:
    """Ann: 7 romances, 3 action films. Bob: one of each. Cy: nothing that has a genre."""
    rows = [("ann", f"r{i}") for i in range(7)] + [("ann", f"x{i}") for i in range(3)]
    rows += [("bob", "r9"), ("bob", "x9"), ("cy", "none"), *(("dee", f"{g}{i}") for g in "rx" for i in range(10, 30))]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row")
    items = frame.select("item").unique(maintain_order=True)
    genre = pl.col("item").str.head(1).replace_strict({"r": "romance", "x": "action", "n": None})
    return Interactions.from_frame(frame, rating=None).with_items(
        items.with_columns(genre=genre), categories={"genre": "genre"}
    )


def lists_of(**lists: list[str]) -> pl.DataFrame:
    rows = [(user, item, rank + 1) for user, items in lists.items() for rank, item in enumerate(items)]
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


ROMANCE = [f"r{i}" for i in range(10, 20)]
SEVEN_THREE = [*ROMANCE[:7], "x10", "x11", "x12"]


def of_user(result: ra.Result, user: str) -> dict[str, Any]:
    return result.users.row(by_predicate=pl.col("user") == user, named=True)


class TestGivenLists:
    def test_the_numbers_of_a_case_worked_by_hand(self, films: Interactions) -> None:
        result = calibration(lists_of(ann=ROMANCE, bob=SEVEN_THREE), films)
        ann, bob = of_user(result, "ann"), of_user(result, "bob")
        smoothed = 0.99 * 1 + 0.01 * 0.7, 0.01 * 0.3
        assert ann["calibration_kl"] == pytest.approx(0.7 * np.log(0.7 / smoothed[0]) + 0.3 * np.log(0.3 / smoothed[1]))
        assert ann["calibration_tv"] == pytest.approx(0.3)
        assert ann["calibration_hellinger"] == pytest.approx(np.sqrt(1 - np.sqrt(0.7)))
        assert bob["calibration_tv"] == pytest.approx(0.2)
        assert result["calibration_tv"] == pytest.approx(0.25)
        assert (ann["history"], ann["list"], ann["status"]) == (10, 10, "solved")

    def test_a_list_in_proportion_is_perfect(self, films: Interactions) -> None:
        result = calibration(lists_of(ann=SEVEN_THREE), films)
        for metric in ("calibration_kl", "calibration_hellinger", "calibration_tv"):
            assert result[metric] == pytest.approx(0, abs=1e-7)
        assert result["uncalibrated_share"] == 0

    def test_users_without_interests_are_excluded_with_a_status(self, films: Interactions) -> None:
        """Cy's history has no genre, eve is unknown to the log, bob's list has no genre."""
        result = calibration(lists_of(ann=ROMANCE, cy=ROMANCE, eve=ROMANCE, bob=["none"]), films)
        row = result.frame.row(by_predicate=pl.col("metric") == "calibration_kl", named=True)
        assert (row["users"], row["excluded"]) == (1, 3)
        statuses = dict(zip(result.users["user"], result.users["status"], strict=True))
        assert statuses == dict.fromkeys(("cy", "eve", "bob"), "not_applicable") | {"ann": "solved"}
        assert of_user(result, "eve")["calibration_kl"] is None
        assert of_user(result, "eve")["history"] == 0

    def test_a_prior_gives_them_interests(self, films: Interactions) -> None:
        half = calibration(lists_of(eve=["r10", "x10"]), films, prior_weight=0.5, prior="uniform")
        assert half["calibration_tv"] == pytest.approx(0)

    def test_order_comes_from_ranks_or_else_from_scores(self, films: Interactions) -> None:
        lists = lists_of(ann=[*SEVEN_THREE, *ROMANCE[7:]])
        scored = lists.select("user", "item", score=-pl.col("rank").cast(pl.Float64)).sample(fraction=1, shuffle=True)
        for frame in (lists, lists.reverse(), scored):
            assert calibration(frame, films, k=10)["calibration_tv"] == pytest.approx(0, abs=1e-12)

    def test_rank_weights_count_the_top_more(self, films: Interactions) -> None:
        lists = lists_of(bob=["r10", "x10"])
        assert calibration(lists, films)["calibration_tv"] == 0
        weighted = calibration(lists, films, rank_weights="mrr")
        assert weighted["calibration_tv"] == pytest.approx(2 / 3 - 1 / 2)

    def test_smoothing_is_stated_and_matters(self, films: Interactions) -> None:
        results = [calibration(lists_of(ann=ROMANCE), films, smoothing=a) for a in (0.01, 0.1)]
        assert results[0]["calibration_kl"] > results[1]["calibration_kl"]
        assert results[0].settings["smoothing"] == 0.01

    def test_a_file_gives_the_same(self, films: Interactions, tmp_path: Path) -> None:
        lists = lists_of(ann=ROMANCE, bob=SEVEN_THREE)
        lists.write_parquet(tmp_path / "lists.parquet")
        lists.write_csv(tmp_path / "lists.csv")
        expected = calibration(lists, films)
        for name in ("lists.parquet", "lists.csv"):
            found = calibration(tmp_path / name, films)
            assert all(found.tables[table].equals(frame) for table, frame in expected.tables.items())

    def test_columns_may_have_other_names(self, films: Interactions) -> None:
        lists = lists_of(ann=ROMANCE).rename({"user": "who", "item": "what", "rank": "place"})
        columns = ListColumns(user="who", item="what", rank="place")
        assert calibration(lists, films, columns=columns)["calibration_tv"] == pytest.approx(0.3)

    def test_unknown_items_are_an_error_or_counted(self, films: Interactions) -> None:
        lists = lists_of(ann=[*ROMANCE, "zzz"])
        with pytest.raises(DataError, match=r"column 'item': received row 10: 'zzz'.*unknown = 'ignore'"):
            calibration(lists, films)
        result = calibration(lists, films, unknown="ignore")
        assert result.settings["left_out"] == 1
        assert of_user(result, "ann")["list"] == 10

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda f: pl.concat([f, f[:1].with_columns(rank=pl.lit(99, pl.Int64))]), "each item once in a list"),
            (lambda f: f.with_columns(rank=1), "each rank once in a list"),
            (lambda f: f.drop("rank"), "a column 'rank' or 'score'"),
            (lambda f: f.drop("item"), "column 'item'"),
            (lambda f: f.with_columns(rank=pl.lit(None)), "a finite number in every row"),
            (lambda f: f[:0], "at least one row"),
            (lambda _: 3, "a pandas, polars or pyarrow data frame"),
        ],
    )
    def test_broken_lists_are_refused(self, films: Interactions, change: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            calibration(change(lists_of(ann=ROMANCE)), films)

    def test_settings_that_make_no_sense_are_refused(self, films: Interactions, split: Split, model: Any) -> None:
        lists = lists_of(ann=ROMANCE)
        with pytest.raises(InputError, match="data: received None"):
            calibration(lists)
        with pytest.raises(InputError, match="made already"):
            calibration(lists, films, policy=Calibrated())
        with pytest.raises(InputError, match=r"data: received .*the model's log"):
            calibration(model, films)
        with pytest.raises(InputError, match=r"history_weights: received 'ratings'.*'rating'"):
            calibration(lists, films, history_weights="ratings")
        with pytest.raises(InputError, match="a log with times"):
            calibration(lists, films, history_weights="recency", half_life=1)
        with pytest.raises(InputError, match="half_life"):
            calibration(lists, films, history_weights="recency")
        with pytest.raises(InputError, match="k: received 0"):
            calibration(lists, films, k=0)
        with pytest.raises(InputError, match="tested: received -1"):
            calibration(lists, films, tested=-1)


class TestModels:
    def test_lists_of_a_frame_equal_lists_of_the_model(self, model: Any) -> None:
        from_model = calibration(model, k=10)
        from_frame = calibration(ra.recommend(model, n=10), model.data)
        assert all(from_frame.tables[name].equals(table) for name, table in from_model.tables.items())

    def test_the_policy_that_calibrates_does(self, model: Any) -> None:
        plain, calibrated = (calibration(model, k=20, policy=p) for p in (Top1(), Calibrated()))
        for metric in ("calibration_kl", "calibration_hellinger", "calibration_tv", "uncalibrated_share"):
            assert calibrated[metric] < plain[metric] / 2

    def test_engines_agree(self, model: Any) -> None:
        first = calibration(model, k=10)
        again = calibration(model, k=10, engine=ra.engines.Threads(3))
        assert all(first.tables[name].equals(table) for name, table in again.tables.items())

    def test_groups_of_users_and_of_items(self, model: Any) -> None:
        result = calibration(model, k=10, by=["history", "genre"])
        by_history = result.by("history").filter(metric="calibration_kl")
        assert by_history["users"].sum() == model.data.n_users
        assert result.by("genre")["baseline"].sum() == pytest.approx(1)
        assert set(result.by("genre")["metric"]) == {"share"}

    def test_only_a_sample_is_tested_and_it_follows_from_the_seed(self, model: Any) -> None:
        few = calibration(model, k=10, tested=30)
        row = few.frame.row(by_predicate=pl.col("metric") == "uncalibrated_share", named=True)
        assert (row["users"], row["excluded"]) == (30, 90)
        every = calibration(model, k=10).users["p_value"]
        sampled = few.users["p_value"]
        assert sampled.drop_nulls().to_list() == every.filter(sampled.is_not_null()).to_list()
        none = calibration(model, k=10, tested=0).frame.filter(metric="uncalibrated_share")
        assert none["status"].to_list() == ["not_applicable"]

    def test_figure_3_adds_up(self, model: Any) -> None:
        table = calibration(model, k=10).table("categories")
        assert table.filter(group="worst")["users"].unique().to_list() == [12]
        for group in ("all", "worst"):
            rows = table.filter(group=group)
            assert rows["history"].sum() == pytest.approx(1)
            difference = rows["recommended"] - rows["history"]
            np.testing.assert_allclose(difference, rows["over"] - rows["under"], atol=1e-12)

    def test_the_worst_users_are_shown_by_category(self, model: Any) -> None:
        result = calibration(model, k=10)
        worst = result.table("worst_users")["user"].unique(maintain_order=True).to_list()
        assert worst == result.users.sort("calibration_kl", descending=True)["user"].head(10).to_list()

    def test_items_that_are_shown_as_often_as_consumed(self, films: Interactions) -> None:
        """Everybody gets exactly what they consumed."""
        log = films.frame().with_columns(rank=pl.int_range(pl.len()).over("user"))
        result = calibration(log, films)
        assert result["item_calibration_tv"] == pytest.approx(0, abs=1e-12)
        assert result.items["recommended_share"].to_list() == pytest.approx(result.items["consumed_share"].to_list())
        one = calibration(lists_of(ann=["r0"]), films)
        assert one["item_calibration_tv"] == pytest.approx(1 - 1 / len(films))


class TestSeveralSystems:
    @pytest.fixture
    def both(self, films: Interactions) -> Interactions:
        """Beside the genre a language: half of each genre is French."""
        names = films.item_ids.to_list()
        table = pl.DataFrame({"item": names, "language": ["fr" if name[-1] in "02468" else "en" for name in names]})
        return films.with_items(table, categories={"language": "language"})

    def test_a_distance_is_the_mean_over_systems_by_importance(self, both: Interactions) -> None:
        lists = lists_of(ann=ROMANCE, bob=SEVEN_THREE)
        importance = {"genre": 1.0, "language": 0.5}
        found = calibration(lists, both, categories=importance)
        alone = {name: calibration(lists, both, categories=name) for name in importance}
        assert found.settings["categories"] == importance
        parts = found.by("category system")
        for metric in ("calibration_kl", "calibration_hellinger", "calibration_tv"):
            expected = (alone["genre"][metric] + 0.5 * alone["language"][metric]) / 1.5
            assert found[metric] == pytest.approx(expected, rel=1e-9)
            for name, own in alone.items():
                row = parts.row(by_predicate=(pl.col("metric") == metric) & (pl.col("group") == name), named=True)
                assert row["value"] == pytest.approx(own[metric], rel=1e-9)
        assert found.table("categories")["category"].str.contains(": ").all()

    def test_a_system_of_no_importance_counts_nothing(self, both: Interactions) -> None:
        lists = lists_of(ann=ROMANCE)
        found = calibration(lists, both, categories={"genre": 3.0, "language": 0.0})
        assert found["calibration_kl"] == pytest.approx(calibration(lists, both, categories="genre")["calibration_kl"])

    @pytest.mark.parametrize("importance", [{}, {"genre": 0.0}, {"genre": -1.0}, {"genre": 1e308}, {"genre": np.nan}])
    def test_importances_without_a_meaning_are_refused(self, both: Interactions, importance: dict[str, float]) -> None:
        with pytest.raises(InputError, match=r"an importance from 0 to 1e|a mapping of a text to a number"):
            calibration(lists_of(ann=ROMANCE), both, categories=importance)


class TestRecency:
    """The latest items: without a genre, then action, long after the romances."""

    @pytest.fixture
    def log(self) -> Interactions:
        frame = pl.DataFrame({"user": ["u"] * 4, "item": ["r", "s", "x", "none"], "time": [0, 1, 10**6, 10**9]})
        genres = pl.DataFrame({"item": ["r", "s", "x"], "genre": ["romance", "romance", "action"]})
        return Interactions.from_frame(frame, rating=None, time="time").with_items(
            genres, categories={"genre": "genre"}
        )

    @pytest.mark.parametrize("half_life", [5e-324, 1e-300, 1.0, 1e3])
    def test_however_short_the_half_life_the_latest_item_with_a_genre_counts(
        self, log: Interactions, half_life: float
    ) -> None:
        lists = pl.DataFrame({"user": ["u"], "item": ["x"], "rank": [1]})
        found = calibration(lists, log, history_weights="recency", half_life=half_life)
        assert found["calibration_kl"] == pytest.approx(0, abs=1e-9)
        policy = Calibrated(size=1, history_weights="recency", half_life=half_life)
        pool = pl.DataFrame({"user": ["u"] * 2, "item": ["r", "x"], "rank": [1, 2]})
        assert ra.rerank(pool, log, policy)["item"].to_list() == ["x"]

    def test_the_unit_is_said(self, log: Interactions) -> None:
        lists = pl.DataFrame({"user": ["u"], "item": ["x"], "rank": [1]})
        with pytest.raises(InputError, match="in the unit of the log's times"):
            calibration(lists, log, history_weights="recency")
        with pytest.raises(InputError, match="half_life: received -1"):
            calibration(lists, log, history_weights="recency", half_life=-1.0)

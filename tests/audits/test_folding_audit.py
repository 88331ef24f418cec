"""Folding as an audit: what stands beside the numbers, and what is measured of models without vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit.audits import Folding, FoldingResult, Relatedness, Result, folding, recommend
from recaudit.audits.audit import Subject
from recaudit.audits.folding.definitions import VECTORS
from recaudit.data import splits
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import InputError, NotSupportedError
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.models import ALS, WALS, ItemKNN
from recaudit.models.base import Recommender

AUDIT = Folding(relatedness=("genre", "log"), unobserved_weights=(0.3, 0.1), k=5, by=("region", "popularity"))
WEIGHTED = WALS(factors=3, iterations=3, unobserved_weight=0.1)


@pytest.fixture(scope="module")
def halves(world: World) -> Split:
    return splits.leave_last(world.data, k=2)


def run(audit: Folding, recommender: Recommender, halves: Split) -> Any:
    model = recommender.fit(halves.train, rng=3)
    return audit.run(Subject(model, recommender, test=halves.test), rng=3)


@pytest.fixture(scope="module")
def result(halves: Split) -> FoldingResult:
    found = run(AUDIT, WEIGHTED, halves)
    assert isinstance(found, FoldingResult)
    return found


def test_cases_are_in_the_categories_of_the_relatedness(result: FoldingResult) -> None:
    assert_frame_equal(result.table("spurious"), result.worst(10, system="genre"))


def test_a_name_stands_for_the_relatedness_of_the_log(result: FoldingResult, halves: Split) -> None:
    given = Relatedness.from_categories(halves.train, "genre")
    found = folding(WEIGHTED.fit(halves.train, rng=3), relatedness=given, k=5, by=AUDIT.by, rng=3)
    for name in ("summary", "users", "items", "pairs"):
        assert_frame_equal(result.table(name), found.table(name))
    assert_frame_equal(result.groups.filter(pl.col("by") != "relatedness"), found.groups)
    assert result.settings["relatedness"] == ["genre", "log"]
    assert result.settings["related_by"][0] == given.label
    assert found.settings["relatedness"] == [given.label]


def test_every_relatedness_stands_beside_the_first(result: FoldingResult, halves: Split) -> None:
    rows = result.by("relatedness").filter(pl.col("metric") == "folding")
    by_log = folding(WEIGHTED.fit(halves.train, rng=3), k=5, by=())
    assert rows["group"].to_list() == ["genre", "log"]
    assert rows["value"].to_list() == pytest.approx([result["folding"], by_log["folding"]], rel=1e-12)


def test_one_relatedness_needs_no_list(halves: Split) -> None:
    found = run(AUDIT.model_copy(update={"unobserved_weights": ()}), ALS(factors=3), halves)
    assert "relatedness" in found.groups["by"].to_list()
    alone = run(Folding(relatedness=("log",), k=5), ALS(factors=3), halves)
    assert "relatedness" not in alone.groups["by"].to_list()


def test_a_wals_model_has_a_curve_over_the_weights(result: FoldingResult, halves: Split) -> None:
    assert dict(result.series.schema) == SERIES_SCHEMA
    folded = result.series.filter(pl.col("metric") == "folding")
    assert folded["over"].unique().to_list() == ["unobserved_weight"]
    assert folded["at"].to_list() == [0.1, 0.3]
    other = WEIGHTED.model_copy(update={"unobserved_weight": 0.3}).fit(halves.train, rng=3)
    expected = folding(other, relatedness="genre", k=5, by=())
    assert folded["value"].to_list() == pytest.approx([result["folding"], expected["folding"]], rel=1e-12)


def test_another_model_has_none(halves: Split) -> None:
    found = run(AUDIT, ALS(factors=3), halves)
    assert found.series.is_empty()
    assert dict(found.series.schema) == SERIES_SCHEMA


def test_expensive_tables_are_made_when_they_are_looked_at(halves: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    model = WEIGHTED.fit(halves.train, rng=3)
    monkeypatch.setattr(WALS, "fit", lambda *_, **__: pytest.fail("fitted"))
    monkeypatch.setattr(FoldingResult, "worst", lambda *_, **__: pytest.fail("looked for cases"))
    found = AUDIT.run(Subject(model, WEIGHTED, test=halves.test), rng=3)
    assert found["folding"] > 0


def test_what_is_shown_is_measured_without_vectors(halves: Split) -> None:
    model = ItemKNN().fit(halves.train)
    found = folding(model, relatedness=("genre", "log"), k=5, unrelated=0.4, by=("region", "genre"))
    status = dict(found.frame.select("metric", "status").iter_rows())
    assert status == dict.fromkeys(VECTORS, "not_applicable") | {
        "unrelated_share": "solved",
        "shown_relatedness": "solved",
    }
    assert [*found.settings["left_out"].values()] == [[*VECTORS]]
    related, shown = Relatedness.from_categories(halves.train, "genre"), recommend(model, n=5)
    users, items = halves.train.users_at(shown["user"]), halves.train.items_at(shown["item"])
    values = shown.with_columns(value=pl.Series(related.pairs(users, items)))
    means = values.group_by("user").agg(pl.col("value").mean(), below=(pl.col("value") < 0.4).mean())
    assert found["shown_relatedness"] == pytest.approx(means["value"].to_numpy().mean())
    assert found["unrelated_share"] == pytest.approx(means["below"].to_numpy().mean())
    assert 0 < found["unrelated_share"] < 1
    assert found.pairs["similarity"].null_count() == len(found.pairs) == len(shown)
    assert found.items["unrelated"].sum() == (values["value"] < 0.4).sum()
    assert set(found.by("genre")["metric"]) == {"unrelated_share", "shown_relatedness"}
    assert set(found.by("relatedness").filter(metric="shown_relatedness")["status"]) == {"solved"}
    assert found.series.is_empty()


def test_it_is_kept_and_read_again(result: FoldingResult, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    again = Result.load(tmp_path / "kept")
    assert isinstance(again, FoldingResult)
    assert again.settings == result.settings
    assert again.tables.keys() == result.tables.keys()
    for name, table in result.tables.items():
        assert_frame_equal(again.table(name), table)
    with pytest.raises(NotSupportedError, match="Ask the model again"):
        again.worst()


@pytest.mark.parametrize("name", ["gendre", "genres"])
def test_an_unknown_relatedness_is_named_before_anything_is_fitted(world: World, name: str) -> None:
    with pytest.raises(InputError, match=r"relatedness: .*Did you mean 'genre'\?"):
        Folding(relatedness=(name,)).check(world.data)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("relatedness", []),
        ("similarity", "angle"),
        ("unrelated", 2.0),
        ("unobserved_weights", [-1.0]),
        ("sample", 1),
    ],
)
def test_settings_that_cannot_be_are_named(setting: str, value: Any) -> None:
    with pytest.raises(InputError, match=setting):
        Folding(**{setting: value})

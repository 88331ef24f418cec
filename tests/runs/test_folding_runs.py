"""Folding in a run: what is kept beside the numbers, and what becomes of models that cannot be asked."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit import audits, runs
from recaudit.audits import Relatedness
from recaudit.data import Interactions, datasets, splits
from recaudit.data.synthetic import World
from recaudit.errors import ConfigError, InputError
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.models import ALS, WALS
from recaudit.runs import Configuration, Run, execute

CONFIG = """
seed = 3
[data]
name = "demo"
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "wals"
factors = 3
iterations = 3
unobserved_weight = 0.1
[[model]]
kind = "als"
factors = 3
[[model]]
kind = "item-knn"
[audits.folding]
relatedness = ["genre", "log"]
unobserved_weights = [0.3, 0.1]
k = 5
samples = 5
by = ["region", "popularity"]
"""


def parsed(text: str) -> Configuration:
    return runs.parse(text, source="run.toml", folder=Path())


@pytest.fixture(autouse=True)
def _small_world(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return execute(parsed(CONFIG), tmp_path / "out")


@pytest.fixture
def train(world: World) -> Interactions:
    return splits.leave_last(world.data, k=2).train


def test_numbers_and_evidence_are_those_of_the_audit(run: Run, train: Interactions) -> None:
    model = ALS(factors=3).fit(train, rng=3)
    found = audits.folding(
        model, Relatedness.from_categories(train, "genre"), k=5, samples=5, by=["region", "popularity"], rng=3
    )
    assert_frame_equal(run.table("ALS", "folding", "summary"), found.frame)
    assert_frame_equal(run.table("ALS", "folding", "users"), found.users)
    assert_frame_equal(run.table("ALS", "folding", "spurious"), found.worst(10, system="genre"))
    assert_frame_equal(run.table("ALS", "folding", "co_clusters"), found.co_clusters(system="genre", rng=3))
    groups = run.table("ALS", "folding", "groups")
    assert_frame_equal(groups.filter(pl.col("by") != "relatedness"), found.groups)


def test_every_relatedness_stands_beside_the_first(run: Run, train: Interactions) -> None:
    rows = run.table("ALS", "folding", "groups").filter(pl.col("by") == "relatedness", pl.col("metric") == "folding")
    by_log = audits.folding(ALS(factors=3).fit(train, rng=3), Relatedness.from_log(train), k=5, by=(), samples=5)
    overall = run.table("ALS", "folding", "summary").filter(pl.col("metric") == "folding")["value"][0]
    assert rows["group"].to_list() == ["genre", "log"]
    assert rows["value"].to_list() == [overall, by_log["folding"]]


def test_a_wals_model_has_a_curve_over_the_weights(run: Run, train: Interactions) -> None:
    series = run.table("WALS", "folding", "series")
    assert dict(series.schema) == SERIES_SCHEMA
    folded = series.filter(pl.col("metric") == "folding")
    assert folded["over"].unique().to_list() == ["unobserved_weight"]
    assert folded["at"].to_list() == [0.1, 0.3]
    other = WALS(factors=3, iterations=3, unobserved_weight=0.3).fit(train, rng=3)
    expected = audits.folding(other, Relatedness.from_categories(train, "genre"), k=5, by=(), samples=2)
    own = run.table("WALS", "folding", "summary").filter(pl.col("metric") == "folding")["value"][0]
    assert folded["value"].to_list() == [own, expected["folding"]]


def test_another_model_has_none(run: Run) -> None:
    assert run.table("ALS", "folding", "series").is_empty()


def test_a_model_without_vectors_is_skipped_and_told_why(run: Run) -> None:
    assert run.audits("ItemKNN") == ()
    (skip,) = run.manifest.skipped
    assert skip.model == "ItemKNN"
    assert "no user and item vectors" in skip.reason


def test_one_relatedness_needs_no_list(tmp_path: Path) -> None:
    text = CONFIG.replace('["genre", "log"]', '"log"')
    groups = execute(parsed(text), tmp_path).table("ALS", "folding", "groups")
    assert "relatedness" not in groups["by"].to_list()


def test_an_unknown_relatedness_is_told_before_anything_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WALS, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(InputError, match=r"Did you mean 'genre'\?"):
        execute(parsed(CONFIG.replace('"genre"', '"gendre"')), tmp_path)


@pytest.mark.parametrize(
    "wrong",
    ["relatedness = []", 'similarity = "angle"', "unrelated = 2.0", "unobserved_weights = [-1.0]", "sample = 1"],
)
def test_settings_that_cannot_be_are_told(wrong: str) -> None:
    text = CONFIG.replace('relatedness = ["genre", "log"]\nunobserved_weights = [0.3, 0.1]', wrong)
    with pytest.raises(ConfigError, match=wrong.split(" ", maxsplit=1)[0]):
        parsed(text)

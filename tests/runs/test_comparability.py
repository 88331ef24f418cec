"""A comparison says first what two runs cannot be compared in, and gives no verdict about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import recaudit as ra
from recaudit import runs
from recaudit.cli import app
from recaudit.data import Interactions, datasets
from recaudit.errors import DamagedError
from recaudit.runs import Run
from recaudit.runs.folder import ITEM_COUNTS, USER_SIGNATURES
from report.crafted_runs import Model
from runs.crafted_pairs import SETTINGS, add_data, measured, rewritten, signatures_of, write_pair

USERS = 120
CONFIG = """
floors = false
[data]
name = "demo"
[split]
kind = "leave-last"
k = 3
[[model]]
kind = "als"
factors = 4
[audits.accuracy]
k = 5
[audits.exposure]
k = 5
"""


def run(path: Path, data: Interactions, monkeypatch: pytest.MonkeyPatch, config: str = CONFIG) -> Run:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: data)
    return runs.execute(runs.parse(config, source="run.toml", folder=path.parent), path)


def codes(found: ra.RunComparison) -> list[str]:
    return [caution.code for caution in found.cautions]


def left_out(found: ra.RunComparison, code: str) -> set[str]:
    return {metric for lack in found.left_out if lack.code == code for metric in lack.metrics}


def test_a_later_export_compares_no_number_of_the_catalogue(
    tmp_path: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = world.data
    before = run(tmp_path / "a", data, monkeypatch)
    frame = data.frame().sort("time")
    rare = frame["item"].value_counts().sort("count").head(20)["item"]
    older = frame.head(int(0.9 * len(frame))).filter(~pl.col("item").is_in(rare.implode()))
    after = run(tmp_path / "b", Interactions.from_frame(older, time="time", scale=(1, 5)), monkeypatch)
    found = ra.compare(before, after)
    assert codes(found)[:2] == ["comparison.other-data", "comparison.other-catalogue"]
    assert (found.cautions[0].share or 0) > 0.7
    assert not set(found.frame["metric"]) & {"coverage", "gini", "popularity_correlation", "novelty", "popularity_lift"}
    assert left_out(found, "comparison.other-catalogue") == {"coverage", "gini", "popularity_correlation"}
    assert left_out(found, "comparison.other-popularity") == {"novelty", "popularity_lift"}
    assert {"ndcg", "rmse"} <= set(found.frame["metric"])


def test_the_same_ids_with_other_histories_are_not_paired(
    tmp_path: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = world.data
    names = data.user_ids.to_list()
    renamed = {name: names[(7 * place + 1) % len(names)] for place, name in enumerate(names)}
    assert len(set(renamed.values())) == len(names)
    other = Interactions.from_frame(
        data.frame().with_columns(pl.col("user").replace_strict(renamed)), time="time", scale=(1, 5)
    )
    before, after = run(tmp_path / "a", data, monkeypatch), run(tmp_path / "b", other, monkeypatch)
    found = ra.compare(before, after)
    assert found.is_refused
    assert codes(found)[0] == "comparison.other-histories"
    assert found.cautions[0].users == USERS
    assert (found.cautions[0].share or 0) < 0.2
    assert found.frame.is_empty()
    assert found.lists.is_empty()
    assert {lack.code for lack in found.left_out} == {"comparison.other-histories"}


def test_the_terminal_and_the_page_say_it_first(tmp_path: Path) -> None:
    ours = measured({"ndcg": np.linspace(0.1, 0.9, 50)})
    before, after = write_pair(tmp_path, ours, ours)
    add_data(before, signatures_of(50))
    add_data(after, signatures_of(50, seed=1), fingerprint="other")
    paths = [str(tmp_path / name) for name in ("before", "after")]
    result = CliRunner().invoke(app, ["compare", *paths, "--out", str(tmp_path / "page.html")])
    assert result.exit_code == 2, result.output
    assert result.stdout.startswith("Caution: The same ids have other histories")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.index("The same ids have other histories") < page.index("Nothing is compared")
    document = json.loads(CliRunner().invoke(app, ["compare", *paths, "--json"]).stdout)
    assert document["cautions"][0]["code"] == "comparison.other-histories"
    assert document["left_out"][0]["code"] == "comparison.other-histories"
    assert document["differences"] == []
    history = ra.history(paths)
    assert history.last is None
    assert "other histories" in history.why_not


def test_other_data_without_signatures_are_refused(tmp_path: Path) -> None:
    ours = measured({"ndcg": np.linspace(0.1, 0.9, 50)})
    before, after = write_pair(tmp_path, ours, ours)
    data = after.manifest.data.model_copy(update={"fingerprint": "other"})
    found = ra.compare(before, rewritten(after, data=data))
    assert codes(found) == ["comparison.unknown-histories"]
    assert found.is_refused


def test_other_item_counts_compare_no_popularity(tmp_path: Path) -> None:
    ours = measured({"novelty": np.linspace(2, 5, 50)}, kind="exposure")
    accurate = measured({"ndcg": np.linspace(0.1, 0.9, 50)})
    before, after = write_pair(tmp_path, [Model("ALS", [ours, accurate])], [Model("ALS", [ours, accurate])])
    before = add_data(before, counts={"a": 3, "b": 4})
    same = ra.compare(before, add_data(after, counts={"b": 4, "a": 3}))
    assert codes(same) == []
    assert set(same.frame["metric"]) == {"novelty", "ndcg"}
    found = ra.compare(before, add_data(after, counts={"a": 3, "b": 5}))
    assert codes(found) == ["comparison.other-popularity"]
    assert set(found.frame["metric"]) == {"ndcg"}
    assert left_out(found, "comparison.other-popularity") == {"novelty", "popularity_lift", "popularity_correlation"}


@pytest.mark.parametrize(("targets", "is_compared"), [(None, False), (40, False), (["a"], True)])
def test_targets_of_another_catalogue_are_another_question(tmp_path: Path, targets: Any, is_compared: bool) -> None:
    values = {"discovery": np.linspace(0.1, 0.9, 50)}
    ours = measured(values, kind="reachability", facts={**SETTINGS, "targets": targets})
    before, after = write_pair(
        tmp_path,
        [Model("ALS", [ours, measured({"ndcg": np.linspace(0.1, 0.9, 50)})])],
        [Model("ALS", [ours, measured({"ndcg": np.linspace(0.1, 0.9, 50)})])],
    )
    found = ra.compare(add_data(before, counts={"a": 3}), add_data(after, counts={"a": 3, "b": 1}))
    assert ("discovery" in found.frame["metric"]) is is_compared
    assert ("discovery" in left_out(found, "comparison.other-catalogue")) is not is_compared


def test_a_run_keeps_signatures_and_counts(tmp_path: Path, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(tmp_path / "a", world.data, monkeypatch)
    users, items = made.data_table(USER_SIGNATURES), made.data_table(ITEM_COUNTS)
    assert users is not None
    assert items is not None
    assert set(users["user"]) == set(world.data.user_ids.cast(pl.String))
    assert items["count"].sum() == made.manifest.data.train
    assert {USER_SIGNATURES, ITEM_COUNTS} <= made.folder.manifest.files.keys()
    (made.path / USER_SIGNATURES).unlink()
    with pytest.warns(match="users.parquet"):
        again = run(tmp_path / "a", world.data, monkeypatch)
    assert again.data_table(USER_SIGNATURES) is not None


def test_a_table_with_other_columns_is_damaged(tmp_path: Path) -> None:
    ours = measured({"ndcg": np.linspace(0.1, 0.9, 50)})
    before, after = (add_data(own) for own in write_pair(tmp_path, ours, ours))
    after.folder.put({ITEM_COUNTS: pl.DataFrame({"thing": ["a"]}).write_parquet})
    with pytest.raises(DamagedError):
        ra.compare(before, Run.open(after.path))

"""The evidence puts models in order and reads groups as people name them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recaudit.errors import DamagedError
from recaudit.report.evidence import Evidence
from recaudit.report.sections.exposure import shown_items
from report.crafted_runs import Data, Film, Model, accuracy, exposure, groups, write_run

FILMS = [Film(None, 20, 4.0, 5), Film("B", 20, 3.0, 0)]


def test_models_stand_by_ranking_quality_and_references_last(tmp_path: Path) -> None:
    models = [
        Model("Hits", [accuracy(0.9)], "top-pop"),
        Model("Unmeasured", [exposure(FILMS)]),
        Model("Weak", [accuracy(0.1)]),
        Model("Dice", [accuracy(0.01)], "random"),
        Model("Strong", [accuracy(0.3)]),
    ]
    evidence = Evidence(write_run(tmp_path, models))
    assert evidence.models == ("Strong", "Weak", "Unmeasured", "Hits", "Dice")
    assert (evidence.main, evidence.rival) == ("Strong", "Hits")
    assert evidence.ranked("ndcg")[0] == "Hits"


def test_a_run_of_references_has_no_rival(tmp_path: Path) -> None:
    evidence = Evidence(write_run(tmp_path, [Model("Dice", [accuracy(0.1)], "random")]))
    assert (evidence.main, evidence.rival) == ("Dice", None)


def test_a_nan_in_a_table_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Model("A", [accuracy(float("nan"))])])
    with pytest.raises(DamagedError, match="finite"):
        Evidence(run).known("ndcg")


def test_group_numbers_that_only_keep_order_are_dropped(tmp_path: Path) -> None:
    by = [
        groups("history", "ndcg", {"1: 1-9 ratings": 0.1, "2: 10-90 ratings": None}),
        groups("age", "ndcg", {"1: 18-30": 0.1, "2: 31-60": 0.2}),
        groups("track", "ndcg", {"2: fast": 0.1, "7: slow": 0.2}),
    ]
    run = write_run(tmp_path, [Model("A", [accuracy(by=by)])], Data(attributes=("age", "track")))
    evidence = Evidence(run)
    assert [group.name for group in evidence.groups("A", "ndcg", "age")] == ["18-30", "31-60"]
    assert [group.name for group in evidence.groups("A", "ndcg", "track")] == ["2: fast", "7: slow"]
    assert [group.name for group in evidence.groups("A", "ndcg", "history")] == ["1-9 ratings"]
    assert evidence.user_groupings == ["history", "age", "track"]
    assert evidence.item_groupings == []


def test_labels_carry_the_list_length(tmp_path: Path) -> None:
    evidence = Evidence(write_run(tmp_path, [Model("A", [accuracy(), exposure(FILMS)])]))
    assert evidence.label("ndcg") == "nDCG@10"
    assert evidence.label("popularity_lift") == "Popularity lift"


def test_an_item_without_a_title_is_called_by_its_id(tmp_path: Path) -> None:
    evidence = Evidence(write_run(tmp_path, [Model("A", [exposure(FILMS)])]))
    assert shown_items(evidence)["A"]["title"].to_list() == ["0", "B"]


def test_ids_of_any_type(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Model("A", [exposure(FILMS)])])
    assert shown_items(Evidence(run))["A"]["item"].dtype == pl.String

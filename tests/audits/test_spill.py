"""Millions of rows go through files: the numbers are the same, and nothing has all of them in memory."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.audits import spill
from recaudit.audits.reachability import result as reachability_result
from recaudit.audits.reachability.result import ReachabilityResult
from recaudit.audits.result import Result
from recaudit.audits.spill import SpilledRows, gathered, lazily, parts_of
from recaudit.data.synthetic import World
from recaudit.runs.memory import estimate_memory


def blocks() -> list[pl.DataFrame]:
    return [pl.DataFrame({"user": [user] * 3, "value": [float(user), 0.5, None]}) for user in range(7)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than five rows go to files, of three rows or more each."""
    monkeypatch.setattr(spill, "MOST_ROWS", 5)
    monkeypatch.setattr(spill, "PART_ROWS", 3)


def test_few_rows_stay_in_memory() -> None:
    rows = gathered(blocks())
    assert isinstance(rows, pl.DataFrame)
    assert [part is rows for part in parts_of(rows)] == [True]


@pytest.mark.usefixtures("small")
def test_many_rows_are_in_files_in_their_order(tmp_path: Path) -> None:
    whole = pl.concat(blocks())
    rows = gathered(iter(blocks()))
    assert isinstance(rows, SpilledRows)
    assert (len(rows), rows.width) == (21, 2)
    assert_frame_equal(lazily(rows).collect(), whole)
    parts = list(parts_of(rows))
    assert len(parts) == 4
    assert_frame_equal(pl.concat(parts), whole)
    users = [set(part["user"]) for part in parts]
    assert sum(map(len, users)) == 7  # no block is in two parts
    assert_frame_equal(pickle.loads(pickle.dumps(rows)), whole)
    rows.write_parquet(tmp_path / "rows.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "rows.parquet"), whole)


@pytest.mark.usefixtures("small")
def test_the_files_go_with_the_table() -> None:
    rows = gathered(iter(blocks()))
    assert isinstance(rows, SpilledRows)
    folder = rows.folder.place
    assert isinstance(folder, Path)
    assert folder.is_dir()
    del rows
    assert not folder.exists()


def test_reachability_has_the_same_numbers_through_files(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = ra.models.ALS(factors=3, iterations=3).fit(world.data)
    asked: dict[str, Any] = {"users": 33, "refits": 0}
    held = ra.reachability(model, **asked)
    _ = held.tables  # they are made when they are first looked at
    monkeypatch.setattr(spill, "MOST_ROWS", 500)
    monkeypatch.setattr(spill, "PART_ROWS", 100)
    spilled = ra.reachability(model, **asked)
    assert isinstance(spilled._rows("pairs"), SpilledRows)
    assert spilled.tables.keys() == held.tables.keys() == spilled.writers.keys()
    for name, table in held.tables.items():
        assert_frame_equal(spilled.tables[name], table, rel_tol=1e-12)
    assert spilled.summary() == held.summary()
    monkeypatch.setattr(reachability_result, "MOST_CELLS", 7 * world.data.n_items)  # the parts are cut once more
    cut = ra.reachability(model, **asked)
    for name, table in held.tables.items():
        assert_frame_equal(cut.tables[name], table, rel_tol=1e-12)
    spilled.save(tmp_path / "kept")
    again = Result.load(tmp_path / "kept")
    assert isinstance(again, ReachabilityResult)
    assert_frame_equal(again.pairs, held.pairs)


def test_few_targets_of_many_people_are_averaged_a_few_people_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ra.models.ALS(factors=3, iterations=3).fit(world.data)
    asked: dict[str, Any] = {"targets": 3, "refits": 0}
    held = ra.reachability(model, **asked)
    _ = held.tables  # they are made when they are first looked at
    monkeypatch.setattr(reachability_result, "MOST_CELLS", 5 * world.data.n_items)
    sizes = list[int]()
    made = reachability_result._Matrices.__init__

    def noted(self: Any, log: Any, users: Any, pairs: Any) -> None:
        sizes.append(len(users))
        made(self, log, users, pairs)

    monkeypatch.setattr(reachability_result._Matrices, "__init__", noted)
    few = ra.reachability(model, **asked)
    for name, table in held.tables.items():
        assert_frame_equal(few.tables[name], table, rel_tol=1e-12)
    assert sizes == [5] * 24


def test_memory_is_that_of_the_people_who_are_drawn_and_the_targets_that_are_asked_about(world: World) -> None:
    data = world.data

    def estimated(data: ra.Interactions, **settings: Any) -> int:
        return estimate_memory(ra.Reachability(**settings), data) or 0

    everything = estimated(data)
    assert 0 < estimated(data, users=10) < everything
    assert estimated(data, users=tuple(data.user_ids[:10])) == estimated(data, users=10)
    assert 0 < estimated(data, targets=1) < everything

    class Large:
        n_users, n_items = 162_541, 59_047

    large: Any = Large()
    assert 0 < estimated(large, targets=500) < 3 * 10**9
    assert 0 < estimated(large, users="all") < 5 * 10**9  # the rest is in files

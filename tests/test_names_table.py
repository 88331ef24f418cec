"""The table of names: every public name of 0.2 has a row with its name in 0.3."""

from __future__ import annotations

import importlib
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NAME = r"[A-Za-z_]\w*"
KIND = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
FORMS = {
    "python": rf"{NAME}(\.{NAME})*",
    "setting": rf"({KIND}|{NAME}|{NAME}:{KIND})\.{NAME}",
    "toml": rf"{KIND}\.{NAME}|{NAME}:{KIND}",
    "command": rf"recaudit( {KIND})*",
    "option": rf"{KIND}( {KIND})* (--{KIND}|[A-Z]+)",
    "entry-point": rf"{NAME}(\.{NAME})*:{KIND}",
    "metric": rf"{KIND}\.{NAME}",
    "table": rf"{KIND}\.{NAME}",
    "column": rf"{KIND}\.{NAME}\.({NAME}|<metric>_{NAME})",
}
"""Forms of valid names, by area."""


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    """The module scripts/names.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module("names")


@pytest.fixture(scope="module")
def rows(script: Any) -> list[Any]:
    """All rows of the table."""
    rows: list[Any] = script.read_table()
    return rows


@pytest.fixture(scope="module")
def current(script: Any) -> list[Any]:
    """All public names of the installed package."""
    names: list[Any] = script.collect_names()
    return names


def test_every_public_name_has_one_row(script: Any, rows: list[Any], current: list[Any]) -> None:
    assert len(current) > 1_000
    assert script.without_row(current, rows) == [], "Run python scripts/names.py, and decide."
    times = Counter((row.area, row.old) for row in rows if row.old)
    assert [name for name, count in times.items() if count > 1] == []


def test_every_row_is_about_a_name_that_exists(rows: list[Any], current: list[Any]) -> None:
    names = set(current)
    may_exist: dict[str, Callable[[Any], list[str]]] = {
        "kept": lambda row: [row.old],
        "renamed": lambda row: [row.old, row.new],
        "added": lambda row: [row.new],
    }
    rows_to_check = [row for row in rows if row.status in may_exist]
    missing = [
        row for row in rows_to_check if not any((row.area, name) in names for name in may_exist[row.status](row))
    ]
    assert missing == []


def test_every_row_has_a_decision_that_fits(script: Any, rows: list[Any]) -> None:
    fits: dict[str, Callable[[Any], object]] = {
        "kept": lambda row: row.new == row.old,
        "renamed": lambda row: row.old and row.new and row.new != row.old,
        "dropped": lambda row: row.old and not row.new,
        "moved": lambda row: row.old and row.new,
        "added": lambda row: row.new and not row.old,
    }
    assert set(fits) == set(script.STATUSES)
    assert [row for row in rows if row.status not in fits or not fits[row.status](row)] == []


def test_every_change_has_a_reason(rows: list[Any]) -> None:
    assert [row for row in rows if bool(row.reason.strip()) != (row.status != "kept")] == []


def test_new_names_are_valid(rows: list[Any]) -> None:
    names = [(row.area, row.new) for row in rows if row.status in ("renamed", "added")]
    assert [name for area, name in names if not re.fullmatch(FORMS[area], name)] == []
    in_python = [part for area, name in names if area in ("python", "setting") for part in name.split(".")]
    assert [part for part in in_python if keyword.iskeyword(part)] == []


def test_no_two_names_of_one_owner_get_the_same_name(rows: list[Any]) -> None:
    new = Counter((row.area, *re.split(r"[.: ][^.: ]+$", row.old)[:1], row.new) for row in rows if row.new)
    assert [name for name, count in new.items() if count > 1] == []


@pytest.mark.parametrize(
    ("area", "old", "new"),
    [
        ("setting", "instability.edits", "instability.actions"),
        ("setting", "instability.editors", "instability.actors"),
        ("setting", "als.factors", "als.factors"),
        ("toml", "data.duplicates", "data.repeats"),
        ("python", "interventions.Stars", "actions.RatingGrid"),
        ("python", "reachability.rng", "reachability.seed"),
        ("python", "reachability.device", "ExecutionContext.device"),
        ("column", "reachability.pairs.baseline", "reachability.pairs.initial"),
        ("column", "instability.pairs.editor", "instability.pairs.actor"),
        ("option", "audit --fresh", "audit --restart"),
        ("entry-point", "recaudit.models:top-pop", "recaudit.models:most-popular"),
        ("entry-point", "recaudit.adapters:river", ""),
    ],
)
def test_the_table_follows_the_vocabulary(rows: list[Any], area: str, old: str, new: str) -> None:
    assert [row.new for row in rows if (row.area, row.old) == (area, old)] == [new]


def test_the_script_keeps_decisions_and_lists_what_has_none(
    script: Any, rows: list[Any], current: list[Any], tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "collect_names", lambda: current)
    table = tmp_path / "names.csv"
    decided = [row for row in rows if (row.area, row.old) != ("setting", "als.factors")]
    script.write_table(decided, table)
    assert script.main(table) == 1
    assert "No decision: setting als.factors\n" in capsys.readouterr().out
    assert [row for row in script.read_table(table) if row.status] == decided
    script.write_table(rows, table)
    assert script.main(table) == 0
    assert table.read_text(encoding="utf-8") == script.TABLE.read_text(encoding="utf-8")

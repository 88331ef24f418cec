"""Tables of run folders are read only if they are as recaudit writes them, whatever their headers say."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from recaudit.errors import DamagedError, MachineError
from recaudit.folders.files import StoredFile
from recaudit.folders.parquet import FREE_DECODED_BYTES, MAX_RATIO, ParquetError, table_size
from recaudit.folders.tables import MAX_TEXT_BYTES, TableRules, check_table
from recaudit.runs.tables import rules_of

ROWS = pl.DataFrame({"user": ["a", "b", "b"], "weight": [1.0, None, 0.5], "rank": [1, 2, 3], "ok": [True, None, False]})
DEGENERATE = pl.DataFrame(
    {
        "user": pl.Series(np.repeat(np.arange(300), 2000)).cast(pl.String),
        "item": pl.Series(np.tile(np.arange(2000), 300)).cast(pl.String),
        **dict.fromkeys(("value", "lower", "upper", "baseline"), pl.zeros(600_000, eager=True)),
    }
)
"""All pairs of a model whose scores are constant: hardly any other table of a run is as small for its rows."""
MIXED = ROWS.with_columns(
    titles=pl.Series([["x", "yy"], [], None]),
    ratings=pl.Series([[1.0], None, [2.0, 3.0]]),
    status=pl.Series(["solved", None, "solved"], dtype=pl.Enum(["solved", "failed"])),
)


@pytest.fixture(scope="module")
def hostile() -> Iterator[Any]:
    """The script that crafts Parquet files."""
    scripts = str(Path(__file__).parents[2] / "scripts")
    sys.path.insert(0, scripts)
    yield importlib.import_module("hostile_tables")
    sys.path.remove(scripts)


def stored(path: Path) -> StoredFile:
    return StoredFile(path, path.parent)


def written(folder: Path, content: bytes) -> StoredFile:
    (folder / "table.parquet").write_bytes(content)
    return stored(folder / "table.parquet")


@pytest.mark.parametrize("frame", [ROWS, MIXED, MIXED.clear(), pl.concat([MIXED] * 100_000), DEGENERATE], ids=len)
def test_tables_that_polars_writes_are_read(tmp_path: Path, frame: pl.DataFrame) -> None:
    frame.write_parquet(tmp_path / "t.parquet")
    found = check_table(stored(tmp_path / "t.parquet"))
    assert found.schema == frame.schema
    assert found.rows == len(frame)
    assert found.bytes >= frame.estimated_size()


def test_a_table_that_is_written_in_a_stream_is_read(tmp_path: Path) -> None:
    pl.concat([MIXED] * 100_000).lazy().sink_parquet(tmp_path / "t.parquet", row_group_size=50_000)
    assert check_table(stored(tmp_path / "t.parquet")).rows == 300_000


@pytest.mark.parametrize("frame", [ROWS, MIXED, pl.concat([MIXED] * 1000)], ids=len)
def test_headers_are_read_as_another_library_reads_them(tmp_path: Path, frame: pl.DataFrame) -> None:
    path = tmp_path / "t.parquet"
    frame.write_parquet(path, row_group_size=500)
    footer = pq.ParquetFile(path).metadata
    columns = [footer.row_group(g).column(c) for g in range(footer.num_row_groups) for c in range(footer.num_columns)]
    with path.open("rb") as file:
        size = table_size(file)
    assert size.rows == footer.num_rows == len(frame)
    values, pages = sum(own.num_values for own in columns), sum(own.total_uncompressed_size for own in columns)
    assert values <= size.decoded_bytes <= pages + 25 * values + 16 * pages


SCHEMA = {"user": pl.String(), "metric": pl.String(), "total": pl.Float64(), "weight": pl.Float64(), "rank": pl.Int64()}
POSSIBLE = ("2e7 rows in 2000 groups", "8e3 groups of one row", "metadata of 5 MB")
"""Bombs of which each is as large as a table of a run can be, besides those that are padded to 5 MB."""


def test_bombs_are_refused_before_they_are_decoded(hostile: Any, tmp_path: Path) -> None:
    read = []
    for name, make in hostile.BOMBS.items():
        if name in POSSIBLE or name.endswith("in 5 MB"):
            continue
        table = written(tmp_path, make((SCHEMA, {})))
        assert table.path.stat().st_size < 6e6, name
        try:
            check_table(table)
            read.append(name)
        except DamagedError as error:
            if "table.parquet" not in str(error):
                raise
    assert not read


@pytest.mark.parametrize(
    "name",
    [
        "1e+09 rows",
        "4e11 rows in 200 groups",
        "texts of 1 MB in 1e9 rows",
        "zstd page of 2 GB",
        "text of 2 GB",
        "list of 1e9 values",
        "prefixes of 1 MB in 2e4 rows",
        "deltas of width 0, 1e9 rows",
        "1000 groups at the same pages",
        "page of 2e9 values that has one",
        "page size of 2 GB that is 8 bytes",
        "footer of 1e15 rows",
        "list of 2e9 groups that has one",
        "column beyond the end",
        "schema of depth 1e5",
    ],
)
def test_headers_alone_give_a_bomb_away(hostile: Any, tmp_path: Path, name: str) -> None:
    with written(tmp_path, hostile.BOMBS[name]((SCHEMA, {}))).path.open("rb") as file, pytest.raises(ParquetError):
        table_size(file)


def test_the_limit_is_in_proportion_to_the_file(hostile: Any, tmp_path: Path) -> None:
    """Per row two texts, two numbers of 64 bits, one whole number, each with its validity."""
    per_row = 2 * 17 + 3 * 9
    fits = FREE_DECODED_BYTES // per_row
    with written(tmp_path, hostile.many_rows((SCHEMA, {}), fits - 1)).path.open("rb") as file:
        assert table_size(file).rows == fits - 1
    over = (FREE_DECODED_BYTES + 1000 * MAX_RATIO) // per_row
    with written(tmp_path, hostile.many_rows((SCHEMA, {}), over)).path.open("rb") as file, pytest.raises(ParquetError):
        table_size(file)


def test_memory_that_is_not_there_is_not_asked_for(
    hostile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = written(tmp_path, hostile.many_rows((SCHEMA, {}), 500_000))
    assert check_table(table).rows == 500_000
    monkeypatch.setattr("recaudit.machine.available_memory", lambda: 10**6)
    with pytest.raises(MachineError, match=r"table\.parquet needs"):
        check_table(table)


def test_damaged_tables_are_refused_or_read(tmp_path: Path) -> None:
    """No flipped bit ends in anything but an error that names the file."""
    pl.concat([MIXED] * 50).write_parquet(tmp_path / "t.parquet")
    content, draw, refused = (tmp_path / "t.parquet").read_bytes(), np.random.default_rng(0), 0
    for _ in range(400):
        changed = bytearray(content)
        changed[int(draw.integers(len(content)))] ^= 1 << int(draw.integers(8))
        try:
            check_table(written(tmp_path, bytes(changed)))
        except DamagedError as error:
            refused += "table.parquet" in str(error)
    assert refused > 200  # the others hit values, which a digest protects


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\0\0\0\0PAR1", b"PAR1" + b"\xff" * 100 + b"\x50\0\0\0PAR1"])
def test_what_is_no_parquet(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DamagedError, match=r"table\.parquet"):
        check_table(written(tmp_path, content))


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pl.Series("x", ["x" * (MAX_TEXT_BYTES + 1)]), "a text of"),
        (pl.Series("x", [["a", "x" * (MAX_TEXT_BYTES + 1)]]), "a text of"),
        (pl.Series("x", [float("nan")]), "finite"),
        (pl.Series("x", [[1.0, float("inf")]]), "finite"),
        (pl.Series("x", [b"\xff"]), "type"),
        (pl.Series("x", [[[1]]]), "type"),
        (pl.Series("x", [{"a": 1}]), "type"),
        (pl.Series("x", [10], dtype=pl.Date), "type"),
    ],
)
def test_columns_that_no_run_has(tmp_path: Path, column: pl.Series, what: str) -> None:
    pl.DataFrame([column]).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DamagedError, match=what):
        check_table(stored(tmp_path / "t.parquet"))


SUMMARY = pl.DataFrame(
    {
        "metric": ["ndcg", "coverage"],
        "value": [0.5, None],
        "lower": [0.4, None],
        "upper": [0.6, None],
        "status": ["solved", "not_applicable"],
        "baseline": [0.1, None],
        "users": [40, 0],
        "excluded": [0, 40],
        "reason": [None, None],
    },
    schema_overrides={"reason": pl.String},
)


def test_a_summary_is_read(tmp_path: Path) -> None:
    SUMMARY.write_parquet(tmp_path / "t.parquet")
    assert check_table(stored(tmp_path / "t.parquet"), rules_of("summary")).rows == 2


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("metric", ["ndcg", None]),
        ("metric", ["ndcg", "no such metric"]),
        ("value", [0.5, 0.5]),
        ("value", [None, None]),
        ("value", [1e200, None]),
        ("value", ["a", "b"]),
        ("lower", [None, None]),
        ("lower", [0.7, None]),
        ("status", ["solved", "perfect"]),
        ("status", ["solved", None]),
        ("users", [-1, 0]),
        ("users", [40, None]),
        ("users", [40, 2**62]),
    ],
)
def test_a_summary_that_contradicts_itself(tmp_path: Path, column: str, values: list[object]) -> None:
    SUMMARY.with_columns(pl.Series(column, values)).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DamagedError, match=r"t\.parquet"):
        check_table(stored(tmp_path / "t.parquet"), rules_of("summary"))


@pytest.mark.parametrize("column", SUMMARY.columns)
def test_a_summary_needs_all_columns(tmp_path: Path, column: str) -> None:
    SUMMARY.drop(column).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DamagedError, match=column):
        check_table(stored(tmp_path / "t.parquet"), rules_of("summary"))


def test_a_table_may_have_a_limit_of_rows(tmp_path: Path) -> None:
    ROWS.write_parquet(tmp_path / "t.parquet")
    assert check_table(stored(tmp_path / "t.parquet"), TableRules(max_rows=3)).rows == 3
    with pytest.raises(DamagedError, match="2 are possible"):
        check_table(stored(tmp_path / "t.parquet"), TableRules(max_rows=2))


def test_tables_of_an_audit_whose_package_is_not_installed_may_have_its_metrics(tmp_path: Path) -> None:
    SUMMARY.with_columns(metric=pl.Series(["surprise", "delight"])).write_parquet(tmp_path / "t.parquet")
    assert check_table(stored(tmp_path / "t.parquet"), rules_of("summary", "not-installed")).rows == 2
    SUMMARY.with_columns(status=pl.lit("perfect")).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DamagedError, match="status"):
        check_table(stored(tmp_path / "t.parquet"), rules_of("summary", "not-installed"))


def test_a_table_that_only_another_package_has_may_hold_dates_and_any_number(tmp_path: Path) -> None:
    frame = pl.DataFrame({"day": [10, 11], "ratio": [float("nan"), float("inf")]}, schema_overrides={"day": pl.Date})
    frame.write_parquet(tmp_path / "t.parquet")
    assert check_table(stored(tmp_path / "t.parquet"), rules_of("days", "not-installed")).rows == 2
    with pytest.raises(DamagedError, match="type"):
        check_table(stored(tmp_path / "t.parquet"), rules_of("days", "accuracy"))

"""Check the tables of run folders, which may come from anybody, before anything is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from recaudit.errors import DamagedError
from recaudit.folders.files import StoredFile, open_regular
from recaudit.folders.parquet import ParquetError, check_ratio, table_size
from recaudit.machine import check_memory, machine_error

MAX_TEXT_BYTES = 2**16
"""Length of one text: ids, titles and reasons have at most some hundred characters."""
_QUOTIENT = "lift"
"""Column that is not finite for an item whose initial probability is 0."""
_BATCH_ROWS = 2**16
_BUFFERS = 2
"""A row group is in memory at most so often while it is decoded: its pages and its columns."""
_INNER: Final = (pl.String, pl.Boolean, pl.Enum, pl.Categorical, pl.Null)
"""Types of values, besides numbers, in tables of a run."""

Columns = Mapping[str, Any]
"""Names of columns with their data types."""


@final
@dataclass(frozen=True)
class CheckedTable:
    """A table that can be read."""

    schema: pl.Schema
    rows: int
    bytes: int
    """Its size in memory, at most, with every text in each row that has it."""


@final
@dataclass(frozen=True)
class TableRules:
    """What a table of some name has in every run."""

    columns: Columns = field(default_factory=dict)
    """Columns that it must have; it can have others."""
    optional: Columns = field(default_factory=dict)
    """Columns that are of these types if they are there."""
    others: Any = None
    """The type of all other columns, if it is known."""
    conditions: Mapping[str, pl.Expr] = field(default_factory=dict)
    """What holds in every row, by a description."""
    max_rows: int | None = None
    has_any_values: bool = False
    """If True, numbers need not be finite, and columns may hold dates and times."""


def check_table(stored: StoredFile, rules: TableRules | None = None) -> CheckedTable:
    """Check that a table can be read: that it decodes, to how much, and that it holds what tables of its name hold.

    It is decoded once, some rows at a time, so that whatever reads it later finds no error in the file. Numbers are
    finite, unless the rules allow any values.

    Raises:
        DamagedError: The file is no table that recaudit writes.
        MachineError: A row group of it needs more memory than there is.
    """
    place = stored.path
    with open_regular(place, stored.root) as file:
        length = file.seek(0, 2)
        try:
            size = table_size(file)
        except ParquetError as error:
            raise damaged_table(place, str(error)) from None
    rules = rules or TableRules()
    if rules.max_rows is not None and size.rows > rules.max_rows:
        raise damaged_table(place, f"it has {size.rows:,} rows, and {rules.max_rows:,} are possible")
    check_memory(_BUFFERS * size.largest_group, f"Reading {place}", "Close other programs, or use a larger machine.")
    try:
        table = pl.scan_parquet(place, glob=False, hive_partitioning=False)
        schema = table.collect_schema()
        for name, kind in schema.items():
            if not (_is_plain(kind) or (rules.has_any_values and kind.is_temporal())):
                raise damaged_table(place, f"its column {name[:100]!r} has the type {kind}")
        wanted = dict.fromkeys(schema, rules.others) if rules.others is not None else {}
        wanted |= {name: kind for name, kind in rules.optional.items() if name in schema}
        check_columns(place, schema, {**wanted, **rules.columns})
        texts = _check_batches(place, table, schema, rules)
        check_ratio(length, size.decoded_bytes + texts)
    except ParquetError as error:
        raise damaged_table(place, str(error)) from None
    except (PolarsError, PanicException, OSError) as error:
        if machine_error(error) is not None:
            raise
        raise damaged_table(place, f"it cannot be decoded ({_first_line(error)})") from None
    return CheckedTable(schema, size.rows, size.decoded_bytes + texts)


def check_columns(place: Path, schema: Columns, wanted: Columns) -> None:
    """Check that a table has columns of the names and kinds that are `wanted`, so that a cast to them succeeds.

    Ids are read as text whatever they are, so that a number may stand where a text is wanted.

    Raises:
        DamagedError: A column is missing, or holds something else.
    """
    for name, kind in wanted.items():
        if name not in schema:
            raise damaged_table(place, f"it has no column {name!r}")
        if not _fits(schema[name], kind):
            raise damaged_table(place, f"its column {name!r} has the type {schema[name]} instead of {kind}")


def damaged_table(place: Path, what: str) -> DamagedError:
    """Return the error about a table that recaudit did not write."""
    return DamagedError(
        "path",
        received=f"{place}: {what}",
        expected="a table as recaudit writes it",
        remedy="Get the folder again from where it comes from. If it is yours, run the same command again.",
    )


def _check_batches(place: Path, table: pl.LazyFrame, schema: pl.Schema, rules: TableRules) -> int:
    """Decode all of a table; returns the bytes of its texts, each counted in every row that has it."""
    texts = {name: _lengths(name, kind) for name, kind in schema.items() if _has_text(kind)}
    must: dict[str, pl.Expr] = {}
    if not rules.has_any_values:
        must = {f"finite numbers in the column {name[:100]!r}": _finite(name, kind) for name, kind in schema.items()}
    must |= rules.conditions
    broken = [(~condition.fill_null(value=False)).any().alias(what) for what, condition in must.items()]
    total = 0
    for batch in table.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=False):
        for name, lengths in texts.items():
            found = batch.lazy().select(total=lengths.sum(), longest=lengths.max()).collect().row(0)
            total += found[0] or 0
            if (found[1] or 0) > MAX_TEXT_BYTES:
                raise damaged_table(place, f"its column {name[:100]!r} has a text of {found[1]:,} bytes")
        found_broken = batch.select(broken).row(0, named=True) if broken and len(batch) else {}
        for what, is_broken in found_broken.items():
            if is_broken:
                raise damaged_table(place, f"it breaks a rule of such tables: {what}")
    return total


def _finite(name: str, kind: Any) -> pl.Expr:
    column = pl.col(name)
    if kind.is_float() and name == _QUOTIENT:
        return pl.lit(value=True)
    if kind.is_float():
        return column.is_null() | column.is_finite()
    if kind.is_nested() and kind.inner.is_float():
        return column.is_null() | column.list.eval(pl.element().is_null() | pl.element().is_finite()).list.all()
    return pl.lit(value=True)


def _lengths(name: str, kind: Any) -> pl.Expr:
    return pl.col(name).explode().str.len_bytes() if kind.is_nested() else pl.col(name).str.len_bytes()


def _has_text(kind: Any) -> bool:
    return bool(kind == pl.String or (kind.is_nested() and kind.inner == pl.String))


def _is_plain(kind: Any) -> bool:
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return bool(inner.is_numeric() and not inner.is_decimal()) or isinstance(inner, _INNER)


def _fits(kind: Any, wanted: Any) -> bool:
    wanted = wanted() if isinstance(wanted, type) else wanted
    if kind in (pl.Null, wanted):
        return True
    if wanted.is_nested() or kind.is_nested():
        return bool(kind.is_nested() and wanted.is_nested() and _fits(kind.inner, wanted.inner))
    if wanted == pl.String:
        return bool(kind.is_integer()) or isinstance(kind, pl.String | pl.Enum | pl.Categorical)
    if wanted.is_integer():
        return bool(kind.is_integer() and kind not in (pl.UInt64, pl.Int128)) or kind == pl.Boolean
    if wanted.is_float():
        return bool(kind.is_numeric()) or kind == pl.Boolean
    return bool(kind == wanted)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]

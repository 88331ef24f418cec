"""Files of lists in: CSV, TSV and Parquet, each with a header, at once or in pieces."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from recaudit.data.checks import plain_numbers
from recaudit.data.frames import check_columns, check_distinct
from recaudit.errors import DataError

_TEXT = {".csv": ",", ".tsv": "\t"}

Ids = Mapping[str, pl.Series | None]
"""The columns that hold ids: those of the log that they are to be found in, or None where they make the log."""


def read_table(path: str | Path, ids: Ids, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A .csv, .tsv or .parquet file as a frame: these columns, or all of them."""
    path = Path(path)
    with reading(path):
        table = scan_table(path, ids, columns).collect()
        return with_typed_ids(table, ids) if path.suffix.lower() in _TEXT else table


def scan_table(path: Path, ids: Ids, columns: Sequence[str] | None = None) -> pl.LazyFrame:
    """The same, to be collected in pieces; ids in text files are text until `with_typed_ids`."""
    if not path.is_file():
        raise DataError("path", received=str(path), expected="a file that exists", remedy="Check the spelling.")
    if path.stat().st_size == 0:
        raise DataError("path", received=f"{path}, an empty file", expected="a header and at least one row")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        lazy = pl.scan_parquet(path, glob=False)
    elif suffix in _TEXT:
        check_distinct(_header(path, separator := _TEXT[suffix]), str(path))
        types = dict.fromkeys(ids, pl.String)
        lazy = pl.scan_csv(path, separator=separator, schema_overrides=types, infer_schema_length=10_000, glob=False)
    else:
        raise DataError(
            "path",
            received=str(path),
            expected="a file that ends in .csv, .tsv or .parquet",
            remedy="Write it in one of these formats first.",
        )
    if columns is None:
        return lazy
    check_columns(columns, lazy.collect_schema().names())
    return lazy.select(list(dict.fromkeys(columns)))


def with_typed_ids(table: pl.DataFrame, ids: Ids) -> pl.DataFrame:
    """The columns of ids, which were read as text, as whole numbers where all are written so and the log's are, too."""
    numbers = [name for name, known in ids.items() if known is None or known.dtype != pl.String]
    return table.with_columns(_as_meant(table[name]) for name in numbers if name in table.columns)


def _as_meant(text: pl.Series) -> pl.Series:
    numbers = plain_numbers(text)
    return numbers if numbers.null_count() == text.null_count() else text


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong with the file inside, told as one error that names it."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:  # a panic is no Exception
        kind = path.suffix.lower()[1:]
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            "path",
            received=f"{path}, which cannot be read as {kind}: {reason}",
            expected=f"a {kind} file with a header and a value for each column in every row",
            remedy="Check that it is whole: the separator, the quotes and the ending of its name.",
        ) from None


def _header(path: Path, separator: str) -> list[str]:
    """The names of the columns: the first line that is not empty."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            return next((names for names in csv.reader(file, delimiter=separator) if names), [])
        except csv.Error:
            return []  # polars says what is wrong with it

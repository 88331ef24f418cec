"""The owners' text files as frames: fast where the file is as published, and line by line where it is not.

Whatever surprises `read_fast` goes through `read_exact`, which reads the file after all or says which line is wrong.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import final

import polars as pl

from recaudit.errors import DataError

Type = type[pl.DataType] | pl.Enum
_BLOCK = 100_000
_SHOWN = 80
_TAIL = 1 << 20


@final
@dataclass(frozen=True)
class Layout:
    """How one text file is laid out: one record a line."""

    columns: tuple[str, ...]
    """Every column, in order; where there is a header it must say exactly this."""
    keep: Mapping[str, Type]
    """The columns to read, and as what."""
    optional: frozenset[str] = frozenset()
    """The kept columns that may be empty; empty is null."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and highest value of kept columns, where any other must be a mistake."""
    separator: str = "\t"
    header: bool = False
    quoted: bool = False
    """Whether quotes enclose fields with commas in them; the separator is then a comma."""
    encoding: str = "utf-8"


def read_fast(path: Path, layout: Layout) -> pl.DataFrame:
    """The kept columns of a UTF-8 file, whose separator is one character or one character twice ('::')."""
    if layout.header:
        _check_header(path, layout)
    schema: dict[str, Type] = {}
    for name in layout.columns:
        if schema and len(layout.separator) == 2:
            # '::' is ':' around an empty column: as booleans those take no space and refuse any text.
            schema[f"before {name}"] = pl.Boolean
        schema[name] = layout.keep.get(name, pl.String)
    try:
        frame = pl.read_csv(
            path,
            has_header=False,
            skip_rows=int(layout.header),
            separator=layout.separator[0],
            quote_char='"' if layout.quoted else None,
            schema=schema,
        )
    except pl.exceptions.PolarsError:
        return read_exact(path, layout)
    between = [name for name in schema if name not in layout.columns]
    required = [name for name in layout.keep if name not in layout.optional]
    as_published = (
        not frame.is_empty()
        and all(frame[name].null_count() == 0 for name in required)
        and all(frame[name].null_count() == len(frame) for name in between)
        and all(frame[name].is_between(*ends).all() for name, ends in layout.ranges.items())
        and not _is_cut_off(path, layout)
    )
    return frame.select(list(layout.keep)) if as_published else read_exact(path, layout)


def read_exact(path: Path, layout: Layout) -> pl.DataFrame:
    """The kept columns, read line by line: any separator, any encoding; an error names the line."""
    if layout.header:
        _check_header(path, layout)
    remaining = records(path, layout)
    kept = [layout.columns.index(name) for name in layout.keep]
    blocks = []
    while block := list(islice(remaining, _BLOCK)):
        lines = pl.Series([line for line, _ in block])
        text = [pl.Series(layout.columns[i], [fields[i] or None for _, fields in block], pl.String) for i in kept]
        blocks.append(pl.DataFrame([_converted(path, column, lines, layout) for column in text]))
    if not blocks:
        raise DataError(
            str(path),
            received="no records",
            expected=f"lines of {_described(layout)}",
            remedy=_REMEDY,
        )
    return pl.concat(blocks)


def bad_line(path: Path, line: int, *, received: str, expected: str) -> DataError:
    """The error for one line of a file."""
    shown = received if len(received) <= _SHOWN else received[:_SHOWN] + "..."
    return DataError(f"{path}, line {line:,}", received=repr(shown), expected=expected, remedy=_REMEDY)


_REMEDY = (
    "The file is damaged, cut off, or not the one its owner published: take it from the archive again, or "
    "delete it and run `recaudit data fetch` to download it anew."
)


def records(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Line numbers, from 1, and fields; lines without any text are passed over."""
    lines = _decoded(path, layout.encoding)
    if layout.quoted:
        numbered = _csv_records(path, lines)
    else:
        numbered = ((n, line.rstrip("\r\n").split(layout.separator)) for n, line in enumerate(lines, start=1))
    for number, fields in islice(numbered, int(layout.header), None):
        if not any(fields):
            continue
        if len(fields) != len(layout.columns):
            raise bad_line(path, number, received=layout.separator.join(fields), expected=_described(layout))
        yield number, fields


def _csv_records(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, strict=True)
    start = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise bad_line(path, start, received=str(error), expected="quotes that open and close") from None
        if fields is None:
            return
        yield start, fields
        start = reader.line_num + 1


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield raw.decode(encoding)
            except UnicodeDecodeError:
                received = raw.decode(encoding, errors="replace").rstrip()
                raise bad_line(path, number, received=received, expected=f"text in {encoding}") from None


def _is_cut_off(path: Path, layout: Layout) -> bool:
    """Whether the last line has too few fields: to polars they are just empty."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        *_, raw = file.read().splitlines()
    last = raw.decode(errors="replace")
    fields = next(csv.reader([last])) if layout.quoted else last.split(layout.separator)
    return len(fields) < len(layout.columns)


def _converted(path: Path, text: pl.Series, lines: pl.Series, layout: Layout) -> pl.Series:
    kind = layout.keep[text.name]
    values = text.cast(kind, strict=False)
    wrong = values.is_null() & text.is_not_null() if text.name in layout.optional else values.is_null()
    expected = f"{_named(kind)} in the column {text.name!r} ({_described(layout)})"
    if not wrong.any() and text.name in layout.ranges:
        low, high = layout.ranges[text.name]
        wrong = ~values.is_between(low, high)
        expected = f"a {text.name} from {low:g} to {high:g}"
    if wrong.any():
        row = wrong.arg_max()
        assert row is not None
        raise bad_line(path, lines[row], received=text[row] or "", expected=expected)
    return values


def _named(kind: Type) -> str:
    if isinstance(kind, pl.Enum):
        return f"one of {', '.join(kind.categories)}"
    if kind in (pl.String, pl.Categorical):
        return "some text"
    return "a number" if kind is pl.Float64 else "a whole number"


def _check_header(path: Path, layout: Layout) -> None:
    first = next(_decoded(path, layout.encoding), "").rstrip("\r\n")
    if first.split(layout.separator) != list(layout.columns):
        raise bad_line(path, 1, received=first, expected=f"the header {layout.separator.join(layout.columns)!r}")


def _described(layout: Layout) -> str:
    return f"{len(layout.columns)} columns, {layout.separator.join(layout.columns)!r}"


# The age groups of MovieLens 1M by their lowest age, which is what that data set gives for a user's age.
_GROUPS = {
    1: "Under 18",
    18: "18-24",
    25: "25-34",
    35: "35-44",
    45: "45-49",
    50: "50-55",
    56: "56+",
}
_OLDEST = 120


def age_group() -> pl.Expr:
    """The age group of the column "age", in years; null where the age is missing or cannot be true."""
    age = pl.col("age")
    label = pl.lit(None, pl.String)
    for lowest, name in _GROUPS.items():
        label = pl.when(age >= lowest).then(pl.lit(name)).otherwise(label)
    return pl.when(age <= _OLDEST).then(label)

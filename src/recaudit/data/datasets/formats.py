"""Text files of datasets as their owners publish them: a record that is not as published is named by its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import polars as pl

from recaudit.data.records import LINE, WIDTH, TextFile, read_clean, split_records
from recaudit.errors import DataError

Type = type[pl.DataType] | pl.Enum
_SHOWN = 80


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


def read_file(path: Path, layout: Layout) -> pl.DataFrame:
    """Read the kept columns of a file; an error names the line."""
    frame = _read_clean(_opened(path, layout), layout)
    return read_numbered(path, layout).drop(LINE) if frame is None else frame


def _opened(path: Path, layout: Layout) -> TextFile:
    """The file, after a look at its header."""
    text = TextFile(path, layout.encoding)
    first = next(iter(text.head(1)), "")
    if layout.header and first.split(layout.separator) != list(layout.columns):
        raise bad_line(path, 1, received=first, expected=f"the header {layout.separator.join(layout.columns)!r}")
    return text


def _read_clean(text: TextFile, layout: Layout) -> pl.DataFrame | None:
    """The kept columns of a file that is as published, else None."""
    required = [name for name in layout.keep if name not in layout.optional]
    if layout.columns[-1] not in required:
        return None  # a line with too few fields would not be noticed
    types = {name: layout.keep.get(name, pl.String) for name in layout.columns}
    frame = read_clean(text, layout.separator, types, list(layout.keep), quotes=layout.quoted, skip=int(layout.header))
    as_published = (
        frame is not None
        and not frame.is_empty()
        and all(frame[name].null_count() == 0 for name in required)
        and all(frame[name].is_between(*ends).all() for name, ends in layout.ranges.items())
    )
    return frame if as_published else None


def read_numbered(path: Path, layout: Layout) -> pl.DataFrame:
    """Read the kept columns of a file, and the number of each record's line, from 1, as LINE."""
    text = _opened(path, layout)
    kept = {name: layout.columns.index(name) for name in layout.keep}
    records = split_records(text, layout.separator, [*kept.values()], quotes=layout.quoted, skip=int(layout.header))
    blocks = []
    for block in records:
        _check_widths(text, block, layout)
        columns = (_converted(path, block[str(place)].alias(name), block[LINE], layout) for name, place in kept.items())
        blocks.append(pl.DataFrame([block[LINE], *columns]))
    if not blocks:
        raise DataError(
            str(path),
            received="no records",
            expected=f"lines of {_described(layout)}",
            remedy=_REMEDY,
        )
    return pl.concat(blocks)


def _check_widths(text: TextFile, block: pl.DataFrame, layout: Layout) -> None:
    """Check that each record has as many fields as the file has columns."""
    wrong = block.filter(pl.col(WIDTH) != len(layout.columns))
    if wrong.is_empty():
        return
    line, width = wrong.row(0)[:2]
    expected = _described(layout)
    if width == 0:
        expected = "quotes that open and close" if text.is_text(line) else f"text in {layout.encoding}"
    raise bad_line(text.path, line, received=text.line(line), expected=expected)


def bad_line(path: Path, line: int, *, received: str, expected: str) -> DataError:
    """The error for one line of a file."""
    shown = received if len(received) <= _SHOWN else received[:_SHOWN] + "..."
    return DataError(f"{path}, line {line:,}", received=repr(shown), expected=expected, remedy=_REMEDY)


_REMEDY = (
    "The file is damaged, cut off, or not the one its owner published: take it from the archive again, or "
    "delete it and run `recaudit data fetch` to download it anew."
)


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

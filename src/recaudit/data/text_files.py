"""Users' own text files as frames: a row that cannot be read is named by its line, with the option that reads it."""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field, NonNegativeInt

from recaudit.arrays import BoolArray
from recaudit.data.records import LINE, WIDTH, PolarsType, TextFile, read_clean, split_records
from recaudit.errors import DataError, did_you_mean
from recaudit.specification import Specification, mistake

Column = NonNegativeInt | Annotated[str, Field(min_length=1)]
"""A column by its name in the header, or by its number, counted from 0."""
Kind = Literal["id", "number", "time", "text"]
"""What a column holds: the first three must be there in every row."""
ENDINGS = {".csv": ",", ".tsv": "\t", ".dat": "::"}
"""What separates columns, by the ending of a file's name."""
CANDIDATES = ("::", "\t", ";", "|", ",", " ")
"""Separators that are looked for, in this order."""
_SHOWN = 80


def _known_encoding(name: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        raise mistake((), name, "an encoding, such as utf-8, latin-1, cp1252 or utf-16") from None
    return name


class TextFormat(Specification):
    """How a text file is written. Parquet files need none of it."""

    separator: str | None = Field(default=None, min_length=1)
    """What stands between two columns, of one or more characters. None: by the ending of the file's name, "," for
    .csv, a tab for .tsv and "::" for .dat."""
    header: bool = True
    """Whether the first line names the columns; if not, columns are given by number, from 0."""
    encoding: Annotated[str, AfterValidator(_known_encoding)] = "utf-8"
    """How text is encoded: "utf-8" (with or without a byte order mark), "latin-1", "cp1252", "utf-16", ..."""
    quotes: bool = True
    """Whether a field in double quotes is one field. If not, and wherever a separator has several characters, quotes
    are text."""
    on_error: Literal["error", "skip"] = "error"
    """What to do with a row that cannot be read: refuse the file, or skip the row, and count it."""


@final
@dataclass(frozen=True)
class Rows:
    """What was read."""

    frame: pl.DataFrame
    """The wanted columns, under the names of `named`; ids as text."""
    skipped: int


def named(column: int | str) -> str:
    """What a column is called in a frame and in errors."""
    return column if isinstance(column, str) else f"column {column}"


def read_text(path: Path, how: TextFormat, columns: Mapping[int | str, Kind]) -> Rows:
    """Read columns of a text file.

    Args:
        path: The file.
        how: Its format, and what to do with rows that cannot be read.
        columns: The wanted columns and their kinds.

    Raises:
        DataError: A column is missing, or a row cannot be read; the error names the line.
    """
    text = TextFile(path, how.encoding)
    separator = _separator(path, how, text)
    return _Reader(text, how, separator, how.quotes and len(separator) == 1, columns).read()


def likely_separator(lines: list[str]) -> str | None:
    """What cuts each of these lines into the same number of fields, more than one; None where nothing does."""
    for separator in CANDIDATES:
        widths = {len(line.split(separator)) for line in lines if line}
        if len(widths) == 1 and widths.pop() > 1:
            return separator
    return None


def _separator(path: Path, how: TextFormat, text: TextFile) -> str:
    separator = how.separator or ENDINGS.get(path.suffix.lower())
    if separator is None:
        first = text.head(20)
        raise DataError(
            "path",
            received=f"{path}, which begins {_shown(first[0] if first else '')}",
            expected="a file that ends in .csv, .tsv, .dat or .parquet, or to be told what separates its columns",
            remedy="Say {}.",
            settings=[("separator", likely_separator(first) or ",")],
        )
    return separator


_Option = tuple[str, str] | str | None
"""What a remedy says: a setting and its text, or a setting as it is written."""


@final
@dataclass(frozen=True)
class _Reader:
    """One file, and the columns that are read from it."""

    text: TextFile
    how: TextFormat
    separator: str
    quoted: bool
    columns: Mapping[int | str, Kind]

    def read(self) -> Rows:
        """Read the columns, as `read_text` says."""
        first, names = self._first()
        at = self._positions(names)
        skip = first if self.how.header else first - 1
        frame = self._read_clean(at, len(names), skip)
        return Rows(frame, 0) if frame is not None else self._read_checked(at, names, skip)

    def _read_clean(self, at: Mapping[int | str, int], width: int, skip: int) -> pl.DataFrame | None:
        """Columns of a file without any fault, else None."""
        types: dict[str, PolarsType] = {str(place): pl.String for place in range(width)}
        types |= {str(at[column]): pl.Float64 for column, kind in self.columns.items() if kind == "number"}
        wanted = [str(place) for place in sorted({*at.values()})]
        table = read_clean(self.text, self.separator, types, wanted, quotes=self.quoted, skip=skip)
        if table is None:
            return None
        frame, bad = _typed(table.select(pl.col(str(at[c])).alias(named(c)) for c in self.columns), self.columns)
        return None if any(rows.any() for rows in bad.values()) else frame

    def _read_checked(self, at: Mapping[int | str, int], names: list[str], skip: int) -> Rows:
        """Columns of any file; rows with faults are an error or are skipped."""
        blocks = [*split_records(self.text, self.separator, sorted({*at.values()}), quotes=self.quoted, skip=skip)]
        if not blocks:
            return Rows(pl.DataFrame(schema=dict.fromkeys(map(named, self.columns), pl.String)), 0)
        table = pl.concat(blocks)
        needed = 1 + max(at[column] for column, kind in self.columns.items() if kind != "text")
        is_whole = table[WIDTH].is_between(needed, len(names))
        whole, torn = table.filter(is_whole), table.filter(~is_whole)
        given = whole.select(pl.col(str(at[column])).alias(named(column)) for column in self.columns)
        frame, bad = _typed(given, self.columns)
        is_good = ~np.logical_or.reduce([np.zeros(len(frame), dtype=bool), *bad.values()])
        skipped = len(torn) + int((~is_good).sum())
        if skipped:
            first_torn = torn.head(1).select(LINE, WIDTH).iter_rows()
            faults = [self._torn(line, width, len(names)) for line, width in first_torn]
            faults += [self._misread(whole[LINE], given, column, rows) for column, rows in bad.items() if rows.any()]
            line, expected, option = min(faults, key=lambda fault: fault[0])
            if self.how.on_error == "error":
                raise self._wrong_line(line, expected, option, skipped)
            name = self.text.path.name
            told = f"{name}: {skipped:,} rows could not be read and were skipped, the first at line {line:,}."
            warnings.warn(told, stacklevel=2)
        return Rows(frame.filter(is_good), skipped)

    # ---- columns ---------------------------------------------------------------------------------------

    def _first(self) -> tuple[int, list[str]]:
        """The first line that is not blank, from 1, and its fields: the header, or the first row."""
        number, fields = self.text.first_record(self.separator, quotes=self.quoted)
        if fields is None or not self.text.is_text(number):
            raise self._wrong_line(*self._torn(number, 0, 0), 1)
        return number, [name.strip() for name in fields]

    def _positions(self, names: list[str]) -> dict[int | str, int]:
        """Where each wanted column stands."""
        at = dict[int | str, int]()
        for column in self.columns:
            if isinstance(column, int):
                if column >= len(names):
                    raise self._no_column(column, names)
                at[column] = column
            elif not self.how.header or names.count(column) != 1:
                raise self._no_column(column, names)
            else:
                at[column] = names.index(column)
        return at

    def _no_column(self, column: int | str, names: list[str]) -> DataError:
        shown = ", ".join(map(repr, names[:20]))
        settings: list[tuple[str, str]] = []
        likely = likely_separator([names[0]]) if len(names) == 1 else None
        if likely is not None:
            remedy, settings = "Say {}.", [("separator", likely)]
        elif not self.how.header:
            remedy = "Without a header columns are given by number, from 0: user = 0, item = 1, rating = 2."
        elif isinstance(column, str) and names.count(column) > 1:
            remedy = "Several columns have this name: give the number of the right one, from 0."
        else:
            remedy = f"Say which column is meant, for example {{}}. {did_you_mean(str(column), names)}"
            settings = [("user", "userId")]
            if all(name.replace(".", "").isdigit() for name in names):
                remedy = "The first line is no header: say header = false, and columns by number, from 0."
                settings = []
            elif column == "rating":
                remedy += " A log without ratings has rating = false."
        received = f"columns {shown}"
        expected = "a column of that name" if isinstance(column, str) else f"a number below {len(names)}"
        return DataError(_column(named(column)), received=received, expected=expected, remedy=remedy, settings=settings)

    # ---- rows that cannot be read ----------------------------------------------------------------------

    def _torn(self, line: int, width: int, expected_width: int) -> tuple[int, str, _Option]:
        """Line of a row with the wrong number of fields, what was expected, and the option that would read it."""
        if width == 0 and not self.text.is_text(line):
            encoding = "utf-16" if _has_utf_16_mark(self.text.path) else "latin-1"
            return line, f"text in {self.how.encoding}", ("encoding", encoding)
        option = "quotes = false" if self.quoted and '"' in self.text.line(line) else None
        if width == 0:
            return line, "quotes that open and close", option
        return line, f"{expected_width} columns, as the first line has, not {width}", option

    def _misread(self, lines: pl.Series, given: pl.DataFrame, name: str, rows: BoolArray) -> tuple[int, str, _Option]:
        """Line of the first row with a wrong value, what was expected, and the option that would read it."""
        row = int(rows.argmax())
        kind = next(kind for column, kind in self.columns.items() if named(column) == name)
        is_header = lines[row] == 1 and not self.how.header
        expected = f"{_KINDS[kind]} in {_column(name)}, not {given[name][row]!r}"
        return lines[row], expected, "header = true" if is_header else None

    def _wrong_line(self, line: int, expected: str, option: _Option, count: int) -> DataError:
        first = "Fix it" if option is None else f"Say {option}" if isinstance(option, str) else "Say {}"
        others = f" ({count:,} rows cannot be read)" if count > 1 else ""
        return DataError(
            f"{self.text.path.name}, line {line:,}",
            received=f"{_shown(self.text.line(line))}{others}",
            expected=expected,
            remedy=f"{first}, or leave such rows out with {{}}.",
            settings=[*([option] if isinstance(option, tuple) else []), ("on_error", "skip")],
        )


def _has_utf_16_mark(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


_KINDS: dict[Kind, str] = {"id": "an id", "number": "a finite number", "time": "a time", "text": "text"}


def _column(name: str) -> str:
    return name if name.startswith("column ") else f"column {name!r}"


def _shown(text: str | None) -> str:
    text = text or ""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _typed(frame: pl.DataFrame, columns: Mapping[int | str, Kind]) -> tuple[pl.DataFrame, dict[str, BoolArray]]:
    """The columns as what they hold, and which rows of each (rows,) do not hold it; ids stay text."""
    made, bad = list[pl.Series](), dict[str, BoolArray]()
    for column, kind in columns.items():
        values = given = frame[named(column)]
        if kind == "number":
            values = given if given.dtype == pl.Float64 else given.str.strip_chars().cast(pl.Float64, strict=False)
            bad[given.name] = ~values.is_finite().fill_null(value=False).to_numpy()
        elif kind == "time":
            values = as_times(given)
            bad[given.name] = values.is_null().to_numpy()
        elif kind == "id":
            bad[given.name] = given.is_null().to_numpy()
        made.append(values)
    return pl.DataFrame(made), bad


def as_times(text: pl.Series) -> pl.Series:
    """Whole numbers, numbers, or dates and times, whichever most of the texts are; null where one is not."""
    whole, number = text.cast(pl.Int64, strict=False), text.cast(pl.Float64, strict=False)
    if number.null_count() <= len(text) / 2:
        return whole if whole.null_count() == number.null_count() else number
    try:
        return text.str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.PolarsError:
        return number

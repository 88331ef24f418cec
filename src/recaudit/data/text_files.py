"""Text files as frames: fast where the file is clean, line by line where it is not.

Whatever surprises polars goes through `_read_exactly`, which reads the file after all, or says which line is wrong and
which option would read it.
"""

from __future__ import annotations

import codecs
import csv
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, final

import polars as pl
from pydantic import AfterValidator, Field, NonNegativeInt

from recaudit.arrays import BoolArray
from recaudit.data.packed import Plain, inner_name, lines_of, plain_file
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
_BLOCK = 100_000
_SHOWN = 80
_LONGEST = 50
"""Lines that a quoted field may span."""


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
    member: str | None = None
    """Which file of a .zip archive, where it holds several."""
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
    """These columns of a text file, plain or packed; each row that cannot be read is told, or skipped and counted."""
    separator = _separator(path, how)
    with plain_file(path, how.encoding, separator, how.member) as plain:
        quoted = how.quotes and len(separator) == 1
        reader = _Reader(path, plain, how, separator, quoted, columns)
        frame = reader.fast()
        return Rows(frame, 0) if frame is not None else reader.exactly()


def cut(text: str, separator: str) -> list[str] | None:
    """The fields of a record with a separator of one character, None where its quotes do not open and close."""
    if '"' not in text:
        return text.split(separator)
    try:
        [fields] = csv.reader([text], delimiter=separator, strict=True)
    except (csv.Error, ValueError):
        return None
    return fields


def likely_separator(lines: list[str]) -> str | None:
    """What cuts each of these lines into the same number of fields, more than one; None where nothing does."""
    for separator in CANDIDATES:
        widths = {len(line.split(separator)) for line in lines if line}
        if len(widths) == 1 and widths.pop() > 1:
            return separator
    return None


def _separator(path: Path, how: TextFormat) -> str:
    separator = how.separator or ENDINGS.get(Path(inner_name(path, how.member)).suffix.lower())
    if separator is None:
        with plain_file(path, how.encoding, "\t", how.member) as plain:
            first = [text for _, text, _ in islice(lines_of(plain.path), 20)]
        raise DataError(
            "path",
            received=f"{path}, which begins {_shown(first[0] if first else '')}",
            expected="a file that ends in .csv, .tsv, .dat or .parquet, or to be told what separates its columns",
            remedy="Say {}.",
            settings=[("separator", likely_separator(first) or ",")],
        )
    return separator


@final
@dataclass(frozen=True)
class _Reader:
    """One file, unpacked, and what is wanted of it."""

    path: Path
    plain: Plain
    how: TextFormat
    separator: str
    quoted: bool
    columns: Mapping[int | str, Kind]

    def fast(self) -> pl.DataFrame | None:
        """The columns as polars reads them; None where anything about the file is unusual."""
        line, names = self._first()
        at = self._positions(names)
        frame = self._scanned(line, len(names), at, pl.Int64())
        if frame is None and "time" in self.columns.values():
            frame = self._scanned(line, len(names), at, pl.String())
        if frame is None:
            return None
        if self.plain.blank:
            filled = frame.filter(pl.any_horizontal(pl.all().is_not_null()))
            if len(frame) - len(filled) != self.plain.blank - (line - 1):
                return None  # a row with nothing in the wanted columns is no blank line
            frame = filled
        # A stray quote swallows lines; a quoted field that spans some is looked at line by line.
        if self.plain.has_quotes and self.quoted and len(frame) + self.how.header != self.plain.lines:
            return None
        typed, bad = _typed(frame, self.columns)
        return None if any(rows.any() for rows in bad.values()) else typed

    def _scanned(self, line: int, width: int, at: Mapping[int | str, int], times: pl.DataType) -> pl.DataFrame | None:
        """The same of a file whose times are of this type; None where polars cannot read it."""
        types = {"id": pl.String(), "number": pl.Float64(), "time": times, "text": pl.String()}
        schema: dict[str, pl.DataType] = {str(i): pl.String() for i in range(width)}
        schema |= {str(at[column]): types[kind] for column, kind in self.columns.items()}
        try:
            table = pl.scan_csv(
                self.plain.path,
                has_header=False,
                skip_lines=line if self.how.header else line - 1,
                separator=self.plain.separator,
                quote_char='"' if self.quoted else None,
                schema=schema,
                glob=False,
            )
            return table.select(pl.col(str(at[column])).alias(named(column)) for column in self.columns).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # a panic is no Exception
            return None

    def exactly(self) -> Rows:
        """The same, line by line: the first line that cannot be read is told, or all of them are skipped."""
        _, names = self._first()
        at = self._positions(names)
        wanted = [at[column] for column in self.columns]
        last = max(at[column] for column, kind in self.columns.items() if kind != "text")
        blocks: list[pl.DataFrame] = []
        wrong: list[tuple[int, str, str, _Option]] = []
        records = self._records()
        if self.how.header:
            next(records, None)
        while block := list(islice(records, _BLOCK)):
            kept = []
            for number, text, fields in block:
                if isinstance(fields, str):
                    wrong.append((number, text, fields, self._option(text, fields)))
                elif not last < len(fields) <= len(names):
                    expected = f"{len(names)} columns, as the first line has, not {len(fields)}"
                    wrong.append((number, text, expected, self._option(text, "columns")))
                else:
                    kept.append(
                        (number, text, [fields[i] if i < len(fields) and fields[i].strip() else None for i in wanted])
                    )
                if wrong and self.how.on_error == "error":
                    raise self._wrong_line(*wrong[0])
            parts = {
                named(c): pl.Series([f[i] for _, _, f in kept], dtype=pl.String) for i, c in enumerate(self.columns)
            }
            lines = {"\0line": [n for n, _, _ in kept], "\0text": [t[: 2 * _SHOWN] for _, t, _ in kept]}
            blocks.append(pl.DataFrame({**parts, **lines}, schema_overrides={"\0line": pl.Int64, "\0text": pl.String}))
        if not blocks:
            return Rows(pl.DataFrame(schema=dict.fromkeys(map(named, self.columns), pl.String)), 0)
        table = pl.concat(blocks)
        frame, bad = _typed(table.select(map(named, self.columns)), self.columns)
        for name, rows in bad.items():
            if rows.any() and self.how.on_error == "error":
                row = int(rows.argmax())
                expected = f"{_KINDS[self._kind(name)]} in {_column(name)}, not {table[name][row]!r}"
                option = "header = true" if table["\0line"][row] == 1 and not self.how.header else None
                raise self._wrong_line(table["\0line"][row], table["\0text"][row], expected, option)
        good = ~pl.Series([False] * len(frame))
        for rows in bad.values():
            good &= pl.Series(~rows)
        skipped = len(wrong) + int((~good).sum())
        if skipped:
            first = min([n for n, *_ in wrong[:1]] + table["\0line"].filter(~good).head(1).to_list())
            told = (
                f"{self.path.name}: {skipped:,} rows could not be read and were skipped, the first at line {first:,}."
            )
            warnings.warn(told, stacklevel=2)
        return Rows(frame.filter(good), skipped)

    # ---- columns ---------------------------------------------------------------------------------------

    def _first(self) -> tuple[int, list[str]]:
        """The first line that is not empty, from 1, and its fields: the header, or the first row."""
        for number, text, fields in self._records():
            if isinstance(fields, str):
                raise self._wrong_line(number, text, fields, self._option(text, fields))
            return number, [name.strip() for name in fields]
        raise DataError("path", received=f"{self.path}, an empty file", expected="a header and at least one row")

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

    def _kind(self, name: str) -> Kind:
        return next(kind for column, kind in self.columns.items() if named(column) == name)

    # ---- lines -----------------------------------------------------------------------------------------

    def _records(self) -> Iterator[tuple[int, str, list[str] | str]]:
        """Line number, from 1, text, and fields, or what was expected where there are none; blank lines left out."""
        ahead = deque[tuple[int, str, bool]]()
        lines = lines_of(self.plain.path)
        while ahead or (ahead := deque(islice(lines, 1))):
            number, text, is_text = ahead.popleft()
            if not is_text:
                yield number, text, _NO_TEXT.format(self.how.encoding)
            elif text.strip():
                fields = cut(text, self.plain.separator) if self.quoted else text.split(self.plain.separator)
                spans = 0
                while fields is None and spans < _LONGEST:  # does the field go on in the next lines?
                    spans += 1
                    ahead.extend(islice(lines, max(0, spans - len(ahead))))
                    if len(ahead) < spans:
                        break
                    record = "\n".join([text, *(more for _, more, _ in islice(ahead, spans))])
                    fields = cut(record, self.plain.separator)
                for _ in range(spans if fields is not None else 0):
                    ahead.popleft()
                yield number, text, _QUOTES if fields is None else fields

    def _option(self, text: str, expected: str) -> _Option:
        """The option that would read this line, where one would."""
        if expected == _NO_TEXT.format(self.how.encoding):
            return "encoding", "latin-1"
        return "quotes = false" if self.quoted and '"' in text else None

    def _wrong_line(self, line: int, text: str, expected: str, option: _Option) -> DataError:
        first = "Mend it" if option is None else f"Say {option}" if isinstance(option, str) else "Say {}"
        return DataError(
            f"{self.path.name}, line {line:,}",
            received=_shown(text.replace(self.plain.separator, self.separator)),
            expected=expected,
            remedy=f"{first}, or leave such rows out with {{}}.",
            settings=[*([option] if isinstance(option, tuple) else []), ("on_error", "skip")],
        )


_Option = tuple[str, str] | str | None
"""What a remedy says: a setting and its text, or a setting as it is written."""
_QUOTES = "quotes that open and close"
_NO_TEXT = "text in {}"
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
            values = (given.str.strip_chars() if given.dtype == pl.String else given).cast(pl.Float64, strict=False)
            bad[given.name] = ~values.is_finite().fill_null(value=False).to_numpy()
        elif kind == "time":
            values = as_times(given) if given.dtype == pl.String else given
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

"""Records of text files: the one reader of users' own files and of the files of datasets.

`read_clean` reads a file without any fault by polars. `split_records` reads all other files and checks their rows: each
record keeps the number of its line, so a faulty row can be named.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TextIO, final

import polars as pl

from recaudit.data.readers import reading
from recaudit.errors import DataError

PolarsType = type[pl.DataType] | pl.DataType
LINE, WIDTH = "line", "width"
"""Columns of a block of records: the number of the line, from 1, and the number of fields, 0 if it cannot be split."""
_BLOCK = 1_000_000
"""Records in a block: its fields are text, which takes more memory than the numbers that are made of them."""
_MAX_SPAN = 50
"""Lines that a quoted field may span."""
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh91AY&SY": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""First bytes of compressed files."""
_MARK = "\ufeff"
"""The byte order mark, which may begin a file."""
_REPLACED = "\ufffd"
"""Replacement in decoded text for bytes that are not text in the encoding."""


@final
class TextFile:
    """A text file, whose lines are loaded when they are first needed.

    Args:
        path: A text file that is not compressed.
        encoding: A name that Python knows. A byte order mark is removed.

    Raises:
        DataError: The file is compressed or cannot be read.
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        self.path, self.encoding = path, encoding
        self.is_utf_8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")
        with reading(path):
            check_not_compressed("path", path)

    def head(self, count: int) -> list[str]:
        """The first lines, without their ends. Bytes that are not text are replaced."""
        with self._open() as file:
            return [line.rstrip("\r\n") for line in islice(file, count)]

    def first_record(self, separator: str, *, quotes: bool) -> tuple[int, list[str] | None]:
        """The line number and the fields of the first line that is not blank; no fields if it cannot be split."""
        with self._open() as file:
            for number, line in enumerate(file, start=1):
                text = line.rstrip("\r\n")
                if text.strip():
                    return number, cut(text, separator) if quotes else text.split(separator)
        raise DataError("path", received=f"{self.path}, an empty file", expected="a header and at least one row")

    @cached_property
    def lines(self) -> pl.Series:
        """All lines, without their ends."""
        return self._decoded[0]

    @property
    def is_decoded(self) -> bool:
        """True if all bytes are text in the encoding."""
        return self._decoded[1]

    def line(self, number: int) -> str:
        """The text of a line, by its number from 1."""
        text: str = self.lines[number - 1]
        return text

    def is_text(self, number: int) -> bool:
        """True if all bytes of a line are text in the encoding."""
        return self.is_decoded or _REPLACED not in self.line(number)

    def _open(self) -> TextIO:
        encoding = "utf-8-sig" if self.is_utf_8 else self.encoding
        return self.path.open(encoding=encoding, errors="replace", newline="\n")

    @cached_property
    def _decoded(self) -> tuple[pl.Series, bool]:
        with reading(self.path):
            if self.is_utf_8:
                try:
                    return _without_mark(pl.read_lines(self.path, glob=False)["line"]), True
                except pl.exceptions.ComputeError:  # some bytes are not UTF-8
                    pass
            raw = self.path.read_bytes()
        try:
            text, is_decoded = raw.decode(self.encoding), True
        except UnicodeDecodeError:
            text, is_decoded = raw.decode(self.encoding, errors="replace"), False
        lines = pl.Series(text.removesuffix("\n").split("\n"), dtype=pl.String).str.strip_suffix("\r")
        return _without_mark(lines), is_decoded


def check_not_compressed(argument: str, path: Path) -> None:
    """Refuse compressed files."""
    with path.open("rb") as file:
        start = file.read(16)
    for magic, name in _COMPRESSED.items():
        if start.startswith(magic):
            raise DataError(
                argument,
                received=f"{path}, a file compressed by {name}",
                expected="a text file (.csv, .tsv, .dat) or a Parquet file",
                remedy="Decompress it first, and give the path of the decompressed file.",
            )


def _without_mark(lines: pl.Series) -> pl.Series:
    return lines.scatter(0, lines[0].removeprefix(_MARK)) if len(lines) and lines[0].startswith(_MARK) else lines


def cut(text: str, separator: str) -> list[str] | None:
    """Split a record by a separator of one character; None if its quotes do not open and close."""
    if '"' not in text:
        return text.split(separator)
    try:
        [fields] = csv.reader([text], delimiter=separator, strict=True)
    except (csv.Error, ValueError):
        return None
    return fields


def read_clean(
    text: TextFile, separator: str, types: Mapping[str, PolarsType], wanted: Sequence[str], *, quotes: bool, skip: int
) -> pl.DataFrame | None:
    """Read columns of a file in which every line is a record, by polars' reader of CSV files.

    Args:
        text: The file.
        separator: One or more characters.
        types: The names and types of all columns, in order.
        wanted: The columns to keep.
        quotes: If True, double quotes enclose fields.
        skip: Number of lines at the beginning that are not read.

    Returns:
        The columns, or None if only `split_records` can read the file: it is not UTF-8, its separator has several
        characters, some line is blank or too wide, a quoted field spans several lines, or polars refuses a row. Fields
        that are missing at the end of a line are null.
    """
    if not text.is_utf_8 or len(separator) > 1:
        return None
    try:
        line = pl.col("line")
        is_blank = line.str.strip_chars() == ""
        # With some columns only, polars does not notice fields beyond the last column.
        is_too_wide = line.str.count_matches(separator, literal=True) >= len(types)
        is_quoted = line.str.contains('"', literal=True) if quotes else pl.lit(value=False)
        n_unusual = (is_blank | (is_too_wide & ~is_quoted)).sum()
        facts = pl.scan_lines(text.path, glob=False).slice(skip).select(pl.len().alias("lines"), unusual=n_unusual)
        n_lines, n_unusual_lines = facts.collect(engine="streaming").row(0)
        if n_unusual_lines:
            return None
        table = pl.scan_csv(
            text.path,
            has_header=False,
            skip_lines=skip,
            separator=separator,
            quote_char='"' if quotes else None,
            schema=types,
            glob=False,
        )
        frame = table.select(wanted).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # a panic is no Exception
        return None
    return frame if len(frame) == n_lines else None


def split_records(
    text: TextFile, separator: str, columns: Sequence[int], *, quotes: bool, skip: int = 0
) -> Iterator[pl.DataFrame]:
    """Split lines into fields. Blank lines are no records.

    Args:
        text: The lines.
        separator: One or more characters.
        columns: Positions of the fields to keep, from 0.
        quotes: If True, a field in double quotes may hold separators, doubled quotes and line breaks. The separator is
            then one character.
        skip: Number of the lines at the beginning that are not read, such as a header and blank lines above it.

    Yields:
        Blocks in the order of the file, with the columns LINE, WIDTH and one for each of `columns`, named by its
        position. A field that is missing or blank is null.
    """
    lines = text.lines.alias("text").to_frame().with_row_index(LINE, offset=1).slice(skip)
    plain, others = lines.filter(pl.col("text").str.strip_chars() != ""), _empty(columns)
    if not text.is_decoded:
        faulty = pl.col("text").str.contains(_REPLACED, literal=True)
        numbers = plain.filter(faulty).select(LINE, pl.lit(0, pl.UInt32).alias(WIDTH))
        plain, others = plain.filter(~faulty), pl.concat([others, numbers], how="diagonal")
    if quotes:
        plain, parsed = _without_quotes(text, plain, separator, columns)
        others = pl.concat([others, parsed])
    for block in plain.iter_slices(_BLOCK):
        rows, is_before = _split(block, separator, columns), pl.col(LINE) < block[LINE][-1]
        yield pl.concat([rows, others.filter(is_before)]).sort(LINE) if len(others) else rows
        others = others.filter(~is_before)
    if len(others):
        yield others.sort(LINE)


def _empty(columns: Sequence[int]) -> pl.DataFrame:
    return pl.DataFrame(schema={LINE: pl.UInt32, WIDTH: pl.UInt32} | {str(column): pl.String for column in columns})


def _split(block: pl.DataFrame, separator: str, columns: Sequence[int]) -> pl.DataFrame:
    text = pl.col("text")
    parts = block.select(
        LINE,
        (text.str.count_matches(separator, literal=True) + 1).cast(pl.UInt32).alias(WIDTH),
        text.str.split_exact(separator, max(columns)),
    ).unnest("text")
    fields = ((str(column), pl.col(f"field_{column}")) for column in columns)
    filled = (pl.when(field.str.strip_chars() != "").then(field).alias(name) for name, field in fields)
    return parts.select(LINE, WIDTH, *filled)


def _without_quotes(
    text: TextFile, lines: pl.DataFrame, separator: str, columns: Sequence[int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The lines that can be split at separators, without quotes around their fields, and the records of all others."""
    is_quoted = pl.col("text").str.contains('"', literal=True)
    quoted = lines.filter(is_quoted)
    if quoted.is_empty():
        return lines, _empty(columns)
    character = re.escape(separator)
    field = f'(?:"[^"{character}]*"|[^"{character}]*)'
    is_simple = pl.col("text").str.contains(f"^{field}(?:{character}{field})*$")
    parsed, continued = _parse_quoted(text.lines, quoted.filter(~is_simple)[LINE], separator, columns)
    elsewhere = pl.concat([parsed[LINE], continued])
    plain = lines.filter(~pl.col(LINE).is_in(elsewhere.implode()))
    return plain.with_columns(pl.col("text").str.replace_all('"', "", literal=True)), parsed


def _parse_quoted(
    lines: pl.Series, numbers: pl.Series, separator: str, columns: Sequence[int]
) -> tuple[pl.DataFrame, pl.Series]:
    """Parse the records that begin at these line numbers.

    Returns:
        The records, and the numbers of the lines on which a record that began above continues.
    """
    records, continued = list[tuple[int, int, *tuple[str | None, ...]]](), list[int]()
    last = 0
    for number in numbers:
        if number <= last:
            continue  # it is part of the record above
        record = lines[number - 1]
        fields, end = cut(record, separator), number
        while fields is None and end < min(number + _MAX_SPAN, len(lines)):
            record += "\n" + lines[end]
            fields, end = cut(record, separator), end + 1
        if fields is None:
            records.append((number, 0, *[None] * len(columns)))
            continue
        last = end
        continued += range(number + 1, end + 1)
        wanted = (fields[column] if column < len(fields) else "" for column in columns)
        records.append((number, len(fields), *(value if value.strip() else None for value in wanted)))
    schema = _empty(columns).schema
    return pl.DataFrame(records, schema, orient="row"), pl.Series(LINE, continued, pl.UInt32)

"""Check a Parquet file before it is decoded: how many rows and bytes it decodes to, from the headers of its pages.

A table in a run folder may come from anybody, and a few bytes of Parquet can stand for terabytes: a run of equal
values, a text that a dictionary holds once, a page of zeros. A footer can say anything; what a decoder follows are the
headers of the pages. So this module reads the footer and the header of every page, in pure Python and without decoding
a value. It accepts only files whose numbers agree with each other, in the subset of Parquet that recaudit writes, and
returns an upper bound on the decoded size. Reference: https://parquet.apache.org/docs/file-format/.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final, final

MAX_FOOTER_BYTES = 16 * 2**20
"""Size of a footer: that of a table of two billion rows has 16 MB."""
MAX_COLUMNS = 10_000
MAX_DEPTH = 16
"""How many levels a schema has: a list of numbers has three."""
MAX_ROWS = 2**32 - 2
"""Rows that polars can address."""
FREE_DECODED_BYTES = 32 * 2**20
MAX_GROUP_ROWS = 2**22
"""Rows of a row group: polars writes 125,000."""
MAX_RATIO = 3000
"""A file decodes to at most FREE_DECODED_BYTES + MAX_RATIO times its size. The ratio of a table with a row for each
user is at most 180 (lists of MovieLens 1M), and that of all pairs of a model whose scores are constant is 1,600."""

_MAGIC = b"PAR1"
_MAX_PAGE_HEADER = 2**16
"""Bytes of a page header: besides a few numbers it holds the least and the largest value of the page."""
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 16, 7: 16}
"""Bytes of a decoded value, by physical type; of a text, the view that points at it."""
_VALIDITY, _OFFSET = 1, 8
"""Bytes of a value beyond its own: whether it is null, and where the list begins that it may be in."""
_BYTE_ARRAYS = (6, 7)
_CODECS = (0, 6)
"""None and zstd."""
_ENCODINGS = (0, 2, 3, 5, 6, 8, 9)
"""All encodings but BIT_PACKED, which is obsolete, and DELTA_BYTE_ARRAY, which repeats long texts at no cost."""
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_REQUIRED, _REPEATED = 0, 2


class ParquetError(ValueError):
    """The file is not a Parquet file as recaudit writes it; the message says in what way."""


@final
@dataclass(frozen=True)
class TableSize:
    """The size of a table once it is decoded."""

    rows: int
    decoded_bytes: int
    """An upper bound: the values, and each dictionary and text once."""
    largest_group: int
    """The same of the row group that has most."""


def table_size(file: BinaryIO) -> TableSize:
    """Return the decoded size of a Parquet file.

    Raises:
        ParquetError: The file is damaged, its numbers contradict each other, or it is larger when it is decoded than a
            table of a run can be.
    """
    length = file.seek(0, os.SEEK_END)
    try:
        footer, end = _footer(file, length)
        size = _Walk(file, end).measure(footer)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, ParquetError):
            raise
        raise ParquetError(f"its headers cannot be read ({error})") from None
    check_ratio(length, size.decoded_bytes)
    return size


def check_ratio(length: int, decoded: int) -> None:
    """Raise a ParquetError if a file of this length decodes to more bytes than a table of a run can."""
    limit = FREE_DECODED_BYTES + MAX_RATIO * length
    if decoded > limit:
        raise ParquetError(f"its {length:,} bytes decode to {decoded:,} bytes; a table of a run has at most {limit:,}")


def _footer(file: BinaryIO, length: int) -> tuple[dict[int, Any], int]:
    """The footer's fields by number, and where it begins."""
    if length < 3 * len(_MAGIC):
        raise ParquetError(f"it has {length} bytes")
    file.seek(0)
    start = file.read(4)
    file.seek(length - 8)
    tail = file.read(8)
    if start != _MAGIC or tail[4:] != _MAGIC:
        raise ParquetError("it does not begin and end as Parquet does")
    size = int.from_bytes(tail[:4], "little")
    if size > min(length - 12, MAX_FOOTER_BYTES):
        raise ParquetError(f"its footer claims {size:,} bytes; {min(length - 12, MAX_FOOTER_BYTES):,} are possible")
    file.seek(length - 8 - size)
    reader = _Thrift(file.read(size))
    return reader.struct(), length - 8 - size


@final
@dataclass(frozen=True)
class _Leaf:
    """A column of the schema that has values."""

    path: tuple[str, ...]
    physical: int
    flat: bool
    """Whether there is exactly one value or null a row."""


@final
class _Walk:
    """Measures the row groups of one file."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self.file, self.end = file, end
        self._ranges: list[tuple[int, int]] = []

    def measure(self, footer: dict[int, Any]) -> TableSize:
        """Return the size of the whole table."""
        leaves = _leaves([_fields(element) for element in _items(footer[2])])
        rows, sizes = 0, [0]
        for group in map(_fields, _items(footer[4])):
            count, chunks = _count(group[3]), _items(group[1])
            if len(chunks) != len(leaves):
                raise ParquetError(f"a row group has {len(chunks)} columns; the schema has {len(leaves)}")
            if count > MAX_GROUP_ROWS:
                raise ParquetError(f"a row group claims {count:,} rows; {MAX_GROUP_ROWS:,} are possible")
            rows += count
            pairs = zip(leaves, chunks, strict=True)
            sizes.append(sum(self._chunk(leaf, _fields(chunk), count) for leaf, chunk in pairs))
        if rows != _count(footer[3]) or rows > MAX_ROWS:
            raise ParquetError(f"its footer claims {footer[3]:,} rows; its row groups claim {rows:,}")
        ordered = sorted(self._ranges)
        if any(after[0] < before[1] for before, after in pairwise(ordered)):
            raise ParquetError("several of its columns share their bytes")
        return TableSize(rows, sum(sizes), max(sizes))

    def _chunk(self, leaf: _Leaf, chunk: dict[int, Any], rows: int) -> int:
        """Decoded bytes of one column in one row group."""
        if 1 in chunk or 8 in chunk:
            raise ParquetError("a column lies in another file, or is encrypted")
        about = _fields(chunk[3])
        path = tuple(name.decode() for name in _items(about[3]))
        if path != leaf.path or about[1] != leaf.physical:
            raise ParquetError(f"a row group has {'.'.join(path)} in the place of {'.'.join(leaf.path)}")
        if about[4] not in _CODECS:
            raise ParquetError(f"it is compressed by codec {about[4]}; recaudit uses zstd")
        # The dictionary comes first. Some writers say 0 where there is none.
        start = min(at for at in (about[9], about.get(11) or about[9]))
        size = _count(about[7])
        if not len(_MAGIC) <= start <= start + size <= self.end:
            raise ParquetError(f"column {'.'.join(path)} lies outside of the file")
        if size:
            self._ranges.append((start, start + size))
        values, decoded = self._pages(leaf, start, start + size)
        if values != _count(about[5]) or (leaf.flat and values != rows):
            raise ParquetError(
                f"column {'.'.join(path)} has {values:,} values; {about[5]:,} in {rows:,} rows are claimed"
            )
        return decoded

    def _pages(self, leaf: _Leaf, at: int, end: int) -> tuple[int, int]:
        """Values and decoded bytes of the pages of a column."""
        values, decoded, first = 0, 0, True
        while at < end:
            self.file.seek(at)
            reader = _Thrift(self.file.read(min(_MAX_PAGE_HEADER, end - at)))
            head = reader.struct()
            kind, uncompressed, compressed = head[1], _count(head[2]), _count(head[3])
            at += reader.at + compressed
            if at > end:
                raise ParquetError("a page is longer than its column")
            if kind == _DICTIONARY_PAGE and first:
                entries, encoding = _count(_fields(head[7])[1]), _fields(head[7])[2]
                decoded += uncompressed + entries * _WIDTHS[leaf.physical]
            elif kind in (_DATA_PAGE, _DATA_PAGE_V2):
                about = _fields(head[5 if kind == _DATA_PAGE else 8])
                count, encoding = _count(about[1]), about[2 if kind == _DATA_PAGE else 4]
                values += count
                decoded += uncompressed + count * (_WIDTHS[leaf.physical] + _VALIDITY + _OFFSET * (not leaf.flat))
            else:
                raise ParquetError(f"it has a page of type {kind} where none can be")
            if encoding not in _ENCODINGS:
                raise ParquetError(f"it has an encoding ({encoding}) that recaudit does not use")
            first = False
        return values, decoded


def _leaves(elements: list[dict[int, Any]]) -> list[_Leaf]:
    """The columns of a schema, which is a tree written from the top down."""
    if len(elements) > MAX_COLUMNS:
        raise ParquetError(f"its schema has {len(elements):,} elements; {MAX_COLUMNS:,} are possible")
    leaves: list[_Leaf] = []
    open_groups = [(_count(elements[0].get(5, 0)), (), True)] if elements else []
    stack: list[tuple[int, tuple[str, ...], bool]] = list(open_groups)
    for element in elements[1:]:
        while stack and stack[-1][0] == 0:
            stack.pop()
        if not stack:
            raise ParquetError("its schema has more elements than it says")
        left, path, flat = stack.pop()
        stack.append((left - 1, path, flat))
        own, flat = (*path, element[4].decode()), flat and element.get(3, _REQUIRED) != _REPEATED
        children = _count(element.get(5, 0))
        if children:
            stack.append((children, own, flat))
            if len(stack) > MAX_DEPTH:
                raise ParquetError(f"its schema is deeper than {MAX_DEPTH} levels")
        else:
            if element[1] not in _WIDTHS:
                raise ParquetError(f"it has a column of type {element[1]}, which Parquet does not have")
            leaves.append(_Leaf(own, element[1], flat))
    if any(left for left, _, _ in stack):
        raise ParquetError("its schema has fewer elements than it says")
    return leaves


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ParquetError(f"a header has {value!r} where a count must be")
    return value


def _fields(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise ParquetError("a header has another field where a struct must be")
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ParquetError("a header has another field where a list must be")
    return value


@final
class _Thrift:
    """Reads Thrift's compact protocol: structs as dicts by the numbers of their fields."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Read a struct."""
        if depth > MAX_DEPTH:
            raise ParquetError("its headers are nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while True:
            head = self.content[self.at]
            self.at += 1
            if head == 0:
                return found
            kind, step = head & 0x0F, head >> 4
            number = number + step if step else self._zigzag()
            found[number] = self._value(kind, depth + 1, in_struct=True)

    def _value(self, kind: int, depth: int, *, in_struct: bool = False) -> Any:
        value: Any
        match kind:
            case 1 | 2:  # a boolean field is its type; in a list it has a byte of its own
                value = kind == 1 if in_struct else self._bytes(1) == b"\x01"
            case 3:
                value = self._bytes(1)[0]
            case 4 | 5 | 6:
                value = self._zigzag()
            case 7:
                value = self._bytes(8)
            case 8:
                value = self._bytes(self._varint())
            case 9 | 10:
                value = self._list(depth)
            case 12:
                value = self.struct(depth)
            case _:
                raise ParquetError(f"its headers have a field of type {kind}, which is not in use")
        return value

    def _list(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise ParquetError("its headers are nested too deeply")
        head = self._bytes(1)[0]
        kind, count = head & 0x0F, head >> 4
        count = self._varint() if count == 15 else count
        if count > len(self.content) - self.at:  # an element has a byte or more
            raise ParquetError(f"a header claims a list of {count:,} elements")
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _bytes(self, count: int) -> bytes:
        found = self.content[self.at : self.at + count]
        if len(found) != count:
            raise ParquetError("a header ends too early")
        self.at += count
        return found

    def _varint(self) -> int:
        content, at, value, shift = self.content, self.at, 0, 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return value
            shift += 7
            if shift > 63:
                raise ParquetError("a header has a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

"""Craft Parquet files that no writer makes: huge when they are decoded, or with headers that lie.

The files are written byte by byte after the specification of Parquet (https://parquet.apache.org/docs/file-format/) and
of Thrift's compact protocol, so that every number in them can be false. Each has the columns that a table of a run
folder has, so that whatever reads the table does not stop at a missing column.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import polars as pl

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""
BYTE_ARRAY, INT64, DOUBLE = 6, 2, 5
"""Physical types of Parquet."""
PLAIN, RLE, DELTA_BINARY, DELTA_BYTES, RLE_DICTIONARY = 0, 3, 5, 7, 8
"""Encodings of Parquet."""
UNCOMPRESSED, ZSTD = 0, 6
"""Codecs of Parquet."""
DATA_PAGE, DICTIONARY_PAGE = 0, 2
MAX_I32 = 2**31 - 1

Field = tuple[int, int, bytes]
"""Number, type and encoded value of a field."""


def varint(number: int) -> bytes:
    """Encode a number of at least 0, seven bits a byte."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def zigzag(number: int) -> bytes:
    """Encode any number."""
    return varint(number * 2 if number >= 0 else -number * 2 - 1)


def i32(number: int, value: int) -> Field:
    """A field of 32 bits."""
    return number, I32, zigzag(value)


def i64(number: int, value: int) -> Field:
    """A field of 64 bits."""
    return number, I64, zigzag(value)


def binary(number: int, value: bytes) -> Field:
    """A field of bytes."""
    return number, BINARY, varint(len(value)) + value


def nested(number: int, value: bytes) -> Field:
    """A field that holds a struct."""
    return number, STRUCT, value


def listed(number: int, kind: int, values: Sequence[bytes], claimed: int | None = None) -> Field:
    """A field that holds a list, which may claim another length."""
    count = len(values) if claimed is None else claimed
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    return number, LIST, head + b"".join(values)


def struct(*fields: Field) -> bytes:
    """Encode a struct."""
    encoded, before = bytearray(), 0
    for number, kind, value in fields:
        step = number - before
        encoded += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + zigzag(number)
        encoded += value
        before = number
    return bytes(encoded) + b"\0"


def zstd_zeros(size: int, byte: int = 0) -> bytes:
    """A zstd frame that decodes to this many equal bytes: blocks of 128 KiB in 4 bytes each."""
    block = 128 * 1024
    whole, rest = divmod(size, block)
    sizes = [block] * whole + ([rest] if rest or not whole else [])
    encoded = bytearray(b"\x28\xb5\x2f\xfd\xe0" + packing.pack("<Q", size))
    for at, length in enumerate(sizes):
        head = length << 3 | 1 << 1 | (at == len(sizes) - 1)
        encoded += head.to_bytes(3, "little") + bytes([byte])
    return bytes(encoded)


@dataclass(frozen=True)
class Page:
    """One page, whose header may say anything."""

    kind: int
    values: int
    encoding: int
    content: bytes
    size: int
    """The uncompressed size that the header claims."""

    def encoded(self) -> bytes:
        """Header and content."""
        about = struct(i32(1, self.values), i32(2, self.encoding), i32(3, RLE), i32(4, RLE))
        field = 5
        if self.kind == DICTIONARY_PAGE:
            about, field = struct(i32(1, self.values), i32(2, PLAIN)), 7
        head = struct(i32(1, self.kind), i32(2, self.size), i32(3, len(self.content)), nested(field, about))
        return head + self.content


@dataclass(frozen=True)
class Column:
    """A column of one row group."""

    name: str
    physical: int
    pages: tuple[Page, ...]
    values: int
    codec: int = UNCOMPRESSED
    text: bool = False
    depth: int = 0
    """How many lists a value lies in."""
    offset: int | None = None
    """Where the footer says that it begins, if that is false."""
    file: bytes = b""
    """Another file that the footer says it is in."""

    @property
    def path(self) -> list[str]:
        """Names from the top of the schema to the values."""
        return [self.name, *["list", "element"] * self.depth]

    def schema(self) -> list[bytes]:
        """The elements of the schema."""
        kind = (i32(6, 0),) if self.text else ()
        if not self.depth:
            return [struct(i32(1, self.physical), i32(3, 0), binary(4, self.name.encode()), *kind)]
        found = []
        for name in [self.name, *["element"] * (self.depth - 1)]:
            found += [struct(i32(3, 0), binary(4, name.encode()), i32(5, 1), i32(6, 3))]
            found += [struct(i32(3, 2), binary(4, b"list"), i32(5, 1))]
        return [*found, struct(i32(1, self.physical), i32(3, 0), binary(4, b"element"), *kind)]


@dataclass(frozen=True)
class Lies:
    """What a footer says that is not so."""

    rows: int | None = None
    group_rows: int | None = None
    footer_length: int | None = None
    groups: int | None = None
    elements: tuple[bytes, ...] = ()
    """More elements of the schema."""
    metadata: tuple[tuple[bytes, bytes], ...] = ()


def parquet(groups: Sequence[Sequence[Column]], rows: Sequence[int], lies: Lies | None = None) -> bytes:
    """The file with these row groups, each of which has so many rows."""
    lies = lies or Lies()
    written, encoded_groups = bytearray(b"PAR1"), []
    for columns, count in zip(groups, rows, strict=True):
        chunks = []
        for column in columns:
            start = len(written)
            pages = [page.encoded() for page in column.pages]
            written += b"".join(pages)
            chunks.append(_chunk(column, start, pages))
        size = sum(len(chunk) for chunk in chunks)
        group_rows = count if lies.group_rows is None else lies.group_rows
        encoded_groups.append(struct(listed(1, STRUCT, chunks), i64(2, size), i64(3, group_rows)))
    first = groups[0] if groups else []
    root = struct(binary(4, b"root"), i32(5, len(first) + len(lies.elements[:1])))
    elements = [root, *(element for column in first for element in column.schema()), *lies.elements]
    metadata = [struct(binary(1, name), binary(2, value)) for name, value in lies.metadata]
    footer = struct(
        i32(1, 1),
        listed(2, STRUCT, elements),
        i64(3, sum(rows) if lies.rows is None else lies.rows),
        listed(4, STRUCT, encoded_groups, lies.groups),
        *([listed(5, STRUCT, metadata)] if metadata else []),
    )
    length = len(footer) if lies.footer_length is None else lies.footer_length
    return bytes(written) + footer + packing.pack("<I", length % 2**32) + b"PAR1"


def _chunk(column: Column, start: int, pages: Sequence[bytes]) -> bytes:
    at = start if column.offset is None else column.offset
    dictionary = column.pages[0].kind == DICTIONARY_PAGE
    sizes = sum(page.size for page in column.pages), sum(map(len, pages))
    about = struct(
        i32(1, column.physical),
        listed(2, I32, [zigzag(page.encoding) for page in column.pages]),
        listed(3, BINARY, [varint(len(name)) + name.encode() for name in column.path]),
        i32(4, column.codec),
        i64(5, column.values),
        i64(6, sizes[0]),
        i64(7, sizes[1]),
        i64(9, at + len(pages[0]) * dictionary),
        *([i64(11, at)] if dictionary else []),
    )
    named = [binary(1, column.file)] if column.file else []
    return struct(*named, i64(2, at), nested(3, about))


# ---- columns -------------------------------------------------------------------------------------------------------

Value = str | float | int | None


def constant(name: str, value: Value, rows: int, *, length: int = 0) -> Column:
    """One value, in as many rows as are wanted: a dictionary of one entry and a run; `length` of a long text."""
    text = isinstance(value, str) or value is None
    if text:
        entry = (str(value or "") * max(1, length)).encode()
        plain, physical = packing.pack("<I", len(entry)) + entry, BYTE_ARRAY
    elif isinstance(value, int):
        plain, physical = packing.pack("<q", value), INT64
    else:
        plain, physical = packing.pack("<d", value), DOUBLE
    run = b"\x01" + varint(rows << 1) + b"\0"
    pages = (
        Page(DICTIONARY_PAGE, 1, PLAIN, plain, len(plain)),
        Page(DATA_PAGE, rows, RLE_DICTIONARY, run, len(run)),
    )
    return Column(name, physical, pages, rows, text=text)


def zeros(name: str, rows: int) -> Column:
    """Numbers that are all 0, compressed by zstd as far as it goes."""
    page = Page(DATA_PAGE, rows, PLAIN, zstd_zeros(rows * 8), rows * 8)
    return Column(name, DOUBLE, (page,), rows, ZSTD)


def listing(name: str, rows: int, values: int) -> Column:
    """Lists of texts, `values` in all: the first list has those that the others do not need."""
    entry = packing.pack("<I", 1) + b"x"
    first = varint(1 << 1) + b"\0" + varint((values - rows) << 1) + b"\x01" if values > rows else b""
    others = varint((rows - 1 if first else rows) << 1) + b"\0"
    repetition, definition = first + others, varint(values << 1) + b"\x01"
    levels = b"".join(packing.pack("<I", len(run)) + run for run in (repetition, definition))
    content = levels + b"\x01" + varint(values << 1) + b"\0"
    pages = (
        Page(DICTIONARY_PAGE, 1, PLAIN, entry, len(entry)),
        Page(DATA_PAGE, values, RLE_DICTIONARY, content, len(content)),
    )
    return Column(name, BYTE_ARRAY, pages, values, text=True, depth=1)


def delta(numbers: Sequence[int]) -> bytes:
    """Numbers as DELTA_BINARY_PACKED has them: blocks of 128, each of 4 miniblocks."""
    encoded = bytearray(varint(128) + varint(4) + varint(len(numbers)) + zigzag(numbers[0]))
    steps = [after - before for before, after in pairwise(numbers)]
    for start in range(0, len(steps), 128):
        block = steps[start : start + 128]
        least = min(block)
        packed = [step - least for step in block] + [0] * (128 - len(block))
        width = max(packed).bit_length()
        encoded += zigzag(least) + bytes([width] * 4)
        encoded += sum(value << at * width for at, value in enumerate(packed)).to_bytes(128 * width // 8, "little")
    return bytes(encoded)


def prefixes(name: str, rows: int, length: int) -> Column:
    """Long texts, each of which is the one before: DELTA_BYTE_ARRAY writes the first one only."""
    lengths = delta([0, *[length] * (rows - 1)]), delta([length, *[0] * (rows - 1)])
    content = b"".join(lengths) + b"x" * length
    return Column(name, BYTE_ARRAY, (Page(DATA_PAGE, rows, DELTA_BYTES, content, len(content)),), rows, text=True)


def constants(schema: Mapping[str, pl.DataType], rows: int, values: Mapping[str, Value]) -> list[Column]:
    """Columns of a table, all with one value: that of `values`, or one that fits the type."""
    found = []
    for name, kind in schema.items():
        usual: Value = 0.5 if kind.is_float() else 1 if kind.is_integer() else "solved" if name == "status" else "x"
        value = values.get(name, usual)
        found.append(constant(name, float(value) if kind.is_float() and isinstance(value, int) else value, rows))
    return found


# ---- bombs ---------------------------------------------------------------------------------------------------------

Table = tuple[Mapping[str, pl.DataType], Mapping[str, Value]]
"""The schema of a table, and a value for each of its columns."""


def many_rows(table: Table, rows: int, groups: int = 1) -> bytes:
    """Equal rows: a run for each column and row group."""
    each = constants(table[0], rows // groups, table[1])
    return parquet([each] * groups, [rows // groups] * groups)


def padded_rows(table: Table, rows: int, padding: int) -> bytes:
    """Equal rows in a file that metadata makes as long as one of so many rows could be."""
    lies = Lies(metadata=((b"padding", b"x" * padding),))
    return parquet([constants(table[0], rows, table[1])], [rows], lies)


def wide_texts(table: Table, rows: int, length: int) -> bytes:
    """Texts of this length in all rows, which a dictionary holds once."""
    columns = constants(table[0], rows, table[1])
    wide = [constant(own.name, "x", rows, length=length) if own.text else own for own in columns[:1]]
    return parquet([[*wide, *columns[1:]]], [rows])


def _with(table: Table, rows: int, change: Callable[[Column], Column], *, texts: bool = False) -> list[Column]:
    """Columns with one value, where the first column of numbers, or of texts, is changed."""
    columns = constants(table[0], rows, table[1])
    at = next((at for at, own in enumerate(columns) if own.text == texts), 0)
    return [change(own) if place == at else own for place, own in enumerate(columns)]


def compressed_zeros(table: Table, rows: int) -> bytes:
    """A page of zstd that decodes to 8 bytes a row."""
    return parquet([_with(table, rows, lambda own: zeros(own.name, rows))], [rows])


def one_long_text(table: Table, length: int) -> bytes:
    """A single text of this length, compressed by zstd: its four bytes of length are within a page of equal bytes."""
    content = zstd_zeros(length, 0x78)
    page = Page(DATA_PAGE, 1, PLAIN, content, length)
    return parquet([_with(table, 1, lambda own: replace(own, pages=(page,), codec=ZSTD), texts=True)], [1])


def long_lists(table: Table, rows: int, values: int) -> bytes:
    """A list of very many values in one row."""
    return parquet([_with(table, rows, lambda own: listing(own.name, rows, values), texts=True)], [rows])


def shared_prefixes(table: Table, rows: int, length: int) -> bytes:
    """Long texts that are written once and repeated by the encoding."""
    return parquet([_with(table, rows, lambda own: prefixes(own.name, rows, length), texts=True)], [rows])


def packed_deltas(table: Table, rows: int) -> bytes:
    """Numbers of width 0: the encoding's header alone says how many."""
    content = varint(128) + varint(4) + varint(rows) + zigzag(1)

    def change(own: Column) -> Column:
        return Column(own.name, INT64, (Page(DATA_PAGE, rows, DELTA_BINARY, content, len(content)),), rows)

    return parquet([_with(table, rows, change)], [rows])


def shared_pages(table: Table, rows: int, groups: int) -> bytes:
    """Row groups that all point at the pages of the first one."""
    columns, start = constants(table[0], rows, table[1]), 4
    placed = []
    for column in columns:
        placed.append(replace(column, offset=start))
        start += sum(len(page.encoded()) for page in column.pages)
    return parquet([placed] * groups, [rows] * groups)


def lying_values(table: Table, claimed: int) -> bytes:
    """A page whose header has more values than the page."""

    def change(own: Column) -> Column:
        return replace(own, values=claimed, pages=tuple(replace(page, values=claimed) for page in own.pages))

    return parquet([_with(table, 1, change)], [claimed])


def lying_size(table: Table, claimed: int) -> bytes:
    """A page whose header claims another uncompressed size."""
    content = zstd_zeros(8)

    def change(own: Column) -> Column:
        return Column(own.name, DOUBLE, (Page(DATA_PAGE, 1, PLAIN, content, claimed),), 1, ZSTD)

    return parquet([_with(table, 1, change)], [1])


def lying_footer(table: Table, lies: Lies) -> bytes:
    """A table of one row with a footer that says otherwise."""
    return parquet([constants(table[0], 1, table[1])], [1], lies)


def elsewhere(table: Table, path: bytes) -> bytes:
    """A column that the footer places in another file."""
    return parquet([_with(table, 1, lambda own: replace(own, file=path))], [1])


def wild_offset(table: Table, offset: int) -> bytes:
    """A column that lies where no byte of the file is."""
    return parquet([_with(table, 1, lambda own: replace(own, offset=offset))], [1])


def deep_schema(table: Table, depth: int) -> bytes:
    """Groups within groups."""
    groups = (struct(i32(3, 0), binary(4, b"g"), i32(5, 1)),) * depth
    leaf = struct(i32(1, DOUBLE), i32(3, 0), binary(4, b"leaf"))
    return lying_footer(table, Lies(elements=(*groups, leaf)))


def many_columns(table: Table, count: int) -> bytes:
    """Very many columns of one row each."""
    columns = [*constants(table[0], 1, table[1]), *(constant(f"c{number}", 1.0, 1) for number in range(count))]
    return parquet([columns], [1])


BOMBS: dict[str, Callable[[Table], bytes]] = {
    **{f"{rows:.0e} rows": partial(many_rows, rows=rows) for rows in (10**6, 10**7, 10**8, 10**9)},
    **{
        f"{rows:.0e} rows in 5 MB": partial(padded_rows, rows=rows, padding=5 * 10**6)
        for rows in (10**6, 3 * 10**6, 10**7, 4 * 10**7)
    },
    "4e11 rows in 200 groups": lambda table: many_rows(table, 200 * 2 * 10**9, 200),
    "2e7 rows in 2000 groups": lambda table: many_rows(table, 2 * 10**7, 2000),
    "8e3 groups of one row": lambda table: many_rows(table, 8000, 8000),
    "texts of 1 MB in 1e4 rows": lambda table: wide_texts(table, 10_000, 10**6),
    "texts of 1 MB in 1e9 rows": lambda table: wide_texts(table, 10**9, 10**6),
    "texts of 5 MB in 100 rows": lambda table: wide_texts(table, 100, 5 * 10**6),
    "texts of 10 kB in 1e5 rows": lambda table: wide_texts(table, 10**5, 10**4),
    "zstd page of 80 MB": lambda table: compressed_zeros(table, 10**7),
    "zstd page of 2 GB": lambda table: compressed_zeros(table, MAX_I32 // 8),
    "text of 2 GB": lambda table: one_long_text(table, MAX_I32),
    "text whose length lies": lambda table: one_long_text(table, 1000),
    "list of 1e9 values": lambda table: long_lists(table, 1, 10**9),
    "lists of 1e7 values": lambda table: long_lists(table, 1000, 10**7),
    "prefixes of 1 MB in 2e4 rows": lambda table: shared_prefixes(table, 20_000, 10**6),
    "deltas of width 0, 1e9 rows": lambda table: packed_deltas(table, 10**9),
    "1000 groups at the same pages": lambda table: shared_pages(table, 10**7, 1000),
    "page of 2e9 values that has one": lambda table: lying_values(table, MAX_I32),
    "page of -1 values": lambda table: lying_values(table, -1),
    "page size of 2 GB that is 8 bytes": lambda table: lying_size(table, MAX_I32),
    "page size below 0": lambda table: lying_size(table, -5),
    "footer of 1e15 rows": lambda table: lying_footer(table, Lies(rows=10**15)),
    "footer of -1 rows": lambda table: lying_footer(table, Lies(rows=-1)),
    "group of 1e15 rows": lambda table: lying_footer(table, Lies(rows=10**15, group_rows=10**15)),
    "footer of 4 GB": lambda table: lying_footer(table, Lies(footer_length=2**32 - 1)),
    "footer of 2 bytes": lambda table: lying_footer(table, Lies(footer_length=2)),
    "list of 2e9 groups that has one": lambda table: lying_footer(table, Lies(groups=2 * 10**9)),
    "Arrow schema that is none": lambda table: lying_footer(table, Lies(metadata=((b"ARROW:schema", b"A" * 4000),))),
    "metadata of 5 MB": lambda table: lying_footer(table, Lies(metadata=((b"key", b"x" * 5 * 10**6),))),
    "column in /etc/passwd": lambda table: elsewhere(table, b"/etc/passwd"),
    "column beyond the end": lambda table: wild_offset(table, 10**12),
    "column before the start": lambda table: wild_offset(table, -(10**6)),
    "schema of depth 1e5": lambda table: deep_schema(table, 10**5),
    "1e4 columns": lambda table: many_columns(table, 10**4),
}
"""What makes each bomb of a table."""

"""Rows by the million: few are held in memory, many in files, written part by part by whoever works them out."""

from __future__ import annotations

import hashlib
import math
import platform
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, final

import polars as pl

from recaudit import atomic
from recaudit.engines import Engine
from recaudit.engines.base import check_written
from recaudit.errors import MachineError
from recaudit.folders import FileRecord

MOST_ROWS = 25_000_000
"""Rows that are held in memory, of a dozen columns: 2 GB, all pairs of MovieLens 1M."""
PART_ROWS = 2**18
"""Rows of a file, about: what a worker has in memory before it writes them, or whoever reads one file after another."""
_NOTED = 10.0
"""Seconds between two notes of what is written: what a killed run does again."""

Block = TypeVar("Block")


@final
class Part(NamedTuple):
    """A file of rows, as who wrote it says."""

    name: str
    record: FileRecord
    machine: str


@final
@dataclass(frozen=True)
class PartFolder:
    """Where parts are written, by any process that sees it."""

    place: Path

    def check(self) -> None:
        """That this machine has the folder: before anything is worked out for it."""
        if not self.place.is_dir():
            raise MachineError(
                f"{platform.node()}, a machine of the cluster, has no folder {self.place}, in which it writes rows. "
                "Choose a folder that all machines see under the same path, by --out or parts = '/shared/folder'."
            )

    def write(self, number: int, rows: pl.DataFrame) -> Part:
        """One part, whole or not at all; the same rows are the same bytes."""
        with BytesIO() as file:
            rows.write_parquet(file)
            content = file.getvalue()
        name = part_name(number)
        atomic.write(self.place / name, content)
        record = FileRecord(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        return Part(name, record, platform.node())


@final
@dataclass(frozen=True)
class Keeping:
    """Where the run of an audit keeps the parts of its own tables, and which of them it has."""

    audit: type
    place: Path
    kept: Mapping[str, FileRecord]  # by "TABLE/PART"
    keep: Callable[[Mapping[str, FileRecord]], None]


_keeping: ContextVar[Keeping | None] = ContextVar("recaudit_keeping", default=None)
_aside: ContextVar[Path | None] = ContextVar("recaudit_aside", default=None)


@contextmanager
def keeping(tables: Keeping) -> Iterator[None]:
    """Keep the large tables of an audit that is measured inside the block, part by part."""
    token = _keeping.set(tables)
    try:
        yield
    finally:
        _keeping.reset(token)


@contextmanager
def aside(place: Path) -> Iterator[None]:
    """Have other large tables of the block in folders inside this one, gone with the last that holds the table."""
    token = _aside.set(place)
    try:
        yield
    finally:
        _aside.reset(token)


@final
class SpilledRows:
    """A table in files, in the order of their names: of a run folder, or gone with the last that holds the table."""

    def __init__(self, place: Path, parts: Mapping[str, FileRecord] | None = None) -> None:
        self.folder = PartFolder(place)
        self.known: Mapping[str, FileRecord] = {}
        """Parts that a killed run has noted, whole and in place."""
        self._records = dict(parts or {})
        self._names = list(self._records)
        self._keep: Callable[[Mapping[str, FileRecord]], None] | None = None
        self._noted = time.monotonic()

    @classmethod
    def begun(cls, audit: object, name: str, engine: Engine | None = None) -> SpilledRows:
        """A table of an audit without any rows yet: in the run folder, if it is the run's own audit."""
        tables = _keeping.get()
        if tables is None or not isinstance(audit, tables.audit):
            return cls._aside(engine)
        folder = f"{name}/"
        found = cls(tables.place / name)
        found.known = {part.removeprefix(folder): one for part, one in tables.kept.items() if part.startswith(folder)}
        found._keep = lambda parts: tables.keep({f"{folder}{part}": one for part, one in parts.items()})
        found.folder.place.mkdir(parents=True, exist_ok=True)
        return found

    @classmethod
    def _aside(cls, engine: Engine | None = None) -> SpilledRows:
        named = getattr(engine, "parts", None)
        root = _aside.get() or (Path(named).absolute() if named else Path(tempfile.gettempdir()))
        root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=atomic.PREFIX, dir=root))
        found = cls(folder)
        weakref.finalize(found, _gone, folder)
        return found

    def __len__(self) -> int:
        return int(self.scan().select(pl.len()).collect().item())

    def __reduce__(self) -> tuple[Any, ...]:
        return pl.concat, (list(self.parts()),)  # another process gets the rows: the files may be gone by then

    @property
    def kept(self) -> bool:
        """Whether the parts are in their run folder, which has noted them."""
        return self._keep is not None

    def add(self, part: Part) -> None:
        """Take in what somebody has written, if it is here too."""
        check_written(self.folder.place / part.name, part.machine, part.record.bytes)
        self._records[part.name] = part.record
        self._names.append(part.name)
        if time.monotonic() - self._noted > _NOTED:
            self.note()

    def note(self) -> None:
        """Have the run folder know what is written."""
        if self._keep is not None:
            self._keep(self._records)
        self._noted = time.monotonic()

    def write(self, rows: pl.DataFrame) -> None:
        """Write one part after those that are there."""
        self.add(self.folder.write(len(self._names), rows))

    @property
    def places(self) -> list[Path]:
        """The files."""
        return [self.folder.place / name for name in sorted(self._names)]

    def scan(self) -> pl.LazyFrame:
        """The rows in their order, read no further than they are asked for."""
        return scan_parts(self.places)

    def parts(self) -> Iterator[pl.DataFrame]:
        """The rows, some blocks at a time: no block is in two parts."""
        return map(read_part, self.places)

    def write_parquet(self, path: Path) -> None:
        """Everything into one file, without having it in memory."""
        self.scan().sink_parquet(path)

    @cached_property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.scan().collect_schema())


Rows = pl.DataFrame | SpilledRows


def part_name(number: int) -> str:
    """The name of a part's file: names are in the order of the rows."""
    return f"{number:06}.parquet"


def read_part(place: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """The rows of one part."""
    return pl.read_parquet(place, columns=columns, glob=False)


def scan_parts(places: Sequence[Path]) -> pl.LazyFrame:
    """The rows of all parts in this order, read no further than they are asked for."""
    return pl.scan_parquet(list(places), glob=False)


@final
@dataclass(frozen=True, eq=False)
class WritesRows(Generic[Block]):
    """Works out the rows of some blocks and writes them: of a part, only its name and digest travel."""

    rows_of: Callable[[Block], pl.DataFrame]
    folder: PartFolder

    def __call__(self, piece: tuple[int, Sequence[Block]]) -> Part:
        """Of a numbered part."""
        self.folder.check()
        number, blocks = piece
        return self.folder.write(number, pl.concat([self.rows_of(block) for block in blocks], rechunk=False))


def numbered_parts(blocks: Sequence[Block], most: int) -> list[tuple[int, Sequence[Block]]]:
    """Blocks that have `most` rows at most, in numbered parts of about PART_ROWS: the same for every engine.

    A part has a power of two of blocks, so that samples of an estimate, which are powers of two, have equal parts.
    """
    each = 2 ** max(0, round(math.log2(PART_ROWS * len(blocks) / most)))
    return [(number, blocks[start : start + each]) for number, start in enumerate(range(0, len(blocks), each))]


def worked_out(
    audit: object, engine: Engine, rows_of: Callable[[Block], pl.DataFrame], blocks: Sequence[Block], most: int
) -> Rows:
    """The table "pairs" of an audit: the rows of all blocks, `most` at most."""
    label = type(audit).__name__.lower()
    if most <= MOST_ROWS:
        return pl.concat(list(engine.map(rows_of, blocks, label)), rechunk=False)
    table = SpilledRows.begun(audit, "pairs", engine)
    left = [piece for piece in numbered_parts(blocks, most) if part_name(piece[0]) not in table.known]
    for name, record in table.known.items():
        table.add(Part(name, record, platform.node()))
    for part in engine.map(WritesRows(rows_of, table.folder), left, label):
        table.add(part)
    table.note()
    return table


def gathered(blocks: Iterable[pl.DataFrame]) -> Rows:
    """The rows of all blocks: in memory, or in files as soon as they are more than MOST_ROWS."""
    held, count, table = list[pl.DataFrame](), 0, None
    for block in blocks:
        held.append(block)
        count += len(block)
        if count > (MOST_ROWS if table is None else PART_ROWS):
            table = table or SpilledRows._aside()
            table.write(pl.concat(held, rechunk=False))
            held, count = [], 0
    if table is None:
        return pl.concat(held, rechunk=False)
    if held:
        table.write(pl.concat(held, rechunk=False))
    return table


def lazily(rows: Rows) -> pl.LazyFrame:
    """The rows, to be asked for something."""
    return rows.scan() if isinstance(rows, SpilledRows) else rows.lazy()


def parts_of(rows: Rows) -> Iterator[pl.DataFrame]:
    """The rows in pieces that fit in memory, of whole blocks."""
    return rows.parts() if isinstance(rows, SpilledRows) else iter([rows])


def _gone(place: Path) -> None:
    with suppress(Exception):  # a folder that nobody looks for any more
        atomic.discard(place)

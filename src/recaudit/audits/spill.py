"""Rows by the million: few are held in memory, many in files, block by block, until nobody looks at them any more."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, final

import polars as pl

MOST_ROWS = 25_000_000
"""Rows that are held in memory, of a dozen columns: 2 GB, all pairs of MovieLens 1M."""
_FILE = 1_000_000
"""Rows of a file, about: what is in memory while they are written, or read one file after the other."""


@final
class SpilledRows:
    """A table in files of a temporary folder, which goes with the last that holds the table."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="recaudit-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._files: list[Path] = []

    def __len__(self) -> int:
        return int(self.scan().select(pl.len()).collect().item())

    def __reduce__(self) -> tuple[Any, ...]:
        return pl.concat, (list(self.parts()),)  # another process gets the rows: the files may be gone by then

    def add(self, blocks: list[pl.DataFrame]) -> None:
        """Write some blocks after those that are there."""
        path = self._folder / f"{len(self._files):06}.parquet"
        pl.concat(blocks, rechunk=False).write_parquet(path)
        self._files.append(path)

    def scan(self) -> pl.LazyFrame:
        """The rows in their order, read no further than they are asked for."""
        return pl.scan_parquet(self._files, glob=False)

    def parts(self) -> Iterator[pl.DataFrame]:
        """The rows, some blocks at a time: no block is in two parts."""
        return (pl.read_parquet(path, glob=False) for path in self._files)

    def write_parquet(self, path: Path) -> None:
        """Everything into one file, without having it in memory."""
        self.scan().sink_parquet(path)

    @cached_property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.scan().collect_schema())


Rows = pl.DataFrame | SpilledRows


@final
class Gathering:
    """Blocks of rows as they come: in memory, or in files as soon as they are more than MOST_ROWS."""

    def __init__(self) -> None:
        self._held: list[pl.DataFrame] = []
        self._count = 0
        self._spilled: SpilledRows | None = None

    def add(self, block: pl.DataFrame) -> None:
        """One block more."""
        self._held.append(block)
        self._count += len(block)
        if self._count > (MOST_ROWS if self._spilled is None else _FILE):
            self._spilled = self._spilled or SpilledRows()
            self._spill()

    def rows(self) -> Rows:
        """The rows of all blocks, one after the other."""
        if self._spilled is None:
            return pl.concat(self._held, rechunk=False)
        if self._held:
            self._spill()
        return self._spilled

    def _spill(self) -> None:
        assert self._spilled is not None
        self._spilled.add(self._held)
        self._held, self._count = [], 0


def gathered(blocks: Iterable[pl.DataFrame]) -> Rows:
    """The rows of all blocks."""
    found = Gathering()
    for block in blocks:
        found.add(block)
    return found.rows()


def lazily(rows: Rows) -> pl.LazyFrame:
    """The rows, to be asked for something."""
    return rows.scan() if isinstance(rows, SpilledRows) else rows.lazy()


def parts_of(rows: Rows) -> Iterator[pl.DataFrame]:
    """The rows in pieces that fit in memory, of whole blocks."""
    return rows.parts() if isinstance(rows, SpilledRows) else iter([rows])

"""The user's own files become a log: ids of one type, a catalogue, and what is known about users and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl

from recaudit.data.catalogue import joined
from recaudit.data.checks import found, plain_numbers
from recaudit.data.frames import check_columns
from recaudit.data.interactions import Interactions
from recaudit.data.readers import reading
from recaudit.data.splits import Split
from recaudit.data.text_files import Kind, TextFormat, named, read_text
from recaudit.errors import DataError, reading_from

if TYPE_CHECKING:
    from recaudit.data.sources import OwnData, TableFile

Columns = Mapping[int | str, Kind]


@final
@dataclass(frozen=True)
class ColumnsRead:
    """A table, and where it is from."""

    file: Path
    frame: pl.DataFrame
    skipped: int
    untyped: bool
    """Whether ids are text only because everything in the file is."""

    def numbered(self, column: str) -> ColumnsRead | None:
        """The same with these ids as whole numbers, None where they are not all written, or kept, as such."""
        numbers = plain_numbers(self.frame[column]) if self.untyped else self.frame[column]
        if not numbers.dtype.is_integer() or numbers.null_count():
            return None
        return replace(self, frame=self.frame.with_columns(numbers))


def load(source: OwnData) -> Interactions:
    """The log in the source's file, with everything that is said about users and items."""
    [log], items, users = _logs(source, source.file)
    return _described(source, log, items, users)


def load_parts(source: OwnData, train: Path, test: Path) -> tuple[Interactions, Split]:
    """The log that two files make together, and its two parts."""
    (one, other), items, users = _logs(source, train, test)
    with reading_from(test.name):
        whole, held = joined(one, other)
    whole = _described(source, whole, items, users)
    return whole, Split(whole.subset(~held), whole.subset(held))


def _logs(source: OwnData, *files: Path) -> tuple[list[Interactions], ColumnsRead | None, ColumnsRead | None]:
    """The logs of some files, over one catalogue where it is said to be whole; and the tables of items and users."""
    user, item = named(source.user), named(source.item)
    columns: dict[int | str, Kind] = {source.user: "id", source.item: "id"}
    columns |= {} if source.rating is None else {source.rating: "number"}
    columns |= {} if source.time is None else {source.time: "time"}
    parts = [read_columns(file, source, columns) for file in files]
    shown = [column for column in (source.title, *source.categories.values()) if column is not None]
    items = _about(source.items, source.item, shown)
    users = _about(source.users, source.user, list(source.attributes.values()))
    whole = source.catalogue == "all"
    user_ids = _alike(parts, user, users if whole else None)
    item_ids = _alike(user_ids[: len(parts)], item, items if whole else None)
    logs = []
    for part in item_ids[: len(parts)]:
        with reading_from(part.file.name):
            log = Interactions.from_frame(
                part.frame,
                user=user,
                item=item,
                rating=None if source.rating is None else named(source.rating),
                time=None if source.time is None else named(source.time),
                scale=source.scale,
                duplicates=source.duplicates,
                items=item_ids[-1].frame["id"] if whole and items is not None else None,
                users=user_ids[-1].frame["id"] if whole and users is not None else None,
            )
        skipped = {"skipped_rows": part.skipped} if part.skipped else {}
        logs.append(replace(log, facts={**skipped, **log.facts}))
    return logs, items, users


def _described(
    source: OwnData, log: Interactions, items: ColumnsRead | None, users: ColumnsRead | None
) -> Interactions:
    """The log with what the tables say about its items and users; rows about others are counted."""
    facts = dict(log.facts)
    if items is not None:
        with reading_from(items.file.name):
            table = _known(items, log.item_ids, "items_left_out", facts)
            title = None if source.title is None else named(source.title)
            systems = {name: named(column) for name, column in source.categories.items()}
            separator = source.category_separator
            log = log.with_items(table, item="id", title=title, categories=systems, separator=separator)
    if users is not None:
        with reading_from(users.file.name):
            table = _known(users, log.user_ids, "users_left_out", facts)
            known = [_as_meant(table[named(column)]).alias(name) for name, column in source.attributes.items()]
            log = log.with_users(pl.DataFrame([table["id"], *known]), user="id", attributes=list(source.attributes))
    return replace(log, facts=facts)


def _known(about: ColumnsRead, ids: pl.Series, count: str, facts: dict[str, int]) -> pl.DataFrame:
    """The rows about these ids; how many there are of others goes into the facts."""
    numbered = about.numbered("id") if ids.dtype != pl.String else None
    table = (numbered or about).frame
    there = found(ids, table["id"], "column 'id'") >= 0
    if left_out := int(np.count_nonzero(~there)):
        facts[count] = left_out
    return table.filter(there)


def _alike(parts: Sequence[ColumnsRead], column: str, about: ColumnsRead | None) -> list[ColumnsRead]:
    """The parts, and the table about the same ids, with ids of one type: whole numbers where all are written so."""
    every = [(part, column) for part in parts] + ([] if about is None else [(about, "id")])
    numbered = [one.numbered(name) for one, name in every]
    return [one if None in numbered else number or one for (one, _), number in zip(every, numbered, strict=True)]


def _about(file: TableFile | None, ids: int | str, columns: Sequence[int | str]) -> ColumnsRead | None:
    """A table of items or users: the column "id", and these."""
    if file is None:
        return None
    own = ids if file.id is None else file.id
    read = read_columns(file.file, file, {own: "id", **dict.fromkeys(columns, "text")})
    # An attribute may have the name that ids go by here.
    id_ = read.frame[named(own)].alias("id")
    return replace(read, frame=pl.DataFrame([id_, *(read.frame[named(c)] for c in dict.fromkeys(columns) if c != own)]))


def read_columns(file: Path, how: TextFormat, columns: Columns) -> ColumnsRead:
    """These columns of a file of any kind; errors name it."""
    with reading_from(file.name):
        return _read_any(file, how, columns)


def _read_any(file: Path, how: TextFormat, columns: Columns) -> ColumnsRead:
    if file.stat().st_size == 0:
        raise DataError("path", received=f"{file}, an empty file", expected="a header and at least one row")
    if file.suffix.lower() != ".parquet":
        rows = read_text(file, how, columns)
        return ColumnsRead(file, rows.frame, rows.skipped, untyped=True)
    with reading(file):
        lazy = pl.scan_parquet(file, glob=False)
        held = lazy.collect_schema().names()
        names = {
            column: held[column] if isinstance(column, int) and column < len(held) else str(column)
            for column in columns
        }
        check_columns(list(names.values()), held)
        frame = lazy.select(pl.col(name).alias(named(column)) for column, name in names.items()).collect()
    return ColumnsRead(file, frame, 0, untyped=False)


def _as_meant(text: pl.Series) -> pl.Series:
    """What a text file says about users, as numbers where all of it are numbers."""
    if text.dtype != pl.String:
        return text
    for kind in (pl.Int64, pl.Float64):
        numbers = text.cast(kind, strict=False)
        if numbers.null_count() == text.null_count():
            return numbers
    return text

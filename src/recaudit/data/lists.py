"""Lists that somebody has already: a frame or a file with a row for each user and item, under the log's ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import narwhals as nw
import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.checks import as_numbers, check_ids, found, offending, same_type
from recaudit.data.frames import as_polars
from recaudit.data.interactions import Interactions, Unknown
from recaudit.data.readers import read_table
from recaudit.errors import DataError
from recaudit.ties import TIE, TieKeys, pair_keys


@final
@dataclass(frozen=True)
class ListColumns:
    """What the columns of a frame of lists are called; `rank` or `score` may be missing, not both."""

    user: str = "user"
    """The column of user ids."""
    item: str = "item"
    """The column of item ids."""
    rank: str = "rank"
    """The column of places, the first is 1."""
    score: str = "score"
    """The column of scores, the highest first."""


@final
@dataclass(frozen=True, eq=False)
class GivenLists:
    """Lists, one row a user and item: users in the order in which they came, each one's items best first."""

    user_ids: pl.Series
    """(users,): distinct, as they stand in the frame."""
    at: IntArray
    """(users,): positions in the log; -1 for users that it does not know: they have no history."""
    rows: IntArray
    """(rows,): the list that a row belongs to, ascending."""
    items: IntArray
    """(rows,): positions in the log."""
    places: IntArray
    """(rows,): the place in the list as it was given, from 1; rows that were left out have had theirs."""
    scores: FloatArray | None
    """(rows,): None without a column of them."""
    left_out: int
    """How many rows were ignored, because the log does not know their items."""
    emptied_ids: pl.Series
    """Users who have no list any more, because none of its rows was left."""

    @property
    def emptied(self) -> int:
        """How many users have no list any more."""
        return len(self.emptied_ids)

    @cached_property
    def against_rank(self) -> BoolArray:
        """(users,): whether a place of the list has a higher score than that before it; the rank decides."""
        found, largest = np.zeros(len(self.user_ids), dtype=np.bool_), np.zeros(len(self.user_ids))
        if self.scores is not None:
            np.maximum.at(largest, self.rows, np.abs(self.scores))
            rises = np.diff(self.scores) > TIE * largest[self.rows[1:]]
            found[self.rows[1:][rises & (np.diff(self.rows) == 0)]] = True
        return found

    def dense(self, k: int | None = None) -> IntArray:
        """(users, k or the longest list): item positions by place, -1 where a row was left out and after the end."""
        length = int(self.places.max(initial=0)) if k is None else k
        table = np.full((len(self.user_ids), length), -1, dtype=np.int64)
        shown = self.places <= length
        table[self.rows[shown], self.places[shown] - 1] = self.items[shown]
        return table


def given_lists(
    lists: object, data: Interactions, columns: ListColumns | None = None, unknown: Unknown = "error", before: int = 0
) -> GivenLists:
    """Lists from a frame (pandas, polars, pyarrow) or a .parquet, .csv or .tsv file, best first by rank or else score.

    An item that the log does not know is an error, or its row is ignored; such a user stays. Errors count rows from
    `before`.
    """
    columns = columns or ListColumns()
    table = _table(lists, data, columns, before)
    items = found(data.item_ids, table[columns.item], f"column {columns.item!r}")
    missing = items < 0
    if missing.any() and unknown == "error":
        raise DataError(
            f"column {columns.item!r}",
            received=offending(table[columns.item], missing, before=before),
            expected=f"items that are in the log ({data.n_items:,} known)",
            remedy="Correct the ids, or say {} to leave those rows out.",
            settings=[("unknown", "ignore")],
        )
    ids = table[columns.user]
    everybody = ids.unique(maintain_order=True)
    rows = found(everybody, ids, columns.user)
    _check_once(table, columns, rows, items, before)
    order = _best_first(table, columns, rows, items, data.tie_keys_of(everybody))
    rows, items = rows[order], items[order]
    scores = table[columns.score].to_numpy()[order] if columns.score in table.columns else None
    kept = items >= 0
    left, at = np.unique(rows[kept], return_inverse=True)
    user_ids = everybody.gather(left)
    return GivenLists(
        user_ids,
        found(data.user_ids, user_ids, f"column {columns.user!r}"),
        at,
        items[kept],
        places_in(rows)[kept],
        None if scores is None else scores[kept],
        int(missing.sum()),
        everybody.gather(np.setdiff1d(rows, left)),
    )


def may_hold_lists(value: object) -> bool:
    """Whether this is a frame, or the path of a file."""
    return isinstance(value, str | Path | pl.LazyFrame) or nw.dependencies.is_into_dataframe(value)


def places_in(rows: IntArray) -> IntArray:
    """(rows,): which row of its list each is, from 1; `rows` (rows,) are the lists, ascending."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows) + 1


def _table(lists: object, data: Interactions, columns: ListColumns, before: int) -> pl.DataFrame:
    """The columns that count, checked one by one."""
    if isinstance(lists, str | Path):
        lists = read_table(lists, {columns.user: data.user_ids, columns.item: data.item_ids})
    elif isinstance(lists, pl.LazyFrame):
        lists = lists.collect()
    as_polars(lists, [columns.user, columns.item], argument="lists")
    held: list[str] = nw.from_native(lists, eager_only=True).columns  # type: ignore[call-overload]  # any frame
    numbers = [name for name in (columns.rank, columns.score) if name in held]
    if not numbers:
        raise DataError(
            "lists",
            received=f"a frame with columns {', '.join(map(repr, held))}",
            expected=f"a column {columns.rank!r} or {columns.score!r}: which item comes first",
            remedy="Say which column is meant, for example rank = 'position'.",
        )
    table = as_polars(lists, [columns.user, columns.item, *numbers], argument="lists")
    if len(numbers) == 2 and table[columns.score].is_null().all():
        table = table.drop(numbers.pop())  # the lists of a system that gave no scores
    for name in numbers:
        values = as_numbers(table[name])
        if (wrong := ~np.isfinite(values)).any():
            received = offending(table[name], wrong, before=before)
            raise DataError(f"column {name!r}", received=received, expected="a finite number in every row")
        table = table.with_columns(pl.Series(name, values))
    for name, known in ((columns.user, data.user_ids), (columns.item, data.item_ids)):
        check_ids(table[name], before)
        table = table.with_columns(same_type(table[name], known, f"column {name!r}"))
    return table


def _place(table: pl.DataFrame, columns: ListColumns) -> FloatArray:
    """(rows,): what falls as items get worse: the rank, or else the score with the other sign."""
    ranked = columns.rank in table.columns
    return np.asarray(table[columns.rank].to_numpy() if ranked else -table[columns.score].to_numpy())


def _best_first(table: pl.DataFrame, columns: ListColumns, rows: IntArray, items: IntArray, ties: TieKeys) -> IntArray:
    """(rows,): list after list, best first. Equal scores go by `ties`, whose rows are the lists."""
    keys = pair_keys(ties.users[rows], ties.items[items])  # an unknown item, at -1, is left out anyway
    return np.lexsort((items, keys, _place(table, columns), rows))


def _check_once(table: pl.DataFrame, columns: ListColumns, rows: IntArray, items: IntArray, before: int) -> None:
    """Refuse a list that has a rank, or a known item, twice."""
    ranked, place = columns.rank in table.columns, _place(table, columns)
    for column, values, counts in (
        (columns.rank, place, np.full(len(rows), ranked)),
        (columns.item, items, items >= 0),
    ):
        order = np.lexsort((values, rows))
        again = (np.diff(rows[order]) == 0) & (np.diff(values[order]) == 0) & counts[order[1:]]
        if again.any():
            first = int(np.flatnonzero(again)[0])
            row, other = sorted(order[first : first + 2].tolist())
            raise DataError(
                f"columns {columns.user!r} and {column!r}",
                received=f"rows {row + before} and {other + before} with {columns.user} {table[columns.user][row]!r} "
                f"and {column} {table[column][row]!r} both ({int(again.sum()):,} repeated)",
                expected=f"each {column} once in a list",
                remedy="Keep one list for each user, and one row for each item of it.",
            )

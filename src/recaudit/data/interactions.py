"""The immutable interaction log: what was observed, under the user's own ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arguments import check_argument, checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.catalogue import extended, placed
from recaudit.data.categories import Categories
from recaudit.data.checks import (
    as_text,
    check_edit,
    check_ids,
    check_ratings,
    check_scale,
    check_times,
    encode,
    listed_ids,
    positions,
    resolve_duplicates,
)
from recaudit.data.frames import as_polars
from recaudit.errors import InputError
from recaudit.seeding import Keys, keys_of
from recaudit.terminal import visible
from recaudit.ties import TieKeys, id_hashes

Duplicates = Literal["error", "last", "mean"]
Unknown = Literal["error", "ignore"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """A log of (user, item, rating, time), sorted by user and item, one row a pair.

    Inside the package users and items are positions 0..n-1; `user_ids` and `item_ids` turn them back into
    the ids that came in. Two logs built from the same rows in another order are equal, number by number.
    """

    user_ids: pl.Series
    item_ids: pl.Series
    indptr: IntArray
    """(users + 1,): the rows of user u are `indptr[u]:indptr[u + 1]`."""
    items: NDArray[np.int32]
    """(rows,): the item's position, ascending within a user."""
    ratings: FloatArray
    times: IntArray | FloatArray | None
    scale: tuple[float, float]
    """The lowest and highest rating that can be given: declared, or else observed."""
    titles: pl.Series | None = None
    attributes: pl.DataFrame = field(default_factory=pl.DataFrame)
    """One row a user; empty when nothing is known about users."""
    category_systems: tuple[tuple[str, Categories], ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)
    """Counts of reading: rows that were skipped (`skipped_rows`), rows of a user and item that have another row
    (`merged_repeats`), and rows about unknown users and items."""

    @classmethod
    @checked
    def from_frame(
        cls,
        frame: object,
        *,
        user: str = "user",
        item: str = "item",
        rating: str | None = "rating",
        time: str | None = None,
        scale: tuple[float, float] | None = None,
        duplicates: Duplicates = "error",
        items: Iterable[object] | None = None,
        users: Iterable[object] | None = None,
    ) -> Interactions:
        """Build a log from any data frame: pandas, polars or pyarrow.

        `rating=None` takes every row as a rating of 1 (implicit feedback). `scale` declares the rating scale:
        ratings outside it are an error; without it the observed range is used. `duplicates` says what to do
        with several rows for one (user, item): refuse, keep the last (by time, else by row), or average. `items` and
        `users` are ids that belong to the catalogue even if the frame has no row of them.
        """
        columns = [name for name in (user, item, rating, time) if name is not None]
        table = as_polars(frame, columns, argument="frame")
        user_series, item_series = check_ids(table[user]), check_ids(table[item])
        values = np.ones(len(table)) if rating is None else check_ratings(table[rating], scale)
        times = None if time is None else check_times(table[time])
        user_ids, user_of = encode(user_series)
        item_ids, item_of = encode(item_series)

        facts: dict[str, int] = {}
        key = user_of.astype(np.int64) * len(item_ids) + item_of
        if np.any(key[1:] <= key[:-1]):
            order = np.argsort(key, kind="stable")
            key, values = key[order], values[order]
            times = None if times is None else times[order]
            if np.any(key[1:] == key[:-1]):
                keep, values = resolve_duplicates(key, values, times, order, table, (user, item), duplicates)
                facts["merged_repeats"] = len(key) - len(keep)
                key = key[keep]
                times = None if times is None else times[keep]
        sorted_users, sorted_items = np.divmod(key, len(item_ids))
        log = cls(
            user_ids=user_ids,
            item_ids=item_ids,
            indptr=np.searchsorted(sorted_users, np.arange(len(user_ids) + 1)).astype(np.int64),
            items=sorted_items.astype(np.int32),
            ratings=values,
            times=times,
            scale=check_scale(scale, values),
            facts=facts,
        ).frozen()
        return log if items is None and users is None else extended(log, items, users)

    def frozen(self) -> Interactions:
        """The same log, with arrays that cannot be written to."""
        for array in (self.indptr, self.items, self.ratings, self.times):
            if array is not None:
                array.flags.writeable = False
        return self

    # ---- what is known about items and users -----------------------------------------------------------

    @checked
    def with_items(
        self,
        frame: object,
        *,
        item: str = "item",
        title: str | None = None,
        categories: Mapping[str, str] | None = None,
        separator: str = "|",
        unknown: Unknown = "error",
    ) -> Interactions:
        """Add titles and categories from a frame with one row an item.

        `categories` maps the name of a category system to the column that holds it, as lists or as text cut
        at `separator`; an item's categories share its weight equally (paper 004, section 3). For other
        weights use `with_categories`. Items of the frame that nobody interacted with are an error, or ignored.
        """
        systems = dict(categories or {})
        columns = [item, *([] if title is None else [title]), *systems.values()]
        table = as_polars(frame, columns, argument="frame")
        rows, table = positions(self.item_ids, table, item, unknown, "with_items")
        result = self
        if title is not None:
            result = replace(result, titles=placed(as_text(table[title]), rows, self.n_items))
        for name, column in systems.items():
            result = result._add(name, Categories.from_column(table[column], rows, self.n_items, separator))
        return result

    @checked
    def with_categories(
        self,
        name: str,
        frame: object,
        *,
        item: str = "item",
        category: str = "category",
        weight: str | None = None,
        unknown: Unknown = "error",
    ) -> Interactions:
        """Add one category system from a long frame: a row for each (item, category), with a weight or none.

        The weights of an item are scaled to sum to one: p(g|i).
        """
        columns = [item, category, *([] if weight is None else [weight])]
        table = as_polars(frame, columns, argument="frame")
        rows, table = positions(self.item_ids, table, item, unknown, "with_categories", unique=False)
        weights = None if weight is None else table[weight]
        return self._add(name, Categories.from_pairs(table[category], weights, rows, self.n_items))

    def _add(self, name: str, categories: Categories) -> Interactions:
        systems = {**dict(self.category_systems), name: categories}
        return replace(self, category_systems=tuple(systems.items()))

    @checked
    def with_users(
        self,
        frame: object,
        *,
        user: str = "user",
        attributes: Sequence[str],
        unknown: Unknown = "error",
    ) -> Interactions:
        """Add user attributes (gender, age group, region, ...) from a frame with one row a user."""
        table = as_polars(frame, [user, *attributes], argument="frame")
        rows, table = positions(self.user_ids, table, user, unknown, "with_users")
        for name in attributes:
            as_text(table[name])  # groups have names
        added = {name: placed(table[name], rows, self.n_users) for name in attributes}
        return replace(self, attributes=pl.DataFrame({**self.attributes.to_dict(), **added}))

    @property
    def categories(self) -> Mapping[str, Categories]:
        """The category systems by name."""
        return MappingProxyType(dict(self.category_systems))

    # ---- sizes and views -------------------------------------------------------------------------------

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def users(self) -> NDArray[np.int32]:
        """(rows,): the user's position, ascending."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def csr(self) -> sparse.csr_array:
        """Ratings as users x items, by user. A rating of 0 is a stored entry."""
        index = np.int32 if len(self) < 2**31 else np.int64
        parts = (self.ratings, self.items.astype(index, copy=False), self.indptr.astype(index))
        return sparse.csr_array(parts, shape=(self.n_users, self.n_items))

    def matrix(self, dtype: str = "float32") -> sparse.csr_matrix:
        """Ratings as users x items, to train another library's model on: a copy, in the form that most of them take."""
        return sparse.csr_matrix(self.csr, dtype=np.dtype(dtype), copy=True)

    @cached_property
    def csc(self) -> sparse.csc_array:
        """Ratings as users x items, by item; users ascending within an item."""
        return self.csr.tocsc()

    @cached_property
    def user_counts(self) -> IntArray:
        """(users,): how many items each user rated."""
        return np.diff(self.indptr)

    @cached_property
    def item_counts(self) -> IntArray:
        """(items,): how many users rated each item."""
        return np.bincount(self.items, minlength=self.n_items).astype(np.int64)

    @cached_property
    def user_keys(self) -> Keys:
        """(users,): a 64-bit key of each id, for random draws that follow the id."""
        return keys_of(self.user_ids)

    @cached_property
    def item_keys(self) -> Keys:
        """(items,): a 64-bit key of each id."""
        return keys_of(self.item_ids)

    @cached_property
    def _tie_keys(self) -> TieKeys:
        """Keys of all users and items."""
        return TieKeys.of_ids(self.user_ids, self.item_ids)

    def tie_keys(self, users: IntArray) -> TieKeys:
        """Return what decides between tied items in the lists of these users (positions): hashes of the ids."""
        return self._tie_keys.rows(users)

    def tie_keys_of(self, user_ids: pl.Series) -> TieKeys:
        """As `tie_keys`, for users that the log may not know."""
        return TieKeys(id_hashes(user_ids), self._tie_keys.items)

    def history(self, user: int) -> tuple[NDArray[np.int32], FloatArray]:
        """The items and ratings of the user at this position."""
        rows = slice(self.indptr[user], self.indptr[user + 1])
        return self.items[rows], self.ratings[rows]

    def in_time(self, user: int) -> IntArray:
        """(ratings of the user,): the rows of the user at this position, oldest first (ties: the lower item first)."""
        if self.times is None:
            raise InputError(
                "data",
                received="a log without times",
                expected="times: what came last is asked for",
                remedy="Name the time column when you build the log: time='timestamp', for instance.",
            )
        start, end = self.indptr[user], self.indptr[user + 1]
        return np.asarray(start + np.argsort(self.times[start:end], kind="stable"), dtype=np.int64)

    def seen(self, users: IntArray) -> BoolArray:
        """(len(users), items): True where that user has interacted with the item."""
        block = np.zeros((len(users), self.n_items), dtype=bool)
        counts = self.user_counts[users]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        block[
            np.repeat(np.arange(len(users)), counts),
            self.items[np.repeat(self.indptr[users], counts) + offsets],
        ] = True
        return block

    def subset(self, rows: BoolArray) -> Interactions:
        """The log with only the rows where `rows` (rows,) is True; every id stays, and its position too."""
        kept = np.concatenate([[0], np.cumsum(rows)])
        times = None if self.times is None else self.times[rows]
        return replace(
            self, indptr=kept[self.indptr], items=self.items[rows], ratings=self.ratings[rows], times=times
        ).frozen()

    def with_ratings(self, user: int, items: IntArray, ratings: FloatArray) -> Interactions:
        """The log in which the user at this position has given `ratings` (n,) to `items` (n,), positions.

        A rating that is there is changed and keeps its time; a new one comes at the latest time of the log. Every id
        stays, and its position too.
        """
        items, ratings = check_edit(user, items, ratings, (self.n_users, self.n_items), self.scale)
        rows = slice(self.indptr[user], self.indptr[user + 1])
        merged = np.union1d(self.items[rows], items).astype(np.int32)
        old, edited = np.searchsorted(merged, self.items[rows]), np.searchsorted(merged, items)
        values = np.empty(len(merged))
        values[old] = self.ratings[rows]
        values[edited] = ratings
        times = self.times
        if times is not None:
            own = np.full(len(merged), times.max() if len(times) else 0, dtype=times.dtype)
            own[old] = times[rows]
            times = np.concatenate([times[: rows.start], own, times[rows.stop :]])
        added = len(merged) - len(old)
        return replace(
            self,
            indptr=self.indptr + added * (np.arange(self.n_users + 1) > user),
            items=np.concatenate([self.items[: rows.start], merged, self.items[rows.stop :]]),
            ratings=np.concatenate([self.ratings[: rows.start], values, self.ratings[rows.stop :]]),
            times=times,
        ).frozen()

    def users_at(self, ids: Iterable[object]) -> IntArray:
        """The positions of these user ids; an unknown id, or one of another type than the log's, is an error."""
        return self._at(self.user_ids, ids, "users")

    def items_at(self, ids: Iterable[object], argument: str = "items") -> IntArray:
        """The same of item ids; `argument` is what an error calls them."""
        return self._at(self.item_ids, ids, argument)

    @staticmethod
    def _at(known: pl.Series, ids: Iterable[object], argument: str) -> IntArray:
        check_argument(argument, ids, Iterable[object])
        table = pl.DataFrame({argument: listed_ids(ids, known, argument)})
        return positions(known, table, argument, "error", argument, unique=False)[0]

    def item_labels(self, items: IntArray) -> list[str]:
        """What to call these items in front of a person: the title, or else the id."""
        ids = self.item_ids.gather(items).cast(pl.String)
        if self.titles is None:
            return ids.to_list()
        return [title or id_ for title, id_ in zip(self.titles.gather(items), ids, strict=True)]

    def frame(self) -> pl.DataFrame:
        """The log as a frame under the original ids."""
        columns = {
            "user": self.user_ids.gather(self.users),
            "item": self.item_ids.gather(self.items),
            "rating": self.ratings,
        }
        return pl.DataFrame(columns if self.times is None else {**columns, "time": self.times})

    @cached_property
    def fingerprint(self) -> str:
        """A hash of ids, ratings, times and everything known about users and items: the same data, the same hash."""
        digest = hashlib.sha256(repr(self.scale).encode())
        for array in (self.indptr, self.items, self.ratings, self.times):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
        for series in (self.user_ids, self.item_ids, self.titles, *self.attributes):
            if series is not None:
                digest.update(repr((series.name, series.to_list())).encode())
        for name, categories in self.category_systems:
            digest.update(repr((name, categories.names)).encode())
            for part in (categories.weights.indptr, categories.weights.indices, categories.weights.data):
                digest.update(part.tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        density = len(self) / max(1, self.n_users * self.n_items)
        extras = [f"categories: {', '.join(self.categories)}"] if self.category_systems else []
        extras += [f"attributes: {', '.join(self.attributes.columns)}"] if self.attributes.width else []
        low, high = self.scale
        head = f"{self.n_users:,} users x {self.n_items:,} items, {len(self):,} ratings in [{low:g}, {high:g}]"
        return visible(f"Interactions({head}, density {density:.2%}{''.join('; ' + extra for extra in extras)})")

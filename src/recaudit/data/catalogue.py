"""The users and items of a log: those without ratings too, and those of two logs together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import BoolArray, IntArray
from recaudit.data.categories import Categories
from recaudit.data.checks import check_ids, found, listed_ids
from recaudit.errors import DataError

if TYPE_CHECKING:
    from recaudit.data.interactions import Interactions

Ids = Iterable[object] | None


def extended(data: Interactions, items: Ids = None, users: Ids = None) -> Interactions:
    """The log over a catalogue that also holds these ids, of the log's type; positions move, ratings stay."""
    user_ids, user_at = _union(data.user_ids, users, "users")
    item_ids, item_at = _union(data.item_ids, items, "items")
    if len(user_ids) == data.n_users and len(item_ids) == data.n_items:
        return data
    counts = np.zeros(len(user_ids), dtype=np.int64)
    counts[user_at] = data.user_counts
    return replace(
        data,
        user_ids=user_ids,
        item_ids=item_ids,
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        items=item_at.astype(np.int32)[data.items],
        titles=None if data.titles is None else placed(data.titles, item_at, len(item_ids)),
        attributes=pl.DataFrame([placed(column, user_at, len(user_ids)) for column in data.attributes]),
        category_systems=tuple(
            (name, Categories(system.names, _rows_at(system.weights, item_at, len(item_ids))))
            for name, system in data.category_systems
        ),
    ).frozen()


def joined(one: Interactions, other: Interactions) -> tuple[Interactions, BoolArray]:
    """Two logs that share no pair as one, over the users and items of both; and which rows (rows,) are the other's.

    What is known about users and items is what either log knows; the first one's word counts where both do.
    """
    if (one.times is None) != (other.times is None):
        raise DataError("times", received="one log with times and one without", expected="times in both, or in neither")
    one, other = extended(one, other.item_ids, other.user_ids), extended(other, one.item_ids, one.user_ids)
    keys, new = (log.users * np.int64(log.n_items) + log.items for log in (one, other))
    again = np.flatnonzero(np.isin(keys, new, assume_unique=True))
    if len(again):
        pairs = zip(one.user_ids.gather(one.users[again[:3]]), one.item_ids.gather(one.items[again[:3]]), strict=True)
        shown = ", ".join(f"user {user!r} with item {item!r}" for user, item in pairs)
        raise DataError(
            "test",
            received=f"{shown} ({len(again):,} of {len(other):,} rows)",
            expected="no user and item that the training part has as well",
            remedy="Leave these rows out of one of the two parts: what was trained on cannot be tested on.",
        )
    order = np.argsort(np.concatenate([keys, new]), kind="stable")
    whole = replace(
        one,
        indptr=one.indptr + other.indptr,
        items=np.concatenate([one.items, other.items])[order],
        ratings=np.concatenate([one.ratings, other.ratings])[order],
        times=None if one.times is None else np.concatenate([one.times, np.asarray(other.times)])[order],
        scale=(min(one.scale[0], other.scale[0]), max(one.scale[1], other.scale[1])),
        titles=_either(one.titles, other.titles),
        attributes=pl.DataFrame(_attributes(one.attributes, other.attributes)),
        category_systems=tuple(_systems(one, other).items()),
        facts={name: one.facts.get(name, 0) + other.facts.get(name, 0) for name in {**one.facts, **other.facts}},
    )
    return whole.frozen(), order >= len(one)


def placed(values: pl.Series, rows: IntArray, length: int) -> pl.Series:
    """Values placed at `rows` of a series of `length`, null elsewhere."""
    source = np.full(length, -1, dtype=np.int64)
    source[rows] = np.arange(len(rows))
    index = pl.Series(source)
    return values.gather(index.set(index < 0, None))


def _union(known: pl.Series, more: Ids, argument: str) -> tuple[pl.Series, IntArray]:
    """The known ids and further ones in ascending order, and where the known ones stand in it."""
    if more is None:
        return known, np.arange(len(known))
    added = check_ids(listed_ids(more, known, argument).alias(argument))
    ids = pl.concat([known.alias(argument), added]).unique().sort().alias(known.name)
    return ids, found(ids, known, argument)


def _rows_at(weights: sparse.csr_array, rows: IntArray, length: int) -> sparse.csr_array:
    """The matrix with its rows moved to `rows` of `length`, empty elsewhere; the order of rows stays."""
    counts = np.zeros(length, dtype=weights.indptr.dtype)
    counts[rows] = np.diff(weights.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((weights.data, weights.indices, indptr), shape=(length, weights.shape[1]))


def _either(one: pl.Series | None, other: pl.Series | None) -> pl.Series | None:
    """The values of one series, and of the other where the first has none."""
    if one is None or other is None:
        return other if one is None else one
    return one.zip_with(one.is_not_null(), other)


def _attributes(one: pl.DataFrame, other: pl.DataFrame) -> list[pl.Series]:
    first, second = ({column.name: column for column in frame} for frame in (one, other))
    known = (_either(first.get(name), second.get(name)) for name in {**first, **second})
    return [column for column in known if column is not None]


def _systems(one: Interactions, other: Interactions) -> dict[str, Categories]:
    """The category systems of either log; an item's categories are the first log's, where it has any there."""
    systems = {**other.categories, **one.categories}
    for name in one.categories.keys() & other.categories.keys():
        first, second = one.categories[name], other.categories[name]
        missing = np.diff(first.weights.indptr) == 0
        pairs = [_pairs(first), _pairs(second).filter(pl.col("item").is_in(np.flatnonzero(missing)))]
        table = pl.concat(pairs)
        systems[name] = Categories.from_pairs(table["category"], table["weight"], table["item"].to_numpy(), one.n_items)
    return systems


def _pairs(system: Categories) -> pl.DataFrame:
    """(item, category, weight) triples."""
    weights = system.weights.tocoo()
    items, columns = weights.coords
    names = [system.names[column] for column in columns]
    schema = {"item": pl.Int64, "category": pl.String, "weight": pl.Float64}
    return pl.DataFrame({"item": items, "category": names, "weight": weights.data}, schema=schema)

"""Ways to slice a result: by what is known about users and items, by history length, by popularity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean

Units = Literal["users", "items"]
BOTH: tuple[Units, ...] = ("users", "items")
_MOST_GROUPS = 25
"""An attribute with more distinct values than this (a postcode, say) is cut into quartiles or left out."""


@final
@dataclass(frozen=True, eq=False)
class Grouping:
    """Users or items in groups; an item can belong to several in part, as its categories say."""

    by: str
    over: Units
    names: tuple[str, ...]
    weights: FloatArray
    """(units, groups): how much of each unit belongs to each group; rows sum to one, or to zero."""


def groupings(data: Interactions, by: Sequence[str] | None, over: Sequence[Units] = BOTH) -> list[Grouping]:
    """The named groupings of this log, or all that it offers, of what can be split: users, items or both.

    Users: each attribute, and "history" (quartiles of how many ratings they gave). Items: "popularity" (quartiles
    of how many ratings they got) and each category system.
    """
    offered = {grouping.by: grouping for grouping in _offered(data)}
    usable = {name: grouping for name, grouping in offered.items() if grouping.over in over}
    if by is None:
        return list(usable.values())
    for name in by:
        if name not in offered:
            raise InputError(
                "by",
                received=name,
                expected="a user attribute, a category system, 'history' or 'popularity'",
                remedy=did_you_mean(name, usable),
            )
        if name not in usable:
            received, expected = f"{name}, which groups {offered[name].over}", f"groups of {' or '.join(over)}"
            remedy = f"This audit can be split by: {', '.join(usable)}."
            raise InputError("by", received=received, expected=expected, remedy=remedy)
    return [offered[name] for name in by]


def told_names(groups: Sequence[str]) -> dict[str, str]:
    """What people call each of the groups of one grouping: numbers that only keep quartiles in order are no part of it.

    Such groups are "1: 3-9 ratings", "2: 10-40 ratings", and so on without a gap; others are called as they are.
    """
    parts = {group: group.partition(": ") for group in groups}
    numbered = {number for number, _, _ in parts.values()} == {str(place) for place in range(1, len(parts) + 1)}
    return {group: name if numbered else group for group, (_, _, name) in parts.items()}


def _offered(data: Interactions) -> list[Grouping]:
    found = (
        *map(_by_value, data.attributes),
        _by_quartile("history", "users", data.user_counts, "ratings"),
        _by_quartile("popularity", "items", data.item_counts, "ratings"),
        *(Grouping(name, "items", one.names, one.weights.toarray()) for name, one in data.categories.items()),
    )
    return [grouping for grouping in found if grouping is not None]


def _by_value(column: pl.Series) -> Grouping | None:
    values = column.drop_nulls().unique().sort()
    if not len(values):
        return None
    if len(values) > _MOST_GROUPS:
        if not column.dtype.is_numeric():
            return None
        numbers = column.cast(pl.Float64).to_numpy()
        return _by_quartile(column.name, "users", numbers, "") if np.isfinite(numbers).any() else None
    weights = np.column_stack([(column == value).fill_null(value=False).to_numpy() for value in values])
    return Grouping(column.name, "users", tuple(map(str, values)), weights.astype(np.float64))


def _by_quartile(by: str, over: Units, values: IntArray | FloatArray, unit: str) -> Grouping:
    """Four groups cut at the quartiles; equal values stay together, so groups can differ in size or be fewer."""
    known = np.isfinite(values)
    cuts = np.unique(np.quantile(values[known], [0.25, 0.5, 0.75]))
    group = np.searchsorted(cuts, values, side="left")
    names: list[str] = []
    columns: list[BoolArray] = []
    for number in range(len(cuts) + 1):
        inside = known & (group == number)
        if inside.any():
            low, high = values[inside].min(), values[inside].max()
            span = f"{low:g}" if low == high else f"{low:g}-{high:g}"
            names.append(f"{len(names) + 1}: {span} {unit}".rstrip())
            columns.append(inside)
    return Grouping(by, over, tuple(names), np.column_stack(columns).astype(np.float64))

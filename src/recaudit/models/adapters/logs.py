"""A log beside what a library was trained on: ids, ratings and their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError

Each = TypeVar("Each")


def library_ids(ids: pl.Series, raw: Sequence[object]) -> list[object]:
    """The log's ids as the library has them in `raw`: where it read all of them as text, numbers are text too."""
    text = all(isinstance(each, str) for each in raw)
    return [str(each) if text else each for each in ids.to_list()]


def library_places(ids: pl.Series, raw: Sequence[object]) -> IntArray:
    """(ids,): where each of the log's ids is in `raw`, -1 for those that the library does not know."""
    places = {each: place for place, each in enumerate(raw)}
    return np.array([places.get(each, -1) for each in library_ids(ids, raw)], dtype=np.int64)


def log_places(places: IntArray, count: int) -> IntArray:
    """(count,): the same the other way round, where the library's ids are in the log."""
    out = np.full(count, -1, dtype=np.int64)
    out[places[places >= 0]] = np.flatnonzero(places >= 0)
    return out


def check_trained_on(data: Interactions, users: IntArray, items: IntArray, ratings: FloatArray) -> None:
    """That these ratings (n,), by position in the log or -1, are the log's, in whatever order."""
    order = np.lexsort((items, users))
    if not (
        len(ratings) == len(data)
        and np.array_equal(users[order], data.users)
        and np.array_equal(items[order], data.items)
        and np.allclose(ratings[order], data.ratings)
    ):
        raise InputError(
            "data",
            received=f"{len(data):,} ratings that are not the {len(ratings):,} that the model was trained on",
            expected="the log that the model was trained on",
            remedy="Build it from the same rows, each pair once, with the same ids; split before training.",
        )


def first(before: Iterable[Each], now: Iterable[Each]) -> list[Each]:
    """What is there now: that which was there before first, in its order, and then the rest."""
    left = dict.fromkeys(now)
    return list(dict.fromkeys([*(each for each in before if each in left), *left]))

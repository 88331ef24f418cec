"""Logs that grow, by position: the blank log of a population, and ratings added many at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError


def blank(users: int, items: int, scale: tuple[float, float]) -> Interactions:
    """A log with times in which nobody has rated anything yet; ids are 0, 1, 2, ..."""
    return Interactions(
        user_ids=pl.Series("user", np.arange(users)),
        item_ids=pl.Series("item", np.arange(items)),
        indptr=np.zeros(users + 1, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        ratings=np.zeros(0),
        times=np.zeros(0, dtype=np.int64),
        scale=scale,
    )


def grown(data: Interactions, users: IntArray, items: IntArray, ratings: FloatArray, times: IntArray) -> Interactions:
    """The log with these ratings (n,) added, by position; what was rated before takes the new rating and time.

    The log must have times. Of several ratings of one pair the last row counts. Every id stays, and its position too.
    """
    if data.times is None:
        raise InputError("data", received="a log without times", expected="a log with times, so that it can grow")
    width = data.n_items
    key = np.asarray(users, dtype=np.int64) * width + items
    # The last of several rows for one pair: the first one from the end.
    distinct, last = np.unique(key[::-1], return_index=True)
    last = len(key) - 1 - last
    old = data.users * np.int64(width) + data.items
    place: IntArray = np.asarray(np.searchsorted(old, distinct), dtype=np.int64)
    there = np.isin(distinct, old, assume_unique=True)
    new = ~there
    known_ratings, known_times = data.ratings.copy(), np.array(data.times, dtype=np.int64)
    known_ratings[place[there]], known_times[place[there]] = ratings[last[there]], times[last[there]]
    at, fresh = place[new], last[new]
    added = np.bincount(distinct[new] // width, minlength=data.n_users)
    indptr = data.indptr + np.concatenate([[0], np.cumsum(added)])
    return replace(
        data,
        indptr=indptr,
        items=np.insert(data.items, at, (distinct[new] % width).astype(np.int32)),
        ratings=np.insert(known_ratings, at, ratings[fresh]),
        times=np.insert(known_times, at, times[fresh]),
    ).frozen()

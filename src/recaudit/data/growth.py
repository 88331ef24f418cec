"""Logs that grow, by position: the blank log of a population, and ratings added many at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
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
    place, there = _places(data, *np.divmod(distinct, width))
    known_ratings, known_times = data.ratings, data.times
    if there.any():
        known_ratings, known_times = known_ratings.copy(), known_times.copy()
        known_ratings[place[there]], known_times[place[there]] = ratings[last[there]], times[last[there]]
    new = ~there
    fresh, added = last[new], distinct[new]
    at = place[new] + np.arange(len(added))
    old = np.ones(len(data) + len(added), dtype=bool)
    old[at] = False

    def merged(known: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        out = np.empty(len(old), dtype=known.dtype)
        out[old], out[at] = known, values
        return out

    counts = np.bincount(added // width, minlength=data.n_users)
    return replace(
        data,
        indptr=data.indptr + np.concatenate([[0], np.cumsum(counts)]),
        items=merged(data.items, added % width),
        ratings=merged(known_ratings, ratings[fresh]),
        times=merged(known_times.astype(np.int64, copy=False), times[fresh]),
    ).frozen()


def _places(data: Interactions, users: IntArray, items: IntArray) -> tuple[IntArray, BoolArray]:
    """(n,) each: the rows before which these ascending pairs belong, and whether each stands there already.

    Only what these users have rated is looked at.
    """
    rank = np.concatenate([[0], np.cumsum(users[1:] != users[:-1])]) if len(users) else users
    who = users[np.flatnonzero(np.diff(rank, prepend=-1))]
    counts = np.diff(data.indptr)[who]
    before = np.cumsum(counts) - counts
    row = np.repeat(np.arange(len(who)), counts)
    rated = data.items[np.arange(len(row)) + np.repeat(data.indptr[who] - before, counts)]
    pair = rank * np.int64(data.n_items) + items
    known = row * np.int64(data.n_items) + rated
    place = np.searchsorted(known, pair)
    there = np.append(known, -1)[place] == pair
    return place + (data.indptr[who] - before)[rank], there

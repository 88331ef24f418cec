"""Pairs of users and items, kept and drawn without a table of all of them."""

from __future__ import annotations

from typing import final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.machine import check_memory

_DRAWN = 2**21
"""How many pairs are drawn at once."""
_TABLE = 2**32
"""Up to so many pairs each of them gets a time in `drawn_pairs`; of more, pairs are drawn one after the other."""


@final
class PairSet:
    """Pairs of users and items that only grow in number: what may not be shown again.

    Kept as sorted runs of `user x items + item`. A run is merged with the one before once it is half as long, so that
    there are only as many as the number of pairs has binary digits, and each pair is moved as often at most.
    """

    def __init__(self, n_items: int, keys: IntArray | None = None) -> None:
        """The set of these `keys` (n,), or an empty one."""
        self.n_items = n_items
        self._runs: list[IntArray] = [] if keys is None else [np.unique(keys)]

    def add(self, users: IntArray, items: IntArray) -> None:
        """Add pairs (n,)."""
        self._runs.append(np.unique(users * np.int64(self.n_items) + items))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs.append(_merged([self._runs.pop(), self._runs.pop()]))

    def keys(self) -> IntArray:
        """(n,): `user x items + item` of each pair, ascending."""
        return np.unique(_merged(self._runs))

    def rows(self, users: IntArray) -> BoolArray:
        """(len(users), items): True for the pairs in the set."""
        out = np.zeros((len(users), self.n_items), dtype=bool)
        first = users * np.int64(self.n_items)
        for run in self._runs:
            starts, ends = np.searchsorted(run, first), np.searchsorted(run, first + self.n_items)
            counts = ends - starts
            row = np.repeat(np.arange(len(users)), counts)
            at = np.arange(len(row)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
            out[row, run[at] - first[row]] = True
        return out


def _merged(runs: list[IntArray]) -> IntArray:
    # Timsort finds the runs and merges them.
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *runs]), kind="stable")


def drawn_pairs(
    draw: np.random.Generator,
    shape: tuple[int, int],
    count: int,
    activity: FloatArray | None,
    popularity: FloatArray | None,
) -> tuple[IntArray, IntArray]:
    """(count,) and (count,): distinct pairs of the first `shape` users and items, in the order they come.

    Each is as likely as any other, or pair (u, i) comes at rate `activity_u popularity_i`: the same law as drawing one
    pair after the other in proportion to the rates of those that are left.
    """
    users, items = shape
    if activity is None and popularity is None:
        if count > users * items // 50:  # there numpy shuffles all of them
            check_memory(
                8 * users * items,
                f"Drawing {count:,} of the pairs of {users:,} users and {items:,} items",
                "Ask for fewer ratings: up to a fiftieth of the pairs are drawn without a table of all.",
            )
        who, what = np.divmod(draw.choice(users * items, count, replace=False), items)
        return who, what
    rows = np.ones(users) if activity is None else activity[:users]
    columns = np.ones(items) if popularity is None else popularity[:items]
    pairs = (_raced if users * items <= _TABLE else _one_by_one)(draw, rows, columns, count)
    who, what = np.divmod(pairs, items)
    return who, what


def _raced(draw: np.random.Generator, rows: FloatArray, columns: FloatArray, count: int) -> IntArray:
    """(count,): the first pairs of a race, in which each has an exponential time at its rate.

    The first of independent exponential times, and then the next, is a draw in proportion to the rates.
    """
    items = len(columns)
    step = max(1, _DRAWN // items)
    pairs, keys, limit = np.zeros(0, dtype=np.int64), np.zeros(0), np.inf
    for start in range(0, len(rows), step):
        rates = rows[start : start + step, None] * columns
        times = (draw.standard_exponential(rates.shape) / rates).ravel()
        early = np.flatnonzero(times < limit)
        pairs, keys = np.concatenate([pairs, start * items + early]), np.concatenate([keys, times[early]])
        if len(keys) > count:
            kept = np.argpartition(keys, count - 1)[:count]
            pairs, keys = pairs[kept], keys[kept]
            limit = keys.max()
    return pairs[np.argsort(keys, kind="stable")]


def _one_by_one(draw: np.random.Generator, rows: FloatArray, columns: FloatArray, count: int) -> IntArray:
    """(count,): pairs drawn by their rates, one after the other; those that have come before are passed over."""
    user_ends, item_ends = np.cumsum(rows), np.cumsum(columns)
    found = np.zeros(0, dtype=np.int64)
    while len(found) < count:
        more = count - len(found) + _DRAWN
        who, what = (_at(ends, draw.random(more)) for ends in (user_ends, item_ends))
        every = np.concatenate([found, who * len(columns) + what])
        found = every[np.sort(np.unique(every, return_index=True)[1])]
    return found[:count]


def _at(ends: FloatArray, uniform: FloatArray) -> IntArray:
    """(n,): where uniform numbers (n,) fall among weights with these cumulative sums."""
    found: IntArray = np.searchsorted(ends, uniform * ends[-1], side="right").astype(np.int64)
    return np.minimum(found, len(ends) - 1)


def drawn_users(draw: np.random.Generator, activity: FloatArray, count: int) -> IntArray:
    """(count,): distinct users, drawn one after the other in proportion to the activity (users,) of those left."""
    times = draw.standard_exponential(len(activity)) / activity
    first: IntArray = np.flatnonzero(times <= np.partition(times, count - 1)[count - 1])
    return first[np.argsort(times[first], kind="stable")][:count]

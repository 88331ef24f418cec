"""Ties: when two scores count as equal, and which of the tied items goes first.

**When two scores are tied.** The same score, computed in another block of users or on another processor, differs in its
last bits, and a list must not. So scores are tied where no gap wider than a tolerance lies between them. The tolerance
of a row is `TIE` times its largest absolute score: far above rounding (up to 4e-15 of it, training included) and far
below any difference that means something. Tied is whatever is linked by small gaps, so that two items with the same
vectors are tied whatever stands between them. What no rule can exclude is a gap as wide as the tolerance, to rounding:
docs/concepts/reproducibility.md has the odds.

**Which of tied items goes first.** The one with the lowest tie key, a 64-bit hash of the user's id and the item's id,
as text. The order of a catalogue often follows popularity: if it decided, a model with equal scores would measure like
the most popular items. A hash of the item alone would show the same few items to every user. The key of a pair follows
from the two ids alone. It depends neither on the order of the rows, nor on the other users and items, nor on a seed,
nor on whether ids are numbers or text. So lists, ranks, metrics, policies and solvers agree on one order.

    id_hash(id)          = mix(FNV-1a of the UTF-8 bytes of the id)
    pair_key(user, item) = mix(mix(id_hash(user)) + id_hash(item))    modulo 2^64

`mix` is the finalizer of splitmix64, a bijection: two items of one user have the same key only if their ids have the
same hash (one pair in 10^12 at 6,000 items, one in 10^7 at two million); the position decides then. `explore/scripts/
twin.js` has the same function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arrays import IntArray

if TYPE_CHECKING:
    import polars as pl  # solvers break ties too, and must work where polars is not

TIE = 1e-10
"""Gap that still ties two neighboring scores, as a part of the row's largest absolute score."""

Keys = NDArray[np.uint64]

_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_LARGEST = 2.0**64


class TieKeys(NamedTuple):
    """Tie keys of rows (users) and columns (items). Compiled code computes the keys of tied items only."""

    users: Keys
    """Hash of the user's id of each row, shape (rows,). Empty if the keys of the columns hold for every row."""
    items: Keys
    """Hash of the item's id of each column, shape (columns,); the keys themselves if `users` is empty."""

    @classmethod
    def in_order(cls, columns: int) -> TieKeys:
        """Return keys by which the first column goes first, for arrays without ids."""
        return cls(np.empty(0, dtype=np.uint64), np.arange(columns, dtype=np.uint64))

    @classmethod
    def of_ids(cls, users: pl.Series, items: pl.Series) -> TieKeys:
        """Return the keys of these users and items."""
        return cls(id_hashes(users), id_hashes(items))

    def rows(self, index: IntArray | slice) -> TieKeys:
        """Return the keys of some of the rows."""
        return self if len(self.users) == 0 else TieKeys(self.users[index], self.items)

    def columns(self, index: NDArray[np.integer] | NDArray[np.bool_]) -> TieKeys:
        """Return the keys of some of the columns."""
        return TieKeys(self.users, self.items[index])

    def repeated(self, count: int, row: int = 0) -> TieKeys:
        """Return the keys of one row, `count` times: for several score vectors of the same user."""
        return self if len(self.users) == 0 else TieKeys(np.repeat(self.users[row : row + 1], count), self.items)

    def of_row(self, row: int = 0) -> Keys:
        """Return the key of each column in a row, shape (columns,)."""
        if len(self.users) == 0:
            return self.items
        return pair_keys(np.repeat(self.users[row : row + 1], len(self.items)), self.items)

    def order(self, row: int = 0) -> IntArray:
        """Return the columns in the order in which tied ones go, shape (columns,)."""
        return np.argsort(self.of_row(row), kind="stable")


def id_hashes(ids: pl.Series) -> Keys:
    """Return a 64-bit hash of each id as text, shape (ids,). The same id has the same hash on every machine."""
    text = ids.cast(str)
    lengths = text.str.len_bytes().to_numpy().astype(np.int64)
    data = np.frombuffer("".join(text.to_list()).encode(), dtype=np.uint8)
    return _hash_parts(data, np.cumsum(lengths))


def pair_keys(users: Keys, items: Keys) -> Keys:
    """Return the tie keys of pairs, shape (pairs,), from the hashes of their ids, shape (pairs,) each."""
    return _keys_of_pairs(np.ascontiguousarray(users), np.ascontiguousarray(items))


@njit(nogil=True, cache=True)
def mix(bits: np.uint64) -> np.uint64:
    """Mix the bits of a number: the finalizer of splitmix64."""
    bits = (bits ^ (bits >> _SHIFT_1)) * _MIX_1
    bits = (bits ^ (bits >> _SHIFT_2)) * _MIX_2
    return bits ^ (bits >> _SHIFT_3)


@njit(nogil=True, cache=True)
def pair_key(user: np.uint64, item: np.uint64) -> np.uint64:
    """Return the tie key of a pair, from the hashes of both ids."""
    return mix(mix(user) + item)


@njit(nogil=True, cache=True)
def tie_key(users: Keys, items: Keys, row: int, column: int) -> np.uint64:
    """Return the key of an entry of `TieKeys`, for compiled code."""
    return pair_key(users[row], items[column]) if len(users) else items[column]


@njit(nogil=True, cache=True)
def sort_tied(columns: IntArray, count: int, users: Keys, items: Keys, row: int) -> None:
    """Sort tied columns by their keys in place, as far as to have the `count` first ones in order."""
    total = len(columns)
    keys = np.empty(total, dtype=np.uint64)
    for place in range(total):
        keys[place] = tie_key(users, items, row, columns[place])
    # Keys are uniform: nearly always, enough of many tied columns have a key below this part of the largest one.
    share = (count + 8 * np.sqrt(count) + 16) / max(1, total)
    if share < 1:
        bound, low = np.uint64(share * _LARGEST), 0
        for place in range(total):
            if keys[place] <= bound:
                keys[low], keys[place] = keys[place], keys[low]
                columns[low], columns[place] = columns[place], columns[low]
                low += 1
        total = low if low >= count else total
    order = np.argsort(keys[:total])
    sorted_columns = columns[order]
    for place in range(total):
        # Two ids with the same hash go by position.
        other, column, key = place, sorted_columns[place], keys[order[place]]
        while other > 0 and keys[order[other - 1]] == key and columns[other - 1] > column:
            columns[other] = columns[other - 1]
            other -= 1
        columns[other] = column


@njit(nogil=True, cache=True)
def _keys_of_pairs(users: Keys, items: Keys) -> Keys:
    keys = np.empty(len(items), dtype=np.uint64)
    for place in range(len(items)):
        keys[place] = pair_key(users[place], items[place])
    return keys


@njit(nogil=True, cache=True)
def _hash_parts(data: NDArray[np.uint8], ends: IntArray) -> Keys:
    """Hash the parts of `data` that end before each of `ends`: FNV-1a, then `mix`."""
    hashes = np.empty(len(ends), dtype=np.uint64)
    start = 0
    for part in range(len(ends)):
        bits = _FNV_START
        for place in range(start, ends[part]):
            bits = (bits ^ np.uint64(data[place])) * _FNV_PRIME
        hashes[part] = mix(bits)
        start = ends[part]
    return hashes

"""How far similarity overshoots relatedness: in the lists that are shown, and summed over all pairs.

    overshoot_ij = max(0, s_ij - r_ij)         (paper 002, Definition 3.1)

All pairs are taken in stripes of items that stay in the cache. Each stripe's products are made and reduced in one
kernel: no tile of similarities ever reaches main memory. Everything is double precision: in single, a user's sum would
differ by 1e-7 from processor to processor.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np
from numba import njit

from recaudit.arithmetic import core_count, summed, summed_products
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.engines import Engine
from recaudit.engines.base import blocks
from recaudit.models.base import FittedModel

UNRELATED, SIMILAR = 0.1, 0.3
"""Relatedness below 0.1 is less than 95% of the rated pairs have, in MovieLens 1M and in the demo, whether it is taken
from the log or from genres."""
STRIPE = 256
"""Items in a stripe: its vectors (80 dimensions: 160 KB) stay in the second-level cache while users pass by."""
ROWS = 4
"""Users who pass at a time: each load and store of an item's sum serves them all."""
PIECE = 1024
"""Users in a piece of work: an engine's unit, and what bounds the memory."""
_IN_ORDER = {"contract", "nnan", "nsz"}
"""The compiler may not choose the order of sums: it takes another one in code that it has just made than in the same
code from its cache."""
RESOLUTION = 1e-6
"""What is no larger than this counts as no overshoot: far above rounding, far below meaning."""


@final
@dataclass(frozen=True, eq=False)
class FoldingSpace:
    """A model's space, and what nearness in it is compared with."""

    model: FittedModel
    vectors: tuple[FloatArray, FloatArray] | None
    """(users, factors) and (items, factors): their products are the similarity; of length one for cosines. None of a
    model without vectors."""
    relatedness: Relatedness


@final
class JudgedLists:
    """The lists of some users, and how similar and related their items are; NaN where a list has no more items.

    `users` (users,) and `items` (users, k) are positions, best first, negative where none is left. All of (users, k)
    are the `similarity` s, the `relatedness` r, the `overshoot` max(0, s - r), `below`: 1 where r < `unrelated`, else
    0, and `spurious`: 1 where it is although s > `similar`, else 0. `shown_relatedness`, `folding`, `unrelated_share`
    and `spurious_share` (users,) are the means of r and the last three over each list. What is made of the similarity
    is NaN for a model without vectors.
    """

    def __init__(
        self,
        space: FoldingSpace,
        users: IntArray,
        items: IntArray,
        unrelated: float = UNRELATED,
        similar: float = SIMILAR,
    ) -> None:
        self.users, self.items, self.unrelated, self.similar = users, items, unrelated, similar
        row, place = np.nonzero(items >= 0)
        people, films = users[row], items[row, place]
        s, r = np.full(items.shape, np.nan), np.full(items.shape, np.nan)
        if space.vectors is not None:
            U, V = space.vectors
            s[row, place] = np.einsum("nd,nd->n", U[people], V[films])
        r[row, place] = space.relatedness.pairs(people, films)
        self.similarity, self.relatedness, self.overshoot = s, r, np.maximum(0.0, s - r)
        self.below: FloatArray = np.where(np.isnan(r), np.nan, r < unrelated)
        self.spurious: FloatArray = np.where(np.isnan(s), np.nan, (r < unrelated) & (s > similar))
        self.folding, self.spurious_share = map(_mean_over_list, (self.overshoot, self.spurious))
        self.shown_relatedness, self.unrelated_share = map(_mean_over_list, (r, self.below))


def _mean_over_list(values: FloatArray) -> FloatArray:
    places = (~np.isnan(values)).sum(axis=1)
    return np.asarray(np.nansum(values, axis=1) / np.where(places > 0, places, np.nan))


@final
@dataclass(frozen=True, eq=False)
class Overshoot:
    """Sums of the overshoot over pairs."""

    user_sums: FloatArray
    """(asked users,): over all items."""
    user_counts: IntArray
    """(asked users,): how many items overshoot."""
    item_sums: FloatArray
    """(items,): over the asked users."""
    item_counts: IntArray
    """(items,)"""
    group_sums: FloatArray
    """(asked users, groups): over items, each weighing as much as it belongs to the group."""


def overshoot(
    user_vectors: FloatArray,
    item_vectors: FloatArray,
    relatedness: Relatedness,
    users: IntArray,
    engine: Engine,
    item_groups: FloatArray | None = None,
) -> Overshoot:
    """The sums for `users` (positions) and every item, s being the products of (users, factors) and (items, factors).

    `item_groups` (items, groups) asks for sums by group of items too.
    """
    work = _Piece(user_vectors, item_vectors, relatedness, item_groups)
    item_sums, item_counts = np.zeros(len(item_vectors)), np.zeros(len(item_vectors), dtype=np.int64)
    rows = []
    for part in engine.map(work, blocks(users, PIECE), "folding"):
        # One after the other, in order: nothing but running sums of the items is kept.
        item_sums += part.item_sums
        item_counts += part.item_counts
        rows.append((part.user_sums, part.user_counts, part.group_sums))
    user_sums, user_counts, group_sums = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Overshoot(user_sums, user_counts, item_sums, item_counts, group_sums)


@final
class _Piece:
    """Users in, their sums out; picklable, and pure."""

    def __init__(self, U: FloatArray, V: FloatArray, related: Relatedness, item_groups: FloatArray | None) -> None:
        no_product = np.empty((len(U), 0)), np.empty((len(V), 0))
        X, Y = no_product if related.matrix is not None else (related.user_vectors, related.item_vectors)
        self.relatedness, self.items = related, len(V)
        self.U, self.X = _padded(U), _padded(X)  # (users, factors)
        self.V, self.Y = _striped(_padded(V)), _striped(_padded(Y))  # (stripes, factors, STRIPE)
        self.groups = _striped(np.empty((len(V), 0)) if item_groups is None else item_groups)

    def __call__(self, users: IntArray) -> Overshoot:
        count, stripes = len(users), len(self.V)
        rows = count + -count % ROWS
        matrix = np.empty((len(self.U), 0)) if self.relatedness.matrix is None else self.relatedness.matrix
        # Zeros below the users: strangers to all, who overshoot nowhere.
        U, X, block = (np.pad(each[users], ((0, rows - count), (0, 0))) for each in (self.U, self.X, matrix))
        given = _striped(block.T) if matrix.shape[1] else np.empty((stripes, 0, STRIPE))
        user_sums, user_counts = np.zeros((stripes, rows)), np.zeros((stripes, rows), dtype=np.int64)
        group_sums = np.zeros((stripes, rows, self.groups.shape[1]))
        item_sums, item_counts = np.zeros((stripes, STRIPE)), np.zeros((stripes, STRIPE), dtype=np.int64)

        def work(s: int) -> None:
            _stripe(
                U, self.V[s], X, self.Y[s], given[s], self.groups[s], RESOLUTION,
                user_sums[s], user_counts[s], item_sums[s], item_counts[s], group_sums[s],
            )  # fmt: skip

        with ThreadPoolExecutor(core_count()) as cores:
            for _ in cores.map(work, range(stripes)):
                pass
        return Overshoot(
            user_sums.sum(axis=0)[:count],
            user_counts.sum(axis=0)[:count],
            item_sums.ravel()[: self.items],
            item_counts.ravel()[: self.items],
            group_sums.sum(axis=0)[:count],
        )


def _padded(vectors: FloatArray) -> FloatArray:
    """(rows, d rounded up): zeros at the end of each vector change no product."""
    return np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % ROWS)))


def _striped(values: FloatArray) -> FloatArray:
    """(items, d) as (stripes, d, STRIPE), zeros where the last stripe has no items."""
    items, d = values.shape
    padded = np.pad(values, ((0, -items % STRIPE), (0, 0)))
    return np.ascontiguousarray(padded.reshape(len(padded) // STRIPE, STRIPE, d).transpose(0, 2, 1))


@njit(nogil=True, fastmath=_IN_ORDER, cache=True)
def _stripe(
    U: FloatArray,
    V: FloatArray,
    X: FloatArray,
    Y: FloatArray,
    given: FloatArray,
    groups: FloatArray,
    resolution: float,
    user_sums: FloatArray,
    user_counts: IntArray,
    item_sums: FloatArray,
    item_counts: IntArray,
    group_sums: FloatArray,
) -> None:
    """All users of a piece against the items of a stripe; adds to the sums and counts."""
    s = np.empty((ROWS, STRIPE))
    r = np.empty((ROWS, STRIPE))
    for first in range(0, len(U), ROWS):
        _products(U, first, V, s)
        if len(given):
            for row in range(ROWS):
                for c in range(STRIPE):
                    r[row, c] = given[first + row, c]
        else:
            _products(X, first, Y, r)
        _reduce(s, r, resolution, user_sums[first:], user_counts[first:], item_sums, item_counts)
        for row in range(ROWS):
            for g in range(len(groups)):
                group_sums[first + row, g] += summed_products(s[row], groups[g])


@njit(nogil=True, fastmath=_IN_ORDER, cache=True)
def _products(A: FloatArray, first: int, B: FloatArray, out: FloatArray) -> None:
    """out = A[first : first + ROWS] @ B, by two rows and four dimensions: eight products for each load and store."""
    out[:] = 0.0
    for row in range(0, ROWS, 2):
        o0, o1 = out[row], out[row + 1]
        for k in range(0, A.shape[1], 4):
            a0, a1, a2, a3 = A[first + row, k], A[first + row, k + 1], A[first + row, k + 2], A[first + row, k + 3]
            b0, b1 = A[first + row + 1, k], A[first + row + 1, k + 1]
            b2, b3 = A[first + row + 1, k + 2], A[first + row + 1, k + 3]
            x0, x1, x2, x3 = B[k], B[k + 1], B[k + 2], B[k + 3]
            for c in range(STRIPE):
                o0[c] += a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
                o1[c] += b0 * x0[c] + b1 * x1[c] + b2 * x2[c] + b3 * x3[c]


@njit(nogil=True, fastmath=_IN_ORDER, cache=True)
def _reduce(
    s: FloatArray,
    r: FloatArray,
    resolution: float,
    user_sums: FloatArray,
    user_counts: IntArray,
    item_sums: FloatArray,
    item_counts: IntArray,
) -> None:
    """s becomes the overshoot of each pair; its sums and counts go to the users and the items."""
    for row in range(ROWS):
        count = np.int32(0)
        for c in range(STRIPE):
            over = s[row, c] - max(r[row, c], 0.0)
            over = over if over > resolution else 0.0
            s[row, c] = over
            count += np.int32(over > 0.0)
        user_sums[row] += summed(s[row])
        user_counts[row] += count
    for c in range(STRIPE):
        item_sums[c] += (s[0, c] + s[1, c]) + (s[2, c] + s[3, c])
        item_counts[c] += (
            np.int32(s[0, c] > 0.0) + np.int32(s[1, c] > 0.0) + np.int32(s[2, c] > 0.0) + np.int32(s[3, c] > 0.0)
        )

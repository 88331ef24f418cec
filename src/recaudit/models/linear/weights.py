"""How item-to-item weights are held: as they are, through the users, or for some of the items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numba import prange
from scipy import sparse

from recaudit.arithmetic import copy_into
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.models.given.black_box import NO_SCORE
from recaudit.models.linear.inverse import inverted
from recaudit.models.neighbour.similarity import products
from recaudit.models.rows import SparseRows

_TILE = 64
"""Columns that are worked on together, so that they stay in the cache from row to row."""


@final
@dataclass(frozen=True, eq=False)
class HeldWeights:
    """Weights held as they are."""

    dense: FloatArray
    """(items, items): W."""

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + histories W`."""
        return _products(SparseRows.of(histories), self.dense, offset)

    def rows(self, items: IntArray) -> FloatArray:
        """(len(items), items): these rows of W."""
        return self.dense[items]

    def weighted(self, ratings: FloatArray, items: IntArray) -> FloatArray:
        """(items,): `ratings W_items`."""
        found: FloatArray = ratings @ self.dense[items]
        return found


@final
@dataclass(frozen=True, eq=False)
class UserKernel:
    """The weights of EASE, held as K: where there are fewer users than items, their matrix is the smaller one.

    With `P = (X^T X + lambda I)^-1` (items, items) the weights are `W = I - P D`, D the diagonal matrix of `1 / P_jj`:
    zero on the diagonal, `-P_ij / P_jj` off it. With `K = (X X^T + lambda I)^-1` (users, users):

    - `X P = K X`, for `X (X^T X + lambda I) = (X X^T + lambda I) X`;
    - `lambda P = I - X^T K X`, so that `lambda P_jj = 1 - h_j` with `h_j = x_j^T K x_j`, x_j the ratings of item j;
    - `X W = X - lambda K X / (1 - h)`, column by column, and `W_ij = (X^T K X)_ij / (1 - h_j)` off the diagonal.

    So fitting inverts K alone, scores need the rows of K of those who are scored, and W is made when it is asked for.
    """

    by_item: SparseRows
    """(items, users): the columns x_j of X."""
    inverse: FloatArray
    """(users, users): K."""
    unexplained: FloatArray
    """(items,): `1 - h_j`."""
    regularization: float
    """lambda."""

    @classmethod
    def of(cls, X: sparse.csr_array, regularization: float) -> UserKernel:
        """Invert `X X^T + regularization I` of a sparse X (users, items)."""
        by_item = SparseRows.of(X.tocsc())
        inverse = inverted(products(SparseRows.of(X), by_item), regularization)
        explained, squares = _explained(by_item, inverse)
        # 1 - h_j is least where no other item has anything to do with j: rounding must not take it below.
        unexplained = np.maximum(1 - explained, regularization / (regularization + squares))
        return cls(by_item, inverse, unexplained, regularization)

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + X W` for the rows `histories` of X, which are those of `users`."""
        columns = np.ascontiguousarray(self.inverse[:, users])
        common = _products(self.by_item, columns, np.zeros(len(users))).T
        return offset + (histories.toarray() - common * (self.regularization / self.unexplained))

    @cached_property
    def dense(self) -> FloatArray:
        """(items, items): W."""
        common = np.ascontiguousarray(_products(self.by_item, self.inverse, np.zeros(len(self.inverse))).T)
        weights: FloatArray = _products(self.by_item, common, np.zeros(len(self.unexplained))) / self.unexplained
        np.fill_diagonal(weights, 0.0)
        return weights

    def rows(self, items: IntArray) -> FloatArray:
        """(len(items), items): these rows of W."""
        return self.dense[items]

    def weighted(self, ratings: FloatArray, items: IntArray) -> FloatArray:
        """(items,): `ratings W_items`."""
        found: FloatArray = ratings @ self.dense[items]
        return found


@final
@dataclass(frozen=True, eq=False)
class SomeWeights:
    """Weights among some of the items: the others have none, and no score."""

    held: HeldWeights | UserKernel
    items: IntArray
    """(n,): the positions of those that have weights, ascending."""
    n_items: int
    """How many there are in all."""

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + histories W`, `NO_SCORE` for items without weights."""
        found = np.full((len(users), self.n_items), NO_SCORE)
        found[:, self.items] = self.held.scores(users, histories[:, self.items], offset[self.items])
        return found

    @property
    def dense(self) -> FloatArray:
        """(items, items): W, zero in the rows and columns of the others."""
        weights = np.zeros((self.n_items, self.n_items))
        weights[np.ix_(self.items, self.items)] = self.held.dense
        return weights

    def rows(self, items: IntArray) -> FloatArray:
        """(len(items), items): these rows of W."""
        place, inside = self._places(items)
        found = np.zeros((len(items), self.n_items))
        found[np.ix_(inside, self.items)] = self.held.dense[place[inside]]
        return found

    def weighted(self, ratings: FloatArray, items: IntArray) -> FloatArray:
        """(items,): `ratings W_items`."""
        place, inside = self._places(items)
        found = np.zeros(self.n_items)
        found[self.items] = ratings[inside] @ self.held.dense[place[inside]]
        return found

    @property
    def unscored(self) -> BoolArray:
        """(items,): which have no score."""
        lacking = np.ones(self.n_items, dtype=bool)
        lacking[self.items] = False
        return lacking

    def _places(self, items: IntArray) -> tuple[IntArray, BoolArray]:
        """Where each of the items stands among those with weights, and whether it does."""
        place = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        return place, self.items[place] == items


@parallel_njit()
def _explained(by_item: SparseRows, inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(items,) each: `h_j = x_j^T K x_j`, the lower triangle of K counted twice, and `x_j^T x_j`."""
    count = len(by_item.indptr) - 1
    explained, squares = np.empty(count), np.empty(count)
    for item in prange(count):
        start, end = by_item.indptr[item], by_item.indptr[item + 1]
        total, square = 0.0, 0.0
        for entry in range(start, end):
            x, row = by_item.values[entry], inverse[by_item.indices[entry]]
            below = 0.0
            for other in range(start, entry):
                below += row[by_item.indices[other]] * by_item.values[other]
            total += x * (2 * below + x * row[by_item.indices[entry]])
            square += x * x
        explained[item], squares[item] = total, square
    return explained, squares


@parallel_njit()
def _products(rows: SparseRows, dense: FloatArray, offset: FloatArray) -> FloatArray:
    """(rows, columns): `offset + rows @ dense` for `dense` (n, columns), each entry summed in the order of its row."""
    count = len(offset)
    out = np.empty((len(rows.indptr) - 1, count))
    for tile in prange(-(-count // _TILE)):
        start, end = tile * _TILE, min((tile + 1) * _TILE, count)
        for row in range(len(out)):
            sums = out[row, start:end]
            copy_into(sums, offset[start:end])
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                value, added = rows.values[entry], dense[rows.indices[entry], start:end]
                for column in range(end - start):
                    sums[column] += value * added[column]
    return out

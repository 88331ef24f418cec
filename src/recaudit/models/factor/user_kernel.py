"""EASE solved through the users: where there are fewer of them than items, their matrix is the smaller one.

With `P = (X^T X + lambda I)^-1` (items, items) the weights are `W = I - P D`, D the diagonal matrix of `1 / P_jj`: zero
on the diagonal, `-P_ij / P_jj` off it. With `K = (X X^T + lambda I)^-1` (users, users):

- `X P = K X`, for `X (X^T X + lambda I) = (X X^T + lambda I) X`;
- `lambda P = I - X^T K X`, so that `lambda P_jj = 1 - h_j` with `h_j = x_j^T K x_j`, x_j the ratings of item j;
- `X W = X - lambda K X / (1 - h)`, column by column, and `W_ij = (X^T K X)_ij / (1 - h_j)` off the diagonal.

So fitting inverts K alone, scores need the rows of K of those who are scored, and W is made when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from numba import prange
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.models.factor.inverse import inverted
from recaudit.models.neighbour.similarity import Rows, products


@final
@dataclass(frozen=True, eq=False)
class UserKernel:
    """The weights of EASE, held as K."""

    by_item: Rows
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
        by_item = Rows.of(X.tocsc())
        normal = torch.from_numpy(products(Rows.of(X), by_item))
        normal.diagonal().add_(regularization)
        inverse = inverted(normal).numpy()
        explained, squares = _explained(by_item, inverse)
        # 1 - h_j is least where no other item has anything to do with j: rounding must not take it below.
        unexplained = np.maximum(1 - explained, regularization / (regularization + squares))
        return cls(by_item, inverse, unexplained, regularization)

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + X W` for the rows `histories` of X, which are those of `users`."""
        common = _times(self.by_item, np.ascontiguousarray(self.inverse[:, users])).T
        scores: FloatArray = offset + (histories.toarray() - common * (self.regularization / self.unexplained))
        return scores

    @cached_property
    def dense(self) -> FloatArray:
        """(items, items): W."""
        common = np.ascontiguousarray(_times(self.by_item, self.inverse).T)
        weights: FloatArray = _times(self.by_item, common) / self.unexplained
        np.fill_diagonal(weights, 0.0)
        return weights


@parallel_njit()
def _explained(by_item: Rows, inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
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


_TILE = 64
"""Columns that are worked on together, so that their rows stay in the cache from item to item."""


@parallel_njit()
def _times(by_item: Rows, columns: FloatArray) -> FloatArray:
    """(items, n): `X^T columns` for `columns` (users, n), each entry summed in the order of the item's users."""
    count = columns.shape[1]
    out = np.zeros((len(by_item.indptr) - 1, count))
    for tile in prange(-(-count // _TILE)):
        start, end = tile * _TILE, min((tile + 1) * _TILE, count)
        for item in range(len(out)):
            sums = out[item, start:end]
            for entry in range(by_item.indptr[item], by_item.indptr[item + 1]):
                value, added = by_item.values[entry], columns[by_item.indices[entry], start:end]
                for column in range(end - start):
                    sums[column] += value * added[column]
    return out

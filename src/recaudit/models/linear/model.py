"""Linear models: a user's scores are their ratings times a matrix of item-to-item weights."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, final

import numpy as np
import torch
from numba import prange
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arithmetic import one_thread
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.errors import InputError
from recaudit.machine import check_memory
from recaudit.models.base import FittedModel, Recommender, check_own_edits
from recaudit.models.baseline.popularity import item_means
from recaudit.models.checks import check_actions, check_data
from recaudit.models.neighbour.similarity import gram, products
from recaudit.models.response import AffineResponse, Response
from recaudit.models.rows import SparseRows

Center = Literal["none", "item"]

_ONE_THREAD = 4096
"""Up to so many rows one thread inverts: a second or two at most, and the same numbers on any machine of a kind."""
_TILE = 64
"""Columns that are worked on together, so that they stay in the cache from row to row."""


@final
class EASE(Recommender):
    """The weights that minimise `|X - X W|^2 + regularization |W|^2` with a zero diagonal, in closed form.

    `P = (X^T X + regularization I)^-1`, `W_ij = -P_ij / P_jj` (Steck 2019). Where there are fewer users than items the
    same is solved through the users (`UserKernel`), and the weights are made when they are asked for. The smaller of
    users and items squared in memory; items squared for the weights.
    """

    regularization: float = Field(default=5000.0, gt=0, allow_inf_nan=False)
    """The weight of the squared weights: it grows with the squared ratings. About 5000 suits stars uncentred,
    a tenth of it stars centred, or a log without ratings, where every entry is 1."""
    center: Center = "none"
    """"none": X holds the ratings, 0 where there is none, and scores only rank. "item": X holds ratings minus
    the item's mean, which is added again to the scores, and scores predict ratings."""

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        """Invert one matrix. Nothing is drawn: `rng` has no effect."""
        check_data(data)
        check_square(min(data.n_users, data.n_items), 3, "EASE")
        offset = item_offset(data, self.center)
        X = centred(data.csr, offset)
        held: HeldWeights | UserKernel
        if data.n_users < data.n_items:
            held = UserKernel.of(X, self.regularization)
        else:
            inverse = _inverted(gram(X), self.regularization)
            weights = (inverse / -inverse.diagonal()).contiguous()
            held = HeldWeights(weights.fill_diagonal_(0.0).numpy())
        return LinearModel(data, held, offset, predicts_ratings=self.center == "item")


@final
@dataclass(frozen=True, eq=False)
class HeldWeights:
    """Weights held as they are."""

    dense: FloatArray
    """(items, items): W."""

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + histories W`."""
        return _products(SparseRows.of(histories), self.dense, offset)


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
        inverse = _inverted(products(SparseRows.of(X), by_item), regularization).numpy()
        explained, squares = _explained(by_item, inverse)
        # 1 - h_j is least where no other item has anything to do with j: rounding must not take it below.
        unexplained = np.maximum(1 - explained, regularization / (regularization + squares))
        return cls(by_item, inverse, unexplained, regularization)

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + X W` for the rows `histories` of X, which are those of `users`."""
        columns = np.ascontiguousarray(self.inverse[:, users])
        common = _products(self.by_item, columns, np.zeros(len(users))).T
        scores: FloatArray = offset + (histories.toarray() - common * (self.regularization / self.unexplained))
        return scores

    @cached_property
    def dense(self) -> FloatArray:
        """(items, items): W."""
        common = np.ascontiguousarray(_products(self.by_item, self.inverse, np.zeros(len(self.inverse))).T)
        weights: FloatArray = _products(self.by_item, common, np.zeros(len(self.unexplained))) / self.unexplained
        np.fill_diagonal(weights, 0.0)
        return weights


@final
@dataclass(frozen=True, eq=False)
class LinearModel(FittedModel):
    """`s_u = offset + (r_u - offset) W`, the bracket over the items that u has rated, 0 elsewhere."""

    data: Interactions
    held: HeldWeights | UserKernel
    """The weights, or what they are made of."""
    offset: FloatArray
    """(items,): the mean that is taken off each rating and added to each score; zeros where not centred."""
    predicts_ratings: bool

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def weights(self) -> FloatArray:
        """(items, items): W_ji is what a rating of j adds to the score of i, so scores are `r_u W`."""
        return self.held.dense

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items)"""
        histories = centred(self.data.csr[users], self.offset)
        return torch.from_numpy(self.held.scores(users, histories, self.offset))

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores as a function of their own ratings of `items`, the weights held.

        With K the rated items that are not acted on: `s = offset + (r_K - offset_K) W_K + (a - offset_A) W_A`.
        The old rating of an acted-on item no longer counts (paper 000, Example 6, corrected).
        """
        items = check_actions(items, self.data.n_items)
        why = "another user's ratings move no score while the weights are held, and nothing says how they move these"
        check_own_edits(self, viewer, editor, why)
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        slope = self.weights[items].T
        immutable = (ratings - self.offset[seen])[kept] @ self.weights[seen[kept]]
        intercept = self.offset + immutable - slope @ self.offset[items]
        return AffineResponse(items, torch.from_numpy(slope.copy()), torch.from_numpy(intercept))


def item_offset(data: Interactions, center: Center) -> FloatArray:
    """(items,): the mean of each item, or zeros."""
    return item_means(data) if center == "item" else np.zeros(data.n_items)


def centred(ratings: sparse.csr_array, offset: FloatArray) -> sparse.csr_array:
    """(users, items): `r_ui - offset_i` where there is a rating."""
    values = ratings.data - offset[ratings.indices]
    return sparse.csr_array((values, ratings.indices, ratings.indptr), shape=ratings.shape)


def check_square(size: int, matrices: int, name: str) -> None:
    """That so many matrices (size, size) have room at a time."""
    check_memory(
        8 * matrices * size**2,
        f"{name}, with {matrices} matrices of {size:,} by {size:,} at a time,",
        "Leave out items with few ratings, or take a factor model, which holds no such matrix.",
    )


def _inverted(gram: FloatArray, regularization: float) -> Tensor:
    """(n, n): the inverse of `gram + regularization I`, by Cholesky; `gram` (n, n) is used up.

    LAPACK sums in another order on two threads than on one. Small matrices are therefore left to one thread, which also
    spends least; for large ones the last digits may depend on how many there are.
    """
    matrix = torch.from_numpy(gram)
    matrix.diagonal().add_(regularization)
    with one_thread() if len(matrix) <= _ONE_THREAD else nullcontext():
        try:
            return torch.cholesky_inverse(torch.linalg.cholesky(matrix))
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # it is public, but not listed
            raise InputError(
                "regularization",
                received="a penalty that rounding loses beside these ratings",
                expected="one that makes their equations solvable",
                remedy="Make it larger, or the ratings smaller.",
            ) from None


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
            sums[:] = offset[start:end]
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                value, added = rows.values[entry], dense[rows.indices[entry], start:end]
                for column in range(end - start):
                    sums[column] += value * added[column]
    return out

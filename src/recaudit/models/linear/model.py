"""Linear models: a user's scores are their ratings times a matrix of item-to-item weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final, runtime_checkable

import numpy as np
import torch
from numba import prange
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.errors import NotSupportedError
from recaudit.machine import check_memory
from recaudit.models.arrays import checked_array
from recaudit.models.base import FittedModel, Recommender, check_actions, check_data
from recaudit.models.baseline.popularity import item_means
from recaudit.models.factor.inverse import inverted
from recaudit.models.factor.user_kernel import UserKernel
from recaudit.models.linear.slim import Penalty, sparse_weights
from recaudit.models.neighbour.similarity import Rows, gram
from recaudit.models.response import AffineResponse

Center = Literal["none", "item"]


@final
class EASE(Recommender):
    """The weights that minimise `|X - X W|^2 + regularization |W|^2` with a zero diagonal, in closed form.

    `P = (X^T X + regularization I)^-1`, `W_ij = -P_ij / P_jj` (Steck 2019). Where there are fewer users than items the
    same is solved through the users (`user_kernel`), and the weights are made when they are asked for. The smaller of
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
        _check_square(min(data.n_users, data.n_items), 3, "EASE")
        offset = _offset(data, self.center)
        X = _deviations(data.csr, offset)
        held = UserKernel.of(X, self.regularization) if data.n_users < data.n_items else self._by_items(X)
        return LinearModel(data, held, offset, predicts_ratings=self.center == "item")

    def _by_items(self, X: sparse.csr_array) -> HeldWeights:
        """W from the inverse of `X^T X + regularization I`."""
        normal = torch.from_numpy(gram(X))
        normal.diagonal().add_(self.regularization)
        inverse = inverted(normal)
        weights = (inverse / -inverse.diagonal()).contiguous()
        weights.fill_diagonal_(0.0)
        return HeldWeights(weights.numpy())


@final
class SLIM(Recommender):
    """Sparse weights: column i of W minimises `|x_i - X w|^2 / 2 + l2 |w|^2 / 2 + l1 |w|_1` with `w_i = 0`.

    Ning and Karypis (2011); coordinate descent, one item at a time. Items squared in memory.
    """

    l1: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    """The weight of the absolute weights: higher, fewer weights differ from 0."""
    l2: float = Field(default=100.0, ge=0, allow_inf_nan=False)
    """The weight of the squared weights."""
    nonnegative: bool = True
    """Whether weights must be 0 or more."""
    center: Center = "none"
    """As for EASE."""
    max_iter: int = Field(default=1000, ge=1)
    """Most rounds over the coordinates of one item; a warning says how many items would have needed more."""
    tolerance: float = Field(default=1e-4, gt=0, allow_inf_nan=False)
    """Where to stop: no weight, moved alone, would move by more than this."""

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        """Solve a lasso for each item. Nothing is drawn: `rng` has no effect."""
        check_data(data)
        _check_square(data.n_items, 2, "SLIM")
        offset = _offset(data, self.center)
        weights, unfinished = sparse_weights(
            gram(_deviations(data.csr, offset)),
            Penalty(self.l1, self.l2, self.nonnegative),
            max_iter=self.max_iter,
            tolerance=self.tolerance,
        )
        if unfinished:
            warnings.warn(
                f"SLIM: the weights of {unfinished:,} of {data.n_items:,} items did not settle in "
                f"max_iter={self.max_iter} rounds. Raise max_iter, tolerance, l1 or l2.",
                RuntimeWarning,
                stacklevel=2,
            )
        return LinearModel(data, HeldWeights(weights), offset, predicts_ratings=self.center == "item")


def _check_square(size: int, matrices: int, name: str) -> None:
    """That so many matrices (size, size) have room at a time."""
    check_memory(
        8 * matrices * size**2,
        f"{name}, with {matrices} matrices of {size:,} by {size:,} at a time,",
        "Leave out items with few ratings, or take ItemKNN or ALS, which hold no such matrix.",
    )


@final
@dataclass(frozen=True, eq=False)
class HeldWeights:
    """Weights held as they are."""

    dense: FloatArray
    """(items, items): W."""

    def scores(self, users: IntArray, histories: sparse.csr_array, offset: FloatArray) -> FloatArray:
        """(len(users), items): `offset + histories W`."""
        return _products(Rows.of(histories), self.dense, offset)


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

    @property
    def weights(self) -> FloatArray:
        """(items, items): W_ji is what a rating of j adds to the score of i, so scores are `r_u W`."""
        return self.held.dense

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items)"""
        histories = _deviations(self.data.csr[users], self.offset)
        return torch.from_numpy(self.held.scores(users, histories, self.offset))

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores as a function of their own ratings of `items`, the weights held.

        With K the rated items that are not acted on: `s = offset + (r_K - offset_K) W_K + (a - offset_A) W_A`.
        The old rating of an acted-on item no longer counts (paper 000, Example 6, corrected).
        """
        items = check_actions(items, self.data.n_items)
        if viewer != editor:
            raise NotSupportedError(
                "Linear models: with the weights held, another user's ratings move no score, and no affine "
                "function says how they move the weights. Ask for viewer == editor, or use a factor model: "
                "BiasedMF, ALS, models.from_factors."
            )
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        slope = self.weights[items].T
        immutable = (ratings - self.offset[seen])[kept] @ self.weights[seen[kept]]
        intercept = self.offset + immutable - slope @ self.offset[items]
        return AffineResponse(items, torch.from_numpy(slope.copy()), torch.from_numpy(intercept))


@runtime_checkable
class SparseMatrix(Protocol):
    """Any of scipy's sparse matrices and arrays."""

    def toarray(self) -> NDArray[Any]:
        """The same numbers, dense."""
        ...


@checked
def from_weights(
    weights: ArrayLike | SparseMatrix,
    data: Interactions,
    *,
    offset: ArrayLike | None = None,
    predicts_ratings: bool = False,
) -> LinearModel:
    """A linear model from weights that you already have, rows and columns in the order of `data.item_ids`.

    `weights` (items, items), dense or sparse: `weights[j, i]` is what a rating of j adds to the score of i.
    `offset` (items,) is taken off the ratings and added to the scores, as in `LinearModel`; none where nothing
    is said. Say `predicts_ratings=True` if your scores are ratings on the scale of `data`.
    """
    dense = weights.toarray() if isinstance(weights, SparseMatrix) else weights
    W = checked_array("weights", dense, (data.n_items, data.n_items))
    g = np.zeros(data.n_items) if offset is None else checked_array("offset", offset, (data.n_items,))
    return LinearModel(data, HeldWeights(W), g, predicts_ratings=predicts_ratings)


def _offset(data: Interactions, center: Center) -> FloatArray:
    return item_means(data) if center == "item" else np.zeros(data.n_items)


def _deviations(ratings: sparse.csr_array, offset: FloatArray) -> sparse.csr_array:
    """(users, items): `r_ui - offset_i` where there is a rating."""
    values = ratings.data - offset[ratings.indices]
    return sparse.csr_array((values, ratings.indices, ratings.indptr), shape=ratings.shape)


_TILE = 64
"""Columns of W that are worked on together, so that they stay in the cache while user after user is scored."""


@parallel_njit()
def _products(histories: Rows, weights: FloatArray, offset: FloatArray) -> FloatArray:
    """(rows, items): `offset + histories @ weights`, each entry summed in the order of its history."""
    count = len(offset)
    out = np.empty((len(histories.indptr) - 1, count))
    for tile in prange(-(-count // _TILE)):
        start, end = tile * _TILE, min((tile + 1) * _TILE, count)
        for row in range(len(out)):
            sums = out[row, start:end]
            sums[:] = offset[start:end]
            for entry in range(histories.indptr[row], histories.indptr[row + 1]):
                value, effects = histories.values[entry], weights[histories.indices[entry], start:end]
                for column in range(end - start):
                    sums[column] += value * effects[column]
    return out

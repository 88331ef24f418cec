"""Linear models: a user's scores are their ratings times a matrix of item-to-item weights."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
import torch
from numba import njit, prange
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arithmetic import one_thread
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
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

    grows_with = "items"

    regularization: float = Field(default=5000.0, gt=0, allow_inf_nan=False)
    """The weight of the squared weights: it grows with the squared ratings. About 5000 suits stars uncentred,
    a tenth of it stars centred, or a log without ratings, where every entry is 1."""
    center: Center = "none"
    """"none": X holds the ratings, 0 where there is none, and scores only rank. "item": X holds ratings minus
    the item's mean, which is added again to the scores, and scores predict ratings."""

    def memory(self, data: Interactions) -> int:
        """Three matrices of the users or the items, whichever are fewer."""
        return 8 * 3 * min(data.n_users, data.n_items) ** 2

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
        return offset + (histories.toarray() - common * (self.regularization / self.unexplained))

    @cached_property
    def dense(self) -> FloatArray:
        """(items, items): W."""
        common = np.ascontiguousarray(_products(self.by_item, self.inverse, np.zeros(len(self.inverse))).T)
        weights: FloatArray = _products(self.by_item, common, np.zeros(len(self.unexplained))) / self.unexplained
        np.fill_diagonal(weights, 0.0)
        return weights


@final
@dataclass(frozen=True, eq=False, repr=False)
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
    def rule(self) -> str:
        """See `FittedModel`."""
        return "the user's ratings are multiplied by the weights, which are held"

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


_BLOCK = 128
"""Items between two reports of progress; no number depends on it."""
_SHARE = 0.5
"""Coordinates whose gain is at least this share of the largest become active."""


@final
class SLIM(Recommender):
    """Sparse weights: column i of W minimises `|x_i - X w|^2 / 2 + l2 |w|^2 / 2 + l1 |w|_1` with `w_i = 0`.

    Ning and Karypis (2011); coordinate descent, one item at a time. Items squared in memory.
    """

    grows_with = "items"

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

    def memory(self, data: Interactions) -> int:
        """Two matrices of the items."""
        return 8 * 2 * data.n_items**2

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        """Solve a lasso for each item. Nothing is drawn: `rng` has no effect."""
        check_data(data)
        check_square(data.n_items, 2, "SLIM")
        offset = item_offset(data, self.center)
        products, penalty = gram(centred(data.csr, offset)), Penalty(self.l1, self.l2, self.nonnegative)
        weights, unfinished = np.empty_like(products), 0
        for start in track(range(0, data.n_items, _BLOCK), "SLIM", -(-data.n_items // _BLOCK)):
            targets = np.arange(start, min(start + _BLOCK, data.n_items))
            columns, converged = _descend(targets, products, penalty, self.max_iter, self.tolerance)
            weights[:, targets] = columns.T
            unfinished += int((~converged).sum())
        if unfinished:
            warnings.warn(
                f"SLIM: the weights of {unfinished:,} of {data.n_items:,} items did not settle in "
                f"max_iter={self.max_iter} rounds. Raise max_iter, tolerance, l1 or l2.",
                RuntimeWarning,
                stacklevel=2,
            )
        return LinearModel(data, HeldWeights(weights), offset, predicts_ratings=self.center == "item")


class Penalty(NamedTuple):
    """What the squared error is weighed against."""

    l1: float
    l2: float
    nonnegative: bool


@parallel_njit()
def _descend(
    targets: IntArray, gram: FloatArray, penalty: Penalty, max_iter: int, tolerance: float
) -> tuple[FloatArray, BoolArray]:
    """(targets, items) the weights of each target, and (targets,) whether they converged; `gram` is X^T X.

    Coordinates are descended on in rounds over an active set, so that a round costs the square of its size.
    The set starts empty; each time it has settled, it lets go of the weights at 0 and takes in the
    coordinates that would lower the objective the most. At the end none, inside or outside, would move.
    """
    count = len(gram)
    found = np.zeros((len(targets), count))
    converged = np.zeros(len(targets), dtype=np.bool_)
    for at in prange(len(targets)):
        target, weights = targets[at], found[at]
        # What of each item's product with the target is not yet explained: X^T (x_i - X w).
        left = gram[target].copy()
        gains = np.zeros(count)
        rounds = 0
        while True:
            furthest = 0.0
            for j in range(count):
                size = gram[j, j]
                move = 0.0 if j == target else abs(_minimum(left[j], weights[j], size, penalty) - weights[j])
                furthest = max(furthest, move)
                # The objective falls by half the square of this.
                gains[j] = move * np.sqrt(size + penalty.l2)
            if furthest <= tolerance:
                converged[at] = True
                break
            if rounds >= max_iter:
                break
            active = np.flatnonzero((weights != 0) | (gains >= _SHARE * gains.max()))
            rounds += _settle(active, gram, left, weights, penalty, max_iter - rounds, tolerance)
            left[:] = gram[target]
            for other in active:
                if weights[other] != 0:
                    left -= weights[other] * gram[other]
    return found, converged


@njit(cache=True)
def _settle(
    active: IntArray,
    gram: FloatArray,
    left: FloatArray,
    weights: FloatArray,
    penalty: Penalty,
    max_iter: int,
    tolerance: float,
) -> int:
    """Rounds over the active coordinates until none moves by more than `tolerance`; returns how many."""
    count = len(active)
    products = np.empty((count, count))
    for a in range(count):
        for b in range(count):
            products[a, b] = gram[active[a], active[b]]
    active_left, active_weights = left[active], weights[active]
    rounds, furthest = 0, np.inf
    while rounds < max_iter and furthest > tolerance:
        rounds, furthest = rounds + 1, 0.0
        for a in range(count):
            new = _minimum(active_left[a], active_weights[a], products[a, a], penalty)
            move = new - active_weights[a]
            if move != 0:
                active_weights[a] = new
                active_left -= move * products[a]
                furthest = max(furthest, abs(move))
    weights[active] = active_weights
    return rounds


@njit(cache=True)
def _minimum(left: float, weight: float, size: float, penalty: Penalty) -> float:
    """The weight that minimises the objective with every other one held: soft thresholding."""
    if size <= 0:
        return 0.0
    pull = left + size * weight
    if pull > penalty.l1:
        return (pull - penalty.l1) / (size + penalty.l2)
    if pull < -penalty.l1 and not penalty.nonnegative:
        return (pull + penalty.l1) / (size + penalty.l2)
    return 0.0

"""Linear models: a user's scores are their ratings times a matrix of item-to-item weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
from numba import njit, prange
from pydantic import Field
from scipy import sparse

from recaudit.arithmetic import copy_into
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.machine import check_memory
from recaudit.models.base import FittedModel, Recommender, check_own_edits
from recaudit.models.baseline.popularity import item_means
from recaudit.models.checks import check_actions
from recaudit.models.given.black_box import NO_SCORE
from recaudit.models.linear.inverse import inverted
from recaudit.models.linear.weights import HeldWeights, SomeWeights, UserKernel
from recaudit.models.neighbour.similarity import gram
from recaudit.models.response import AffineResponse, Response
from recaudit.specification import Count

Center = Literal["none", "item"]


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
    items: Count | None = None
    """How many items have weights, those with the most ratings (of equals the first): the others have no score, are
    never shown, and ratings of them count for nothing. All where nothing is said; for catalogues whose square does not
    fit in memory."""

    def shrunk(self, share: float) -> EASE:
        """See `Recommender`."""
        return self if self.items is None else self.model_copy(update={"items": max(1, round(share * self.items))})

    @property
    def learns_from_clicks(self) -> bool:
        """See `Recommender`."""
        return self.center == "none"

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        """Invert one matrix. Nothing is drawn: `rng` has no effect."""
        self.check_log(data)
        some = None
        if self.items is not None and self.items < data.n_items:
            some = np.sort(np.argsort(-data.item_counts, kind="stable")[: self.items])
        count = data.n_items if some is None else len(some)
        remedy = f"Leave out items with few ratings (items = {count // 2}, for instance), or take a factor model."
        check_square(min(data.n_users, count), 1, "EASE", remedy)  # the inverse takes the place of what it is made of
        offset = item_offset(data, self.center)
        X = centred(data.csr, offset)
        X = X if some is None else X[:, some]
        held: HeldWeights | UserKernel | SomeWeights
        if data.n_users < count:
            held = UserKernel.of(X, self.regularization)
        else:
            weights = inverted(gram(X), self.regularization)
            weights /= -weights.diagonal()
            np.fill_diagonal(weights, 0.0)
            held = HeldWeights(weights)
        if some is not None:
            held = SomeWeights(held, some, data.n_items)
        return LinearModel(data, held, offset, predicts_ratings=self.center == "item")


@final
@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(FittedModel):
    """`s_u = offset + (r_u - offset) W`, the bracket over the items that u has rated, 0 elsewhere."""

    data: Interactions
    held: HeldWeights | UserKernel | SomeWeights
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

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)"""
        histories = centred(self.data.csr[users], self.offset)
        return self.held.scores(users, histories, self.offset)

    def may_show(self, scores: FloatArray) -> BoolArray:
        """See `FittedModel`: items that have weights."""
        if not isinstance(self.held, SomeWeights):
            return super().may_show(scores)
        return np.broadcast_to(~self.held.unscored, scores.shape)

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
        slope = self.held.rows(items).T
        immutable = self.held.weighted((ratings - self.offset[seen])[kept], seen[kept].astype(np.int64))
        intercept = self.offset + immutable - slope @ self.offset[items]
        if isinstance(self.held, SomeWeights):
            intercept[self.held.unscored] = NO_SCORE
        return AffineResponse(items, slope.copy(), intercept)


def item_offset(data: Interactions, center: Center) -> FloatArray:
    """(items,): the mean of each item, or zeros."""
    return item_means(data) if center == "item" else np.zeros(data.n_items)


def centred(ratings: sparse.csr_array, offset: FloatArray) -> sparse.csr_array:
    """(users, items): `r_ui - offset_i` where there is a rating."""
    values = ratings.data - offset[ratings.indices]
    return sparse.csr_array((values, ratings.indices, ratings.indptr), shape=ratings.shape)


_FEWER = "Leave out items with few ratings, or take a factor model, which holds no such matrix."


def check_square(size: int, matrices: int, name: str, remedy: str = _FEWER) -> None:
    """That so many matrices (size, size) have room at a time."""
    check_memory(
        8 * matrices * size**2,
        f"{name}, with {matrices} {'matrix' if matrices == 1 else 'matrices'} of {size:,} by {size:,} at a time,",
        remedy,
    )


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

    @property
    def learns_from_clicks(self) -> bool:
        """See `Recommender`."""
        return self.center == "none"

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        """Solve a lasso for each item. Nothing is drawn: `rng` has no effect."""
        self.check_log(data)
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
            copy_into(left, gram[target])
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

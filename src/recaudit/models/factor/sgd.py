"""BiasedMF: matrix factorisation by stochastic gradient descent, as LibFM and Surprise do it.

A vector and its bias lie in one row, filled up with zeros to a multiple of eight: `[p, 0.., 1, f]` for a user,
`[q, 0.., g, 1]` for an item. Then `p . q + f + g` is the product of two rows, and one formula moves vectors and biases:
`row += rate (error * other row - regularization * row)`; the two ones are put back.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.checks import check_fit
from recaudit.models.factor.model import FactorModel, Parameters, fitted_parameters
from recaudit.models.updates import SgdStep, Update
from recaudit.seeding import derive, generator

_STRATA = 8
"""Users and items are cut into this many groups."""
_WORTH_SHARING = 500_000
"""From so many ratings on several cores walk over them."""
_LANES = 8
"""Rows are a multiple of this many numbers long: a cache line."""


@final
class BiasedMF(Recommender):
    """`r_ui ~ mean + f_u + g_i + p_u . q_i`, squared error with L2 regularisation, by SGD."""

    learns_from_clicks: ClassVar[bool] = False

    factors: int = Field(default=64, ge=1)
    """Length of the user and item vectors."""
    epochs: int = Field(default=32, ge=1)
    """Passes over the ratings."""
    learning_rate: float = Field(default=0.02, gt=0, allow_inf_nan=False)
    """Step size of one update; it falls linearly over the epochs."""
    final_rate: float = Field(default=0.1, gt=0, le=1)
    """The share of the step size that is left in the last epoch; at 1 every step is alike, as LibFM has it."""
    regularization: float = Field(default=0.06, ge=0, allow_inf_nan=False)
    """Weight of the squared norm of each vector and bias, once for each rating."""
    init_std: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    """Standard deviation of the random start."""
    update_epochs: int = Field(default=5, ge=1)
    """Passes over a log that has grown, in `warm_fit`, at the last step size."""
    update: Update = SgdStep()
    """What the fitted model does with new ratings."""

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
        """Fit by stratified SGD."""
        self.check_log(data)
        draw = generator(rng, "biased-mf")
        P = self.init_std * draw.standard_normal((data.n_users, self.factors))
        Q = self.init_std * draw.standard_normal((data.n_items, self.factors))
        start = (P, Q, np.zeros(data.n_users), np.zeros(data.n_items))
        rates = np.linspace(1, self.final_rate, self.epochs)
        return self._trained(start, data, rates, rng, draw)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FactorModel:
        """Start from the fitted vectors, for `update_epochs` over the log that has grown."""
        self.check_log(data)
        # A loop may pass the same seed at every step: each length of the log has an order of its own.
        rng = derive(rng, "update", len(data))
        draw = generator(rng, "biased-mf")
        start = fitted_parameters(model, data, self.factors, self.init_std, draw)
        return self._trained(start, data, np.full(self.update_epochs, self.final_rate), rng, draw)

    def _trained(
        self, start: Parameters, data: Interactions, rates: FloatArray, rng: int, draw: np.random.Generator
    ) -> FactorModel:
        """The model after one epoch for each of `rates` (epochs,), shares of the step size."""
        mean = float(data.ratings.mean())
        vectors, ratings = BiasedVectors.of(*start), _stratify(data, mean, draw)
        # With few ratings a round of blocks is over before other cores have come to help.
        walk = _walk if len(data) >= _WORTH_SHARING else _walk_alone
        for epoch, rate in enumerate(track(rates, "BiasedMF", len(rates))):
            rotation, seed = draw.permutation(_STRATA), np.uint64(derive(rng, "epoch", epoch))
            walk(ratings, rotation, vectors, self.learning_rate * rate, self.regularization, seed)
        P, Q, f, g = vectors.parts(self.factors)
        check_fit("learning_rate", self.learning_rate, "Make it smaller, or regularization larger.", P, Q, f, g)
        # A user or item without ratings keeps its random start, which means nothing: its vector is zero.
        P[data.user_counts == 0] = 0
        Q[data.item_counts == 0] = 0
        return FactorModel(data, P, Q, f, g, mean, self.update)


class StratifiedRatings(NamedTuple):
    """Ratings in blocks: strata of users times strata of items."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    residual: FloatArray
    """(ratings,): rating - mean."""
    offsets: IntArray
    """(strata^2 + 1,): where each block starts."""


def _stratify(data: Interactions, mean: float, draw: np.random.Generator) -> StratifiedRatings:
    """The ratings in blocks, each of a random group of users and a random group of items."""
    user_group = draw.permutation(data.n_users) % _STRATA
    item_group = draw.permutation(data.n_items) % _STRATA
    users = data.users
    block = user_group[users] * _STRATA + item_group[data.items]
    order = np.argsort(block, kind="stable")
    offsets = np.searchsorted(block[order], np.arange(_STRATA**2 + 1)).astype(np.int64)
    return StratifiedRatings(users[order], data.items[order], data.ratings[order] - mean, offsets)


class BiasedVectors(NamedTuple):
    """Vectors and biases of users and items, each with one row for a vector and its bias."""

    users: FloatArray
    items: FloatArray

    @classmethod
    def of(cls, P: FloatArray, Q: FloatArray, f: FloatArray, g: FloatArray) -> BiasedVectors:
        """From vectors (users, factors) and (items, factors) and biases (users,) and (items,)."""
        return cls(_filled_up(P, np.ones(len(f)), f), _filled_up(Q, g, np.ones(len(g))))

    def parts(self, factors: int) -> Parameters:
        """P, Q, f and g: what the rows were made of."""
        users, items = self.users, self.items
        return users[:, :factors].copy(), items[:, :factors].copy(), users[:, -1].copy(), items[:, -2].copy()


def _filled_up(vectors: FloatArray, *last: FloatArray) -> FloatArray:
    """Return rows of `vectors`, zeros and the columns `last`, each row a multiple of `_LANES` long."""
    count, factors = vectors.shape
    width = -(-(factors + len(last)) // _LANES) * _LANES
    rows = np.zeros((count, width))
    rows[:, :factors] = vectors
    rows[:, width - len(last) :] = np.column_stack(last)
    return rows


@parallel_njit()
def _walk(
    ratings: StratifiedRatings,
    rotation: IntArray,
    vectors: BiasedVectors,
    rate: float,
    regularization: float,
    seed: np.uint64,
) -> None:
    """One pass over the ratings, in a fresh random order within each block; shuffles the ratings in place.

    Blocks that share neither users nor items can be walked at the same time, so that the order of updates, and every
    number, is the same on any number of cores.
    """
    strata = len(rotation)
    for turn in rotation:
        for row in prange(strata):
            _walk_block(ratings, row * strata + (row + turn) % strata, vectors, rate, regularization, seed)


# Written out: numba's cache knows a function by its code alone, and would take one compilation of it for the other.
@njit(cache=True)
def _walk_alone(
    ratings: StratifiedRatings,
    rotation: IntArray,
    vectors: BiasedVectors,
    rate: float,
    regularization: float,
    seed: np.uint64,
) -> None:
    strata = len(rotation)
    for turn in rotation:
        for row in range(strata):
            _walk_block(ratings, row * strata + (row + turn) % strata, vectors, rate, regularization, seed)


@njit(cache=True)
def _walk_block(
    ratings: StratifiedRatings, block: int, vectors: BiasedVectors, rate: float, regularization: float, seed: np.uint64
) -> None:
    users, items, residual, offsets = ratings
    P, Q = vectors
    start, end = offsets[block], offsets[block + 1]
    kept = 1 - rate * regularization
    state = seed + np.uint64(block) * np.uint64(0xD1B54A32D192ED03)
    for at in range(end - 1, start - 1, -1):
        # Fisher-Yates with splitmix64: the rating drawn for this place is used at once.
        state += np.uint64(0x9E3779B97F4A7C15)
        bits = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        pick = start + np.int64((bits >> np.uint64(11)) % np.uint64(at - start + 1))
        u, i, r = users[pick], items[pick], residual[pick]
        users[pick], items[pick], residual[pick] = users[at], items[at], residual[at]
        users[at], items[at], residual[at] = u, i, r
        _step(P, u, Q, i, r, rate, kept)


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"})
def _step(P: FloatArray, user: int, Q: FloatArray, item: int, residual: float, rate: float, kept: float) -> None:
    """Move both rows by `step = rate (residual - p . q)`: `p, q = kept p + step q, kept q + step p`.

    The ones of both rows are put back.
    """
    p, q = P[user], Q[item]
    product = 0.0
    for k in range(len(p)):
        product += p[k] * q[k]
    step = rate * (residual - product)
    for k in range(len(p)):
        before = p[k]
        p[k] = kept * before + step * q[k]
        q[k] = kept * q[k] + step * before
    p[-2] = 1.0
    q[-1] = 1.0

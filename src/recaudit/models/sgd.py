"""BiasedMF: matrix factorisation by stochastic gradient descent, as LibFM and Surprise do it."""

from __future__ import annotations

from typing import final

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from pydantic import Field

from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.models.arrays import FloatArray, IntArray
from recaudit.models.base import Recommender, check_data
from recaudit.models.factors import FactorModel
from recaudit.models.updates import SgdStep, Update
from recaudit.seeding import derive, generator

_STRATA = 8
"""Users and items are cut into this many groups; blocks that share neither can be walked at the same time, so
the order of updates, and every number, is the same on any number of cores."""


@final
class BiasedMF(Recommender):
    """`r_ui ~ mean + f_u + g_i + p_u . q_i`, squared error with L2 regularisation, by SGD."""

    factors: int = Field(default=64, ge=1)
    """Length of the user and item vectors."""
    epochs: int = Field(default=32, ge=1)
    """Passes over the ratings."""
    learning_rate: float = Field(default=0.02, gt=0, allow_inf_nan=False)
    """Step size of one update; it falls linearly to a tenth over the epochs."""
    regularization: float = Field(default=0.06, ge=0, allow_inf_nan=False)
    """Weight of the squared norm of each vector and bias, once for each rating."""
    init_std: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    """Standard deviation of the random start."""
    update: Update = SgdStep()
    """What the fitted model does with new ratings."""

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
        """Fit by stratified SGD."""
        check_data(data)
        draw = generator(rng, "biased-mf")
        P = self.init_std * draw.standard_normal((data.n_users, self.factors))
        Q = self.init_std * draw.standard_normal((data.n_items, self.factors))
        f, g = np.zeros(data.n_users), np.zeros(data.n_items)
        mean = float(data.ratings.mean())
        users, items, residual, offsets = _stratify(data, mean, draw)
        for epoch in track(range(self.epochs), "BiasedMF", self.epochs):
            rate = self.learning_rate * (1 - 0.9 * epoch / max(1, self.epochs - 1))
            rotation = draw.permutation(_STRATA)
            seed = np.uint64(derive(rng, "epoch", epoch))
            _epoch(users, items, residual, offsets, rotation, P, Q, f, g, rate, self.regularization, seed)
        if not (np.isfinite(P).all() and np.isfinite(Q).all()):
            raise InputError(
                "learning_rate",
                received=self.learning_rate,
                expected="a step at which SGD converges; this one diverged",
                remedy="Make it smaller, or regularization larger.",
            )
        # A user or item without ratings keeps its random start, which means nothing: its vector is zero.
        P[data.user_counts == 0] = 0
        Q[data.item_counts == 0] = 0
        return FactorModel(data, P, Q, f, g, mean, self.update)


def _stratify(
    data: Interactions, mean: float, draw: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], FloatArray, IntArray]:
    """Ratings in block order: users, items, rating - mean, and where each of the strata^2 blocks starts."""
    user_group = draw.permutation(data.n_users) % _STRATA
    item_group = draw.permutation(data.n_items) % _STRATA
    users = data.users
    block = user_group[users] * _STRATA + item_group[data.items]
    order = np.argsort(block, kind="stable")
    offsets = np.searchsorted(block[order], np.arange(_STRATA**2 + 1)).astype(np.int64)
    return users[order], data.items[order], data.ratings[order] - mean, offsets


@njit(parallel=True, fastmath=True, cache=True)
def _epoch(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    residual: FloatArray,
    offsets: IntArray,
    rotation: IntArray,
    P: FloatArray,
    Q: FloatArray,
    f: FloatArray,
    g: FloatArray,
    rate: float,
    regularization: float,
    seed: np.uint64,
) -> None:
    """One pass over the ratings, in a fresh random order within each block; shuffles the rating arrays in place."""
    strata = len(rotation)
    factors = P.shape[1]
    for turn in rotation:
        for row in prange(strata):
            block = row * strata + (row + turn) % strata
            start, end = offsets[block], offsets[block + 1]
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
                p, q = P[u], Q[i]
                product = 0.0
                for k in range(factors):
                    product += p[k] * q[k]
                error = r - f[u] - g[i] - product
                f[u] += rate * (error - regularization * f[u])
                g[i] += rate * (error - regularization * g[i])
                for k in range(factors):
                    p_k = p[k]
                    p[k] += rate * (error * q[k] - regularization * p_k)
                    q[k] += rate * (error * p_k - regularization * q[k])

"""Matrix factorisation as LibFM trains it: the people of RecLab's MovieLens environment."""

from __future__ import annotations

from typing import final

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import Field

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.base import Recommender
from recaudit.models.checks import check_data, check_fit
from recaudit.models.factor.model import FactorModel
from recaudit.models.updates import SgdStep
from recaudit.seeding import generator


@final
class LibFM(Recommender):
    """`r_ui ~ w + f_u + g_i + p_u . q_i` by SGD, with everything learnt from 0 and penalised alike, the offset w too.

    Every pass goes through the ratings in one order, drawn by the seed, in steps of one size; errors are those of
    predictions cut to the range of the ratings (Rendle 2012). A penalised offset is no mean: it ends near a third of
    it, so that what hardly anybody has rated is worth less than in `BiasedMF`.
    """

    factors: int = Field(default=8, ge=1)
    """Length of the user and item vectors."""
    epochs: int = Field(default=100, ge=1)
    """Passes over the ratings."""
    learning_rate: float = Field(default=0.005, gt=0, allow_inf_nan=False)
    """Step size of one update."""
    regularization: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    """Weight of the squares of offset, biases and vectors, once for each rating."""
    init_std: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    """Standard deviation of the random start of the vectors."""

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
        """Fit by SGD."""
        check_data(data)
        draw = generator(rng, "libfm")
        P, Q = (self.init_std * draw.standard_normal((n, self.factors)) for n in (data.n_users, data.n_items))
        f, g, offset = np.zeros(data.n_users), np.zeros(data.n_items), np.zeros(1)
        order = draw.permutation(len(data))
        ratings = data.users[order], data.items[order], data.ratings[order]
        for _ in track(range(self.epochs), "LibFM", self.epochs):
            _walk(*ratings, P, Q, f, g, offset, self.learning_rate, self.regularization)
        check_fit("learning_rate", self.learning_rate, "Make it smaller, or regularization larger.", P, Q, f, g, offset)
        # Whoever has no ratings keeps a random start, which means nothing.
        P[data.user_counts == 0] = 0
        Q[data.item_counts == 0] = 0
        return FactorModel(data, P, Q, f, g, float(offset[0]), SgdStep())


@njit(nogil=True, cache=True)
def _walk(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    ratings: FloatArray,
    P: FloatArray,
    Q: FloatArray,
    f: FloatArray,
    g: FloatArray,
    offset: FloatArray,
    rate: float,
    regularization: float,
) -> None:
    """One pass: P (users, factors), Q (items, factors), f (users,), g (items,) and offset (1,) are moved in place."""
    low, high = ratings.min(), ratings.max()
    kept = 1 - rate * regularization
    for at in range(len(ratings)):
        u, i = users[at], items[at]
        predicted = offset[0] + f[u] + g[i]
        for k in range(P.shape[1]):
            predicted += P[u, k] * Q[i, k]
        step = rate * (ratings[at] - min(max(predicted, low), high))
        offset[0] = kept * offset[0] + step
        f[u] = kept * f[u] + step
        g[i] = kept * g[i] + step
        for k in range(P.shape[1]):
            p = P[u, k]
            P[u, k] = kept * p + step * Q[i, k]
            Q[i, k] = kept * Q[i, k] + step * p

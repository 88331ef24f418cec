"""BiasedMF: matrix factorisation by stochastic gradient descent, as LibFM and Surprise do it."""

from __future__ import annotations

from typing import final

import numpy as np
from pydantic import Field

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.arrays import check_fit
from recaudit.models.base import FittedModel, Recommender, check_data
from recaudit.models.factor.model import FactorModel
from recaudit.models.factor.sgd_kernel import Ratings, Vectors, walk
from recaudit.models.updates import SgdStep, Update
from recaudit.models.warm_start import Parameters, fitted_factors
from recaudit.seeding import derive, generator

_STRATA = 8
"""Users and items are cut into this many groups."""


@final
class BiasedMF(Recommender):
    """`r_ui ~ mean + f_u + g_i + p_u . q_i`, squared error with L2 regularisation, by SGD."""

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
        check_data(data)
        draw = generator(rng, "biased-mf")
        P = self.init_std * draw.standard_normal((data.n_users, self.factors))
        Q = self.init_std * draw.standard_normal((data.n_items, self.factors))
        start = (P, Q, np.zeros(data.n_users), np.zeros(data.n_items))
        rates = np.linspace(1, self.final_rate, self.epochs)
        return self._trained(start, data, rates, rng, draw)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FactorModel:
        """Go on from the fitted vectors for `update_epochs` over the log that has grown."""
        check_data(data)
        # A loop may pass the same seed at every step: each length of the log has an order of its own.
        rng = derive(rng, "update", len(data))
        draw = generator(rng, "biased-mf")
        start = fitted_factors(
            model, data, float(data.ratings.mean()), factors=self.factors, init_std=self.init_std, draw=draw
        )
        return self._trained(start, data, np.full(self.update_epochs, self.final_rate), rng, draw)

    def _trained(
        self, start: Parameters, data: Interactions, rates: FloatArray, rng: int, draw: np.random.Generator
    ) -> FactorModel:
        """The model after one epoch for each of `rates` (epochs,), shares of the step size."""
        mean = float(data.ratings.mean())
        vectors, ratings = Vectors.of(*start), _stratify(data, mean, draw)
        for epoch, rate in enumerate(track(rates, "BiasedMF", len(rates))):
            rotation, seed = draw.permutation(_STRATA), derive(rng, "epoch", epoch)
            walk(ratings, rotation, vectors, self.learning_rate * rate, self.regularization, seed)
        P, Q, f, g = vectors.parts(self.factors)
        check_fit("learning_rate", self.learning_rate, "Make it smaller, or regularization larger.", P, Q, f, g)
        # A user or item without ratings keeps its random start, which means nothing: its vector is zero.
        P[data.user_counts == 0] = 0
        Q[data.item_counts == 0] = 0
        return FactorModel(data, P, Q, f, g, mean, self.update)


def _stratify(data: Interactions, mean: float, draw: np.random.Generator) -> Ratings:
    """The ratings in blocks, each of a random group of users and a random group of items."""
    user_group = draw.permutation(data.n_users) % _STRATA
    item_group = draw.permutation(data.n_items) % _STRATA
    users = data.users
    block = user_group[users] * _STRATA + item_group[data.items]
    order = np.argsort(block, kind="stable")
    offsets = np.searchsorted(block[order], np.arange(_STRATA**2 + 1)).astype(np.int64)
    return Ratings(users[order], data.items[order], data.ratings[order] - mean, offsets)

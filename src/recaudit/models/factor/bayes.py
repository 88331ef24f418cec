"""BayesMF: matrix factorisation whose every parameter is sampled, as libFM's MCMC does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.models.arrays import check_fit
from recaudit.models.base import FittedModel, Recommender, check_data
from recaudit.models.factor.bayes_kernel import Chain, Units
from recaudit.models.given.own_model import own_model
from recaudit.seeding import generator

_WIDTH = 256
"""Columns of one product in single precision: few enough that matrix libraries add them up in the same order for any
number of rows and threads."""


@final
class BayesMF(Recommender):
    """`r_ui ~ N(mean + f_u + g_i + p_u . q_i, sd^2 / alpha)`: the posterior mean, by Gibbs sampling (Rendle 2012).

    The mean and sd are those of the log's ratings, so that the priors mean the same on any scale. In these units each
    of the user biases, the item biases, and every dimension of the user vectors and of the item vectors has its own
    normal distribution; its mean and precision, and the precision alpha of the ratings, are sampled with everything
    else, so that there is no regularization to tune. Priors, as in libFM: `alpha ~ Gamma(1/2, rate 1/2)`, and for each
    group `precision ~ Gamma(1/2, rate 1/2)`, `mean ~ N(0, 1 / precision)`.

    libFM draws one number after the other; here a user's (an item's) vector and bias are drawn together, given
    everything on the other side (Salakhutdinov and Mnih 2008). An iteration costs more and moves further: 100 of them
    predict topics-static as well as 200 of the other kind.

    Who has no rating is drawn from the group's distribution, and so scored about as the average user or item.
    """

    factors: int = Field(default=20, ge=1)
    """Length of the user and item vectors."""
    iterations: int = Field(default=200, ge=1)
    """How often everything is drawn."""
    burn_in: int = Field(default=20, ge=0)
    """Draws at the start that are not kept: they still show where the chain began."""
    thinning: int = Field(default=2, ge=1)
    """Every how many of the draws that follow one is kept, the last one always. Neighbouring draws are alike, so that
    keeping each adds little but memory: 4 bytes for every number of a user and of an item in each kept draw."""
    init_std: float = Field(default=1.0, gt=0, le=100)
    """Standard deviation of the random start, in the units of the vectors. Much smaller, and it takes the chain a
    hundred iterations or more to find that there is anything beside the biases; beyond 100 the first equations would
    be too badly conditioned to solve."""
    update_iterations: int = Field(default=50, ge=1)
    """How often everything is drawn when `warm_fit` goes on; all of them follow a chain that has settled, and none is
    left out but for thinning."""

    @model_validator(mode="after")
    def _something_is_kept(self) -> Self:
        if self.burn_in >= self.iterations:
            raise ValueError(
                f"burn_in = {self.burn_in} leaves nothing of iterations = {self.iterations}. Make it smaller, or draw "
                "more often."
            )
        return self

    def fit(self, data: Interactions, rng: int = 0) -> BayesMFModel:
        """Sample from a random start."""
        check_data(data)
        draw = generator(rng, "bayes-mf")
        chain = Chain.start(data.n_users, data.n_items, self.factors, self.init_std, draw)
        return self._sample(data, Units.of(data), chain, self.iterations, self.burn_in, draw)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> BayesMFModel:
        """Let the chain go on from the model's last draw, now with this log, and average anew."""
        check_data(data)
        start = self._own(model, data)
        draw = generator(rng, "bayes-mf", "update")
        return self._sample(data, start.units, start.chain, self.update_iterations, 0, draw)

    def _sample(
        self, data: Interactions, units: Units, chain: Chain, iterations: int, burn_in: int, draw: np.random.Generator
    ) -> BayesMFModel:
        by_user, by_item = units.ratings(data)
        kept = range(iterations - 1, burn_in - 1, -self.thinning)[::-1]
        users = np.empty((data.n_users, len(kept), self.factors + 2), dtype=np.float32)
        items = np.empty((data.n_items, len(kept), self.factors + 2), dtype=np.float32)
        noise = np.empty(len(kept))
        for turn in track(range(iterations), "BayesMF", iterations):
            chain = chain.sweep(by_user, by_item, draw)
            if turn in kept:
                place = kept.index(turn)
                users[:, place] = chain.users.rows
                # The item's bias meets the user's one, and its one the user's bias.
                items[:, place] = chain.items.rows
                items[:, place, -2:] = chain.items.rows[:, :-3:-1]
                noise[place] = units.sd / np.sqrt(chain.noise_precision)
        check_fit("init_std", self.init_std, "Make it smaller.", users, items, noise)
        return BayesMFModel(data, users, items, units, float(noise.mean()), chain)

    def _own(self, model: FittedModel, data: Interactions) -> BayesMFModel:
        """The model, when this configuration could have fitted it to the same users and items."""

        def differs(own: BayesMFModel) -> str | None:
            return f"a model with {own.factors} factors" if own.factors != self.factors else None

        return own_model(model, BayesMFModel, data, differs, f"{self.factors} factors")


@final
@dataclass(frozen=True, eq=False)
class BayesMFModel(FittedModel):
    """Draws from the posterior; a score is the mean over all of them."""

    data: Interactions
    user_draws: np.ndarray[tuple[int, int, int], np.dtype[np.float32]]
    """(users, draws, factors + 2): p_u, 1, f_u."""
    item_draws: np.ndarray[tuple[int, int, int], np.dtype[np.float32]]
    """(items, draws, factors + 2): q_i, g_i, 1."""
    units: Units
    """The units of the draws."""
    noise: float
    """Standard deviation of a rating around its score, on the scale of the ratings: the posterior mean."""
    chain: Chain
    """The last draw, from which `warm_fit` goes on."""

    @property
    def factors(self) -> int:
        """Length of the user and item vectors."""
        return self.user_draws.shape[2] - 2

    @property
    def n_draws(self) -> int:
        """How many draws were kept."""
        return self.user_draws.shape[1]

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): posterior means, not clipped; the products of many draws are one product."""
        total = torch.zeros(len(users), self.data.n_items, dtype=torch.float64)
        together = max(1, _WIDTH // (self.factors + 2))
        for first in range(0, self.n_draws, together):
            total += self._products(users, slice(first, first + together))
        return self._ratings(total / self.n_draws)

    def draw_scores(self, users: IntArray, draw: int) -> Tensor:
        """(len(users), items): the scores if draw number `draw`, of `n_draws`, were the truth.

        Ranking by a draw taken at random is Thompson sampling: an item is shown as often as it is believed to be the
        best.
        """
        if not 0 <= draw < self.n_draws:
            raise InputError("draw", received=draw, expected=f"a whole number from 0 to {self.n_draws - 1}")
        return self._ratings(self._products(users, slice(draw, draw + 1)))

    def uncertainty(self, users: IntArray) -> Tensor:
        """(len(users), items): the posterior standard deviation of what each score estimates.

        It falls as ratings come in. A rating itself varies more: its variance is this squared plus `noise` squared.
        """
        mean = torch.zeros(len(users), self.data.n_items, dtype=torch.float64)
        squares = torch.zeros_like(mean)
        for draw in range(self.n_draws):
            # Welford: the sum of squares around the mean of the draws so far.
            drawn = self._products(users, slice(draw, draw + 1))
            step = drawn - mean
            mean += step / (draw + 1)
            squares += step * (drawn - mean)
        return self.units.sd * torch.sqrt(squares / max(1, self.n_draws - 1))

    def _products(self, users: IntArray, draws: slice) -> Tensor:
        """(len(users), items): the products of users and items, summed over these draws."""
        rows, columns = (held.astype(np.float64) for held in (self.user_draws[users, draws], self.item_draws[:, draws]))
        width = rows.shape[1] * rows.shape[2]
        return product(rows.reshape(len(rows), width), columns.reshape(len(columns), width))

    def _ratings(self, standardised: Tensor) -> Tensor:
        return self.units.mean + self.units.sd * standardised

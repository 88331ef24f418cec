"""Latent-score: people who know a part of what an item is worth to them, and see the recommender's score (003, 4)."""

from __future__ import annotations

from typing import final

import numpy as np
from pydantic import Field, SerializeAsAny

from recaudit.arithmetic import product
from recaudit.arrays import FloatArray, IntArray
from recaudit.seeding import generator
from recaudit.simulate.worlds.choices import Choice, PicksBest
from recaudit.simulate.worlds.environment import Environment, Repeats
from recaudit.simulate.worlds.population import Population


@final
class LatentScore(Environment):
    """`rating = clip(offset + c_u + b_i + U_u . V_i + X_u . Y_i + noise)`; users know `X_u . Y_i` before they choose.

    From Schmit and Riquelme (2018), section 5.2.3. Users add what they know to the recommender's score and take the
    item that comes out best; a recommender sees only what they rate, so that its data depend on what it said.
    RecLab's code has no choice in it: `slate=1, choice=TakesAll()` is what it ran.
    """

    users: int = Field(default=100, ge=1)
    """How many people there are, those who come later included."""
    items: int = Field(default=170, ge=1)
    """How many items there are, those that come later included. 100 x 170 are the sizes of RecLab's runners; the
    paper's text has them the other way round, 170 users and 100 items."""
    users_per_step: int = Field(default=20, ge=1)
    """How many of those present are online at a step, drawn uniformly."""
    slate: int = Field(default=10, ge=1)
    """How many items are shown to each user. The paper does not say; RecLab's runners show one."""
    choice: SerializeAsAny[Choice] = PicksBest(trust=1.0)
    """The item with the largest sum of what is known and the recommender's score."""
    repeats: Repeats = "unrated"
    """What may be shown again: what was shown and not taken."""
    noise: float = Field(default=0.2, ge=0, allow_inf_nan=False)
    """Standard deviation of what no model explains in a rating."""
    factors: int = Field(default=10, ge=1)
    """How many factors there are of each kind, known and unknown; their entries have variance `1 / factors`."""
    user_bias: float = Field(default=1 / 3, ge=0, allow_inf_nan=False)
    """Standard deviation of the users' biases `c_u`."""
    item_bias: float = Field(default=1 / 1.5, ge=0, allow_inf_nan=False)
    """Standard deviation of the items' biases `b_i`."""
    offset: float = Field(default=3.0, allow_inf_nan=False)
    """The rating of an average item by an average user."""

    def population(self, seed: int = 0) -> LatentScorePopulation:
        """Biases and factors; what is known comes last."""
        draw = generator(seed, "latent-score")
        user_bias = draw.normal(0, self.user_bias, self.users)
        item_bias = draw.normal(0, self.item_bias, self.items)
        people = draw.normal(0, self.factors**-0.5, (self.users, 2 * self.factors))
        things = draw.normal(0, self.factors**-0.5, (self.items, 2 * self.factors))
        return LatentScorePopulation(self, user_bias, item_bias, people, things)


@final
class LatentScorePopulation(Population):
    """People by their factors; they never change."""

    def __init__(
        self,
        settings: LatentScore,
        user_bias: FloatArray,
        item_bias: FloatArray,
        user_factors: FloatArray,
        item_factors: FloatArray,
    ) -> None:
        self.n_users, self.n_items = len(user_bias), len(item_bias)
        self.scale, self.noise = settings.scale, settings.noise
        self.offset = settings.offset
        self.user_bias, self.item_bias = user_bias, item_bias
        """(users,) and (items,)"""
        self.user_factors, self.item_factors = user_factors, item_factors
        """(users, 2 x factors) and (items, 2 x factors): first what nobody knows, then what the user knows."""

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): biases and both kinds of factors."""
        values: FloatArray = product(self.user_factors[users], self.item_factors).numpy()
        values += self.offset + self.user_bias[users][:, None] + self.item_bias
        return values

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        biases = self.offset + self.user_bias[users] + self.item_bias[items]
        values: FloatArray = biases + np.einsum("nf,nf->n", self.user_factors[users], self.item_factors[items])
        return values

    def perceived(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): `X_u . Y_i`, around 0: the recommender's score has to say the rest."""
        known = self.user_factors.shape[1] // 2
        values: FloatArray = np.einsum("nf,nf->n", self.user_factors[users, known:], self.item_factors[items, known:])
        return values

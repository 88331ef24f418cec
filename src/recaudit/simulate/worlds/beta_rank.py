"""Beta-rank: people who know almost what an item is worth, and look at what comes first (paper 003, section 4)."""

from __future__ import annotations

from typing import final

import numpy as np
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.seeding import generator
from recaudit.simulate.worlds.choices import AnyChoice, PicksBest
from recaudit.simulate.worlds.environment import Environment, Population, Repeats, Size


@final
class BetaRank(Environment):
    """`value ~ Beta(mean p_u . q_i)`, `rating = clip(round(20 value + 1))`; users choose by `rank^-0.8 known value`.

    From Chaney, Stewart and Engelhardt (2018). Users and items are mixtures of topics: users are much alike, an item
    is mostly about one. What an item is worth to a user, and the share of it that the user knows, are drawn once for
    each pair, with the people; RecLab's code draws both again at each rating, which at its spread of 0.00001 moves
    hardly a rating.
    """

    # The sizes are those of RecLab's runners; the paper's text has them the other way round, 170 users and 100 items.
    users: Size = 100
    items: Size = 170
    users_per_step: Size = 20
    slate: Size = 10
    """How many items are shown to each user. The paper does not say; RecLab's runners show one."""
    choice: AnyChoice = PicksBest(position=0.8)
    """The item of the largest known value, discounted by its place."""
    repeats: Repeats = "unrated"
    noise: float = Field(default=1e-5, ge=0, lt=0.5, allow_inf_nan=False)
    """Standard deviation of a value, which is between 0 and 1, around `p_u . q_i`, and of its known share around
    `known`: what no model explains, once for each pair."""
    topics: int = Field(default=5, ge=2)
    """How many topics people and items are mixtures of."""
    known: float = Field(default=0.98, gt=0, le=1)
    """The share of a value that users know before they choose, on average."""
    user_concentration: float = Field(default=100.0, gt=0, allow_inf_nan=False)
    """Users are drawn from `Dirichlet(user_concentration x g)`, g uniform: the larger, the more alike."""
    item_concentration: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """Items are drawn from `Dirichlet(item_concentration x h)`, h near even: the smaller, the purer."""

    def population(self, seed: int = 0) -> BetaRankPopulation:
        """Values and what is known of them."""
        draw = generator(seed, "beta-rank")
        ones = np.ones(self.topics)
        people = draw.dirichlet(self.user_concentration * draw.dirichlet(ones), self.users)
        things = draw.dirichlet(self.item_concentration * draw.dirichlet(100 * ones), self.items)
        values = _beta(draw, np.clip(people @ things.T, 0, 1), self.noise)
        known = _beta(draw, np.full(values.shape, self.known), self.noise)
        return BetaRankPopulation(self, values, known)


@final
class BetaRankPopulation(Population):
    """People by what every item is worth to them; they never change."""

    def __init__(self, settings: BetaRank, values: FloatArray, known: FloatArray) -> None:
        self.n_users, self.n_items = values.shape
        # A pair's value is what it is: rating it again gives the same rating.
        self.scale, self.noise = settings.scale, 0.0
        self.values, self.known = values, known
        """(users, items): between 0 and 1."""

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): `round(20 value + 1)`, as rated but for the cut."""
        return _stars(self.values[users])

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        return _stars(self.values[users, items])

    def perceived(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the known share of the value, between 0 and 1 and not in stars."""
        values: FloatArray = self.known[users, items] * self.values[users, items]
        return values


def _stars(values: FloatArray) -> FloatArray:
    stars: FloatArray = np.round(20 * values + 1)
    return stars


def _beta(draw: np.random.Generator, mean: FloatArray, spread: float) -> FloatArray:
    """Beta variables with these means and, where a Beta can have it, this standard deviation."""
    if spread == 0:
        return mean
    # Beta(mean k, (1 - mean) k) has variance mean (1 - mean) / (k + 1). Near 0 and 1 that is less than asked for
    # whatever k: there k = 2, as in the uniform distribution, and no wider.
    k = np.maximum(mean * (1 - mean) / spread**2 - 1, 2.0)
    inside = (mean > 0) & (mean < 1)
    a, b = np.where(inside, mean, 0.5) * k, np.where(inside, 1 - mean, 0.5) * k
    values: FloatArray = np.where(inside, draw.beta(a, b), mean)
    return values

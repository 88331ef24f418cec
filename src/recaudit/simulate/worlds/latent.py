"""Latent and latent-score: people and items are vectors; an item is worth their product and biases (003, section 4)."""

from __future__ import annotations

from types import MappingProxyType
from typing import final

import numpy as np
from pydantic import Field

from recaudit.arithmetic import product
from recaudit.arrays import FloatArray, IntArray
from recaudit.seeding import generator
from recaudit.simulate.worlds.choices import AnyChoice, PicksBest
from recaudit.simulate.worlds.environment import Amount, Environment, Population, Repeats, Size


class LatentDynamics(Environment):
    """What people who are vectors may do: move towards what they take, and tire of what is alike."""

    dynamics = MappingProxyType({"affinity": "affinity", "boredom": "boredom_penalty"})

    affinity: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    """Whoever takes an item moves towards it: `p_u <- (1 - affinity) p_u + affinity q_i`."""
    boredom_penalty: Amount = 0.0
    """What is taken off a rating when every remembered item points the same way (cosine 1, threshold 0):
    `boredom_penalty / memory x sum over remembered j of max(0, cos(q_i, q_j) - boredom_threshold)`."""
    boredom_threshold: float = Field(default=0.0, ge=-1, le=1, allow_inf_nan=False)
    """The cosine up to which items do not count as alike."""
    memory: Size = 5
    """How many of their own last items people remember."""


@final
class Latent(LatentDynamics):
    """`rating = clip(offset + c_u + b_i + p_u . q_i - boredom + noise)`, all drawn from normal distributions.

    As it stands nobody ever changes: latent-static. With an affinity and a boredom penalty it is latent-dynamic.
    """

    users: Size = 943
    items: Size = 1682
    users_per_step: Size = 188
    factors: Size = 100
    """Length of the vectors p_u and q_i."""
    factor_variance: Amount | None = None
    """Variance of each entry of a vector. None: `sqrt(0.5 / factors)`, so that `p_u . q_i` has variance 0.5 whatever
    the length; the paper's N(0, sqrt(0.5 / d)) read as a variance, as RecLab's code does."""
    user_bias: Amount = 0.5
    """Standard deviation of c_u."""
    item_bias: Amount = 0.5
    """Standard deviation of b_i."""
    offset: float = Field(default=3.0, allow_inf_nan=False)
    """What an item is worth on average."""

    def population(self, seed: int = 0) -> LatentPopulation:
        """Vectors and biases; environments that differ in their dynamics alone have the same."""
        draw = generator(seed, "latent")
        variance = np.sqrt(0.5 / self.factors) if self.factor_variance is None else self.factor_variance
        return LatentPopulation(
            self,
            np.sqrt(variance) * draw.standard_normal((self.users, self.factors)),
            np.sqrt(variance) * draw.standard_normal((self.items, self.factors)),
            self.offset + self.user_bias * draw.standard_normal(self.users),
            self.item_bias * draw.standard_normal(self.items),
        )


@final
class LatentScore(Environment):
    """`rating = clip(offset + c_u + b_i + U_u . V_i + X_u . Y_i + noise)`; users know `X_u . Y_i` before they choose.

    From Schmit and Riquelme (2018), section 5.2.3. Users add what they know to the recommender's score and take the
    item that comes out best; a recommender sees only what they rate, so that its data depend on what it said.
    RecLab's code has no choice in it: `slate=1, choice=TakesAll()` is what it ran.
    """

    # The sizes are those of RecLab's runners; the paper's text has them the other way round, 170 users and 100 items.
    users: Size = 100
    items: Size = 170
    users_per_step: Size = 20
    slate: Size = 10
    """How many items are shown to each user. The paper does not say; RecLab's runners show one."""
    choice: AnyChoice = PicksBest(trust=1.0)
    """The item with the largest sum of what is known and the recommender's score."""
    repeats: Repeats = "unrated"
    noise: Amount = 0.2
    factors: Size = 10
    """How many factors there are of each kind, known and unknown; their entries have variance `1 / factors`."""
    user_bias: Amount = 1 / 3
    """Standard deviation of the users' biases `c_u`."""
    item_bias: Amount = 1 / 1.5
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
        return LatentScorePopulation(self, people, things, self.offset + user_bias, item_bias)


class FactorPopulation(Population):
    """People by their vectors; items stay as they are."""

    def __init__(
        self,
        settings: Environment,
        user_factors: FloatArray,
        item_factors: FloatArray,
        user_level: FloatArray,
        item_bias: FloatArray,
    ) -> None:
        self.n_users, self.n_items = len(user_factors), len(item_factors)
        self.scale, self.noise = settings.scale, settings.noise
        self.user_factors = user_factors.copy()
        """(users, factors): as they are now."""
        self.item_factors = item_factors.copy()  # torch wants arrays that could be written to
        """(items, factors)"""
        self.user_level = user_level
        """(users,): the offset and the user's bias."""
        self.item_bias = item_bias
        """(items,)"""

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): products and biases."""
        values: FloatArray = product(self.user_factors[users], self.item_factors).numpy()
        values += self.user_level[users][:, None] + self.item_bias
        return values

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same, at the cost of one product of vectors a pair."""
        values: FloatArray = np.einsum("nk,nk->n", self.user_factors[users], self.item_factors[items])
        values += self.user_level[users] + self.item_bias[items]
        return values


@final
class LatentScorePopulation(FactorPopulation):
    """Of the factors, (users or items, 2 x factors), nobody knows the first half, and the user the second."""

    def perceived(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): `X_u . Y_i`, around 0: the recommender's score has to say the rest."""
        known = self.user_factors.shape[1] // 2
        values: FloatArray = np.einsum("nf,nf->n", self.user_factors[users, known:], self.item_factors[items, known:])
        return values


class LatentPopulation(FactorPopulation):
    """People who move, and who remember what they took."""

    changing = ("user_factors", "recent")

    def __init__(
        self, settings: LatentDynamics, user_factors: FloatArray, item_factors: FloatArray, *biases: FloatArray
    ) -> None:
        super().__init__(settings, user_factors, item_factors, *biases)
        self.settings = settings
        self._first = user_factors
        self._gram = item_factors.T @ item_factors
        norms = np.linalg.norm(item_factors, axis=1, keepdims=True)
        self._directions = item_factors / np.where(norms > 0, norms, 1.0)
        self.recent = np.full((self.n_users, settings.memory), -1, dtype=np.int64)
        """(users, memory): items, the latest last; -1 where there is nothing yet."""

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): tastes less boredom."""
        values = self.tastes(users)
        if self.settings.boredom_penalty == 0:
            return values
        for remembered in self.recent[users].T:
            rows = np.flatnonzero(remembered >= 0)
            alike: FloatArray = product(self._directions[remembered[rows]], self._directions).numpy()
            values[rows] -= self._tired(alike)
        return values

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        values = super().utility(users, items)
        if self.settings.boredom_penalty == 0:
            return values
        recent = self.recent[users]
        alike = np.einsum("nmk,nk->nm", self._directions[recent], self._directions[items])
        values -= np.where(recent >= 0, self._tired(alike), 0.0).sum(axis=1)
        return values

    def tastes(self, users: IntArray) -> FloatArray:
        """(len(users), items): products and biases, whoever is bored."""
        return super().utilities(users)

    def _tired(self, alike: FloatArray) -> FloatArray:
        """What one remembered item takes off, by its cosine with the item that is rated."""
        each = self.settings.boredom_penalty / self.settings.memory
        off: FloatArray = each * np.maximum(alike - self.settings.boredom_threshold, 0.0)
        return off

    def take(self, users: IntArray, items: IntArray) -> None:
        """Move towards the item, and remember it."""
        self.recent[users, :-1] = self.recent[users, 1:]
        self.recent[users, -1] = items
        gain = self.settings.affinity
        if gain:
            self.user_factors[users] = (1 - gain) * self.user_factors[users] + gain * self.item_factors[items]

    def forget(self) -> None:
        """No item was taken of late."""
        self.recent[:] = -1

    def drift(self) -> float:
        """`sqrt(mean over u of d_u' (Q'Q / items) d_u)`, with d_u how far the user's vector has moved."""
        moved = self.user_factors - self._first
        squares = float(np.einsum("uk,uk->", moved @ self._gram, moved))
        return float(np.sqrt(max(squares, 0.0) / (self.n_users * self.n_items)))

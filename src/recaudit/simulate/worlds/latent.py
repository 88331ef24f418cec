"""People and items with latent vectors or topics, drawn: latent, latent-score and beta-rank (003, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.machine import check_memory
from recaudit.seeding import generator
from recaudit.simulate.worlds.environment import Amount, AnyChoice, Environment, PicksBest, Population, Repeats, Size

_WHOLE = 8192
"""Up to so many users drift is summed over all of them; of more, each user's part is kept until they move again."""
_BETA_BYTES = 64
"""What a pair takes while values are drawn."""


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

    def vectors_memory(self, factors: int) -> int:
        """Bytes of the users' vectors, as they are and as they were, and of what is remembered."""
        return 8 * self.users * ((2 if self.affinity else 1) * factors + self.memory)


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
            _normal(draw, (self.users, self.factors), np.sqrt(variance)),
            _normal(draw, (self.items, self.factors), np.sqrt(variance)),
            self.offset + self.user_bias * draw.standard_normal(self.users),
            self.item_bias * draw.standard_normal(self.items),
        )

    def people_memory(self) -> int:
        """Mostly vectors."""
        return self.vectors_memory(self.factors)


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

    def people_memory(self) -> int:
        """Two vectors."""
        return 16 * self.users * self.factors


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
        self.user_factors = user_factors
        """(users, factors): as they are now."""
        self.item_factors = item_factors
        """(items, factors)"""
        self.user_level = user_level
        """(users,): the offset and the user's bias."""
        self.item_bias = item_bias
        """(items,)"""

    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): products and biases."""
        values: FloatArray = self.user_factors[users] @ self.item_factors.T
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

    def __init__(
        self, settings: LatentDynamics, user_factors: FloatArray, item_factors: FloatArray, *biases: FloatArray
    ) -> None:
        super().__init__(settings, user_factors, item_factors, *biases)
        self.settings = settings
        self._first = user_factors
        if settings.affinity:
            self.user_factors = user_factors.copy()
        self.changing = ("user_factors", "recent") if settings.affinity else ("recent",)
        self._squares = np.zeros(self.n_users)
        """(users,): how far each has moved, as in `drift`, but for those who are `_stale`."""
        self._stale = np.zeros(self.n_users, dtype=bool)
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
            alike: FloatArray = self._directions[remembered[rows]] @ self._directions.T
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
        return each * np.maximum(alike - self.settings.boredom_threshold, 0.0)

    def take(self, users: IntArray, items: IntArray) -> None:
        """Move towards the item, and remember it."""
        self.recent[users, :-1] = self.recent[users, 1:]
        self.recent[users, -1] = items
        gain = self.settings.affinity
        if gain:
            self.user_factors[users] = (1 - gain) * self.user_factors[users] + gain * self.item_factors[items]
            self._stale[users] = True

    def forget(self) -> None:
        """No item was taken of late."""
        self.recent[:] = -1

    def takers(self) -> IntArray:
        """(n,): those who remember something."""
        return np.flatnonzero(self.recent[:, -1] >= 0)

    def drift(self) -> float:
        """`sqrt(mean over u of d_u' (Q'Q / items) d_u)`, with d_u how far the user's vector has moved."""
        if self.settings.affinity == 0:
            return 0.0
        if self.n_users <= _WHOLE:
            moved = self.user_factors - self._first
            squares = float(np.einsum("uk,uk->", moved @ self._gram, moved))
        else:
            stale = np.flatnonzero(self._stale)
            _square(stale, self.user_factors, self._first, self._gram, self._squares)
            self._stale[stale] = False
            squares = float(self._squares.sum())
        return float(np.sqrt(max(squares, 0.0) / (self.n_users * self.n_items)))

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Be as `state` says."""
        super().restore(state)
        self._squares[:] = 0.0
        self._stale = (self.user_factors != self._first).any(axis=1)


@njit(nogil=True, cache=True)
def _square(users: IntArray, now: FloatArray, before: FloatArray, gram: FloatArray, out: FloatArray) -> None:
    """Set `out` (users,) to d' gram d for some users, d how far they have moved: by user, whoever else is asked for."""
    for user in users:
        moved = now[user] - before[user]
        sums = np.zeros(len(moved))
        for row in range(len(moved)):
            for column in range(len(moved)):
                sums[column] += moved[row] * gram[row, column]
        total = 0.0
        for column in range(len(moved)):
            total += sums[column] * moved[column]
        out[user] = total


@final
class BetaRank(Environment):
    """`value ~ Beta(mean p_u . q_i)`, `rating = clip(round(20 value + 1))`; users choose by `rank^-0.8 known value`.

    From Chaney, Stewart and Engelhardt (2018). Users and items are mixtures of topics: users are much alike, an item
    is mostly about one. Value and known share are drawn once for each pair; RecLab's code draws both again at each
    rating, which at its spread of 0.00001 moves hardly a rating.
    """

    smaller: ClassVar[str] = (
        "Ask for fewer users or items, or an environment without a table of all pairs: topics, latent or latent-score."
    )

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
        what = f"What each of {self.items:,} items is worth to each of {self.users:,} users, drawn pair by pair,"
        check_memory(self.people_memory(), what, self.smaller)
        draw = generator(seed, "beta-rank")
        ones = np.ones(self.topics)
        people = draw.dirichlet(self.user_concentration * draw.dirichlet(ones), self.users)
        things = draw.dirichlet(self.item_concentration * draw.dirichlet(100 * ones), self.items)
        values = _beta(draw, np.clip(people @ things.T, 0, 1), self.noise)
        known = _beta(draw, np.full(values.shape, self.known), self.noise)
        return BetaRankPopulation(self, values, known)

    def people_memory(self) -> int:
        """A table of all pairs."""
        return _BETA_BYTES * self.users * self.items


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
        return np.round(20 * self.values[users] + 1)

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        return np.round(20 * self.values[users, items] + 1)

    def perceived(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the known share of the value, between 0 and 1 and not in stars."""
        return self.known[users, items] * self.values[users, items]


def _normal(draw: np.random.Generator, shape: tuple[int, int], spread: float) -> FloatArray:
    values = draw.standard_normal(shape)
    values *= spread
    return values


def _beta(draw: np.random.Generator, mean: FloatArray, spread: float) -> FloatArray:
    """Beta variables with these means and, where a Beta can have it, this standard deviation."""
    if spread == 0:
        return mean
    # Beta(mean k, (1 - mean) k) has variance mean (1 - mean) / (k + 1). Near 0 and 1 that is less than asked for
    # whatever k: there k = 2, as in the uniform distribution, and no wider.
    k = np.maximum(mean * (1 - mean) / spread**2 - 1, 2.0)
    inside = (mean > 0) & (mean < 1)
    a, b = np.where(inside, mean, 0.5) * k, np.where(inside, 1 - mean, 0.5) * k
    return np.where(inside, draw.beta(a, b), mean)

"""The authors' own people, items and log: RecLab draws them from NumPy's old generator with seed 0, in a fixed order.

One world stands behind every number of the paper, and some numbers hang on it: worlds of our own show by how much.
"""

from __future__ import annotations

from typing import final

import numpy as np

from recaudit.plugins import FloatArray, IntArray
from recaudit.simulate import (
    Environment,
    Latent,
    LatentPopulation,
    Population,
    Scenario,
    Topics,
    TopicsPopulation,
    paper,
)


@final
class ReclabTopics(Topics):
    """Topics with the people, the items and the log of RecLab's code."""

    def population(self, seed: int = 0) -> TopicsPopulation:
        """Preferences first, then the items' topics."""
        return self._begun(seed)[1]

    def drawn_log(self, ratings: int, seed: int, people: Population) -> tuple[IntArray, IntArray, FloatArray]:
        """What the generator gives next."""
        return _log(self._begun(seed)[0], self, ratings)

    def _begun(self, seed: int) -> tuple[np.random.RandomState, TopicsPopulation]:
        draw = np.random.RandomState(seed)
        preferences = draw.uniform(0.5, 5.5, (self.users, self.topics))
        return draw, TopicsPopulation(self, preferences, draw.choice(self.topics, self.items))


@final
class ReclabLatent(Latent):
    """Latent vectors with the people, the items and the log of RecLab's code."""

    def population(self, seed: int = 0) -> LatentPopulation:
        """Users' biases and vectors, then the items'."""
        return self._begun(seed)[1]

    def drawn_log(self, ratings: int, seed: int, people: Population) -> tuple[IntArray, IntArray, FloatArray]:
        """What the generator gives next."""
        return _log(self._begun(seed)[0], self, ratings)

    def _begun(self, seed: int) -> tuple[np.random.RandomState, LatentPopulation]:
        draw = np.random.RandomState(seed)
        variance = np.sqrt(0.5 / self.factors) if self.factor_variance is None else self.factor_variance
        user_bias = draw.normal(0, self.user_bias, self.users)
        users = draw.normal(0, np.sqrt(variance), (self.users, self.factors))
        item_bias = draw.normal(0, self.item_bias, self.items)
        items = draw.normal(0, np.sqrt(variance), (self.items, self.factors))
        return draw, LatentPopulation(self, users, items, self.offset + user_bias, item_bias)


def _log(draw: np.random.RandomState, environment: Environment, ratings: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Pairs by the chances of users, all alike, which takes other draws than no chances at all; then the noise."""
    pairs = environment.users * environment.items
    chances = np.repeat(np.full(environment.users, 1 / environment.users), environment.items) / environment.items
    who, what = np.divmod(draw.choice(pairs, ratings, replace=False, p=chances), environment.items)
    return who, what, draw.standard_normal(ratings)


def authors(scenario: str | Scenario) -> Scenario:
    """The scenario in the authors' own world (with seed 0)."""
    known = paper(scenario) if isinstance(scenario, str) else scenario
    own = {Topics: ReclabTopics, Latent: ReclabLatent}[type(known.environment)]
    environment = own(**{name: getattr(known.environment, name) for name in type(known.environment).model_fields})
    return Scenario(**dict(known) | {"environment": environment})

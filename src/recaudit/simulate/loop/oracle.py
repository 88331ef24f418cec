"""The oracle: a recommender that knows what everybody would rate everything right now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, final

import torch
from torch import Tensor

from recaudit.arrays import IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import NotSupportedError
from recaudit.models.base import FittedModel, Recommender
from recaudit.simulate.worlds.environment import Population


@final
class Oracle(Recommender):
    """What no recommender can beat at a single step; it does not plan ahead. Only in a simulation (paper 003)."""

    def fit(self, data: Interactions, rng: int = 0) -> NoReturn:
        """A log does not tell the truth: `of` takes it from the population."""
        raise NotSupportedError(
            "Oracle knows the people of a simulation, and cannot be fitted to a log. Hand it to ra.simulate.run, "
            "ra.simulate.compare or ra.simulate.offline_online, or call Oracle().of(population, data)."
        )

    def of(self, population: Population, data: Interactions) -> OracleModel:
        """The truth about these people, as it is whenever it is asked."""
        return OracleModel(data, population)


@final
@dataclass(frozen=True, eq=False)
class OracleModel(FittedModel):
    """Scores are utilities: ratings without noise, not cut to the scale, so that nothing ties at its top."""

    data: Interactions
    population: Population

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): as they are now."""
        return torch.from_numpy(self.population.utilities(users))

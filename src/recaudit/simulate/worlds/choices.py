"""What people do with a slate: take everything, or choose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, final

import numpy as np
from pydantic import Field

from recaudit.arrays import BoolArray, FloatArray
from recaudit.registry import CHOICES
from recaudit.specification import OneOf, Specification


class Choice(Specification, ABC):
    """How users choose from what is shown to them."""

    @property
    def uses_scores(self) -> bool:
        """Whether users see the recommender's scores, which then belong to an action."""
        return False

    @abstractmethod
    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """(users, slate): True where the item is taken.

        `perceived` (users, slate) is what users believe the items to be worth, `scores` what the recommender says,
        `shown` where there is an item at all; `draws` are uniform numbers in (0, 1).
        """


AnyChoice = Annotated[Choice, OneOf(CHOICES)]


@final
class TakesAll(Choice):
    """Everything that is shown is taken and rated, from the first place on."""

    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """All that is shown."""
        return shown


class _ByAppeal(Choice):
    """One item of a slate, by its appeal: `(perceived + trust x score) x rank^-position`."""

    trust: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """How much of the recommender's score adds to what users believe themselves (paper 003, latent-score: 1)."""
    position: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """How fast attention falls with the place in the slate (Chaney et al., beta-rank: 0.8)."""

    @property
    def uses_scores(self) -> bool:
        """With trust, they do."""
        return self.trust > 0

    def _appeal(self, perceived: FloatArray, scores: FloatArray) -> FloatArray:
        values = perceived + self.trust * scores if self.trust else perceived
        places: FloatArray = np.arange(1, values.shape[1] + 1, dtype=np.float64)
        appeal: FloatArray = values * places**-self.position
        return appeal


@final
class PicksBest(_ByAppeal):
    """The item that appeals most; equal appeal: the one that comes first."""

    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """One item of each slate that is not empty."""
        return _one(np.where(shown, self._appeal(perceived, scores), -np.inf)) & shown


@final
class Logit(_ByAppeal):
    """An item drawn with probability proportional to `exp(appeal / temperature)`; perhaps none."""

    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Towards 0 the most appealing item, towards infinity any."""
    nothing: float | None = Field(default=None, allow_inf_nan=False)
    """What taking nothing is worth, on the scale of appeal; without it something is always taken."""

    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """At most one item of each slate."""
        # The largest of log-weight + Gumbel noise is a draw from the softmax; the last column of draws is for nothing.
        gumbel = -np.log(-np.log(draws))
        noisy = np.where(shown, self._appeal(perceived, scores) / self.temperature + gumbel[:, :-1], -np.inf)
        taken = _one(noisy) & shown
        if self.nothing is not None:
            taken &= (noisy.max(axis=1) > self.nothing / self.temperature + gumbel[:, -1])[:, None]
        return taken


def _one(values: FloatArray) -> BoolArray:
    """True at the first largest entry of each row."""
    out = np.zeros(values.shape, dtype=bool)
    out[np.arange(len(values)), values.argmax(axis=1)] = True
    return out

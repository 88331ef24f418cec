"""One recommender fitted to several logs, each log's model made once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel, Recommender


@final
class Fits:
    """The models of a recommender, by the log that they were fitted to.

    `fitted` are models of the same recommender and seed that exist already: their logs need no fitting.
    """

    def __init__(self, recommender: Recommender, fitted: Iterable[FittedModel] = (), rng: int = 0) -> None:
        self._recommender, self._rng = recommender, rng
        self._models = {model.data.fingerprint: model for model in fitted}

    def of(self, log: Interactions) -> FittedModel:
        """The model of this log."""
        if log.fingerprint not in self._models:
            self._models[log.fingerprint] = self._recommender.fit(log, rng=self._rng)
        return self._models[log.fingerprint]

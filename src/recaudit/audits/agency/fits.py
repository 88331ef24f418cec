"""One recommender fitted to several logs, each log's model made once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from recaudit.audits.audit import Subject
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.interventions import Actions, Future, Past
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

    def before(self, actions: Actions | Future, data: Interactions) -> FittedModel:
        """The model that these actions are about: for `Past`, one that has not seen the ratings that are free."""
        return self.of(actions.before(data) if isinstance(actions, Past) else data)


def audited(subject: Subject, actions: Actions | Future, rng: int) -> tuple[FittedModel, Interactions | None]:
    """The model that these actions are about, and the log that `observed_log` holds against it.

    A subject's own model is the one, which need not have seen all of the log. Where there is a recommender to fit
    others, the past is asked of a model that has seen all but the ratings that are free.
    """
    model, recommender, data = subject.model, subject.recommender, subject.data
    if recommender is not None and data is not None:
        fits = Fits(recommender, [] if model is None else [model], rng)
        if isinstance(actions, Past):
            return fits.before(actions, data), data
        return fits.of(data) if model is None else model, None
    if model is None:
        raise InputError("data", received="nothing", expected="a log to fit the recommender to, or a fitted model")
    return model, data

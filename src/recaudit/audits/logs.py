"""Which model and log an audit speaks about, and what a rating of the log may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np

from recaudit.arrays import IntArray
from recaudit.audits.audit import Subject
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Future, FutureEdits, Past
from recaudit.interventions.ratings import RATINGS, free_ratings
from recaudit.models.base import FittedModel, Recommender, check_response
from recaudit.models.response import AffineResponse, DifferentiableResponse
from recaudit.specification import as_data

_USERS, _ITEMS = 16, 10
"""How many users are tried, and with how many unseen items."""
_SAME = 1e-9
"""A difference of scores below this, relative to the largest, is none."""


def observed_log(model: FittedModel, data: Interactions | None, actions: Actions | Future) -> Interactions:
    """`data`, or the model's own log where nothing is said.

    The two must be the same log. Only for `Past(k)` the model may be fitted to the log without everybody's last k
    ratings: what the paper does, and what makes the audit counterfactual.
    """
    if data is None or data is model.data or data.fingerprint == model.data.fingerprint:
        return model.data
    expected, fitted_to = f"the log that the model was fitted to, {model.data!r}", "this log"
    if isinstance(actions, Past):
        if actions.before(data).fingerprint == model.data.fingerprint:
            return data
        expected = f"the log of which the model saw all but the last {actions.k} ratings of each user"
        fitted_to = f"Past({actions.k}).before(data)"
    remedy = f"Fit the model to {fitted_to}, or leave data out."
    raise InputError("data", received=f"{data!r}", expected=expected, remedy=remedy)


def rating_facts(
    model: FittedModel, log: Interactions, actions: Actions | Future, users: IntArray, rng: int
) -> dict[str, Any]:
    """What a rating may be, for the facts of a result; in a log of clicks also what a 0 means to this model.

    Every rating of such a log is the same, and a model to which a click is as good as none is refused. `users` are the
    positions of those whose ratings are free.
    """
    facts = {"ratings": as_data(free_ratings(actions.ratings, log.scale), RATINGS)}
    if log.scale[0] < log.scale[1] or model.response not in (AffineResponse, DifferentiableResponse):
        return facts
    some = users[:_USERS]
    rows = FutureEdits(_ITEMS).items(model, some, rng, log)
    if (rows < 0).all():
        return facts
    responses = [model.respond(user, user, row[row >= 0]) for user, row in zip(some.tolist(), rows, strict=True)]
    without, clicked = (
        np.stack([response.scores(np.full(len(response.items), rating)) for response in responses])
        for rating in (0.0, log.scale[0])
    )
    scores = model.scores(some)
    none = _SAME * float(np.abs(scores).max())
    if float(np.abs(clicked - without).max()) <= none:
        raise NotSupportedError(
            f"Every rating of this log is {log.scale[0]:g}, and to this {model.called} a rating of 0 is like "
            "any other: whether somebody clicks or not cannot be asked of it. EASE and SLIM, not centred, know."
        )
    apart = float(np.abs(without - scores).max())
    return facts | {"zero": "no rating" if apart <= none else "the lowest rating, which is not the same as none"}


@final
class Fits:
    """The models of a recommender by the log that they were fitted to; those in `fitted` exist already."""

    def __init__(self, recommender: Recommender, fitted: Iterable[FittedModel | None] = (), rng: int = 0) -> None:
        self._recommender, self._rng = recommender, rng
        self._models = {model.data.fingerprint: model for model in fitted if model is not None}

    def of(self, log: Interactions) -> FittedModel:
        """The model of this log."""
        if log.fingerprint not in self._models:
            self._models[log.fingerprint] = self._recommender.fit(log, rng=self._rng)
        return self._models[log.fingerprint]

    def before(self, actions: Actions | Future, data: Interactions) -> FittedModel:
        """The model that these actions are about: for `Past`, one that has not seen the ratings that are free."""
        if not isinstance(actions, Past):
            return self.of(data)
        if self._recommender.given:
            for model in self._models.values():
                check_response(model)
            raise NotSupportedError(
                f"{type(self._recommender).__name__}: a past is asked of a model that has not seen it, and this one "
                "was made elsewhere. Future and next-k need no other model."
            )
        return self.of(actions.before(data))


def audited(subject: Subject, actions: Actions | Future, rng: int) -> tuple[FittedModel, Interactions]:
    """The model that these actions are about, and the log of which they speak.

    A subject's own model is the one, which need not have seen all of the log. Where there is a recommender to fit
    others, the past is asked of a model that has seen all but the ratings that are free.
    """
    model, recommender, data = subject.model, subject.recommender, subject.data
    if recommender is not None and data is not None:
        fits = Fits(recommender, [model], rng)
        if isinstance(actions, Past):
            return fits.before(actions, data), data
        model, data = model or fits.of(data), None
    if model is None:
        raise InputError("data", received="nothing", expected="a log to fit the recommender to, or a fitted model")
    return model, observed_log(model, data, actions)

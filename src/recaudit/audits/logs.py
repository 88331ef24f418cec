"""Which log an audit speaks about: the one that the model was fitted to, or one with what came after."""

from __future__ import annotations

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.interventions import Actions, Future, Past
from recaudit.models.base import FittedModel


def observed_log(model: FittedModel, data: Interactions | None, actions: Actions | Future) -> Interactions:
    """`data`, or the model's own log where nothing is said.

    The two must be the same log. Only for `Past(k)` the model may be fitted to the log without everybody's last k
    ratings: what the paper does, and what makes the audit counterfactual.
    """
    if data is None or data is model.data or data.fingerprint == model.data.fingerprint:
        return model.data
    if isinstance(actions, Past):
        if actions.before(data).fingerprint == model.data.fingerprint:
            return data
        raise InputError(
            "data",
            received=f"{data!r}",
            expected=f"the log of which the model saw all but the last {actions.k} ratings of each user",
            remedy=f"Fit the model to Past({actions.k}).before(data), or leave data out.",
        )
    raise InputError(
        "data",
        received=f"{data!r}",
        expected=f"the log that the model was fitted to, {model.data!r}",
        remedy="Fit the model to this log, or leave data out.",
    )

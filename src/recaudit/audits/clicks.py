"""Logs of clicks, plays and purchases, in which every rating is the same: what a rating of 0 means to a model.

People can click or not. A model must be able to tell the two apart to be audited, and what it makes of a 0 is told
beside the numbers: that there is no click, or a rating as low as can be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recaudit.data.interactions import Interactions
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Future, FutureEdits
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse

_USERS, _ITEMS = 16, 10
"""How many users are tried, and with how many unseen items."""
_SAME = 1e-9
"""A difference of scores below this, relative to the largest, is none."""


def told_ratings(
    model: FittedModel, log: Interactions, actions: Actions | Future, users: NDArray[np.int64], rng: int
) -> dict[str, str]:
    """What a rating may be, for the settings of a result; in a log of clicks also what a 0 means to this model.

    `users` are the positions of those whose ratings are free. A model to which a click is as good as none is refused.
    """
    told = {"ratings": repr(free_ratings(actions.ratings, log.scale))}
    if log.scale[0] < log.scale[1] or model.response is not AffineResponse:
        return told
    some = users[:_USERS]
    items = FutureEdits(_ITEMS).items(model, some, rng, log)
    if (items < 0).all():
        return told
    scores, response = model.scores(some), model.own_responses(some, items)
    none = _SAME * float(scores.abs().max())
    low, high = rating_range(log.scale)
    if (high - low) * float(response.slope.abs().max()) <= none:
        raise NotSupportedError(
            f"Every rating of this log is {log.scale[0]:g}, and to this {type(model).__name__} a rating of 0 is like "
            "any other: whether somebody clicks or not cannot be asked of it. EASE and SLIM, not centred, know."
        )
    apart = float((response.intercept - scores).abs().max())
    return told | {"zero": "no rating" if apart <= none else "the lowest rating, which is not the same as none"}

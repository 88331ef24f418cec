"""How random a policy should be, for one user to get one item as often as possible (paper 000, section 4.1)."""

from __future__ import annotations

import numpy as np

from recaudit.audits.candidates import Candidates, OwnScores
from recaudit.errors import InputError
from recaudit.interventions import Actions, NextK
from recaudit.models.base import FittedModel
from recaudit.solvers.softmax.beta import BestBeta
from recaudit.solvers.softmax.beta import best_beta as solve


def best_beta(
    model: FittedModel,
    *,
    user: object,
    item: object,
    actions: Actions | None = None,
    candidates: Candidates = "unseen",
    rng: int = 0,
) -> BestBeta:
    """The beta of a softmax policy at which the user's largest probability of the item is largest.

    An item that the user can make the top one is best served without randomness, at beta = inf; for any other there
    is a finite best beta, found with a certificate. `user` and `item` are ids; `actions` (default: the next 10
    items) and `candidates` as for `reachability`. The item must be a candidate, and the user must have an action.
    The answer has one row, and its value and bounds are log-probabilities.
    """
    position = int(model.data.users_at([user])[0])
    target = int(model.data.items_at([item])[0])
    own = OwnScores.of(model, position, actions or NextK(10), candidates, rng)
    if not len(own.acted):
        raise InputError("user", received=user, expected="a user with at least one rating to change")
    if target not in own.candidates:
        raise InputError(
            "item",
            received=item,
            expected="a candidate: an item that is not acted on and, unless candidates='all', not seen",
        )
    place = int(np.searchsorted(own.candidates, target))
    return solve(own.slope, own.intercept, place, own.lower, own.upper)

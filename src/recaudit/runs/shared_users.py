"""Users that lists of all models of a run are measured on, where a service is queried for some users only.

Coverage and other numbers of lists change with the number of users, so a service that is queried for 50 users cannot be
compared with a baseline that is measured on all.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import reduce

import numpy as np

from recaudit.arrays import IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel, Recommender


def find_shared_users(recommenders: Iterable[Recommender], data: Interactions, seed: int) -> IntArray | None:
    """Find the users that every model of a run can be measured on.

    Args:
        recommenders: Recommenders of the run.
        data: Training interactions.
        seed: Seed of the run.

    Returns:
        Positions, ascending. None if no recommender restricts its users, or if the restrictions share no user.
    """
    found = (recommender.sample_users(data, seed) for recommender in recommenders)
    samples = [users for users in found if users is not None]
    shared = reduce(np.intersect1d, samples) if samples else np.empty(0, dtype=np.int64)
    return shared if len(shared) else None


def restrict_users(model: FittedModel, users: IntArray | None) -> FittedModel:
    """Measure lists of the model on these users only; all that it can be measured on if there are none."""
    if users is None or (model.audited_users is not None and np.array_equal(model.audited_users, users)):
        return model
    restricted = copy(model)
    object.__setattr__(restricted, "audited_users", users)
    return restricted

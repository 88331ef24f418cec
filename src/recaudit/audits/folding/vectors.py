"""Models that place users and items in one space: what folding looks at."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.errors import NotSupportedError
from recaudit.models.base import FittedModel, makers
from recaudit.models.checks import checked_array

MIN_RATINGS = 5
"""Items with fewer ratings are no evidence: hardly anything holds their vectors in place."""


@runtime_checkable
class HasVectors(Protocol):
    """A fitted model with a vector for every user and every item, whose products make its scores."""

    @property
    def data(self) -> Interactions:
        """The log that the model was fitted to."""

    @property
    def user_factors(self) -> FloatArray:
        """(users, factors)"""

    @property
    def item_factors(self) -> FloatArray:
        """(items, factors)"""


def vectors_of(model: FittedModel) -> tuple[FloatArray, FloatArray]:
    """The user vectors (users, factors) and item vectors (items, factors) of a model; biases have no part in them."""
    if not isinstance(model, HasVectors):
        raise NotSupportedError(
            f"{type(model).__name__}: it has no user and item vectors, so that nothing can fold. Models that have "
            f"them: {makers(lambda made: 'user_factors' in made.__annotations__)}, and any other with user_factors and "
            "item_factors."
        )
    U = checked_array("model.user_factors", model.user_factors, (model.data.n_users, "factors"))
    return U, checked_array("model.item_factors", model.item_factors, (model.data.n_items, U.shape[1]))


def unit_rows(vectors: FloatArray) -> FloatArray:
    """(rows, d): each row divided by its length; a row of zeros, which points nowhere, stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1.0))


def item_at(data: Interactions, item: object) -> int:
    """The position of one item id."""
    return int(data.items_at([item])[0])


def user_at(data: Interactions, user: object) -> int:
    """The position of one user id."""
    return int(data.users_at([user])[0])

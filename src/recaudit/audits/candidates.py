"""What the policy chooses from, and how one user's scores of it depend on the user's own ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Interval
from recaudit.interventions.ratings import rating_range
from recaudit.models.base import FittedModel

Candidates = Literal["unseen", "all"]
"""The items that are neither seen nor acted on (films), or all but the acted on (music, news)."""


def candidate_items(data: Interactions, users: IntArray, acted: IntArray, candidates: Candidates) -> BoolArray:
    """(users, items): True at each user's candidates; `acted` (users, actions) are positions, -1 for none."""
    if candidates not in ("unseen", "all"):
        raise InputError("candidates", received=candidates, expected="'unseen' or 'all'")
    allowed = ~data.seen(users) if candidates == "unseen" else np.ones((len(users), data.n_items), dtype=bool)
    row, column = np.nonzero(acted >= 0)
    allowed[row, acted[row, column]] = False
    return allowed


@final
@dataclass(frozen=True, eq=False)
class OwnScores:
    """A user's scores of the candidates, `slope @ a + intercept`, over ratings a with `lower <= a <= upper`."""

    acted: IntArray
    """(actions,): positions of the items whose ratings are free; may be empty."""
    candidates: IntArray
    """(candidates,): positions, ascending."""
    slope: FloatArray
    """(candidates, actions)"""
    intercept: FloatArray
    """(candidates,)"""
    lower: float
    upper: float

    @classmethod
    def of(cls, model: FittedModel, user: int, actions: Actions, candidates: Candidates, rng: int) -> OwnScores:
        """The response of the user at this position; ratings that are not an interval are refused."""
        ratings = actions.ratings or Interval(*rating_range(model.data.scale))
        if not isinstance(ratings, Interval):
            raise NotSupportedError(
                f"Geometry is about intervals of ratings; {ratings!r} is not one. "
                "Pass ratings=ra.interventions.Interval(low, high) to the actions."
            )
        users = np.array([user])
        items = actions.items(model, users, rng)
        allowed = np.flatnonzero(candidate_items(model.data, users, items, candidates)[0])
        acted = items[0][items[0] >= 0]
        response = model.own_responses(users, acted[None, :])
        slope, intercept = response.slope[0].numpy(), response.intercept[0].numpy()
        return cls(acted, allowed, slope[allowed], intercept[allowed], ratings.low, ratings.high)

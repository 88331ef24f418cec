"""The joint of the house: how scores move when ratings change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from recaudit.models.arrays import FloatArray, IntArray, Tensor


@final
@dataclass(frozen=True, eq=False)
class AffineResponses:
    """The responses of a block of users to their own edits, for solvers that work on many at once."""

    slope: Tensor
    """(users, items, actions): zeros in the columns of a user with fewer actions."""
    intercept: Tensor
    """(users, items)"""


@final
@dataclass(frozen=True, eq=False)
class AffineResponse:
    """Scores as an affine function of the ratings given to the acted-on items: `s = slope @ a + intercept`.

    `moves_own_item_only` is a structure tag that solvers dispatch on: True when each rating moves the score of
    its own item and no other (another user's edits of a factor model).
    """

    items: IntArray
    """(actions,): positions of the items whose ratings are free."""
    slope: Tensor
    """(items, actions)"""
    intercept: Tensor
    """(items,)"""
    moves_own_item_only: bool = False

    def scores(self, ratings: FloatArray) -> Tensor:
        """(items,): every score after `ratings` (actions,) are given."""
        return self.slope @ torch.tensor(ratings, dtype=torch.float64) + self.intercept

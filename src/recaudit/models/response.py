"""How scores move when ratings change: affine (exact solvers), differentiable (autograd), opaque (only asked)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.torch_extra import require_torch

if TYPE_CHECKING:
    from torch import Tensor


class Response(ABC):
    """A viewer's scores of all items as a function of the ratings that an editor gives to some."""

    items: IntArray
    """(actions,): positions of the items whose ratings are free."""

    @abstractmethod
    def scores(self, ratings: FloatArray) -> FloatArray:
        """(items,): every score after `ratings` (actions,) are given."""


@final
@dataclass(frozen=True, eq=False)
class AffineResponse(Response):
    """Scores as an affine function of the ratings given to the acted-on items: `s = slope @ a + intercept`."""

    items: IntArray
    slope: FloatArray
    """(items, actions)"""
    intercept: FloatArray
    """(items,)"""

    def scores(self, ratings: FloatArray) -> FloatArray:
        """See `Response`."""
        after: FloatArray = self.slope @ np.asarray(ratings, dtype=np.float64) + self.intercept
        return after


@final
@dataclass(frozen=True, eq=False)
class DifferentiableResponse(Response):
    """Scores that autograd can follow, of no particular shape: a neural model's. It needs torch."""

    items: IntArray
    batch_scores: Callable[[Tensor], Tensor]
    """(batch, actions) to (batch, items), double precision; gradients flow back to the ratings."""

    def scores(self, ratings: FloatArray) -> FloatArray:
        """See `Response`."""
        torch = require_torch("differentiable responses")
        with torch.no_grad():
            after: FloatArray = self.batch_scores(torch.tensor(ratings, dtype=torch.float64)[None])[0].numpy()
        return after


@final
@dataclass(frozen=True, eq=False)
class OpaqueResponse(Response):
    """Scores that can only be asked for, one query at a time: a remote system's."""

    items: IntArray
    query: Callable[[FloatArray], FloatArray]
    """(actions,) to (items,)."""

    def scores(self, ratings: FloatArray) -> FloatArray:
        """See `Response`. One query."""
        return self.query(ratings)


class AffineResponses(NamedTuple):
    """The responses of a block of users to their own edits, for solvers that work on many at once."""

    slope: FloatArray
    """(users, items, actions): zeros in the columns of a user with fewer actions."""
    intercept: FloatArray
    """(users, items)"""


@final
@dataclass(frozen=True, eq=False)
class EditedItems:
    """What editors' ratings do to the items they rate, where nothing else moves: the items' vectors.

    A viewer's score of an edited item is `viewer_vectors[v] . vectors[e, t, g] + viewer_offset[v] + offset[e, t, g]`.
    """

    vectors: FloatArray
    """(editors, actions, ratings, factors): the vector of each edited item at each rating."""
    offset: FloatArray
    """(editors, actions, ratings)"""
    viewer_vectors: FloatArray
    """(users, factors): of all users, by position."""
    viewer_offset: FloatArray
    """(users,)"""

    def scores(self, viewers: IntArray) -> FloatArray:
        """(len(viewers), editors, actions, ratings): the viewers' scores of the edited items."""
        *shape, factors = self.vectors.shape
        scores = self.viewer_vectors[viewers] @ self.vectors.reshape(math.prod(shape), factors).T
        scores = scores.reshape(len(viewers), *shape)
        scores += self.offset
        scores += self.viewer_offset[viewers][:, None, None, None]
        return scores

"""How scores move when ratings change: affine (exact solvers), differentiable (autograd), opaque (only asked)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor

from recaudit.arithmetic import aligned, product
from recaudit.arrays import FloatArray, IntArray


class Response(ABC):
    """A viewer's scores of all items as a function of the ratings that an editor gives to some."""

    items: IntArray
    """(actions,): positions of the items whose ratings are free."""

    @abstractmethod
    def scores(self, ratings: FloatArray) -> Tensor:
        """(items,): every score after `ratings` (actions,) are given."""


@final
@dataclass(frozen=True, eq=False)
class AffineResponse(Response):
    """Scores as an affine function of the ratings given to the acted-on items: `s = slope @ a + intercept`."""

    items: IntArray
    slope: Tensor
    """(items, actions)"""
    intercept: Tensor
    """(items,)"""

    def scores(self, ratings: FloatArray) -> Tensor:
        """See `Response`."""
        return aligned(self.slope) @ torch.tensor(ratings, dtype=torch.float64) + self.intercept


@final
@dataclass(frozen=True, eq=False)
class DifferentiableResponse(Response):
    """Scores that autograd can follow, of no particular shape: a neural model's."""

    items: IntArray
    batch_scores: Callable[[Tensor], Tensor]
    """(batch, actions) to (batch, items), double precision; gradients flow back to the ratings."""

    def scores(self, ratings: FloatArray) -> Tensor:
        """See `Response`."""
        with torch.no_grad():
            return self.batch_scores(torch.tensor(ratings, dtype=torch.float64)[None])[0]


@final
@dataclass(frozen=True, eq=False)
class OpaqueResponse(Response):
    """Scores that can only be asked for, one query at a time: a remote system's."""

    items: IntArray
    query: Callable[[FloatArray], Tensor]
    """(actions,) to (items,)."""

    def scores(self, ratings: FloatArray) -> Tensor:
        """See `Response`. One query."""
        return self.query(ratings)


class AffineResponses(NamedTuple):
    """The responses of a block of users to their own edits, for solvers that work on many at once."""

    slope: Tensor
    """(users, items, actions): zeros in the columns of a user with fewer actions."""
    intercept: Tensor
    """(users, items)"""


@final
@dataclass(frozen=True, eq=False)
class EditedItems:
    """What editors' ratings do to the items they rate, where nothing else moves: the items' vectors.

    A viewer's score of an edited item is `viewer_vectors[v] . vectors[e, t, g] + viewer_offset[v] + offset[e, t, g]`.
    """

    vectors: Tensor
    """(editors, actions, ratings, factors): the vector of each edited item at each rating."""
    offset: Tensor
    """(editors, actions, ratings)"""
    viewer_vectors: Tensor
    """(users, factors): of all users, by position."""
    viewer_offset: Tensor
    """(users,)"""

    def scores(self, viewers: IntArray) -> Tensor:
        """(len(viewers), editors, actions, ratings): the viewers' scores of the edited items."""
        who, shape = torch.from_numpy(viewers), self.vectors.shape[:3]
        scores = product(self.viewer_vectors[who], self.vectors.flatten(0, 2)).reshape(len(who), *shape)
        return scores.add_(self.viewer_offset[who][:, None, None, None] + self.offset)

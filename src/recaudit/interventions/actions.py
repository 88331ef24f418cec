"""Which of their ratings users may change: the action spaces of paper 000, section 5.1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from recaudit.interventions.ratings import STRICT, Ratings
from recaudit.models.base import FittedModel
from recaudit.policies import top_items
from recaudit.seeding import derive, uniforms

IntArray = NDArray[np.int64]


class Actions(ABC):
    """A user's own ratings of some items, free within what a rating may be.

    Every action space has a field `ratings`: what a changed rating may be, or None for any number on the log's
    scale.
    """

    ratings: Ratings | None

    @abstractmethod
    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """(len(users), k): positions of the acted-on items of each user; -1 fills up where there are fewer."""


@final
@dataclass(frozen=True, config=STRICT)
class HistoryEdits(Actions):
    """Ratings of k items that the user has rated, drawn at random."""

    k: PositiveInt = 10
    """How many ratings are free; all there are, for a user with fewer."""
    ratings: Ratings | None = None
    """What a changed rating may be."""

    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """See `Actions`."""
        return _drawn(model, users, self.k, rng, torch.from_numpy(model.data.seen(users)))


@final
@dataclass(frozen=True, config=STRICT)
class FutureEdits(Actions):
    """Ratings of k items that the user has not rated, drawn at random."""

    k: PositiveInt = 10
    """How many ratings are free; all there are, for a user with fewer."""
    ratings: Ratings | None = None
    """What a changed rating may be."""

    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """See `Actions`."""
        return _drawn(model, users, self.k, rng, torch.from_numpy(~model.data.seen(users)))


@final
@dataclass(frozen=True, config=STRICT)
class NextK(Actions):
    """Ratings of the k unseen items with the highest scores: what the system would show next."""

    k: PositiveInt = 10
    """How many ratings are free; all there are, for a user with fewer."""
    ratings: Ratings | None = None
    """What a changed rating may be."""

    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """See `Actions`."""
        return top_items(model.scores(users), torch.from_numpy(~model.data.seen(users)), self.k)


@final
@dataclass(frozen=True, config=STRICT)
class GivenItems(Actions):
    """Ratings of the same given items for every user, seen or not."""

    ids: Annotated[tuple[int | str, ...], Field(min_length=1)]
    """The items' ids."""
    ratings: Ratings | None = None
    """What a changed rating may be."""

    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """See `Actions`."""
        return np.tile(model.data.items_at(self.ids), (len(users), 1))


def _drawn(model: FittedModel, users: IntArray, k: int, rng: int, among: torch.Tensor) -> IntArray:
    """k of the items in `among` (users, items), uniformly; a user's draw follows from the seed and the ids."""
    data = model.data
    draws = uniforms(derive(rng, "actions"), data.user_keys[users][:, None], data.item_keys[None, :])
    return top_items(torch.from_numpy(draws), among, k)

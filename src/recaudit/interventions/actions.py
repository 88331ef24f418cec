"""Which of their ratings users may change: the action spaces of paper 000, section 5.1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions.ratings import STRICT, Ratings, Stars
from recaudit.models.base import FittedModel
from recaudit.policies import top_items
from recaudit.seeding import derive, uniforms

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Actions(ABC):
    """A user's own ratings of some items, free within what a rating may be.

    Every action space has two fields more. `ratings`: what a changed rating may be, or None for any number on the
    log's scale. `changes`: how many of the ratings may be changed, or None for all of them; it takes stars, since
    with an interval the problem is not convex and has no exact solver.
    """

    ratings: Ratings | None
    changes: int | None

    def __post_init__(self) -> None:
        if self.changes is not None and not isinstance(self.ratings, Stars):
            raise InputError(
                "changes",
                received=f"{self.changes} beside ratings={self.ratings}",
                expected="a limit on changes together with stars",
                remedy="Say ratings=Stars(1, 5), for instance.",
            )

    @abstractmethod
    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """(len(users), k): positions of the acted-on items of each user; -1 fills up where there are fewer."""

    def unchanged(self, model: FittedModel, users: IntArray, items: IntArray) -> FloatArray:
        """(len(users), k): what the ratings of `items` are if the user does nothing about them.

        The rating that the user gave. An item not rated yet would be rated as the model predicts, within the scale:
        that is how far from "no strategy" a change is counted. 0 where -1 fills up.
        """
        ratings = model.scores(users).gather(1, torch.from_numpy(np.maximum(items, 0))).clamp(*model.data.scale).numpy()
        given = np.zeros_like(items, dtype=bool)
        for row, user in enumerate(users):
            history, known = model.data.history(int(user))
            _, here, there = np.intersect1d(items[row], history, return_indices=True)
            given[row, here] = True
            ratings[row, here] = known[there]
        filler = items < 0
        if not (model.predicts_ratings or (given | filler).all()):
            raise NotSupportedError(
                f"The scores of this {type(model).__name__} are not ratings: what an unrated item would be rated as, "
                "and so what a change of it is, cannot be said. HistoryEdits can have a limit on changes."
            )
        ratings[filler] = 0.0
        return ratings


@final
@dataclass(frozen=True, config=STRICT)
class HistoryEdits(Actions):
    """Ratings of k items that the user has rated, drawn at random."""

    k: PositiveInt = 10
    """How many ratings are free; all there are, for a user with fewer."""
    ratings: Ratings | None = None
    """What a changed rating may be."""
    changes: PositiveInt | None = None
    """How many of them may be changed; all, by default."""

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
    changes: PositiveInt | None = None
    """How many of them may be changed; all, by default."""

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
    changes: PositiveInt | None = None
    """How many of them may be changed; all, by default."""

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
    changes: PositiveInt | None = None
    """How many of them may be changed; all, by default."""

    def items(self, model: FittedModel, users: IntArray, rng: int) -> IntArray:
        """See `Actions`."""
        return np.tile(model.data.items_at(self.ids), (len(users), 1))


def _drawn(model: FittedModel, users: IntArray, k: int, rng: int, among: torch.Tensor) -> IntArray:
    """k of the items in `among` (users, items), uniformly; a user's draw follows from the seed and the ids."""
    data = model.data
    draws = uniforms(derive(rng, "actions"), data.user_keys[users][:, None], data.item_keys[None, :])
    return top_items(torch.from_numpy(draws), among, k)

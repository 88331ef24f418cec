"""Which of their ratings users may change: paper 000, section 5.1, and the past and the future of paper 001."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, final

import numpy as np
from pydantic import Field

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.data.splits import leave_last
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions.ratings import Ratings, Stars, rating_range
from recaudit.models.base import FittedModel
from recaudit.policies import AnyPolicy, Top1, top_items
from recaudit.registry import ACTIONS
from recaudit.seeding import derive, uniforms
from recaudit.specification import Count, Id, OneOf, specified


class Actions(ABC):
    """A user's own ratings of some items, free within what a rating may be.

    Every action space has two fields more. `ratings`: what a changed rating may be, or None for any number on the
    log's scale; in a log of clicks, where every rating is 1, that or 0. `changes`: how many of the ratings may be
    changed, or None for all of them; it takes stars, since with an interval the problem is not convex and has no exact
    solver.
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
    def items(self, model: FittedModel, users: IntArray, rng: int, log: Interactions | None = None) -> IntArray:
        """(len(users), k): positions of the acted-on items of each user; -1 fills up where there are fewer.

        `log` is what was observed, where that is more than the model was fitted to (see `Past`).
        """

    def unchanged(
        self, model: FittedModel, users: IntArray, items: IntArray, log: Interactions | None = None
    ) -> FloatArray:
        """(len(users), k): what the ratings of `items` are if the user does nothing about them.

        The rating that the user gave. An item not rated yet would be rated as the model predicts, within the scale:
        that is how far from "no strategy" a change is counted. 0 where -1 fills up.
        """
        ratings = np.zeros(items.shape)
        predicted = items >= 0
        for row, user in enumerate(users):
            history, known = (log or model.data).history(int(user))
            _, here, there = np.intersect1d(items[row], history, return_indices=True)
            predicted[row, here] = False
            ratings[row, here] = known[there]
        if not predicted.any():
            return ratings
        if not model.predicts_ratings:
            raise NotSupportedError(
                f"The scores of this {model.called} are not ratings: what an unrated item would be rated as, "
                "and so what a change of it is, cannot be said. HistoryEdits can have a limit on changes; arrays of "
                "your own are taken for ratings if you say predicts_ratings=True."
            )
        scores = np.take_along_axis(model.scores(users), np.maximum(items, 0), axis=1)
        return np.where(predicted, np.clip(scores, *rating_range(model.data.scale)), ratings)


@specified
class CountedActions(Actions, ABC):
    """Ratings of so many items."""

    k: Count = 10
    """How many ratings are free; all there are, for a user with fewer."""
    ratings: Ratings | None = None
    """What a changed rating may be."""
    changes: Count | None = None
    """How many of them may be changed; all, by default."""


@final
@specified
class HistoryEdits(CountedActions):
    """Ratings of k items that the user has rated, drawn at random."""

    def items(self, model: FittedModel, users: IntArray, rng: int, log: Interactions | None = None) -> IntArray:
        """See `Actions`."""
        return _drawn(model, users, self.k, rng, (log or model.data).seen(users))


@final
@specified
class FutureEdits(CountedActions):
    """Ratings of k items that the user has not rated, drawn at random."""

    def items(self, model: FittedModel, users: IntArray, rng: int, log: Interactions | None = None) -> IntArray:
        """See `Actions`."""
        return _drawn(model, users, self.k, rng, ~(log or model.data).seen(users))


@final
@specified
class NextK(CountedActions):
    """Ratings of the k unseen items with the highest scores: what the system would show next."""

    def items(self, model: FittedModel, users: IntArray, rng: int, log: Interactions | None = None) -> IntArray:
        """See `Actions`."""
        k = min(self.k, model.data.n_items)
        scores, unseen = model.scores(users), ~(log or model.data).seen(users)
        return top_items(scores, unseen & model.may_show(scores), k, model.data.tie_keys(users))


@final
@specified
class GivenItems(Actions):
    """Ratings of the same given items for every user, seen or not."""

    ids: Annotated[tuple[Id, ...], Field(min_length=1)]
    """The items' ids, each once."""
    ratings: Ratings | None = None
    """What a changed rating may be."""
    changes: Count | None = None
    """How many of them may be changed; all, by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_distinct(self.ids, self.ids)

    def items(self, model: FittedModel, users: IntArray, rng: int, log: Interactions | None = None) -> IntArray:
        """See `Actions`."""
        positions = model.data.items_at(self.ids)
        _check_distinct(self.ids, positions.tolist())
        return np.tile(positions, (len(users), 1))


@final
@specified
class Past(CountedActions):
    """The user's last k ratings: the items stay, the ratings are free (paper 001, Definitions 4.2 and 4.4).

    The model should be one that has not seen them: fit it to `before(data)`, and pass `data` to the audit as well.
    A model fitted to all of `data` is taken too: its update rule then replaces the old ratings by the new ones, while
    every vector that the rule does not touch still remembers them.
    """

    k: Count = 5
    """How many ratings are free. The first rating never is: a user with k or fewer has one less to give."""

    def before(self, data: Interactions) -> Interactions:
        """The log without the last k ratings of every user: what the model should be fitted to."""
        return leave_last(data, self.k).train

    def items(self, model: FittedModel, users: IntArray, rng: int, log: Interactions | None = None) -> IntArray:
        """See `Actions`; in the order of time."""
        log = log or model.data
        items = np.full((len(users), self.k), -1, dtype=np.int64)
        for row, user in enumerate(users):
            last = log.in_time(int(user))[1:][-self.k :]
            items[row, : len(last)] = log.items[last]
        return items


@final
@specified
class Future:
    """The ratings of the k items that the system shows next, one after the other (paper 001, Definitions 4.1 and 4.3).

    Each rating moves the model before the next item is shown, so that the items themselves depend on the ratings:
    what is free is a rating for every step and item.
    """

    k: Count = 5
    """How many items are shown and rated."""
    ratings: Ratings | None = None
    """What a rating may be, or None for any number on the log's scale, or 0 or 1 in a log of clicks."""
    follows: AnyPolicy = Top1()
    """How each next item is chosen: the top one, or drawn by this policy."""


def _drawn(model: FittedModel, users: IntArray, k: int, rng: int, among: BoolArray) -> IntArray:
    """k of the items in `among` (users, items), uniformly; a user's draw follows from the seed and the ids."""
    data = model.data
    draws = uniforms(derive(rng, "actions"), data.user_keys[users][:, None], data.item_keys[None, :])
    return top_items(draws, among, min(k, data.n_items), data.tie_keys(users))


def _check_distinct(ids: Sequence[int | str], items: Sequence[int | str]) -> None:
    """That `ids` name different items; `items` are these ids, or where they stand in the log."""
    for place, item in enumerate(items):
        if item in items[:place]:
            both = f"{ids[items.index(item)]!r} and {ids[place]!r}, the same item"
            raise InputError("ids", received=both, expected="each item once: it has one rating to give")


AnyActions = Annotated[Actions | Future, OneOf(ACTIONS)]
"""Which ratings are free, or the table that says so."""

"""Modules of torch that read a history of ratings and score every item, autoencoders for instance."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn

from recaudit.arguments import checked
from recaudit.arrays import IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, Train
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions, check_data
from recaudit.models.given.arrays import order_of
from recaudit.models.response import DifferentiableResponse, Response

Encode = Callable[[Tensor, Tensor], Tensor]
"""Ratings (batch, items), 0 where there is none, and whether there is one (batch, items), to what the module reads."""


@checked
def adapted(
    model: nn.Module,
    data: Interactions,
    *,
    predicts_ratings: bool,
    item_ids: Iterable[object] | None = None,
    encode: Encode | None = None,
    train: Train | None = None,
) -> FittedModel:
    """A module that maps a batch of histories (batch, items), ratings and 0 where there is none, to scores of as many.

    Columns follow `item_ids`, in any order and perhaps more than the log has; without them, `data.item_ids`.
    `predicts_ratings` says whether scores estimate ratings on the log's scale, or only rank. `encode(ratings, rated)`
    makes what the module reads, where that is not the ratings: `rated.to(ratings)` for a module that reads clicks.
    `train` makes such a module of a log and a seed, for refits. The module is copied, in double precision and as in
    `eval()`; its parameters are held.
    """
    check_data(data)
    names = item_ids.tolist() if isinstance(item_ids, np.ndarray) else None if item_ids is None else list(item_ids)
    order = order_of("item_ids", names, data.item_ids)
    columns, width = (np.arange(data.n_items), data.n_items) if order is None else order
    copied = copy.deepcopy(model).cpu().double().eval().requires_grad_(False)
    made = HistoryModule(data, copied, torch.from_numpy(columns), width, encode or as_they_are, predicts_ratings)
    _check(made)
    if train is None:
        return made
    recommender = Retrained(
        library=f"torch {torch.__version__}",
        settings={"module": type(model).__name__},
        train=train,
        options={"predicts_ratings": predicts_ratings, "item_ids": names, "encode": encode, "train": train},
    )
    return made.with_recommender(recommender)


def as_they_are(ratings: Tensor, rated: Tensor) -> Tensor:
    """The ratings, 0 where there is none."""
    return ratings * rated


@final
@dataclass(frozen=True, eq=False, repr=False)
class HistoryModule(FittedModel):
    """A module whose scores follow what it reads, as autograd sees it."""

    data: Interactions
    module: nn.Module
    columns: Tensor
    """(items,): the module's column of each item."""
    width: int
    """How many columns it has."""
    encode: Encode
    predicts_ratings: bool

    response: ClassVar[type[Response]] = DifferentiableResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return "the module reads the edited history; its parameters are held until the next training"

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items)"""
        with torch.no_grad():
            return self.read(*self.histories(users))

    def histories(self, users: IntArray) -> tuple[Tensor, Tensor]:
        """(len(users), items) twice: ratings, and whether there is one."""
        return torch.from_numpy(self.data.csr[users].toarray()), torch.from_numpy(self.data.seen(users))

    def read(self, ratings: Tensor, rated: Tensor) -> Tensor:
        """(batch, items): what the module makes of histories (batch, items)."""
        wide = ratings.new_zeros(len(ratings), self.width).index_copy(1, self.columns, ratings)
        given = rated.new_zeros(len(ratings), self.width).index_copy(1, self.columns, rated)
        scores: Tensor = self.module(self.encode(wide, given))
        return scores.index_select(1, self.columns)

    def respond(self, viewer: int, editor: int, items: IntArray) -> DifferentiableResponse:
        """What the module says when it reads other ratings of `items`."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, "another user's ratings move its parameters, by the next training only")
        return DifferentiableResponse(items, partial(self._edited, viewer, torch.from_numpy(items)))

    def _edited(self, user: int, items: Tensor, given: Tensor) -> Tensor:
        """(batch, items): with ratings `given` (batch, actions) of `items` (actions,)."""
        ratings, rated = (each.expand(len(given), -1) for each in self.histories(np.array([user])))
        return self.read(ratings.index_copy(1, items, given), rated.index_fill(1, items, True))


def _check(model: HistoryModule) -> None:
    """That the module gives a user scores that are theirs: the same each time, whoever else is in the batch."""
    users = np.argsort(-model.data.user_counts, kind="stable")[:3]
    expected = f"a module that maps (batch, {model.width}) to (batch, {model.width})"
    try:
        ratings, rated = model.histories(users)
        scores = model.read(ratings.requires_grad_(), rated)
        again, alone = model.scores(users), torch.cat([model.scores(users[row : row + 1]) for row in range(len(users))])
    except Exception as error:
        raise InputError(
            "model",
            received=f"a {type(model.module).__name__} that failed: {type(error).__name__}: {error}",
            expected=f"{expected}, of double precision",
            remedy="Wrap it in a module that does, or ask it with models.from_system.",
        ) from error
    size = float(scores.detach().abs().max()) or 1.0
    if scores.shape != (len(users), model.data.n_items) or not torch.isfinite(scores).all():
        received = "whose scores are not finite, or not one for each item"
    elif not scores.requires_grad:
        received = "whose scores autograd cannot follow back to the ratings"
    elif not torch.allclose(scores, again, rtol=0, atol=1e-9 * size):
        received = "that does not give the same scores twice, as with dropout that eval() does not end"
    elif not torch.allclose(scores, alone, rtol=0, atol=1e-9 * size):
        received = "that gives a user other scores beside other users, as with statistics of the batch"
    else:
        return
    raise InputError(
        "model",
        received=f"a {type(model.module).__name__} {received}",
        expected=f"{expected}, each row by itself and the same each time",
        remedy="Ask it with models.from_system, which takes what it says as it is.",
    )

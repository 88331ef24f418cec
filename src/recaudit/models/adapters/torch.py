"""Modules of torch that read a history of ratings and score every item, autoencoders for instance."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, Train
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions, check_data
from recaudit.models.given.arrays import order_of
from recaudit.models.response import DifferentiableResponse, Response

_SHORTEST_HISTORY, _TESTED_HISTORIES = 5, 20
_MAX_ORDER_EFFECT = 1e-5
_LOOK_UPS = (nn.functional.embedding, nn.functional.one_hot)

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

    A history in this form has no order. A module that turns it into a sequence, and whose scores depend on the order of
    this sequence, is refused: `models.from_system` passes histories in their order.
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

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)"""
        with torch.no_grad():
            scores: FloatArray = self.read(*self.histories(users)).numpy()
        return scores

    def histories(self, users: IntArray) -> tuple[Tensor, Tensor]:
        """(len(users), items) twice: ratings, and whether there is one."""
        return torch.from_numpy(self.data.csr[users].toarray()), torch.from_numpy(self.data.seen(users))

    def read(self, ratings: Tensor, rated: Tensor) -> Tensor:
        """(batch, items): what the module makes of histories (batch, items)."""
        scores = self.run_module(ratings, rated)
        if ratings.requires_grad and not scores.requires_grad:
            # The module reads which items are rated, as clicks: the gradient by the ratings is 0. `_check` made sure.
            scores = scores + 0 * ratings.sum(dim=1, keepdim=True)
        return scores

    def run_module(self, ratings: Tensor, rated: Tensor) -> Tensor:
        """(batch, items): the module's scores of histories (batch, items), with the gradient that it has."""
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
    """Refuse a module whose scores of a user are not a function of the user's own unordered history.

    They must be the same each time, whatever other users are in the batch, and whatever the order of the history.
    """
    users = np.argsort(-model.data.user_counts, kind="stable")[:3]
    expected = f"a module that maps (batch, {model.width}) to (batch, {model.width})"
    try:
        ratings, rated = model.histories(users)
        scores = model.scores(users)
        again, alone = (
            model.scores(users),
            np.concatenate([model.scores(users[row : row + 1]) for row in range(len(users))]),
        )
        is_followed = _follows_ratings(model, ratings, rated)
        order_effect = _compute_order_effect(model)
    except Exception as error:
        raise InputError(
            "model",
            received=f"a {type(model.module).__name__} that failed: {type(error).__name__}: {error}",
            expected=f"{expected}, of double precision",
            remedy="Wrap it in a module that does, or ask it with models.from_system.",
        ) from error
    size = float(np.abs(scores).max()) or 1.0
    remedy = "Ask it with models.from_system, which takes what it says as it is."
    if scores.shape != (len(users), model.data.n_items) or not np.isfinite(scores).all():
        received = "whose scores are not finite, or not one for each item"
    elif not np.allclose(scores, again, rtol=0, atol=1e-9 * size):
        received = "that does not give the same scores twice, as with dropout that eval() does not end"
    elif not np.allclose(scores, alone, rtol=0, atol=1e-9 * size):
        received = "that gives a user other scores beside other users, as with statistics of the batch"
    elif not is_followed:
        received = "whose scores change with the ratings, but without a gradient"
    elif order_effect > _MAX_ORDER_EFFECT:
        received = (
            f"whose scores depend on the order of the history (by {order_effect:.1g} of their spread), which this "
            "adapter does not pass"
        )
        remedy = "Use models.from_system(data, scores=...): its histories have their order."
    else:
        return
    raise InputError(
        "model",
        received=f"a {type(model.module).__name__} {received}",
        expected=f"{expected}, each row by itself and the same each time",
        remedy=remedy,
    )


def _follows_ratings(model: HistoryModule, ratings: Tensor, rated: Tensor) -> bool:
    """Return True if scores have a gradient by the ratings, or do not depend on them."""
    if model.run_module(ratings.clone().requires_grad_(), rated).requires_grad:
        return True
    # Halving the ratings keeps which items are rated.
    return torch.equal(model.run_module(ratings / 2, rated), model.run_module(ratings, rated))


def _compute_order_effect(model: HistoryModule) -> float:
    """Compute how much the scores depend on the order of a history, as a share of their spread.

    The adapter passes a set of ratings. A module that makes a sequence of it looks up vectors by the sequence's
    integers, and these are reversed and shuffled here, for up to 20 histories. Which of the integers are the history,
    and not padding or positions, is found by a second history of the same length without a common item.

    Returns:
        The largest change of a score, divided by the spread of the user's scores. 0 if no integers are looked up.
    """
    data, rng = model.data, np.random.default_rng(0)
    lengths = data.user_counts
    users = np.flatnonzero((lengths >= _SHORTEST_HISTORY) & (2 * lengths <= data.n_items))
    largest = 0.0
    for user in rng.permutation(users)[:_TESTED_HISTORIES]:
        ratings, rated = model.histories(np.array([user]))
        items = rated[0].nonzero()[:, 0]
        others = rng.choice(np.flatnonzero(~rated[0].numpy()), len(items), replace=False)
        other_ratings, other_rated = torch.zeros_like(ratings), torch.zeros_like(rated)
        other_ratings[0, others], other_rated[0, others] = ratings[0, items], True
        with torch.no_grad():
            with _LookedUp() as contrast:
                model.run_module(other_ratings, other_rated)
            if not contrast.integers:
                return 0.0
            scores = model.run_module(ratings, rated)
            for reorder in (lambda count: np.arange(count)[::-1].copy(), rng.permutation):
                with _LookedUp(contrast.integers, reorder):
                    reordered = model.run_module(ratings, rated)
                spread = float(scores.max() - scores.min())
                change = float((reordered - scores).abs().max())
                largest = max(largest, change / spread if spread > 0 else 0.0)
    return largest


class _LookedUp(TorchFunctionMode):
    """Record the integers by which a module looks up vectors, or reorder those that differ from a record."""

    def __init__(
        self, contrast: Sequence[Tensor] | None = None, reorder: Callable[[int], NDArray[np.int64]] | None = None
    ) -> None:
        super().__init__()
        self.integers: list[Tensor] = []
        self._contrast, self._reorder = contrast, reorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _LOOK_UPS:
            return func(*args, **kwargs)
        integers, *rest = args or (kwargs.pop("input"),)
        call = len(self.integers)
        self.integers.append(integers)
        if self._contrast is not None and call < len(self._contrast):
            other = self._contrast[call]
            if other.shape == integers.shape:
                integers = integers.clone()
                is_history = integers != other
                assert self._reorder is not None
                values = integers[is_history]
                integers[is_history] = values[torch.from_numpy(self._reorder(len(values)))]
        return func(integers, *rest, **kwargs)

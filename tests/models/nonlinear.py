"""A recommender whose scores follow ratings smoothly, but not affinely: for tests of what is searched for.

A user's vector is `tanh(p_u + sum_i (r_ui - middle) a_i / 10)` over the ratings of the user, an item's vector is
`tanh(q_i + sum_u (r_ui - middle) b_u / 10)` over the ratings of the item, and a score is the middle of the scale plus
the product of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data import Interactions
from recaudit.models import DifferentiableResponse, EditedItems, FittedModel, Recommender, Response
from recaudit.models.checks import check_actions, check_data
from recaudit.seeding import generator


def recommender(data: Interactions) -> Nonlinear:
    """What `kind = "python"` calls."""
    return Nonlinear()


@final
class Nonlinear(Recommender):
    """Random vectors, moved by ratings."""

    learns_from_clicks: ClassVar[bool] = False

    hidden: int = 4
    """Length of the vectors."""

    def fit(self, data: Interactions, rng: int = 0) -> NonlinearModel:
        """Draw the vectors."""
        check_data(data)
        draw = generator(rng, "nonlinear")
        sizes = (data.n_users, data.n_items, data.n_items, data.n_users)
        users, items, by_item, by_user = (torch.from_numpy(draw.standard_normal((n, self.hidden))) for n in sizes)
        matrix = data.csr.copy()
        matrix.data = matrix.data - sum(data.scale) / 2
        user_sums = users + torch.from_numpy(matrix @ by_item.numpy()) / 10
        item_sums = items + torch.from_numpy(matrix.T @ by_user.numpy()) / 10
        return NonlinearModel(data, user_sums, item_sums, by_item, by_user)


@final
@dataclass(frozen=True, eq=False, repr=False)
class NonlinearModel(FittedModel):
    """See the module."""

    data: Interactions
    user_sums: Tensor
    """(users, hidden): what the user's vector is the tanh of."""
    item_sums: Tensor
    """(items, hidden): what the item's vector is the tanh of."""
    by_item: Tensor
    """(items, hidden): a_i."""
    by_user: Tensor
    """(users, hidden): b_u."""

    response: ClassVar[type[Response]] = DifferentiableResponse
    others_move: ClassVar = "rated items"

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return "sums of ratings follow the ratings, and nothing else"

    @property
    def middle(self) -> float:
        """Of the scale."""
        return sum(self.data.scale) / 2

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)."""
        scores: FloatArray = self._scores(self.user_sums[users]).numpy()
        return scores

    def respond(self, viewer: int, editor: int, items: IntArray) -> DifferentiableResponse:
        """See `FittedModel`."""
        items = check_actions(items, self.data.n_items)
        scores = self._own if viewer == editor else self._others
        return DifferentiableResponse(items, partial(scores, viewer, editor, items, self._known(editor, items)))

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """See `FittedModel`."""
        some = np.maximum(items, 0)
        known = np.stack([self._known(int(editor), row) for editor, row in zip(editors, some, strict=True)])
        moved = torch.from_numpy(ratings - known[..., None])[..., None] * self.by_user[editors][:, None, None] / 10
        return EditedItems(
            torch.tanh(self.item_sums[some][:, :, None] + moved).numpy(),
            np.zeros(ratings.shape),
            torch.tanh(self.user_sums).numpy(),
            np.full(self.data.n_users, self.middle),
        )

    def _known(self, user: int, items: IntArray) -> FloatArray:
        """(actions,): the ratings as they are; the middle of the scale, which moves nothing, where there is none."""
        seen, ratings = self.data.history(user)
        found = np.full(len(items), self.middle)
        rated = np.isin(items, seen)
        found[rated] = ratings[np.searchsorted(seen, items[rated])]
        return found

    def _scores(self, user_sums: Tensor) -> Tensor:
        return self.middle + torch.tanh(user_sums) @ torch.tanh(self.item_sums).T

    def _own(self, user: int, _: int, items: IntArray, known: FloatArray, ratings: Tensor) -> Tensor:
        moved = self.user_sums[user] + (ratings - torch.from_numpy(known)) @ self.by_item[items] / 10
        return self._scores(moved)

    def _others(self, viewer: int, editor: int, items: IntArray, known: FloatArray, ratings: Tensor) -> Tensor:
        before = self._scores(self.user_sums[[viewer]]).expand(len(ratings), -1)
        moved = (ratings - torch.from_numpy(known))[..., None] * self.by_user[editor] / 10
        after = torch.tanh(self.item_sums[items] + moved) @ torch.tanh(self.user_sums[viewer])
        return before.index_copy(1, torch.from_numpy(items), after + self.middle)

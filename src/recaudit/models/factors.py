"""Matrix factorisation, fitted: scores `mean + f_u + g_i + p_u . q_i`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from numpy.typing import ArrayLike

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.arrays import FloatArray, IntArray, Tensor, checked_array
from recaudit.models.base import FittedModel, check_actions, pad_matmul
from recaudit.models.response import AffineResponse, AffineResponses
from recaudit.models.updates import AlsSolve, SgdStep


@final
@dataclass(frozen=True, eq=False)
class FactorModel(FittedModel):
    """User and item vectors with biases, and the rule by which new ratings move them."""

    data: Interactions
    user_factors: FloatArray
    """(users, factors): P."""
    item_factors: FloatArray
    """(items, factors): Q."""
    user_bias: FloatArray
    """(users,): f."""
    item_bias: FloatArray
    """(items,): g."""
    mean: float
    """The global mean, mu."""
    update: SgdStep | AlsSolve
    """How ratings move vectors when a user acts."""

    def with_update(self, update: SgdStep | AlsSolve) -> FactorModel:
        """The same model, responding to ratings by another rule."""
        return replace(self, update=update)

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): predicted ratings, not clipped."""
        products = pad_matmul(torch.from_numpy(self.user_factors[users]), torch.from_numpy(self.item_factors))
        return (
            products + torch.from_numpy(self.mean + self.user_bias[users])[:, None] + torch.from_numpy(self.item_bias)
        )

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The response to own edits (the viewer's vector moves) or another's (the edited items' vectors move)."""
        items = check_actions(items, self.data.n_items)
        return self._own(viewer, items) if viewer == editor else self._others(viewer, editor, items)

    def own_responses(self, users: IntArray, items: IntArray) -> AffineResponses:
        """One product with the item vectors for the whole block: `s = Q (M a + m) + g + mu + f_u`."""
        actions = items.shape[1]
        moved = np.zeros((len(users), actions + 1, self.item_factors.shape[1]))
        for row, user in enumerate(users):
            acted = np.flatnonzero(items[row] >= 0)
            matrix, constant = self._moved_vector(int(user), items[row][acted])
            moved[row, acted], moved[row, -1] = matrix.T, constant
        vectors = torch.from_numpy(moved.reshape(-1, moved.shape[2]))
        scores = pad_matmul(vectors, torch.from_numpy(self.item_factors)).reshape(len(users), actions + 1, -1)
        level = torch.from_numpy(self.mean + self.user_bias[users])[:, None] + torch.from_numpy(self.item_bias)
        return AffineResponses(scores[:, :-1].transpose(1, 2), scores[:, -1] + level)

    def _own(self, user: int, items: IntArray) -> AffineResponse:
        block = self.own_responses(np.array([user]), items[None, :])
        return AffineResponse(items, block.slope[0], block.intercept[0])

    def _moved_vector(self, user: int, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """(M, m): the user's vector after rating `items` is `M @ a + m`."""
        Q, offset = self.item_factors, self.item_bias + self.mean + self.user_bias[user]
        seen, ratings = self.data.history(user)
        kept = ~np.isin(seen, items)
        old = seen[kept]
        return self.update.affine(self.user_factors[user], Q[items], offset[items], Q[old], ratings[kept] - offset[old])

    def _others(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        P, level = self.user_factors, self.mean + self.user_bias
        slope = np.zeros((self.data.n_items, len(items)))
        intercept = self.scores(np.array([viewer]))[0].numpy()
        csc = self.data.csc
        for action, item in enumerate(items):
            rows = slice(csc.indptr[item], csc.indptr[item + 1])
            raters, ratings = csc.indices[rows], csc.data[rows]
            kept = raters != editor
            offset = level + self.item_bias[item]
            matrix, constant = self.update.affine(
                self.item_factors[item],
                P[[editor]],
                offset[[editor]],
                P[raters[kept]],
                (ratings - offset[raters])[kept],
            )
            slope[item, action] = P[viewer] @ matrix[:, 0]
            intercept[item] = P[viewer] @ constant + offset[viewer]
        return AffineResponse(items, torch.from_numpy(slope), torch.from_numpy(intercept), moves_own_item_only=True)


def from_factors(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    data: Interactions,
    *,
    user_bias: ArrayLike | None = None,
    item_bias: ArrayLike | None = None,
    mean: float = 0.0,
    update: SgdStep | AlsSolve | None = None,
) -> FactorModel:
    """A model from arrays that you already have, rows in the order of `data.user_ids` and `data.item_ids`.

    `data` is the log that the model was trained on. `update` says how your system moves a vector when new
    ratings come in; one gradient step of 0.1 where nothing is said.
    """
    P = checked_array("user_factors", user_factors, (data.n_users, "factors"))
    Q = checked_array("item_factors", item_factors, (data.n_items, P.shape[1]))
    f = np.zeros(data.n_users) if user_bias is None else checked_array("user_bias", user_bias, (data.n_users,))
    g = np.zeros(data.n_items) if item_bias is None else checked_array("item_bias", item_bias, (data.n_items,))
    if not np.isfinite(mean):
        raise InputError("mean", received=mean, expected="a finite number")
    return FactorModel(data, P, Q, f, g, float(mean), update or SgdStep())

"""Matrix factorisation, fitted: scores `mean + f_u + g_i + p_u . q_i`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from recaudit.arguments import checked
from recaudit.arithmetic import product
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.arrays import checked_array
from recaudit.models.base import FittedModel, check_action_rows, check_actions
from recaudit.models.factor.edited_items import edited_factors
from recaudit.models.response import AffineResponse, AffineResponses, EditedItems
from recaudit.models.rollouts import AlsRollOut, Ridge, RollOut, SgdRollOut, Taste
from recaudit.models.updates import AlsSolve, Row, SgdStep, WalsSolve

_PAIRS = 1 << 16
"""Pairs scored together: their vectors stay small."""


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
    update: SgdStep | AlsSolve | WalsSolve
    """How ratings move vectors when a user acts."""
    predicts_ratings: bool = True

    def with_update(self, update: SgdStep | AlsSolve | WalsSolve) -> FactorModel:
        """The same model, responding to ratings by another rule."""
        return replace(self, update=update)

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): predicted ratings, not clipped."""
        products = product(self.user_factors[users], self.item_factors)
        return (
            products + torch.from_numpy(self.mean + self.user_bias[users])[:, None] + torch.from_numpy(self.item_bias)
        )

    def pair_scores(self, users: IntArray, items: IntArray) -> FloatArray:
        """See `FittedModel`; pair by pair, without everybody's scores of everything."""
        out = self.mean + self.user_bias[users] + self.item_bias[items]
        for start in range(0, len(users), _PAIRS):
            part = slice(start, start + _PAIRS)
            out[part] += np.einsum("nf,nf->n", self.user_factors[users[part]], self.item_factors[items[part]])
        return out

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The response to own edits (the viewer's vector moves) or another's (the edited items' vectors move)."""
        items = check_actions(items, self.data.n_items)
        return self._own(viewer, items) if viewer == editor else self._others(viewer, editor, items)

    def own_responses(self, users: IntArray, items: IntArray) -> AffineResponses:
        """One product with the item vectors for the whole block: `s = Q (M a + m) + g + mu + f_u`."""
        items = check_action_rows(items, self.data.n_items)
        actions = items.shape[1]
        moved = np.zeros((len(users), actions + 1, self.item_factors.shape[1]))
        for row, user in enumerate(users):
            acted = np.flatnonzero(items[row] >= 0)
            matrix, constant = self._moved_vector(int(user), items[row][acted])
            moved[row, acted], moved[row, -1] = matrix.T, constant
        vectors = moved.reshape(-1, moved.shape[2])
        scores = product(vectors, self.item_factors).reshape(len(users), actions + 1, -1)
        level = torch.from_numpy(self.mean + self.user_bias[users])[:, None] + torch.from_numpy(self.item_bias)
        return AffineResponses(scores[:, :-1].transpose(1, 2), scores[:, -1] + level)

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """See `FittedModel`; one factorisation for each distinct item, whoever edits it."""
        items = check_action_rows(items, self.data.n_items)
        if isinstance(self.update, WalsSolve):
            return self._edited_in_turn(editors, items, ratings)
        level = self.mean + self.user_bias
        factors = (self.user_factors, self.item_factors, level, self.item_bias)
        return edited_factors(self.data, *factors, self.update, editors, items, ratings)

    def respond_in_turn(self, user: int, items: IntArray) -> AffineResponse:
        """See `FittedModel`; gradient steps are taken from where the step before led."""
        if not isinstance(self.update, SgdStep):
            return super().respond_in_turn(user, items)
        state = self.rollout(user)
        for item in check_actions(items, self.data.n_items):
            state = state.then(int(item))
        slope, intercept = state.affine()
        return AffineResponse(items, torch.from_numpy(slope), torch.from_numpy(intercept))

    def rollout(self, user: int) -> RollOut:
        """See `FittedModel`; in the space of the factors, so that one item more costs little."""
        if isinstance(self.update, WalsSolve):
            return super().rollout(user)
        offset = self.item_bias + self.mean + self.user_bias[user]
        taste = Taste(self.user_factors[user], self.item_factors, offset)
        if isinstance(self.update, SgdStep):
            return SgdRollOut(taste, self.update)
        return AlsRollOut(taste, Ridge(taste, self.update, *self.data.history(user)))

    def _own(self, user: int, items: IntArray) -> AffineResponse:
        block = self.own_responses(np.array([user]), items[None, :])
        return AffineResponse(items, block.slope[0], block.intercept[0])

    def _moved_vector(self, user: int, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """(M, m): the user's vector after rating `items` is `M @ a + m`."""
        offset = self.item_bias + self.mean + self.user_bias[user]
        seen, ratings = self.data.history(user)
        kept = ~np.isin(seen, items)
        stands, others = self.user_factors[user], self.item_factors
        return self.update.affine(Row("user", user, stands, others, offset, seen[kept], ratings[kept], items))

    def _moved_item(self, item: int, editor: int) -> tuple[FloatArray, FloatArray]:
        """(M, m): the item's vector after the editor rates it is `M @ a + m`, with the one rating in `a`."""
        csc = self.data.csc
        rows = slice(csc.indptr[item], csc.indptr[item + 1])
        raters, ratings = csc.indices[rows], csc.data[rows]
        kept = raters != editor
        offset = self.mean + self.user_bias + self.item_bias[item]
        stands, others, acted = self.item_factors[item], self.user_factors, np.array([editor])
        return self.update.affine(Row("item", item, stands, others, offset, raters[kept], ratings[kept], acted))

    def _others(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        p, level = self.user_factors[viewer], self.mean + self.user_bias[viewer]
        slope = np.zeros((self.data.n_items, len(items)))
        intercept = self.scores(np.array([viewer]))[0].numpy()
        for action, item in enumerate(items):
            matrix, constant = self._moved_item(int(item), editor)
            slope[item, action] = p @ matrix[:, 0]
            intercept[item] = p @ constant + level + self.item_bias[item]
        return AffineResponse(items, torch.from_numpy(slope), torch.from_numpy(intercept), moves_own_item_only=True)

    def _edited_in_turn(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """`edited_items` by one solve for each pair of editor and item."""
        vectors = np.zeros((*ratings.shape, self.user_factors.shape[1]))
        for row, action in np.argwhere(items >= 0):
            matrix, constant = self._moved_item(int(items[row, action]), int(editors[row]))
            vectors[row, action] = ratings[row, action][:, None] * matrix[:, 0] + constant
        offset = np.where(items >= 0, self.item_bias[items], 0.0)
        level = self.mean + self.user_bias
        return EditedItems(*map(torch.from_numpy, (vectors, offset, self.user_factors, level)))


@checked
def from_factors(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    data: Interactions,
    *,
    user_bias: ArrayLike | None = None,
    item_bias: ArrayLike | None = None,
    mean: float = 0.0,
    update: SgdStep | AlsSolve | None = None,
    predicts_ratings: bool | None = None,
) -> FactorModel:
    """A model from arrays that you already have, rows in the order of `data.user_ids` and `data.item_ids`.

    `data` is the log that the model was trained on. `update` says how your system moves a vector when new
    ratings come in; one gradient step of 0.1 where nothing is said.

    `predicts_ratings` says whether scores estimate ratings on the scale of `data`; scores that only rank, as those of
    implicit feedback do, have no RMSE and MAE. Where nothing is said, scores count as ratings only if they prove it on
    `data`: if they lie closer to its ratings, in squared error, than the mean of the ratings does. Where all ratings
    are the same, nothing can prove it.
    """
    P = checked_array("user_factors", user_factors, (data.n_users, "factors"))
    Q = checked_array("item_factors", item_factors, (data.n_items, P.shape[1]))
    f = np.zeros(data.n_users) if user_bias is None else checked_array("user_bias", user_bias, (data.n_users,))
    g = np.zeros(data.n_items) if item_bias is None else checked_array("item_bias", item_bias, (data.n_items,))
    if not np.isfinite(mean):
        raise InputError("mean", received=mean, expected="a finite number")
    model = FactorModel(data, P, Q, f, g, float(mean), update or SgdStep(), predicts_ratings is True)
    return replace(model, predicts_ratings=_is_near_ratings(model)) if predicts_ratings is None else model


def _is_near_ratings(model: FactorModel) -> bool:
    """Whether the scores of the log's pairs are closer to its ratings than the mean rating is."""
    ratings = model.data.ratings
    if len(ratings) == 0 or ratings.min() == ratings.max():
        return False
    scores = model.pair_scores(model.data.users.astype(np.int64), model.data.items.astype(np.int64))
    # By more than rounding: scores that are the mean itself have proved nothing.
    return bool(np.mean((scores - ratings) ** 2) < (1 - 1e-9) * np.var(ratings))

"""Matrix factorisation, fitted: scores `mean + f_u + g_i + p_u . q_i`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.base import FittedModel, makers
from recaudit.models.checks import check_action_rows, check_actions, check_own_model
from recaudit.models.factor.least_squares import solve_items
from recaudit.models.response import AffineResponse, AffineResponses, EditedItems, Response
from recaudit.models.rollouts import AlsRollOut, Ridge, RollOut, SgdRollOut, UserVector
from recaudit.models.rows import SparseRows
from recaudit.models.updates import AlsSolve, RatedVector, SgdStep, WalsSolve

Parameters = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""P (users, factors), Q (items, factors), f (users,), g (items,)."""

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

    response: ClassVar[type[Response]] = AffineResponse
    others_move: ClassVar = "rated items"

    def with_update(self, update: SgdStep | AlsSolve | WalsSolve) -> FactorModel:
        """The same model, responding to ratings by another rule."""
        return replace(self, update=update)

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): predicted ratings, not clipped."""
        products = product(self.user_factors[users], self.item_factors)
        level = torch.from_numpy(self.mean + self.user_bias[users])
        return products + level[:, None] + torch.from_numpy(self.item_bias)

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
        if viewer != editor:
            return self._others(viewer, editor, items)
        block = self.own_responses(np.array([viewer]), items[None, :])
        return AffineResponse(items, block.slope[0], block.intercept[0])

    def own_responses(self, users: IntArray, items: IntArray) -> AffineResponses:
        """One product with the item vectors for the whole block: `s = Q (M a + m) + g + mu + f_u`."""
        items = check_action_rows(items, self.data.n_items)
        actions = items.shape[1]
        moved = np.zeros((len(users), actions + 1, self.item_factors.shape[1]))
        for row, user in enumerate(users):
            acted = np.flatnonzero(items[row] >= 0)
            seen, ratings = self.data.history(user)
            kept = ~np.isin(seen, items[row][acted])
            known = self.item_bias + self.mean + self.user_bias[user], seen[kept], ratings[kept], items[row][acted]
            own = RatedVector("user", int(user), self.user_factors[user], self.item_factors, *known)
            matrix, moved[row, -1] = self.update.affine(own)
            moved[row, acted] = matrix.T
        vectors = moved.reshape(-1, moved.shape[2])
        scores = product(vectors, self.item_factors).reshape(len(users), actions + 1, -1)
        level = torch.from_numpy(self.mean + self.user_bias[users])[:, None] + torch.from_numpy(self.item_bias)
        return AffineResponses(scores[:, :-1].transpose(1, 2), scores[:, -1] + level)

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """See `FittedModel`: with the users' vectors held, an edited item's vector is affine in its editor's rating."""
        items = check_action_rows(items, self.data.n_items)
        if items.shape[:1] != editors.shape or ratings.shape[:2] != items.shape:
            raise InputError(
                "items, ratings",
                received=f"shapes {items.shape} and {ratings.shape} beside {len(editors)} editors",
                expected="shapes (editors, actions) and (editors, actions, ratings)",
            )
        row, action = np.nonzero(items >= 0)
        slope, level = self._moved_items(editors[row], items[row, action])
        vectors = torch.zeros((*ratings.shape, self.user_factors.shape[1]), dtype=torch.float64)
        given = torch.from_numpy(ratings[row, action])[..., None]
        vectors[torch.from_numpy(row), torch.from_numpy(action)] = level[:, None] + slope[:, None] * given
        offset = np.where(items >= 0, self.item_bias[items], 0.0)
        return EditedItems(vectors, *map(torch.from_numpy, (offset, self.user_factors, self.mean + self.user_bias)))

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
        own = UserVector(self.user_factors[user], self.item_factors, offset)
        if isinstance(self.update, SgdStep):
            return SgdRollOut(own, self.update)
        return AlsRollOut(own, Ridge(own, self.update, *self.data.history(user)))

    def _moved_items(self, editors: IntArray, items: IntArray) -> tuple[Tensor, Tensor]:
        """(pairs, factors) each, slope and level: an item (pairs,) rated o by its editor becomes `slope o + level`."""
        P, update, user_level = self.user_factors, self.update, self.mean + self.user_bias
        if isinstance(update, SgdStep):
            p, q = torch.from_numpy(P[editors]), torch.from_numpy(self.item_factors[items])
            predicted = torch.from_numpy(user_level[editors] + self.item_bias[items]) + (p * q).sum(dim=1)
            moves = update.step * p
            return moves, (1 - update.step * update.regularization) * q - moves * predicted[:, None]
        slope, level = np.empty((2, len(items), P.shape[1]))
        if isinstance(update, AlsSolve):
            order = np.argsort(items, kind="stable")
            distinct, first = np.unique(items[order], return_index=True)
            csc = self.data.csc
            fitted = (
                SparseRows(csc.indptr.astype(np.int64), csc.indices.astype(np.int64), csc.data),
                np.ascontiguousarray(P),
                user_level,
                self.item_bias,
            )
            pairs = (distinct, np.append(first, len(order)), order, editors)
            solve_items(*fitted, *pairs, update.regularization, update.per_rating, slope, level)
        else:
            for pair, (editor, item) in enumerate(zip(editors, items, strict=True)):
                matrix, level[pair] = self._moved_item(int(item), int(editor))
                slope[pair] = matrix[:, 0]
        return torch.from_numpy(slope), torch.from_numpy(level)

    def _moved_item(self, item: int, editor: int) -> tuple[FloatArray, FloatArray]:
        """(M, m): the item's vector after the editor rates it is `M @ a + m`, with the one rating in `a`."""
        csc = self.data.csc
        rows = slice(csc.indptr[item], csc.indptr[item + 1])
        raters, ratings = csc.indices[rows], csc.data[rows]
        kept = raters != editor
        offset = self.mean + self.user_bias + self.item_bias[item]
        stands, others, acted = self.item_factors[item], self.user_factors, np.array([editor])
        return self.update.affine(RatedVector("item", item, stands, others, offset, raters[kept], ratings[kept], acted))

    def _others(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        p, level = self.user_factors[viewer], self.mean + self.user_bias[viewer]
        slope = np.zeros((self.data.n_items, len(items)))
        intercept = self.scores(np.array([viewer]))[0].numpy()
        for action, item in enumerate(items):
            matrix, constant = self._moved_item(int(item), editor)
            slope[item, action] = p @ matrix[:, 0]
            intercept[item] = p @ constant + level + self.item_bias[item]
        return AffineResponse(items, torch.from_numpy(slope), torch.from_numpy(intercept))


def fitted_parameters(
    model: FittedModel, data: Interactions, factors: int, init_std: float, draw: np.random.Generator
) -> Parameters:
    """The parameters of `model`, free to be changed, for a log of the same users and items that has grown.

    They predict what the model predicts, with the mean of `data` for the model's own. Who had no ratings, and so no
    vector, gets a random one: of two vectors of zeros neither moves.
    """
    own = [f"{factors} factors"]
    old = check_own_model(model, FactorModel, data, lambda other: [f"{other.item_factors.shape[1]} factors"], own)
    P, Q = old.user_factors.copy(), old.item_factors.copy()
    for vectors, counts in ((P, old.data.user_counts), (Q, old.data.item_counts)):
        drawn = init_std * draw.standard_normal(vectors.shape)
        vectors[counts == 0] = drawn[counts == 0]
    return P, Q, old.user_bias + (old.mean - float(data.ratings.mean())), old.item_bias.copy()


def reachable_factors(model: FactorModel) -> FactorModel:
    """The same predictions, from item vectors that all have the same norm (paper 000, Proposition 3).

    With C the largest norm of an item vector: `Q~ = [Q v]`, `v_i = sqrt(C^2 - |q_i|^2)`, and `P~ = [P 0]`. Every item
    lies on a sphere, hence is a vertex of the hull of all items. A user whose action items are rich (`rich_actions`)
    and whose ratings are not limited can then make any item the top one, whatever the biases; inside a rating scale a
    vertex may still be out of reach, and items with equal vectors can only tie. The update rule stays.
    """
    if not isinstance(model, FactorModel):
        raise InputError(
            "model",
            received=type(model).__name__,
            expected="a FactorModel",
            remedy=f"Models of that kind: {makers(lambda made: made is FactorModel)}.",
        )
    missing = _missing_norms(model.item_factors)
    if not missing.any():
        return model
    return replace(
        model,
        user_factors=np.column_stack([model.user_factors, np.zeros(len(model.user_factors))]),
        item_factors=np.column_stack([model.item_factors, missing]),
    )


def rich_actions(model: FactorModel, items: IntArray) -> bool:
    """Whether rating `items` (actions,), positions, can move the user in every direction in which items differ.

    `rank [q_i, v_i] over the acted-on items = rank over all items`, v as in `reachable_factors`. The right side is
    the d + 1 of Definition 3 unless the items span less, where less is enough for Proposition 3 to hold.
    """
    extended = np.column_stack([model.item_factors, _missing_norms(model.item_factors)])
    return len(items) > 0 and bool(np.linalg.matrix_rank(extended[items]) == np.linalg.matrix_rank(extended))


def _missing_norms(item_factors: FloatArray) -> FloatArray:
    """(items,): v with |[q_i, v_i]| the same for every item, the largest norm."""
    squares = (item_factors**2).sum(axis=1)
    missing = squares.max() - squares
    # A square root would turn what rounding leaves of equal norms, 1e-16, into a direction of its own, 1e-8.
    rounding = 4 * item_factors.shape[1] * np.finfo(np.float64).eps * squares.max()
    return np.sqrt(np.where(missing > rounding, missing, 0.0))

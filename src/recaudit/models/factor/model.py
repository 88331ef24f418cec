"""Matrix factorisation, fitted: scores `mean + f_u + g_i + p_u . q_i`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar, final

import numpy as np
from pydantic import InstanceOf

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.base import FittedModel, Recommender, check_own_edits, makers
from recaudit.models.checks import check_action_rows, check_actions, check_own_model
from recaudit.models.factor.least_squares import solve_items
from recaudit.models.products import ScoreVectors
from recaudit.models.response import AffineResponse, AffineResponses, EditedItems, Response
from recaudit.models.rollouts import Ridge, RollOut, SgdRollOut, SolvedRollOut
from recaudit.models.rows import SparseRows
from recaudit.models.updates import AlsSolve, LeastSquares, RatedVector, SgdStep, UpdateRule

Parameters = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""P (users, factors), Q (items, factors), f (users,), g (items,)."""

Vectors = TypeVar("Vectors", bound="FactorVectors")

_PAIRS = 1 << 16
"""Pairs scored together: their vectors stay small."""


@dataclass(frozen=True, eq=False, repr=False)
class FactorVectors(FittedModel):
    """User and item vectors with biases; nothing says how new ratings move them."""

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
    predicts_ratings: bool = field(default=True, kw_only=True)

    no_rule: ClassVar = (
        "its vectors came without the rule by which the system takes in new ratings. Say it, if you know it: "
        "with_update(SgdStep(step=...)) for a gradient step, with_update(AlsSolve(regularization=...)) for a least-"
        "squares solve; update = {rule = 'sgd-step', step = ...} in a file"
    )

    def with_update(self, update: UpdateRule) -> FoldInModel:
        """The same model, responding to ratings by this rule."""
        vectors = self.data, self.user_factors, self.item_factors, self.user_bias, self.item_bias, self.mean
        made = (FoldInModel if update.users_only else FactorModel)(
            *vectors, update, predicts_ratings=self.predicts_ratings
        )
        again = None if self.recommender is None else Updated(of=self.recommender, update=update)
        return (made.from_elsewhere() if self.foreign else made).with_recommender(again)

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        scores: FloatArray = self.user_factors[users] @ self.item_factors.T
        scores += (self.mean + self.user_bias[users])[:, None]
        scores += self.item_bias
        return scores

    def score_vectors(self) -> ScoreVectors | None:
        """See `FittedModel`; None for a kind of model that scores in a way of its own, or does not show every item."""
        own, kind = FactorVectors, type(self)
        if kind.scores is not own.scores or kind.may_show is not own.may_show:
            return None
        return ScoreVectors(self.user_factors, self.item_factors, self.mean + self.user_bias, self.item_bias)

    def pair_scores(self, users: IntArray, items: IntArray) -> FloatArray:
        """See `FittedModel`; pair by pair, without everybody's scores of everything."""
        out = self.mean + self.user_bias[users] + self.item_bias[items]
        for start in range(0, len(users), _PAIRS):
            part = slice(start, start + _PAIRS)
            out[part] += np.einsum("nf,nf->n", self.user_factors[users[part]], self.item_factors[items[part]])
        return out


@final
class Updated(Recommender):
    """What fits vectors anew, and gives them a rule for new ratings."""

    of: InstanceOf[Recommender]
    update: InstanceOf[UpdateRule]

    def fit(self, data: Interactions, rng: int = 0) -> FoldInModel:
        """Fit, and give the rule."""
        vectors = self.of.fit(data, rng)
        assert isinstance(vectors, FactorVectors)
        return vectors.with_update(self.update)


@dataclass(frozen=True, eq=False, repr=False)
class FoldInModel(FactorVectors):
    """Vectors, and the rule by which new ratings move a user's; items stay until the next training."""

    update: UpdateRule
    """How ratings move vectors when a user acts."""

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return self.update.words

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The response to own edits: the viewer's vector moves."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, "items stay until the next training, and no rule says how they move then")
        block = self.own_responses(np.array([viewer]), items[None, :])
        return AffineResponse(items, block.slope[0], block.intercept[0])

    def own_responses(self, users: IntArray, items: IntArray) -> AffineResponses:
        """One product with the item vectors for the whole block: `s = Q (M a + m) + g + mu + f_u`."""
        return self._own_responses(users, items, self.update)

    def _own_responses(self, users: IntArray, items: IntArray, update: UpdateRule) -> AffineResponses:
        items = check_action_rows(items, self.data.n_items)
        actions, factors = items.shape[1], self.item_factors.shape[1]
        moved = np.zeros((len(users), actions + 1, factors))
        bias = np.zeros((len(users), actions + 1))
        bias[:, -1] = self.user_bias[users]
        for row, user in enumerate(users):
            acted = np.flatnonzero(items[row] >= 0)
            matrix, level = update.affine(self._row(int(user), items[row][acted]))
            moved[row, -1], moved[row, acted] = level[:factors], matrix[:factors].T
            if len(level) > factors:
                bias[row, -1], bias[row, acted] = level[-1], matrix[-1]
        vectors = moved.reshape(len(users) * (actions + 1), factors)
        scores = (vectors @ self.item_factors.T).reshape(len(users), actions + 1, self.data.n_items)
        slope = scores[:, :-1].transpose(0, 2, 1)
        if bias[:, :-1].any():
            slope = slope + bias[:, None, :-1]
        level = (self.mean + bias[:, -1])[:, None] + self.item_bias
        return AffineResponses(slope, scores[:, -1] + level)

    def _row(self, user: int, acted: IntArray) -> RatedVector:
        """The user's vector, of whose ratings those of the items `acted` are free."""
        seen, ratings = self.data.history(user)
        kept = ~np.isin(seen, acted)
        bias = float(self.user_bias[user])
        stands = self.user_factors[user], bias, self.item_factors, self.item_bias + self.mean + bias
        return RatedVector("user", user, *stands, seen[kept], ratings[kept], acted)

    def respond_in_turn(self, user: int, items: IntArray) -> AffineResponse:
        """See `FittedModel`; gradient steps are taken from where the step before led."""
        update, items = self.update, check_actions(items, self.data.n_items)
        if isinstance(update, SgdStep):
            update = update.model_copy(update={"in_turn": True})
        block = self._own_responses(np.array([user]), items[None, :], update)
        return AffineResponse(items, block.slope[0], block.intercept[0])

    def rollout(self, user: int) -> RollOut:
        """See `FittedModel`; in the space of the factors, where the rule allows, so that one item more costs little."""
        update, row = self.update, self._row(user, np.empty(0, dtype=np.int64))
        if isinstance(update, SgdStep) and not update.bias_step:
            return SgdRollOut(row, update)
        if isinstance(update, LeastSquares) and not update.users_only:
            return SolvedRollOut(Ridge(update, row))
        return super().rollout(user)


@final
@dataclass(frozen=True, eq=False, repr=False)
class FactorModel(FoldInModel):
    """Vectors, and the rule by which new ratings move a user's, and that of an item which another user rates."""

    others_move: ClassVar = "rated items"

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The response to own edits (the viewer's vector moves) or another's (the edited items' vectors move)."""
        if viewer == editor:
            return super().respond(viewer, editor, items)
        items = check_actions(items, self.data.n_items)
        p, level = self.user_factors[viewer], self.mean + self.user_bias[viewer]
        slope = np.zeros((self.data.n_items, len(items)))
        intercept = self.scores(np.array([viewer]))[0]
        for action, item in enumerate(items):
            matrix, constant, bias = self._moved_item(int(item), editor)
            slope[item, action] = p @ matrix + bias[0]
            intercept[item] = p @ constant + level + bias[1]
        return AffineResponse(items, slope, intercept)

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
        slope, level, bias = self._moved_items(editors[row], items[row, action])
        vectors = np.zeros((*ratings.shape, self.user_factors.shape[1]))
        vectors[row, action] = level[:, None] + slope[:, None] * ratings[row, action][..., None]
        offset = np.zeros(ratings.shape)
        offset[row, action] = bias[:, 1:] + bias[:, :1] * ratings[row, action]
        return EditedItems(vectors, offset, self.user_factors, self.mean + self.user_bias)

    def _moved_items(self, editors: IntArray, items: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slope and level (pairs, factors), bias (pairs, 2): an item rated o by its editor has `slope o + level`."""
        P, update, user_level = self.user_factors, self.update, self.mean + self.user_bias
        bias = np.column_stack([np.zeros(len(items)), self.item_bias[items]])
        if isinstance(update, SgdStep) and not update.bias_step:
            p, q = P[editors], self.item_factors[items]
            predicted = user_level[editors] + self.item_bias[items] + (p * q).sum(axis=1)
            moves = update.step * p
            return moves, (1 - update.step * update.regularization) * q - moves * predicted[:, None], bias
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
                slope[pair], level[pair], bias[pair] = self._moved_item(int(item), int(editor))
        return slope, level, bias

    def _moved_item(self, item: int, editor: int) -> tuple[FloatArray, FloatArray, tuple[float, float]]:
        """(factors,) twice and two numbers: rated o by the editor, the item has `slope o + level`, vector and bias."""
        csc, factors = self.data.csc, self.item_factors.shape[1]
        rows = slice(csc.indptr[item], csc.indptr[item + 1])
        raters, ratings = csc.indices[rows], csc.data[rows]
        kept = raters != editor
        offset = self.mean + self.user_bias + self.item_bias[item]
        stands, acted = (self.item_factors[item], float(self.item_bias[item])), np.array([editor])
        known = self.user_factors, offset, raters[kept], ratings[kept], acted
        matrix, level = self.update.affine(RatedVector("item", item, *stands, *known))
        moves = len(level) > factors
        bias = (matrix[-1, 0], level[-1]) if moves else (0.0, stands[1])
        return matrix[:factors, 0], level[:factors], bias


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


def reachable_factors(model: Vectors) -> Vectors:
    """The same predictions, from item vectors that all have the same norm (paper 000, Proposition 3).

    With C the largest norm of an item vector: `Q~ = [Q v]`, `v_i = sqrt(C^2 - |q_i|^2)`, and `P~ = [P 0]`. Every item
    lies on a sphere, hence is a vertex of the hull of all items. A user whose action items are rich (Definition 3)
    and whose ratings are not limited can then make any item the top one, whatever the biases; inside a rating scale a
    vertex may still be out of reach, and items with equal vectors can only tie. The update rule stays.
    """
    if not isinstance(model, FactorVectors):
        raise InputError(
            "model",
            received=model.called,
            expected="a factor model",
            remedy=f"Models of that kind: {makers(lambda made: issubclass(made, FactorVectors))}.",
        )
    missing = _missing_norms(model.item_factors)
    if not missing.any():
        return model
    return replace(
        model,
        user_factors=np.column_stack([model.user_factors, np.zeros(len(model.user_factors))]),
        item_factors=np.column_stack([model.item_factors, missing]),
    )


def _missing_norms(item_factors: FloatArray) -> FloatArray:
    """(items,): v with |[q_i, v_i]| the same for every item, the largest norm."""
    squares = (item_factors**2).sum(axis=1)
    missing = squares.max() - squares
    # A square root would turn what rounding leaves of equal norms, 1e-16, into a direction of its own, 1e-8.
    rounding = 4 * item_factors.shape[1] * np.finfo(np.float64).eps * squares.max()
    return np.sqrt(np.where(missing > rounding, missing, 0.0))

"""What scorers of LensKit become: vectors that are folded in anew, weights, and neighbours that are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import NotSupportedError
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions
from recaudit.models.factor.model import FactorVectors, FoldInModel
from recaudit.models.given.black_box import LOWEST_LOG, NO_SCORE, History
from recaudit.models.response import AffineResponse, DifferentiableResponse, Response
from recaudit.models.updates import AlsSolve, RatedVector, UpdateRule

if TYPE_CHECKING:
    from torch import Tensor

_STEP = 1024.0
"""By how much a rating is moved to see what it does: far more than single precision hides."""
_NONE: IntArray = np.empty(0, dtype=np.int64)
_NOT_YET = "another user's ratings move nothing until LensKit is trained again, and nothing says how they move it then"


def _torch() -> Any:
    """Return the module torch, which LensKit itself needs: where its models are, it is installed."""
    import torch  # noqa: PLC0415  an import of a second that other models do without

    return torch


class LeavesOut:
    """What a model without a score for every item has in common."""

    def may_show(self, scores: FloatArray) -> BoolArray:
        """(users, items): what has a score."""
        shown: BoolArray = scores > LOWEST_LOG
        return shown


# ---- vectors -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class NewUserEmbedding(UpdateRule):
    """LensKit's own fold-in: the user's damped bias, then the vector by least squares on what is left.

    An item that LensKit was not trained on has no vector, and counts for the bias alone.
    """

    known: BoolArray
    """(items,)"""
    offset: FloatArray
    """(items,): the mean and the item's bias."""
    regularization: float
    """For each rating."""
    damping: float
    """Of the user's bias."""

    @property
    def users_only(self) -> bool:
        """See `UpdateRule`."""
        return True

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        return "LensKit's BiasedMF.new_user_embedding, on the edited history; the items are held"

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        count = int(self.known[row.kept].sum() + self.known[row.acted].sum())
        solve = AlsSolve(regularization=self.regularization * max(1, count), bias_damping=self.damping)
        return solve.affine(row._replace(offset=self.offset, bias=0.0))


@final
@dataclass(frozen=True, eq=False)
class ConfidentEmbedding(UpdateRule):
    """ImplicitMF's fold-in: `p = (Q'Q + lambda I + sum_j w_j q_j q_j')^-1 sum_j (w_j + 1) q_j` over the history.

    w_j is the weight, times the rating where `use_ratings`. Items that LensKit was not trained on are passed over.
    """

    weight: float
    use_ratings: bool
    click: float | None
    """The one rating of a log of clicks, where a 0 is none."""
    background: FloatArray
    """(factors, factors): `Q'Q + lambda I`."""

    @property
    def users_only(self) -> bool:
        """See `UpdateRule`."""
        return True

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        counts = "" if self.use_ratings else ", whatever its ratings are"
        return f"LensKit's ImplicitMF.new_user_embedding, on the edited history{counts}; the items are held"

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`; where ratings do not count, or none is free."""
        rated, free = np.concatenate([row.kept, row.acted]), len(row.acted)
        ratings = np.concatenate([row.ratings, np.ones(free)])
        vector = self.folded(_torch().from_numpy(row.others[rated]), _torch().from_numpy(ratings[None]))[0].numpy()
        return np.zeros((len(vector) + 1, free)), np.append(vector, 0.0)

    def folded(self, X: Tensor, ratings: Tensor) -> Tensor:
        """(batch, factors): the vectors of users with `ratings` (batch, rated) of items with vectors X."""
        torch = _torch()
        present = torch.ones_like(ratings) if self.click is None else ratings / self.click
        weights = self.weight * (ratings if self.use_ratings else present)
        gram = torch.from_numpy(self.background) + torch.einsum("bj,jf,jg->bfg", weights, X, X)
        solved: Tensor = torch.linalg.solve(gram, (weights + present) @ X)
        return solved


@final
@dataclass(frozen=True, eq=False, repr=False)
class StoredUsers(LeavesOut, FactorVectors):
    """Vectors as training left them, whatever the history is."""

    no_rule: ClassVar = "LensKit answers from what training stored, whatever is rated since"

    def folded(self, update: UpdateRule, offset: FloatArray) -> tuple[Any, ...]:
        """The fields of a model in which everybody with a history is folded in, whatever training left of them."""
        P, f, Q = self.user_factors.copy(), self.user_bias.copy(), self.item_factors
        for user in np.flatnonzero(self.data.user_counts).tolist():
            own = RatedVector("user", user, P[user], 0.0, Q, offset, *self.data.history(user), _NONE)
            vector = update.affine(own)[1]
            P[user], f[user] = vector[:-1], vector[-1]
        return self.data, P, Q, f, self.item_bias, self.mean, update


@final
@dataclass(frozen=True, eq=False, repr=False)
class ItemScores(LeavesOut, FittedModel):
    """One score an item, as training left it, whoever asks."""

    data: Interactions
    item_scores: FloatArray
    """(items,)"""
    predicts_ratings: bool

    no_rule: ClassVar = StoredUsers.no_rule

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): the same row for every user."""
        return np.tile(self.item_scores, (len(users), 1))


@final
@dataclass(frozen=True, eq=False, repr=False)
class FoldedUsers(LeavesOut, FoldInModel):
    """Vectors of users that LensKit solves for when they ask."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class ConfidentUsers(LeavesOut, FactorVectors):
    """The same, where the solution is no affine function of the ratings."""

    update: ConfidentEmbedding
    """How ratings move a user's vector."""

    response: ClassVar[type[Response]] = DifferentiableResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return self.update.words

    def respond(self, viewer: int, editor: int, items: IntArray) -> DifferentiableResponse:
        """The user's scores, folded in with other ratings of `items`."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, _NOT_YET)
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        torch = _torch()
        fixed, Q = torch.from_numpy(ratings[kept]), torch.from_numpy(self.item_factors)
        X = torch.cat([Q[torch.from_numpy(seen[kept])], Q[torch.from_numpy(items)]])

        def batch_scores(given: Tensor) -> Tensor:
            vectors = self.update.folded(X, torch.cat([fixed.expand(len(given), -1), given], dim=1))
            scores: Tensor = vectors @ Q.T + torch.from_numpy(self.item_bias)
            return scores

        return DifferentiableResponse(items, batch_scores)


# ---- weights -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False, repr=False)
class ClickWeights(LeavesOut, FittedModel):
    """EASE: the sum of the weights of what is in the history, whatever the ratings are.

    Somebody without a history that LensKit knows has no scores.
    """

    data: Interactions
    weights: FloatArray
    """(items, items): `weights[j, i]` is what j in the history adds to the score of i."""
    known: BoolArray
    """(items,)"""

    predicts_ratings = False
    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return "LensKit's EASE: the weights of what is in the edited history are added up, whatever its ratings are"

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)"""
        seen = self.data.seen(users)
        return self._left_out(seen @ self.weights, seen)

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores with `items` in the history; in a log of clicks a rating of 0 takes one away."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, _NOT_YET)
        low, high = self.data.scale
        seen = self.data.seen(np.array([viewer]))[0]
        seen[items] = low < high
        slope = np.zeros((self.data.n_items, len(items))) if low < high else self.weights[items].T / high
        perhaps = seen.copy()
        perhaps[items] = True
        level = self._left_out((seen @ self.weights)[None], perhaps[None])[0]
        slope[level <= LOWEST_LOG] = 0.0
        return AffineResponse(items, slope, level)

    def _left_out(self, scores: FloatArray, seen: BoolArray) -> FloatArray:
        """The `scores` (users, items) of those who have `seen` (users, items) something that is known."""
        return np.where((seen @ self.known)[:, None] & self.known, scores, NO_SCORE)


# ---- neighbours ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class AskedScorer:
    """A scorer that is asked with a history, and forgets it."""

    scorer: Any
    item_ids: tuple[object, ...]
    """Of the log."""
    known: BoolArray
    """(items,)"""
    clicks: bool
    """Whether a rating of 0 is none."""

    def __call__(self, history: History) -> FloatArray:
        """(items,): for models that are only asked."""
        if history.viewer != history.user:
            raise NotSupportedError(f"{type(self.scorer).__name__}: {_NOT_YET}.")
        return self.scores(history.user, history.items, np.array(history.ratings))

    def scores(self, user: object, items: Sequence[object], ratings: FloatArray) -> FloatArray:
        """(items,): what LensKit says to this user with these `ratings` (rated,) of `items`, by id."""
        from lenskit.data import ItemList, RecQuery  # noqa: PLC0415

        stays = ratings != 0 if self.clicks else np.ones(len(ratings), dtype=bool)
        if type(self.scorer).__name__ == "ItemKNNScorer":  # meant to pass over what it does not know; fails
            stays &= self.scorer.items.numbers(items, missing="negative") >= 0
        history = ItemList(
            item_ids=[item for item, stay in zip(items, stays, strict=True) if stay], rating=ratings[stays]
        )
        out = np.full(len(self.known), NO_SCORE)
        with np.errstate(invalid="ignore"):  # BiasScorer divides by how many there are
            given = self.scorer(RecQuery(user_id=user, history_items=history), self._targets).scores()
        out[self.known] = np.where(np.isfinite(given), given, NO_SCORE)
        return out

    @cached_property
    def _targets(self) -> Any:
        """What is scored, as LensKit wants it."""
        from lenskit.data import ItemList  # noqa: PLC0415

        return ItemList(item_ids=[item for item, known in zip(self.item_ids, self.known, strict=True) if known])


@final
@dataclass(frozen=True, eq=False, repr=False)
class AskedAffine(LeavesOut, FittedModel):
    """A scorer whose scores are affine in the ratings: they are averaged, or do not count.

    Which neighbours count follows from what is rated, but for UserKNN with ratings: they decide who the neighbours are.
    """

    data: Interactions
    asked: AskedScorer
    predicts_ratings: bool
    """Whether ratings are averaged; else similarities are added up, whatever the ratings are."""

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        name = type(self.asked.scorer).__name__.removesuffix("Scorer")
        counts = "" if self.predicts_ratings else ", whatever its ratings are"
        return f"LensKit's {name} scores the edited history{counts}; what it learned is held"

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)"""
        rows = [self._ask(user, *self.data.history(user)) for user in users.tolist()]
        return np.array(rows).reshape(len(rows), self.data.n_items)

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores as a function of their own ratings of `items`: LensKit is asked once more for each."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, _NOT_YET)
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        rated, middle = np.concatenate([seen[kept], items]), sum(self.data.scale) / 2
        before = np.concatenate([ratings[kept], np.full(len(items), middle)])
        level, slope = self._ask(viewer, rated, before), np.zeros((self.data.n_items, len(items)))
        for action in range(len(items) if self.predicts_ratings else 0):
            moved = before.copy()
            moved[int(kept.sum()) + action] += _STEP
            slope[:, action] = (self._ask(viewer, rated, moved) - level) / _STEP
        return AffineResponse(items, slope, level - slope.sum(axis=1) * middle)

    def _ask(self, user: int, items: IntArray | NDArray[np.int32], ratings: FloatArray) -> FloatArray:
        return self.asked.scores(self.data.user_ids[user], self.data.item_ids.gather(items).to_list(), ratings)

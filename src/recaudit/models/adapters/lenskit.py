"""Scorers of LensKit 2025, alone or in a pipeline, asked as its pipelines ask them: with the user's id and history.

Where LensKit gives no score (NaN), an item has one below every other, and is never shown: so do its rankers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions
from recaudit.models.factor.model import FactorVectors, FoldInModel
from recaudit.models.given.black_box import LOWEST_LOG, BlackBox, History, from_system
from recaudit.models.response import AffineResponse, DifferentiableResponse, Response
from recaudit.models.updates import AlsSolve, RatedVector, UpdateRule

_NO_SCORE = 2 * LOWEST_LOG
"""What is added to the score of an item that has none: whatever else is added, it stays below `LOWEST_LOG`."""
_STEP = 1024.0
"""By how much a rating is moved to see what it does: far more than single precision hides."""
_NOT_YET = "another user's ratings move nothing until LensKit is trained again, and nothing says how they move it then"


def adapted(model: Any, data: Interactions, *, scorer: str = "scorer") -> FittedModel:
    """A trained scorer of LensKit, or the one that a trained pipeline has under the name `scorer`.

    The scores are those of the scorer: what a pipeline's ranker does with them afterwards is not audited.
    """
    if type(model).__name__ == "Pipeline":
        model = _inside(model, scorer)
    known = {
        "BiasedMFScorer": ("item_embeddings", _biased_mf),
        "ImplicitMFScorer": ("item_embeddings", _implicit_mf),
        "EASEScorer": ("weights", _ease),
        "ItemKNNScorer": ("sim_matrix", _item_knn),
        "UserKNNScorer": ("user_vectors", _user_knn),
        "BiasScorer": ("model_", _bias),
        "PopScorer": ("item_scores_", _popularity),
    }
    if type(model).__name__ not in known:
        raise unknown_model(model, ", ".join(known))
    learned, adapt_it = known[type(model).__name__]
    if not hasattr(model, learned):
        raise not_fitted(model)
    kind = type(model)
    settings = {"scorer": kind.__name__, **model.config.model_dump(mode="json")}
    again = Retrained(library=f"lenskit {version('lenskit')}", settings=settings, train=Training(kind, model.config))
    return adapt_it(model, data).with_recommender(again)


def _inside(pipeline: Any, name: str) -> Any:
    found = pipeline.component(name) if pipeline.node(name, missing=None) is not None else None
    if found is None:
        raise InputError(
            "scorer", received=name, expected=f"a component of the pipeline: {', '.join(pipeline.component_names())}"
        )
    return found


@final
@dataclass(frozen=True, eq=False)
class Training:
    """LensKit's own training of a scorer."""

    kind: Any
    """The scorer's class."""
    config: Any

    def __call__(self, data: Interactions, seed: int) -> Any:
        """A scorer of this log, trained with this seed."""
        from lenskit.data import from_interactions_df  # noqa: PLC0415  # what is adapted need not be imported
        from lenskit.training import TrainingOptions  # noqa: PLC0415

        frame = data.frame().select("user", "item", "rating").rename({"user": "user_id", "item": "item_id"})
        scorer = self.kind(self.config)
        scorer.train(from_interactions_df(frame.to_pandas()), TrainingOptions(rng=seed))
        return scorer


# ---- ids, and what has no score ------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Where LensKit has the ids of a log."""

    at: IntArray
    """(ids of the log,): the number that LensKit gave them, -1 for those that it was not trained on."""

    @classmethod
    def of(cls, vocabulary: Any, ids: Sequence[object], what: str) -> _Rows:
        """Those of a vocabulary of LensKit; at least one id must be in it."""
        try:
            at = vocabulary.numbers(ids, missing="negative").astype(np.int64)
        except (TypeError, ValueError):  # pyarrow's, for ids of another type
            at = np.full(len(ids), -1)
        if (at < 0).all():
            raise InputError(
                "data",
                received=f"{what} such as {ids[0]!r}, none of which the scorer was trained on",
                expected=f"the log that it was trained on, with {what} such as {vocabulary.ids()[0]!r}",
            )
        return cls(at)

    @property
    def known(self) -> BoolArray:
        """(ids of the log,)"""
        return self.at >= 0

    def take(self, array: Any, otherwise: float = 0.0) -> FloatArray:
        """The rows of an array of LensKit in the order of the log, in double precision."""
        rows: FloatArray = np.asarray(array, dtype=np.float64)[np.maximum(self.at, 0)]
        rows[~self.known] = otherwise
        return rows


def _items(scorer: Any, data: Interactions) -> _Rows:
    return _Rows.of(scorer.items, data.item_ids.to_list(), "item ids")


class LeavesOut:
    """What a model without a score for every item has in common."""

    def may_show(self, scores: Tensor) -> Tensor:
        """(users, items): what has a score."""
        return scores > LOWEST_LOG


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
    name: str

    @property
    def users_only(self) -> bool:
        """See `UpdateRule`."""
        return True

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        return f"{self.name}, on the edited history; the items are held"

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        count = int(self.known[row.kept].sum() + self.known[row.acted].sum())
        solve = AlsSolve(regularization=self.regularization * max(1, count), bias_damping=self.damping)
        return solve.affine(row._replace(offset=self.offset, bias=0.0))


@final
@dataclass(frozen=True, eq=False)
class FoldedUsers(LeavesOut, FoldInModel):
    """BiasedMF and the bias alone: everybody with a history is folded in anew, whatever training left of them."""

    @classmethod
    def of(cls, stored: StoredUsers, update: NewUserEmbedding) -> FoldedUsers:
        """Fold in everybody who has ratings."""
        data, P, f = stored.data, stored.user_factors.copy(), stored.user_bias.copy()
        for user in np.flatnonzero(data.user_counts):
            nothing, own = np.empty(0, dtype=np.int64), (P[user], 0.0, stored.item_factors, update.offset)
            vector = update.affine(RatedVector("user", int(user), *own, *data.history(user), nothing))[1]
            P[user], f[user] = vector[:-1], vector[-1]
        items = stored.item_factors, f, stored.item_bias
        return cls(data, P, *items, stored.mean, update, predicts_ratings=stored.predicts_ratings)


@final
@dataclass(frozen=True, eq=False)
class StoredUsers(LeavesOut, FactorVectors):
    """Vectors as training left them, whatever the history is."""

    no_rule: ClassVar = "LensKit answers from what training stored, whatever is rated since"


@final
@dataclass(frozen=True, eq=False)
class ConfidentUsers(LeavesOut, FactorVectors):
    """ImplicitMF: `p = (Q'Q + lambda I + sum_j w_j q_j q_j')^-1 sum_j (w_j + 1) q_j` over the user's history.

    w_j is the weight, times the rating where `use_ratings`. Items that LensKit was not trained on are passed over.
    """

    weight: float
    regularization: float
    use_ratings: bool

    response: ClassVar[type[Response]] = DifferentiableResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        counts = "what they are counts" if self.use_ratings else "what they are does not count"
        return f"LensKit's ImplicitMF.new_user_embedding, on the edited history; of ratings {counts}; items are held"

    def respond(self, viewer: int, editor: int, items: IntArray) -> DifferentiableResponse:
        """The user's scores, folded in with other ratings of `items`."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, _NOT_YET)
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        old, fixed = seen[kept], torch.tensor(ratings[kept])[None]
        rated = np.concatenate([old, items])

        def batch_scores(given: Tensor) -> Tensor:
            vectors = self.folded(rated, torch.cat([fixed.expand(len(given), -1), given], dim=1))
            return vectors @ torch.from_numpy(self.item_factors).T + torch.from_numpy(self.item_bias)

        return DifferentiableResponse(items, batch_scores)

    def folded(self, items: IntArray, ratings: Tensor) -> Tensor:
        """(batch, factors): the vectors of users with these `ratings` (batch, rated) of `items` (rated,).

        In a log of clicks, where every rating is the same, a 0 is none.
        """
        low, high = self.data.scale
        present = ratings / high if low == high else torch.ones_like(ratings) + 0 * ratings
        weights = self.weight * (ratings if self.use_ratings else present)
        X = torch.from_numpy(self.item_factors[items])
        gram = self._background + torch.einsum("bj,jf,jg->bfg", weights, X, X)
        return torch.linalg.solve(gram, (weights + present) @ X)

    @cached_property
    def _background(self) -> Tensor:
        Q = torch.from_numpy(self.item_factors)
        return Q.T @ Q + self.regularization * torch.eye(Q.shape[1], dtype=torch.float64)


def _stored(scorer: Any, data: Interactions, biases: tuple[float, FloatArray, FloatArray], rated: bool) -> StoredUsers:
    """Vectors as the scorer has them; `biases` are the mean, those of its users and those of its items."""
    items, kept = _items(scorer, data), scorer.user_embeddings is not None
    mean, of_users, of_items = biases
    g = items.take(of_items, _NO_SCORE)
    if kept:
        users = _Rows.of(scorer.users, data.user_ids.to_list(), "user ids")
        P, f = users.take(scorer.user_embeddings), users.take(of_users, _NO_SCORE)
    else:
        P, f = np.zeros((data.n_users, scorer.item_embeddings.shape[1])), np.full(data.n_users, _NO_SCORE)
    return StoredUsers(data, P, items.take(scorer.item_embeddings), f, g, mean, predicts_ratings=rated)


def _biased_mf(scorer: Any, data: Interactions) -> FittedModel:
    bias, config = scorer.bias, scorer.config
    stored = _stored(scorer, data, (bias.global_bias, bias.user_biases, bias.item_biases), True)
    if config.user_embeddings == "prefer":
        return stored
    items = _items(scorer, data)
    offset, name = bias.global_bias + items.take(bias.item_biases), "LensKit's BiasedMF.new_user_embedding"
    rule = NewUserEmbedding(items.known, offset, config.user_reg, _user_damping(bias), name)
    return FoldedUsers.of(stored, rule)


def _implicit_mf(scorer: Any, data: Interactions) -> FittedModel:
    config = scorer.config
    users = 0 if scorer.users is None else len(scorer.users)
    stored = _stored(scorer, data, (0.0, np.zeros(users), np.zeros(len(scorer.items))), False)
    if config.user_embeddings == "prefer":
        return stored
    vectors = stored.data, stored.user_factors.copy(), stored.item_factors, stored.user_bias.copy(), stored.item_bias
    rule = config.weight, config.user_reg, config.use_ratings
    made = ConfidentUsers(*vectors, 0.0, *rule, predicts_ratings=False)
    for user in np.flatnonzero(data.user_counts):
        seen, ratings = data.history(user)
        made.user_factors[user] = made.folded(seen, torch.tensor(ratings)[None])[0].numpy()
        made.user_bias[user] = 0.0
    return made


def _bias(scorer: Any, data: Interactions) -> FittedModel:
    """Vectors of zeros: LensKit gives items and users that it does not know a bias of 0."""
    bias, zeros = scorer.model_, np.zeros
    g, known = zeros(data.n_items), np.ones(data.n_items, dtype=bool)
    if bias.items is not None:
        g = _items(bias, data).take(bias.item_biases)
    vectors = data, zeros((data.n_users, 1)), zeros((data.n_items, 1)), zeros(data.n_users), g, bias.global_bias
    made = StoredUsers(*vectors, predicts_ratings=True)
    if bias.users is None:
        return made
    name = "LensKit's damped mean of what the user's ratings are above the items' biases"
    return FoldedUsers.of(made, NewUserEmbedding(known, bias.global_bias + g, 1.0, _user_damping(bias), name))


def _popularity(scorer: Any, data: Interactions) -> FittedModel:
    items = _Rows.of(scorer.items_, data.item_ids.to_list(), "item ids")
    users, zeros = np.zeros((data.n_users, 1)), np.zeros((data.n_items, 1))
    g = items.take(scorer.item_scores_, _NO_SCORE)
    return StoredUsers(data, users, zeros, np.zeros(data.n_users), g, 0.0, predicts_ratings=False)


def _user_damping(bias: Any) -> float:
    return float(bias.damping.get("user", 0.0) if isinstance(bias.damping, dict) else bias.damping)


# ---- weights -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
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

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items)"""
        seen = self.data.seen(users)
        return torch.from_numpy(self._left_out(seen @ self.weights, (seen & self.known).any(axis=1)))

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores with `items` in the history; in a log of clicks a rating of 0 takes one away."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, _NOT_YET)
        low, high = self.data.scale
        seen = self.data.seen(np.array([viewer]))[0]
        seen[items] = low < high
        slope = np.zeros((self.data.n_items, len(items))) if low < high else self.weights[items].T / high
        known = (seen & self.known).any() or self.known[items].any()
        level = self._left_out((seen @ self.weights)[None], np.array([known]))[0]
        slope[level <= LOWEST_LOG] = 0.0
        return AffineResponse(items, torch.from_numpy(slope), torch.from_numpy(level))

    def _left_out(self, scores: FloatArray, somebody: BoolArray) -> FloatArray:
        return np.where(somebody[:, None] & self.known, scores, _NO_SCORE)


def _ease(scorer: Any, data: Interactions) -> FittedModel:
    items = _items(scorer, data)
    return ClickWeights(data, items.take(items.take(scorer.weights).T).T.copy(), items.known)


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
            raise NotSupportedError(_NOT_YET)
        return self.scores(history.user, history.items, np.array(history.ratings))

    def scores(self, user: object, items: Sequence[object], ratings: FloatArray) -> FloatArray:
        """(items,): what LensKit says to this user with these `ratings` (rated,) of `items`, by id."""
        from lenskit.data import ItemList, RecQuery  # noqa: PLC0415

        stays = ratings != 0 if self.clicks else np.ones(len(ratings), dtype=bool)
        if type(self.scorer).__name__ == "ItemKNNScorer":  # it means to pass over items that it does not know, and fails
            stays &= self.scorer.items.numbers(items, missing="negative") >= 0
        history = ItemList(item_ids=[items[at] for at in np.flatnonzero(stays)], rating=ratings[stays])
        asked = ItemList(item_ids=[self.item_ids[at] for at in np.flatnonzero(self.known)])
        out = np.full(len(self.known), _NO_SCORE)
        if len(history):
            given = self.scorer(RecQuery(user_id=user, history_items=history), asked).scores()
            out[self.known] = np.where(np.isfinite(given), given, _NO_SCORE)
        return out


def _asked(scorer: Any, data: Interactions) -> AskedScorer:
    clicks = not scorer.config.explicit and data.scale[0] == data.scale[1]
    return AskedScorer(scorer, tuple(data.item_ids.to_list()), _items(scorer, data).known, clicks)


@final
@dataclass(frozen=True, eq=False)
class AskedNeighbours(LeavesOut, FittedModel):
    """ItemKNN: which neighbours count follows from what is rated, and with them a score is affine in the ratings."""

    data: Interactions
    asked: AskedScorer
    predicts_ratings: bool
    """Whether ratings are averaged; else similarities are added up, whatever the ratings are."""

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        what = "ratings are averaged anew" if self.predicts_ratings else "similarities are added up anew"
        return f"LensKit's ItemKNN: {what} over the nearest items of the edited history; similarities are held"

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items)"""
        rows = [self._ask(int(user), *self.data.history(user)) for user in users]
        return torch.from_numpy(np.array(rows).reshape(len(rows), self.data.n_items))

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
        return AffineResponse(items, torch.from_numpy(slope), torch.from_numpy(level - slope.sum(axis=1) * middle))

    def _ask(self, user: int, items: IntArray, ratings: FloatArray) -> FloatArray:
        return self.asked.scores(self.data.user_ids[user], self.data.item_ids.gather(items).to_list(), ratings)


def _item_knn(scorer: Any, data: Interactions) -> FittedModel:
    asked = _asked(scorer, data)
    if asked.clicks:  # those that come and go change which neighbours count
        return _black_box(asked, data, False)
    return AskedNeighbours(data, asked, scorer.config.explicit)


def _user_knn(scorer: Any, data: Interactions) -> FittedModel:
    return _black_box(_asked(scorer, data), data, scorer.config.explicit)


def _black_box(asked: AskedScorer, data: Interactions, predicts_ratings: bool) -> BlackBox:
    """A model that asks LensKit itself about each history."""
    made = from_system(data, scores=asked, predicts_ratings=predicts_ratings, retries=0)
    return replace(made, leaves_out=True)

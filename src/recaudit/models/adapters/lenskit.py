"""Scorers of LensKit 2025, alone or in a pipeline, asked as its pipelines ask them: with the user's id and history.

Where LensKit gives no score (NaN), an item has one below every other, and is never shown: so do its rankers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, NamedTuple, final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.adapters.lenskit_models import (
    AskedAffine,
    AskedScorer,
    ClickWeights,
    ConfidentEmbedding,
    ConfidentUsers,
    FoldedUsers,
    ItemScores,
    NewUserEmbedding,
    StoredUsers,
)
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import NO_SCORE, from_system, seeing_others


def adapted(model: Any, data: Interactions, *, scorer: str = "scorer") -> FittedModel:
    """A trained scorer of LensKit, or the one that a trained pipeline has under the name `scorer`.

    The scores are those of the scorer: what a pipeline's ranker does with them afterwards is not audited.
    """
    whole, piped = model, type(model).__name__ == "Pipeline"
    if piped:
        model = _inside(whole, scorer)
    known = {
        "BiasedMFScorer": ("item_embeddings", _biased_mf),
        "ImplicitMFScorer": ("item_embeddings", _implicit_mf),
        "EASEScorer": ("weights", _ease),
        "ItemKNNScorer": ("sim_matrix", _neighbours),
        "UserKNNScorer": ("user_vectors", _neighbours),
        "BiasScorer": ("model_", _bias),
        "PopScorer": ("item_scores_", _popularity),
    }
    if type(model).__name__ not in known:
        raise unknown_model(model, ", ".join(known))
    learned, adapt_it = known[type(model).__name__]
    if not hasattr(model, learned):
        raise not_fitted(model)
    settings = {"scorer": type(model).__name__, **model.config.model_dump(mode="json")}
    again = Retrained(
        library=f"lenskit {version('lenskit')}",
        settings=settings,
        train=Training(type(whole).from_config if piped else type(whole), whole.config),
        options={"scorer": scorer} if piped else {},
    )
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
    """LensKit's own training, of a scorer or of a pipeline, which gives each of its parts another seed."""

    make: Any
    """From the `config` to what is trained."""
    config: Any

    def __call__(self, data: Interactions, seed: int) -> Any:
        """The same as before, trained on this log with this seed."""
        from lenskit.data import from_interactions_df  # noqa: PLC0415  # what is adapted need not be imported
        from lenskit.training import TrainingOptions  # noqa: PLC0415

        frame = data.frame().select("user", "item", "rating").rename({"user": "user_id", "item": "item_id"})
        made = self.make(self.config)
        made.train(from_interactions_df(frame.to_pandas()), TrainingOptions(rng=seed))
        return made


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


def _stored(scorer: Any, data: Interactions, biases: tuple[float, FloatArray, FloatArray], rated: bool) -> StoredUsers:
    """Vectors as the scorer has them; `biases` are the mean, those of its users and those of its items."""
    items, kept = _items(scorer, data), scorer.user_embeddings is not None
    mean, of_users, of_items = biases
    g = items.take(of_items, NO_SCORE)
    if kept:
        users = _Rows.of(scorer.users, data.user_ids.to_list(), "user ids")
        P, f = users.take(scorer.user_embeddings), users.take(of_users, NO_SCORE)
    else:
        P, f = np.zeros((data.n_users, scorer.item_embeddings.shape[1])), np.full(data.n_users, NO_SCORE)
    return StoredUsers(data, P, items.take(scorer.item_embeddings), f, g, mean, predicts_ratings=rated)


def _biased_mf(scorer: Any, data: Interactions) -> FittedModel:
    bias, config = scorer.bias, scorer.config
    stored = _stored(scorer, data, (bias.global_bias, bias.user_biases, bias.item_biases), True)
    if config.user_embeddings == "prefer":
        return stored
    items = _items(scorer, data)
    offset = bias.global_bias + items.take(bias.item_biases)
    damping = bias.damping.get("user", 0.0) if isinstance(bias.damping, dict) else bias.damping
    rule = NewUserEmbedding(items.known, offset, config.user_reg, float(damping))
    return FoldedUsers(*stored.folded(rule, offset))


def _implicit_mf(scorer: Any, data: Interactions) -> FittedModel:
    config, nobody = scorer.config, np.zeros(0 if scorer.users is None else len(scorer.users))
    stored = _stored(scorer, data, (0.0, nobody, np.zeros(len(scorer.items))), False)
    if config.user_embeddings == "prefer":
        return stored
    Q, (low, high) = stored.item_factors, data.scale
    background = Q.T @ Q + config.user_reg * np.eye(Q.shape[1])
    rule = ConfidentEmbedding(config.weight, config.use_ratings, high if low == high else None, background)
    kind = ConfidentUsers if config.use_ratings or low == high else FoldedUsers
    return kind(*stored.folded(rule, stored.item_bias), predicts_ratings=False)


def _bias(scorer: Any, data: Interactions) -> FittedModel:
    """LensKit gives items and users that it does not know a bias of 0."""
    bias = scorer.model_
    if bias.users is not None:
        ids = tuple(data.item_ids.to_list())
        return AskedAffine(data, AskedScorer(scorer, ids, np.ones(len(ids), dtype=bool), clicks=False), True)
    biases = 0.0 if bias.items is None else _items(bias, data).take(bias.item_biases)
    return ItemScores(data, np.full(data.n_items, bias.global_bias) + biases, predicts_ratings=True)


def _popularity(scorer: Any, data: Interactions) -> FittedModel:
    items = _Rows.of(scorer.items_, data.item_ids.to_list(), "item ids")
    return ItemScores(data, items.take(scorer.item_scores_, NO_SCORE), predicts_ratings=False)


def _ease(scorer: Any, data: Interactions) -> FittedModel:
    items = _items(scorer, data)
    here, there = np.flatnonzero(items.known), items.at[items.known]
    weights = np.zeros((data.n_items, data.n_items))
    weights[np.ix_(here, here)] = scorer.weights[np.ix_(there, there)]
    return ClickWeights(data, weights, items.known)


def _neighbours(scorer: Any, data: Interactions) -> FittedModel:
    clicks, explicit = data.scale[0] == data.scale[1], scorer.config.explicit
    asked = AskedScorer(scorer, tuple(data.item_ids.to_list()), _items(scorer, data).known, clicks and not explicit)
    if asked.clicks or (explicit and type(scorer).__name__ == "UserKNNScorer"):
        made = from_system(data, scores=asked, predicts_ratings=explicit, retries=0)
        # Neighbors share ratings, so `AskedScorer` refuses another user's ratings instead of ignoring them.
        return replace(seeing_others(made), leaves_out=True)
    return AskedAffine(data, asked, explicit)

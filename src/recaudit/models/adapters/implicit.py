"""Models of implicit: ALS with its own fold-in, BPR and LMF as vectors, item-item neighbours as weights.

implicit knows positions only: `user_ids` and `item_ids` say which ids the rows and columns of the matrix stood for.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, final

import numpy as np
from scipy import sparse

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.base import FittedModel
from recaudit.models.checks import check_data
from recaudit.models.factor.confidence import Confidence, ConfidenceModel, EvenModel, Solves, raters_of
from recaudit.models.factor.model import FactorVectors
from recaudit.models.given.arrays import from_factors, from_weights
from recaudit.models.linear.model import check_square

_KNOWN = (
    "AlternatingLeastSquares, BayesianPersonalizedRanking, LogisticMatrixFactorization, ItemItemRecommender and its "
    "kinds (Cosine, TFIDF, BM25)"
)
_TRIED, _FAR = 200, 0.85
"""Items whose vectors are compared with those that follow from the log, and how far apart the two cannot be. With 64
factors of Last.fm 2k they are up to 0.7 apart after one round of training and 0.2 after fifteen, as a share of their
norm, and above 0.9 where rows or columns are in another order."""


def adapted(
    model: Any,
    data: Interactions,
    *,
    user_ids: Iterable[object] | None = None,
    item_ids: Iterable[object] | None = None,
    stored: bool = False,
) -> FittedModel:
    """A model of implicit. Scores only rank.

    `user_ids` and `item_ids` are the ids of the rows and columns of the matrix that it was trained on, where they are
    not those of `data` in their order.

    `stored` is for ALS, whose training stops before everything is solved: `recalculate_user` and `recalculate_item`
    give other vectors than it keeps, even for the ratings that it was trained on. By default users are scored as
    `recommend(..., recalculate_user=True)` does, and another's rating moves an item by as much as it moves what
    `recalculate_item` gives, so that somebody who changes nothing moves nothing. With `stored`, users are scored as
    `recommend(...)` does, by the vectors it keeps, and whatever is rated anew becomes what is recalculated.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if kinds & {"AlternatingLeastSquares", "BayesianPersonalizedRanking", "LogisticMatrixFactorization"}:
        if model.user_factors is None:
            raise not_fitted(model)
        if type(model).__module__.startswith("implicit.gpu."):
            model = model.to_cpu()
        given = np.asarray(model.user_factors, dtype=np.float64), np.asarray(model.item_factors, dtype=np.float64)
        vectors = from_factors(*given, data, predicts_ratings=False, user_ids=user_ids, item_ids=item_ids)
        if "AlternatingLeastSquares" not in kinds:
            return _without_ones(vectors).with_recommender(_retrained(model))
        grams = given[1].T @ given[1], given[0].T @ given[0]
        return _confident(model, vectors, *grams, stored).with_recommender(_retrained(model, stored=stored))
    if "ItemItemRecommender" in kinds:
        if model.similarity is None:
            raise not_fitted(model)
        check_square(model.similarity.shape[0], 3, f"{type(model).__name__} as a model of weights")
        weights = from_weights(model.similarity, data, predicts_ratings=False, item_ids=item_ids)
        return weights.with_recommender(_retrained(model))
    raise unknown_model(model, _KNOWN)


def _confident(
    model: Any, vectors: FactorVectors, item_gram: FloatArray, user_gram: FloatArray, stored: bool
) -> ConfidenceModel:
    """ALS with its own rules, `recalculate_user` and `recalculate_item`."""
    data, users, items = vectors.data, vectors.user_factors, vectors.item_factors
    check_data(data)
    penalty, confidence = float(model.regularization), Confidence.of(float(model.alpha), data)
    by_user = Solves(items, item_gram, penalty, confidence)
    by_item = Solves(users, user_gram, penalty, confidence)
    _check_log(data, items, by_item)
    scored, moves = by_user.vectors(data), "moves by as much as its solution over all pairs does"
    if stored:
        scored, moves = users, "becomes its solution over all pairs"
    words = (
        f"implicit's recalculate_user, and recalculate_item for others' ratings: the vector {moves}, in which a rating "
        f"counts with confidence {confidence.alpha:g} times itself; everything else is held"
    )
    kind = EvenModel if confidence.even else ConfidenceModel
    biases = vectors.user_bias, vectors.item_bias, vectors.mean
    return kind(data, scored, items, *biases, by_user, by_item, words, stored, predicts_ratings=False)


def _check_log(data: Interactions, items: FloatArray, by_item: Solves) -> None:
    """Refuse a log that the vectors have nothing to do with: its rows or columns are in another order, as a rule."""
    rated = np.flatnonzero(data.item_counts)
    some = rated[:: max(1, len(rated) // _TRIED)]
    solved = np.stack([by_item.solved(*raters_of(data, int(item)))[1] for item in some])
    if np.linalg.norm(solved - items[some]) > _FAR * np.linalg.norm(solved):
        raise InputError(
            "data",
            received="a log from which other item vectors follow than the model has",
            expected="the log that it was trained on, its rows and columns in the order of the model's",
            remedy="Pass the ids in the order of the matrix: user_ids = [...], item_ids = [...].",
        )


def _without_ones(model: FactorVectors) -> FactorVectors:
    """Biases taken out of the vectors: what is multiplied with a 1 for everybody.

    BPR and LMF keep the items' in a column where users have 1, LMF the users' where items do. Users and items without
    ratings may have 0 there; then it stays a column.
    """
    P, Q = model.user_factors, model.item_factors
    of_items, of_users = (P == 1).all(axis=0), (Q == 1).all(axis=0)
    kept = ~(of_items | of_users)
    return from_factors(
        P[:, kept],
        Q[:, kept],
        model.data,
        predicts_ratings=False,
        user_bias=P[:, of_users & ~of_items].sum(axis=1),
        item_bias=Q[:, of_items].sum(axis=1),
    )


def _retrained(model: Any, **options: Any) -> Retrained:
    """What trains such a model again: with its own seed where it has one."""
    names = [name for name in inspect.signature(type(model)).parameters if hasattr(model, name)]
    settings = {name: getattr(model, name) for name in names if name not in {"num_threads", "random_state"}}
    if "dtype" in settings:
        settings["dtype"] = settings["dtype"].name
    seed = getattr(model, "random_state", None)
    train = _ImplicitTraining(
        type(model), settings, seed if isinstance(seed, int) else None, getattr(model, "cg_steps", None)
    )
    return Retrained(library=f"implicit {version('implicit')}", settings=settings, train=train, options=options)


@final
@dataclass(frozen=True)
class _ImplicitTraining:
    """implicit's own, on one thread: BPR walks differently on several."""

    kind: type
    settings: dict[str, Any]
    seed: int | None
    cg_steps: int | None

    def __call__(self, data: Interactions, rng: int) -> object:
        model = self.kind(**self.settings, num_threads=1)
        if hasattr(model, "random_state"):
            model.random_state = rng if self.seed is None else self.seed
        if self.cg_steps is not None:
            model.cg_steps = self.cg_steps
        matrix = sparse.csr_matrix(data.csr, copy=True)
        if data.scale[0] == data.scale[1]:
            matrix.eliminate_zeros()  # no click is no entry
        with warnings.catch_warnings():
            # Its neighbours hand each other another format than they ask for, and say so each time.
            warnings.filterwarnings("ignore", message="Method expects CSR input")
            model.fit(matrix, show_progress=False)
        return model

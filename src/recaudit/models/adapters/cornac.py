"""Models of Cornac: matrix factorisation, EASE, ItemKNN, and any other by its own scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from recaudit.arguments import checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.adapters.logs import check_trained_on, first, library_ids, library_places, log_places
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions, check_data
from recaudit.models.factor.model import FactorVectors
from recaudit.models.given.arrays import from_weights
from recaudit.models.given.scores import LibraryScores
from recaudit.models.linear.model import LinearModel
from recaudit.models.response import OpaqueResponse, Response
from recaudit.models.updates import UpdateRule

_VECTORS = {
    "MF": ("u_factors", "i_factors", "u_biases", "i_biases"),
    "NMF": ("u_factors", "i_factors", "u_biases", "i_biases"),
    "SVD": ("u_factors", "i_factors", "u_biases", "i_biases"),
    "BPR": ("u_factors", "i_factors", None, "i_biases"),
    "WBPR": ("u_factors", "i_factors", None, "i_biases"),
    "PMF": ("U", "V", None, None),
    "WMF": ("U", "V", None, None),
}
"""What each model calls the vectors and biases of users and items."""
_RATINGS = ("MF", "NMF", "SVD", "BaselineOnly", "GlobalAvg", "ItemKNN", "UserKNN")
"""Whose scores estimate ratings, where the log has any."""
_ONLY_RANK = ("BPR", "WBPR", "PMF", "WMF", "EASE", "MostPop")


@checked
def adapted(
    model: Any, data: Interactions, *, predicts_ratings: bool | None = None, update: UpdateRule | None = None
) -> FittedModel:
    """A fitted model of Cornac.

    Cornac has no rule for new ratings in models with vectors: `update` is yours, if you know one. `predicts_ratings`
    must be said of models that are not known here. Cornac ranks items that it was not trained on last: they have scores
    that are no higher than any other of the user, and are no predictions.
    """
    if not hasattr(model, "uid_map"):
        raise unknown_model(model, "Cornac's recommenders")
    if not model.is_fitted:
        raise not_fitted(model)
    kind = type(model).__name__ if type(model).__module__.startswith("cornac.") else ""
    known = CornacIds.of(model, data)
    ratings = _predicts_ratings(model, kind) if predicts_ratings is None else predicts_ratings
    made: FittedModel
    if kind in _VECTORS:
        made = _vectors(model, kind, data, known, ratings)
    elif kind == "EASE":
        made = _weights(model, data, known, ratings)
    elif kind == "ItemKNN":
        made = ItemAverages(data, model, known, ratings)
    else:
        made = LibraryScores(data, CornacScores(model, known), predicts_ratings=ratings)
    if update is not None:
        if not isinstance(made, FactorVectors):
            raise InputError("update", received=update, expected="nothing beside this model, which has no vectors")
        made = made.with_update(update)
    names = [name for name in model._get_init_params() if isinstance(getattr(model, name), bool | int | float | str)]
    options = {"predicts_ratings": predicts_ratings, "update": update}
    recommender = Retrained(
        library=f"cornac {version('cornac')}",
        settings={"model": type(model).__name__, **{name: getattr(model, name) for name in names}},
        train=CornacTraining(model),
        options={name: value for name, value in options.items() if value is not None},
    )
    return made.with_recommender(recommender)


def _predicts_ratings(model: Any, kind: str) -> bool:
    if kind in _RATINGS:
        return bool(model.min_rating != model.max_rating)
    if kind in _ONLY_RANK:
        return False
    raise InputError(
        "predicts_ratings",
        received=f"nothing, for a {type(model).__name__}",
        expected="whether its scores estimate ratings on the log's scale (True) or only rank (False)",
    )


class CornacIds(NamedTuple):
    """Where the log's users and items are in Cornac, -1 for those that it was not trained on."""

    users: IntArray
    """(users,)"""
    items: IntArray
    """(items,)"""

    @classmethod
    def of(cls, model: Any, data: Interactions) -> CornacIds:
        """By the ids that Cornac was trained with; where it still has the ratings, they must be those of the log."""
        # Ids of test sets are in the maps too, after those of the training set.
        places = cls(
            library_places(data.user_ids, list(model.uid_map)[: model.num_users]),
            library_places(data.item_ids, list(model.iid_map)[: model.num_items]),
        )
        trained_on = getattr(model, "train_set", None)
        if trained_on is not None:
            users, items, ratings = trained_on.uir_tuple
            user_at, item_at = log_places(places.users, model.num_users), log_places(places.items, model.num_items)
            check_trained_on(data, user_at[users], item_at[items], ratings)
        return places

    def ranked(self, scores: FloatArray) -> FloatArray:
        """(items,): Cornac's scores of the items that it knows, in its order, and the lowest of them for all others."""
        found: FloatArray = np.where(self.items >= 0, scores[self.items], scores.min())
        return found


def _vectors(model: Any, kind: str, data: Interactions, known: CornacIds, ratings: bool) -> FactorVectors:
    """Users whom Cornac does not know have vectors of zeros."""
    strangers = known.users < 0
    if kind in ("BPR", "WBPR") and strangers.any():
        raise InputError(
            "data",
            received=f"a user without ratings, {data.user_ids[int(np.flatnonzero(strangers)[0])]!r}",
            expected=f"users whom the {kind} knows: it cannot score items for any other",
            remedy="Leave users without ratings out of the log.",
        )
    P, Q, f, g = (None if name is None else np.asarray(getattr(model, name), np.float64) for name in _VECTORS[kind])
    assert P is not None
    assert Q is not None
    user_factors, user_bias = np.zeros((data.n_users, P.shape[1])), np.zeros(data.n_users)
    user_factors[~strangers] = P[known.users[~strangers]]
    if f is not None:
        user_bias[~strangers] = f[known.users[~strangers]]
    item_factors, item_bias, there = np.zeros((data.n_items, Q.shape[1])), np.zeros(data.n_items), known.items >= 0
    item_factors[there] = Q[known.items[there]]
    if g is not None:
        item_bias[there] = g[known.items[there]]
    mean = 0.0 if f is None else float(model.global_mean)
    made = FactorVectors(data, user_factors, item_factors, user_bias, item_bias, mean, predicts_ratings=ratings)
    return replace(made, item_bias=np.where(there, item_bias, _lowest(made, there, mean + user_bias)))


def _weights(model: Any, data: Interactions, known: CornacIds, ratings: bool) -> LinearModel:
    """No weight to or from an item that Cornac does not know."""
    weights, there = np.zeros((data.n_items, data.n_items)), known.items >= 0
    weights[np.ix_(there, there)] = model.B[np.ix_(known.items[there], known.items[there])]
    made = from_weights(weights, data, predicts_ratings=ratings)
    return replace(made, offset=np.where(there, 0.0, _lowest(made, there, np.zeros(data.n_users))))


def _lowest(model: FittedModel, there: BoolArray, level: FloatArray) -> float:
    """The lowest score of the items that are `there` (items,), less the user's `level` (users,); 0 if all are."""
    if there.all():
        return 0.0
    blocks = np.array_split(np.arange(len(level)), -(-len(level) // 1024))
    return min(float((model.scores(block)[:, there] - level[block, None]).min()) for block in blocks)


@final
@dataclass(frozen=True, eq=False)
class CornacScores:
    """Any model's own scores, as Cornac ranks by them."""

    model: Any
    known: CornacIds

    def __call__(self, user: int) -> FloatArray:
        """(items,): all the same for a user whom Cornac does not know."""
        if self.known.users[user] < 0:
            return np.full(len(self.known.items), float(self.model.default_score()))
        return self.known.ranked(np.asarray(self.model.score(int(self.known.users[user])), dtype=np.float64).ravel())


@final
@dataclass(frozen=True, eq=False, repr=False)
class ItemAverages(FittedModel):
    """Cornac's ItemKNN: a user's ratings, less their mean, averaged over the k most similar of the items they rated.

    Similarities that rest on one shared user are 1, so that ties are common, and of tied items Cornac takes those with
    the higher ratings: which items count depends on the ratings, and scores are no affine function of them.
    """

    data: Interactions
    model: Any
    known: CornacIds
    predicts_ratings: bool

    response: ClassVar[type[Response]] = OpaqueResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return (
            f"Cornac's own average of the user's ratings over the {self.model.k} most similar rated items, asked for "
            "anew; similarities are held until the next training"
        )

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): Cornac's."""
        return LibraryScores(self.data, CornacScores(self.model, self.known), self.predicts_ratings).scores(users)

    def respond(self, viewer: int, editor: int, items: IntArray) -> OpaqueResponse:
        """What Cornac says with other ratings in the user's row."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, "another user's ratings move the similarities, by the next training only")
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        rated = self.known.items[np.concatenate([seen[kept], items])]
        return OpaqueResponse(items, lambda given: self._averages(rated, np.concatenate([ratings[kept], given])))

    def _averages(self, rated: IntArray, ratings: FloatArray) -> FloatArray:
        """(items,): of a user who gave these ratings (n,) to the items at these places of Cornac's (n,)."""
        from cornac.models.knn import recom_knn  # noqa: PLC0415  # an optional library, there where its models are

        mean, model = 0.0, self.model
        rated, ratings = rated[rated >= 0], ratings[rated >= 0]
        if len(ratings) and model.min_rating != model.max_rating:
            mean = float(np.mean(ratings))
            ratings = ratings - mean
            ratings[ratings == 0] = recom_knn.EPS
        row, averages = np.zeros(model.num_items), np.zeros(model.num_items)
        row[rated] = ratings
        near = model.sim_mat
        recom_knn.compute_score(
            False, row, near.indptr, near.indices, near.data, k=model.k, num_threads=1, output=averages
        )
        return self.known.ranked(mean + averages)


@final
@dataclass(frozen=True, eq=False)
class CornacTraining:
    """Cornac's own training with the model's settings.

    Ratings come in the order in which they came the first time, new ones after them: the same log gives the same model,
    where the model has a seed. The seed given here is added to that; with one, Cornac trains in one thread.
    """

    model: Any

    def __call__(self, data: Interactions, seed: int) -> Any:
        """A model of this log."""
        from cornac.data import Dataset  # noqa: PLC0415  # as above

        check_data(data)
        users, items = list(self.model.uid_map), list(self.model.iid_map)
        names = library_ids(data.user_ids, users), library_ids(data.item_ids, items)
        at = ((names[0][user], names[1][item]) for user, item in zip(data.users, data.items, strict=True))
        pairs = dict(zip(at, data.ratings.tolist(), strict=True))
        trained_on = getattr(self.model, "train_set", None)
        before = [] if trained_on is None else zip(*trained_on.uir_tuple[:2], strict=True)
        rows = first(((users[user], items[item]) for user, item in before), pairs)
        known = set(self.model._get_init_params())
        new = {"seed": (getattr(self.model, "seed", None) or 0) + seed, "verbose": False, "trainable": True}
        made = self.model.clone({name: value for name, value in new.items() if name in known})
        return made.fit(Dataset.from_uir([(*pair, pairs[pair]) for pair in rows]))

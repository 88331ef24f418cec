"""Models of Surprise (scikit-surprise): vectors, baselines, neighbourhoods, and any other by its own estimates."""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from recaudit.arguments import check_count, checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, not_fitted, unknown_model
from recaudit.models.adapters.logs import check_trained_on, first, library_ids, library_places, log_places
from recaudit.models.base import FittedModel
from recaudit.models.checks import check_data
from recaudit.models.factor.model import FactorVectors
from recaudit.models.given.scores import LibraryScores
from recaudit.models.neighbour.held import HeldItemNeighbours, HeldUserNeighbours, NearestRated
from recaudit.models.rows import SparseRows
from recaudit.models.updates import RatedVector, UpdateRule, error_step


@checked
def adapted(model: Any, data: Interactions, *, passes: int = 1) -> FittedModel:
    """A fitted algorithm of Surprise. Ids are the raw ones; where Surprise read them as text, the log's may be numbers.

    Users and items that Surprise does not know get its own fallback. Where it learns by gradient steps, new ratings are
    taken in by `passes` of such steps over them: 1 is the least that training does with them, and as many as it has
    epochs, with nothing to pull a vector back to its old ratings, about the most.
    """
    check_count("passes", passes)
    if not hasattr(model, "estimate"):
        raise unknown_model(model, "Surprise's algorithms")
    if not hasattr(model, "trainset"):
        raise not_fitted(model)
    known = SurpriseIds.of(model.trainset, data)
    kind = type(model).__name__ if type(model).__module__.startswith("surprise.") else ""
    made: FittedModel
    if kind in ("SVD", "SVDpp", "NMF", "BaselineOnly"):
        made = _vectors(model, kind, data, known, passes)
    elif kind.startswith("KNN"):
        made = _neighbours(model, kind, data, known)
    else:
        made = LibraryScores(data, SurpriseEstimates(model, known), predicts_ratings=True)
    plain = {name: value for name, value in vars(model).items() if isinstance(value, bool | int | float | str | dict)}
    library = f"scikit-surprise {version('scikit-surprise')}"
    settings = {"algorithm": type(model).__name__, **plain}
    train, options = SurpriseTraining(model), {"passes": passes}
    return made.with_recommender(Retrained(library=library, settings=settings, train=train, options=options))


# ---- ids and ratings -----------------------------------------------------------------------------------


class SurpriseIds(NamedTuple):
    """Where the log's users and items are in Surprise."""

    users: IntArray
    """(users,): the inner id, -1 for a user whom Surprise does not know."""
    items: IntArray
    """(items,)"""

    @classmethod
    def of(cls, trainset: Any, data: Interactions) -> SurpriseIds:
        """By raw ids; the ratings must be those of the log."""
        known = cls(
            library_places(data.user_ids, raw_users(trainset)), library_places(data.item_ids, raw_items(trainset))
        )
        rows = list(trainset.all_ratings())
        users, items = (
            log_places(*each) for each in ((known.users, trainset.n_users), (known.items, trainset.n_items))
        )
        check_trained_on(
            data,
            users[[user for user, _, _ in rows]],
            items[[item for _, item, _ in rows]],
            np.array([rating for _, _, rating in rows]),
        )
        return known

    @staticmethod
    def lists(ratings: Any, of: IntArray, others: IntArray) -> SparseRows:
        """Surprise's lists of (other, rating) in its own order, by position: a row for each inner id in `of`."""
        position = log_places(others, int(others.max(initial=-1)) + 1)
        found = [ratings.get(inner, []) for inner in of.tolist()]
        indptr = np.concatenate([[0], np.cumsum([len(pairs) for pairs in found])]).astype(np.uint64)
        at = np.array([other for pairs in found for other, _ in pairs], dtype=np.int64)
        values = np.array([rating for pairs in found for _, rating in pairs], dtype=np.float64)
        return SparseRows(indptr, position[at].astype(np.uint32), values)


def raw_users(trainset: Any) -> list[object]:
    """By inner id."""
    return [trainset.to_raw_uid(user) for user in trainset.all_users()]


def raw_items(trainset: Any) -> list[object]:
    """The same of items."""
    return [trainset.to_raw_iid(item) for item in trainset.all_items()]


def _rows(values: FloatArray, inner: IntArray) -> FloatArray:
    """The rows of an array of Surprise's in the order of the log; zeros for what Surprise does not know."""
    out = np.zeros((len(inner), *values.shape[1:]))
    out[inner >= 0] = values[inner[inner >= 0]]
    return out


# ---- vectors and biases --------------------------------------------------------------------------------


def _vectors(model: Any, kind: str, data: Interactions, known: SurpriseIds, passes: int) -> FactorVectors:
    """`mean + b_u + b_i + p_u . q_i`; SVD++ has the user's rated items in p_u."""
    mean, biased = float(model.trainset.global_mean), getattr(model, "biased", True)
    f, g = (_rows(bias, inner) for bias, inner in ((model.bu, known.users), (model.bi, known.items)))
    no_vectors = kind == "BaselineOnly"
    P = np.zeros((data.n_users, 1)) if no_vectors else _rows(model.pu, known.users)
    Q = np.zeros((data.n_items, 1)) if no_vectors else _rows(model.qi, known.items)
    if not biased:
        f, g, mean = _without_biases(mean, known)
    vectors = FactorVectors(data, P, Q, f, g, mean)
    if kind == "NMF":
        return vectors
    if no_vectors and model.bsl_options.get("method", "als") == "als":
        penalties = (float(model.bsl_options.get(name, usual)) for name, usual in (("reg_u", 15), ("reg_i", 10)))
        return vectors.with_update(BaselineSolve(*penalties))
    if no_vectors:
        rates = Rates(0.0, 0.0, model.bsl_options.get("learning_rate", 0.005), model.bsl_options.get("reg", 0.02))
        return vectors.with_update(TrainingPasses(passes, rates, rates))
    user, item = (
        Rates(
            getattr(model, f"lr_{vector}"),
            getattr(model, f"reg_{vector}"),
            getattr(model, f"lr_{bias}") if biased else 0.0,
            getattr(model, f"reg_{bias}") if biased else 0.0,
        )
        for vector, bias in (("pu", "bu"), ("qi", "bi"))
    )
    if kind == "SVD":
        return vectors.with_update(TrainingPasses(passes, user, item))
    implicit = Implicit(P, _rows(model.yj, known.items), model.lr_yj, model.reg_yj)
    moved = np.stack([p + implicit.sum_of(data.history(u)[0]) for u, p in enumerate(P)])
    vectors = FactorVectors(data, moved, Q, f, g, mean)
    return vectors.with_update(TrainingPasses(passes, user, item, implicit))


def _without_biases(mean: float, known: SurpriseIds) -> tuple[FloatArray, FloatArray, float]:
    """Biases that make the mean of what Surprise does not know, and nothing of what it does."""
    f, g = np.where(known.users < 0, mean, 0.0), np.where(known.items < 0, mean, 0.0)
    if f.any() and g.any():
        raise InputError(
            "data",
            received="users and items, both without a rating",
            expected="one of them: of an unbiased model Surprise predicts the mean for either, which vectors do not",
            remedy="Leave the users without ratings out of the log.",
        )
    return f, g, 0.0


class Rates(NamedTuple):
    """Step sizes and penalties of one side."""

    vector: float
    vector_penalty: float
    bias: float
    bias_penalty: float


class Implicit(NamedTuple):
    """What SVD++ has besides: `|I_u|^-1/2 sum_j y_j` over the items I_u that the user rated is added to p_u."""

    p: FloatArray
    """(users, factors): what of a user's vector does not come from there."""
    y: FloatArray
    """(items, factors)"""
    rate: float
    penalty: float

    def sum_of(self, items: NDArray[np.int32] | IntArray) -> FloatArray:
        """(factors,): of a user who rated these items (n,)."""
        total: FloatArray = self.y[items].sum(axis=0) / np.sqrt(max(1, len(items)))
        return total


@final
@dataclass(frozen=True, eq=False)
class TrainingPasses(UpdateRule):
    """Passes of Surprise's own training over the new ratings: a gradient step for each in turn.

    `w+ = w + rate * (error * x - penalty * w)`, w the vector and its bias, x the vector on the other side and 1. In
    SVD++ `z = |I|^-1/2 sum_j y_j` is a part of w of its own: its y_j all take a step of `error x |I|^-1/2`, so that z
    takes one of `error x`. I has the newly rated items in it.
    """

    passes: int
    user: Rates
    item: Rates
    implicit: Implicit | None = None

    @property
    def users_only(self) -> bool:
        """See `UpdateRule`; the y_j of an item are in the vectors of all who rated it."""
        return self.implicit is not None

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        passes = "one pass" if self.passes == 1 else f"{self.passes} passes"
        return (
            f"{passes} of Surprise's own training over the new ratings, a gradient step for each (of size "
            f"{self.user.vector:g} for a user's vector, {self.item.vector:g} for an item's), everything else held; "
            "Surprise has no other way to take in ratings than to train again"
        )

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        rates, X, factors = self.user if row.side == "user" else self.item, row.others[row.acted], len(row.vector)
        parts = [(row.vector, rates.vector, rates.vector_penalty)]
        if self.implicit is not None:
            z = self.implicit.sum_of(np.concatenate([row.kept, row.acted]))
            p = self.implicit.p[row.position]
            parts = [(p, *parts[0][1:]), (z, self.implicit.rate, self.implicit.penalty)]
        # Where there are no biases, what stands for one is the mean that unknown users get: with a rating it is gone.
        bias = row.bias if rates.bias or not len(X) else 0.0
        parts.append((np.array([bias]), rates.bias, rates.bias_penalty))
        level = np.concatenate([start for start, _, _ in parts])
        step = np.concatenate([np.full(len(start), rate) for start, rate, _ in parts])
        held = 1 - np.concatenate([np.full(len(start), rate * penalty) for start, rate, penalty in parts])
        matrix = np.zeros((len(level), len(X)))
        for action, vector in [*enumerate(X)] * self.passes:
            x = np.append(np.tile(vector, len(parts) - 1), 1.0)
            known = row.offset[row.acted[action]] - row.bias
            matrix, level = error_step(matrix, level, action, x, known, held, step * x)
        if self.implicit is None:
            return matrix, level
        own = 2 * factors
        return (
            np.vstack([matrix[:factors] + matrix[factors:own], matrix[own:]]),
            np.concatenate([level[:factors] + level[factors:own], level[own:]]),
        )


@final
@dataclass(frozen=True, eq=False)
class BaselineSolve(UpdateRule):
    """A bias as Surprise's alternating least squares have it: `sum (r - mean - other bias) / (penalty + ratings)`."""

    user_penalty: float
    item_penalty: float

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        return "Surprise's own estimate of a bias from all its ratings, the biases on the other side held"

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        count = len(row.kept) + len(row.acted)
        penalty = self.user_penalty if row.side == "user" else self.item_penalty
        share = 1 / (count + penalty) if count + penalty else 0.0
        known = row.offset - row.bias
        level = share * ((row.ratings - known[row.kept]).sum() - known[row.acted].sum())
        vector = np.zeros(len(row.vector))  # there is none
        return np.outer(np.append(vector, share), np.ones(len(row.acted))), np.append(vector, level)


# ---- neighbourhoods ------------------------------------------------------------------------------------


def _neighbours(
    model: Any, kind: str, data: Interactions, known: SurpriseIds
) -> HeldItemNeighbours | HeldUserNeighbours:
    """Similarities, means and baselines as fitted; x and y are Surprise's: users and items, or items and users."""
    by_user, mean = bool(model.sim_options["user_based"]), float(model.trainset.global_mean)
    x, y = (known.users, known.items) if by_user else (known.items, known.users)
    similarity, both = np.zeros((len(x), len(x))), x >= 0
    similarity[np.ix_(both, both)] = model.sim[np.ix_(x[both], x[both])].T
    base, other_base, scale = np.zeros(len(x)), np.zeros(len(y)), np.ones(len(x))
    if kind == "KNNBaseline":
        base, other_base = mean + _rows(model.bx, x), _rows(model.by, y)
    elif kind != "KNNBasic":
        base = _rows(model.means, x)
    if kind == "KNNWithZScore":
        scale[both] = np.where(model.sigmas[x[both]] > 0, model.sigmas[x[both]], 1.0)  # 0 where all ratings are equal
    alone, unknown = mean if kind == "KNNBasic" else None, None if kind == "KNNBaseline" else mean
    near = NearestRated(similarity, model.k, model.min_k, base, other_base, scale, alone, unknown)
    lists, knows_x = known.lists(model.yr, y, x), _is_known(model.xr, x)
    if by_user:
        return HeldUserNeighbours(data, near, lists, knows_x)
    return HeldItemNeighbours(data, near, lists, knows_x, "Surprise")


def _is_known(ratings: Any, inner: IntArray) -> BoolArray:
    return np.array([each in ratings for each in inner.tolist()], dtype=bool)


# ---- any other algorithm, and training -----------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SurpriseEstimates:
    """Any algorithm's own estimates, a pair at a time."""

    model: Any
    known: SurpriseIds

    def __call__(self, user: int) -> FloatArray:
        """(items,)"""
        trainset, inner = self.model.trainset, int(self.known.users[user])
        # A raw id that Surprise cannot know stands for those that it does not know.
        who = trainset.to_raw_uid(inner) if inner >= 0 else _Stranger()
        what = [trainset.to_raw_iid(item) if item >= 0 else _Stranger() for item in self.known.items.tolist()]
        return np.array([self.model.predict(who, item, clip=False).est for item in what], dtype=np.float64)


class _Stranger:
    """An id that nobody has."""


@final
@dataclass(frozen=True, eq=False)
class SurpriseTraining:
    """Surprise's own training with the model's settings.

    Ids and ratings come in the order in which they came the first time, new ones after them: the same log gives the
    same model, where the algorithm has a whole number as its random_state. The seed is added to that.
    """

    model: Any

    def __call__(self, data: Interactions, seed: int) -> Any:
        """An algorithm fitted to this log."""
        check_data(data)
        made = copy.copy(self.model)
        made.verbose = False
        if hasattr(made, "random_state"):
            own = made.random_state
            made.random_state = own + seed if isinstance(own, int | np.integer) else seed
        return made.fit(trainset_of(data, self.model.trainset))


def trainset_of(data: Interactions, before: Any) -> Any:
    """A trainset of the log, in the order of an earlier one of (mostly) the same ids and ratings."""
    from surprise import Trainset  # noqa: PLC0415  # an optional library, needed to train only

    old_users, old_items = raw_users(before), raw_items(before)
    log_users, log_items = library_ids(data.user_ids, old_users), library_ids(data.item_ids, old_items)
    pairs = {
        (log_users[user], log_items[item]): rating
        for user, item, rating in zip(data.users.tolist(), data.items.tolist(), data.ratings.tolist(), strict=True)
    }
    users = {user: inner for inner, user in enumerate(first(old_users, (user for user, _ in pairs)))}
    items = {item: inner for inner, item in enumerate(first(old_items, (item for _, item in pairs)))}
    rows = [(old_users[user], old_items[item]) for user, item, _ in before.all_ratings()]
    columns = [(old_users[user], old_items[item]) for item, raters in before.ir.items() for user, _ in raters]
    by_user, by_item = defaultdict(list), defaultdict(list)
    for user, item in first(rows, pairs):
        by_user[users[user]].append((items[item], pairs[user, item]))
    for user, item in first(columns, pairs):
        by_item[items[item]].append((users[user], pairs[user, item]))
    ordered = {user: by_user[user] for user in range(len(users))}
    return Trainset(ordered, by_item, len(users), len(items), len(pairs), data.scale, users, items)

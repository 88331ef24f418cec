"""Each user's interests p(g|u), and lists that keep them in proportion: paper 004, Equations 2, 6 and 7."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeVar, final

import numpy as np
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.calibration.measures import measurable
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError, did_you_mean
from recaudit.policies.calibrated import Calibrated, CalibrationTarget, ScoreTransform
from recaudit.ranking import shared_ranks
from recaudit.solvers.lists.calibrated import NO_CAP, CalibratedLists, calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors, rank_weights
from recaudit.ties import TieKeys

Distance = Callable[[FloatArray, FloatArray], FloatArray]
AnyTarget = TypeVar("AnyTarget", bound=CalibrationTarget)


@final
class Target:
    """Interests in the categories of one system, or of several side by side."""

    def __init__(self, data: Interactions, wanted: CalibrationTarget) -> None:
        self.systems = systems_of(data, wanted.categories)
        """By name, the importance of each."""
        chosen = [data.categories[name] for name in self.systems]
        parts = []
        for system in chosen:
            p = interests(_weighted_history(data, wanted, system.weights), system.weights)
            if wanted.prior_weight > 0:  # Equation 7: also what the user has not tried yet
                prior = _prior(wanted, system.names, p, one=len(chosen) == 1)
                mixed = wanted.prior_weight * prior + (1 - wanted.prior_weight) * p
                p = np.where(p.sum(axis=1, keepdims=True) > 0, mixed, prior)
            parts.append(p)
        self.interests = np.hstack(parts)
        """(users + 1, genres): p(g|u); the last row, which position -1 finds, is of somebody unknown to the log."""
        self.names = tuple(genre for system in chosen for genre in system.names)
        """(genres,): the categories, system after system."""
        self.shares = sparse.csr_array(sparse.hstack([system.weights for system in chosen], format="csr"))
        """(items, genres): p(g|i)."""
        sizes = [len(system.names) for system in chosen]
        self.spans = [slice(start, end) for start, end in pairwise(np.cumsum([0, *sizes]).tolist())]
        """The genres of each system."""
        self.importance = np.repeat([*self.systems.values()], sizes)
        """(genres,): of the genre's system."""

    @property
    def labels(self) -> tuple[str, ...]:
        """(genres,): the categories; of several systems with the system's name."""
        if len(self.systems) == 1:
            return self.names
        parts = zip(self.systems, self.spans, strict=True)
        return tuple(f"{system}: {name}" for system, span in parts for name in self.names[span])

    def each(self, distance: Distance, p: FloatArray, q: FloatArray) -> FloatArray:
        """(systems, users): a distance between `p` and `q` (users, genres) in each system; NaN where it has none."""
        known = [measurable(p[:, span], q[:, span]) for span in self.spans]
        found = [distance(p[:, span], q[:, span]) for span in self.spans]
        return np.where(known, found, np.nan)

    def mean(self, of_systems: FloatArray) -> FloatArray:
        """(users,): the mean of (systems, users), each system counting by its importance; 0 leaves it out."""
        importance = np.array([*self.systems.values()])
        counted = importance > 0
        return np.asarray(importance[counted] @ of_systems[counted] / importance.sum())


def systems_of(data: Interactions, categories: str | Mapping[str, float] | None) -> dict[str, float]:
    """The category systems that are meant, and their importance."""
    known = data.categories
    if not known:
        raise InputError(
            "data",
            received="a log without categories",
            expected="a category system: calibration is about the proportions of categories",
            remedy="Add one with data.with_items(frame, categories={'genre': 'genres'}) or data.with_categories(...).",
        )
    if categories is None and len(known) > 1:
        raise InputError(
            "categories",
            received="None for a log with several category systems",
            expected="the name of one",
            remedy=f"Known: {', '.join(known)}.",
        )
    chosen = {categories or next(iter(known)): 1.0} if not isinstance(categories, Mapping) else dict(categories)
    for name in chosen:
        if name not in known:
            remedy = did_you_mean(name, known)
            raise InputError("categories", received=repr(name), expected="a category system of the log", remedy=remedy)
    return chosen


def with_system(wanted: AnyTarget, data: Interactions) -> AnyTarget:
    """The same target with its category system named: the log's first where nothing is said."""
    if not data.categories:
        raise NotSupportedError(
            "calibration: the log has no categories, so that interests have no proportions. Name some with items and "
            "categories under [data], or add them with data.with_items(frame, categories={'genre': 'genres'})."
        )
    first = next(iter(data.categories))
    return wanted if wanted.categories is not None else wanted.model_copy(update={"categories": first})


def interests(history: sparse.csr_array, shares: sparse.csr_array) -> FloatArray:
    """(users, genres): p(g|u), the weighted share of each genre in a user's history (Equation 2).

    `history` (users, items) has the weight of each chosen item, `shares` (items, genres) is p(g|i). Items without
    any genre do not count. A row sums to one; to zero where nothing is left.
    """
    if not (np.isfinite(history.data).all() and (history.data >= 0).all()):
        raise InputError(
            "history",
            received="a weight below 0, NaN or infinite",
            expected="finite weights of 0 or more",
            remedy="Ratings on a scale that goes below 0 need a shift, or weights of 1.",
        )
    # Each user's weights divided by the largest one that counts, so that sums stay within the range of numbers.
    counted = history.data * (np.diff(shares.indptr) > 0)[history.indices]
    lengths, largest = np.diff(history.indptr), np.zeros(history.shape[0])
    np.maximum.at(largest, np.repeat(np.arange(history.shape[0]), lengths), counted)
    relative = counted / np.repeat(np.where(largest > 0, largest, 1.0), lengths)
    held: FloatArray = (sparse.csr_array((relative, history.indices, history.indptr), history.shape) @ shares).toarray()
    total = held.sum(axis=1, keepdims=True)
    return held / np.where(total > 0, total, 1.0)


def _weighted_history(data: Interactions, wanted: CalibrationTarget, shares: sparse.csr_array) -> sparse.csr_array:
    """(users + 1, items): the weight of every item of each history; nothing in the last row."""
    values = data.ratings if wanted.history_weights == "rating" else np.ones(len(data))
    check_times(data, wanted)
    if wanted.half_life is not None:
        values = _recency(data, wanted.half_life, np.diff(shares.indptr) > 0)
    indptr = np.append(data.indptr, data.indptr[-1])
    return sparse.csr_array((values, data.items, indptr), shape=(data.n_users + 1, data.n_items))


def check_times(data: Interactions, wanted: CalibrationTarget) -> None:
    """Refuse a log without times if items count less the older they are."""
    if wanted.half_life is not None and data.times is None:
        raise InputError(
            "history_weights",
            received="'recency' for a log without times",
            expected="a log with times",
            remedy="Name the time column when you build the log: time='timestamp', for instance.",
        )


def _recency(data: Interactions, half_life: float, counts: BoolArray) -> FloatArray:
    """(rows,): 2^(-age / half-life); the age is that before the user's latest item of those that count (items,)."""
    assert data.times is not None
    times = data.times.astype(np.float64)
    latest = np.full(data.n_users, -np.inf)
    counted = counts[data.items]
    np.maximum.at(latest, data.users[counted], times[counted])
    age = np.maximum(latest[data.users] - times, 0.0)
    with np.errstate(over="ignore"):  # an age of more half-lives than there are numbers counts nothing
        return np.asarray(np.exp2(-age / half_life))


def _prior(wanted: CalibrationTarget, names: tuple[str, ...], p: FloatArray, *, one: bool) -> FloatArray:
    """(genres,): p0; `p` (users, genres) are the interests of everybody."""
    prior = wanted.prior
    if isinstance(prior, str):
        known = p.sum(axis=1) > 0
        # Without anybody's history nothing is known about the population.
        return p[known].mean(axis=0) if prior == "population" and known.any() else np.full(len(names), 1 / len(names))
    if not one:
        raise InputError(
            "prior",
            received="probabilities beside several category systems",
            expected="'uniform' or 'population', or a single system",
        )
    for name in prior:
        if name not in names:
            remedy = did_you_mean(name, names)
            raise InputError("prior", received=repr(name), expected="a category of the system", remedy=remedy)
    return np.array([prior.get(name, 0.0) for name in names])


# ---- lists ---------------------------------------------------------------------------------------------


@final
class Calibrator:
    """The policy with everything that it takes from a log, made once for all blocks of users; a `Lister`."""

    def __init__(self, policy: Calibrated, data: Interactions) -> None:
        self.policy, self.data = policy, data
        self.target = Target(data, policy)
        self._vectors = CategoryVectors.of(self.target.shares)
        self._caps = _caps(policy.at_most, self.target.names)
        self._must, self._must_not = (np.zeros(data.n_items, dtype=np.bool_) for _ in range(2))
        for name, mask in (("must", self._must), ("must_not", self._must_not)):
            if ids := getattr(policy, name):
                mask[data.items_at(ids, name)] = True

    def __call__(self, scores: FloatArray, allowed: BoolArray, users: IntArray, n: int, rng: int) -> IntArray:
        """(users, n): the lists."""
        return self.solve(scores, allowed, users, n).lists

    def solve(
        self,
        scores: FloatArray,
        allowed: BoolArray,
        users: IntArray,
        n: int,
        *,
        ties: TieKeys | None = None,
        weight: float | None = None,
        pool: IntArray | None = None,
        certify: bool = False,
    ) -> CalibratedLists:
        """Lists (users, n) with the policy's weight or another, out of all items or of a `pool` alone.

        `scores`, `allowed` (users, items), or (users, len(pool)); the lists are positions among those. A user at
        position -1 is unknown to the log, and then `ties` has the keys of the users and all items. With `certify`, how
        far each list's objective may be below the best one's.
        """
        policy, ties = self.policy, self.data.tie_keys(users) if ties is None else ties
        items, vectors = np.arange(self._vectors.n_items), self._vectors
        if pool is not None:
            items, vectors, ties = pool, _only(vectors, pool), ties.columns(pool)
        chosen = policy.weight if weight is None else weight
        allowed = allowed & ~self._must_not[items]
        return calibrated_lists(
            transformed(scores, allowed, policy.transform),
            allowed,
            vectors,
            self.target.interests[users],
            weight=np.array([*chosen, *chosen[-1:] * n][:n]) if isinstance(chosen, tuple) else chosen,
            size=n,
            rank_weights=rank_weights(policy.rank_weights, n),
            smoothing=policy.smoothing,
            importance=self.target.importance,
            caps=self._caps,
            must=allowed & self._must[items] if self._must.any() else None,
            horizon=policy.horizon,
            ties=ties,
            certify=certify,
        )


def transformed(scores: FloatArray, allowed: BoolArray, kind: ScoreTransform) -> FloatArray:
    """(users, items): the allowed scores on another scale, in the same order; all equal ones are 0, or 1 for "rank"."""
    if kind == "none":
        return scores
    count = np.maximum(allowed.sum(axis=1, keepdims=True), 1)
    if kind == "rank":
        place = shared_ranks(scores, allowed)
        return np.asarray(np.where(allowed, 1 - (place - 1) / count, 0.0))
    if kind == "minmax":
        low = np.where(allowed, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        span = np.where(allowed, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) - low
    else:
        low = np.where(allowed, scores, 0.0).sum(axis=1, keepdims=True) / count
        span = np.sqrt(np.square(np.where(allowed, scores - low, 0.0)).sum(axis=1, keepdims=True) / count)
    return np.asarray(np.where(allowed, scores - low, 0.0) / np.where(span > 0, span, 1.0))


def _caps(at_most: dict[str, int], names: tuple[str, ...]) -> IntArray:
    caps = np.full(len(names), NO_CAP)
    for name, most in at_most.items():
        if name not in names:
            remedy = did_you_mean(name, names)
            raise InputError("at_most", received=repr(name), expected="a category of the log", remedy=remedy)
        caps[[genre == name for genre in names]] = most
    return caps


def _only(vectors: CategoryVectors, items: IntArray) -> CategoryVectors:
    """The vectors of these items alone, numbered from 0; vectors that none of them has stay, without members."""
    vector_of = vectors.vector_of[items]
    counts = np.bincount(vector_of, minlength=vectors.n_vectors)
    return vectors._replace(
        vector_of=vector_of,
        member_indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        members=np.argsort(vector_of, kind="stable").astype(np.int32),
    )

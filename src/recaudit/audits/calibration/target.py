"""What lists are calibrated to: the interests of each user in the categories of one system or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import FloatArray
from recaudit.audits.calibration.interests import interests, recency_weights, with_prior
from recaudit.audits.calibration.measures import measurable
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean
from recaudit.policies.calibrated import MOST_IMPORTANT, HistoryWeights

Distance = Callable[[FloatArray, FloatArray], FloatArray]
PriorSetting = Literal["uniform", "population"] | Mapping[str, float]


@final
@dataclass(frozen=True)
class Taste:
    """How interests come out of a history; the words are those of `Calibrated`."""

    weights: HistoryWeights | None = None
    half_life: float | None = None
    prior_weight: float = 0.0
    prior: PriorSetting = "population"


@final
@dataclass(frozen=True, eq=False)
class Target:
    """Interests in the categories of one system, or of several side by side."""

    systems: Mapping[str, float]
    """By name, the importance of each."""
    spans: tuple[slice, ...]
    """The genres of each system."""
    names: tuple[str, ...]
    """(genres,): the categories, system after system."""
    shares: sparse.csr_array
    """(items, genres): p(g|i)."""
    interests: FloatArray
    """(users + 1, genres): p(g|u). The last row, which position -1 finds, is of somebody whom the log does not know."""
    importance: FloatArray
    """(genres,): of the genre's system."""

    @classmethod
    def of(cls, data: Interactions, categories: str | Mapping[str, float] | None, taste: Taste) -> Target:
        """The target that this log gives."""
        chosen = systems_of(data, categories)
        parts = []
        for name in chosen:
            system = data.categories[name]
            p = interests(_weighted_history(data, taste, system.weights), system.weights)
            if taste.prior_weight > 0:
                p = with_prior(p, taste.prior_weight, _prior(taste.prior, system.names, one=len(chosen) == 1))
            parts.append(p)
        ends = np.cumsum([0, *(len(data.categories[name].names) for name in chosen)]).tolist()
        return cls(
            chosen,
            tuple(slice(start, end) for start, end in pairwise(ends)),
            tuple(genre for name in chosen for genre in data.categories[name].names),
            sparse.csr_array(sparse.hstack([data.categories[name].weights for name in chosen], format="csr")),
            np.hstack(parts),
            np.concatenate([np.full(len(data.categories[name].names), weight) for name, weight in chosen.items()]),
        )

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
    if categories is None:
        if len(known) > 1:
            raise InputError(
                "categories",
                received="None for a log with several category systems",
                expected="the name of one",
                remedy=f"Known: {', '.join(known)}.",
            )
        return dict.fromkeys(known, 1.0)
    chosen = {categories: 1.0} if isinstance(categories, str) else dict(categories)
    for name in chosen:
        if name not in known:
            remedy = did_you_mean(name, known)
            raise InputError("categories", received=repr(name), expected="a category system of the log", remedy=remedy)
    if not all(0 <= importance <= MOST_IMPORTANT for importance in chosen.values()) or not any(chosen.values()):
        raise InputError(
            "categories",
            received=repr(chosen) if chosen else "no category system",
            expected=f"at least one, with an importance from 0 to {MOST_IMPORTANT:g} each, and one above 0",
        )
    return chosen


def _weighted_history(data: Interactions, taste: Taste, shares: sparse.csr_array) -> sparse.csr_array:
    """(users + 1, items): the weight of every item of each history; nothing in the last row.

    By recency, the user's latest item that has any category in `shares` (items, genres) counts 1.
    """
    if taste.weights is None:
        values = np.ones(len(data))
    elif taste.weights == "rating":
        values = data.ratings
    elif taste.weights == "recency":
        values = _recency(data, taste.half_life, np.diff(shares.indptr) > 0)
    else:
        remedy = did_you_mean(str(taste.weights), ["rating", "recency"])
        received = repr(taste.weights)
        raise InputError("weights", received=received, expected="'rating', 'recency' or None", remedy=remedy)
    indptr = np.append(data.indptr, data.indptr[-1])
    return sparse.csr_array((values, data.items, indptr), shape=(data.n_users + 1, data.n_items))


def _recency(data: Interactions, half_life: float | None, counts: NDArray[np.bool_]) -> FloatArray:
    """(rows,): half for every `half_life` before the user's latest item of those that count (items,)."""
    if half_life is None or not 0 < half_life < np.inf:
        raise InputError(
            "half_life",
            received=half_life,
            expected="for 'recency', the age at which an item counts half, in the unit of the log's times",
            remedy="Where times are in seconds, 30 days are 30 * 86_400.",
        )
    if data.times is None:
        raise InputError(
            "weights",
            received="'recency' for a log without times",
            expected="a log with times",
            remedy="Name the time column when you build the log: time='timestamp', for instance.",
        )
    times = data.times.astype(np.float64)
    latest = np.full(data.n_users, -np.inf)
    counted = counts[data.items]
    np.maximum.at(latest, data.users[counted], times[counted])
    return recency_weights(times, latest[data.users], half_life, unit=1.0)


def _prior(prior: PriorSetting, names: tuple[str, ...], *, one: bool) -> Literal["uniform", "population"] | FloatArray:
    if isinstance(prior, str):
        return prior
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

"""Recommenders that know nothing of the user: what every other model has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.products import ScoreVectors
from recaudit.seeding import derive, uniforms


@final
class TopPop(Recommender):
    """The same scores for everybody: how often an item was rated, or how well."""

    by: Literal["count", "mean"] = "count"
    """"count": the number of ratings, which only ranks; "mean": the damped mean rating, which predicts."""
    damping: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """For "mean": so many pseudo-ratings at the global mean are added, so that one rating of 5 tops no list."""

    @property
    def learns_from_clicks(self) -> bool:
        """See `Recommender`."""
        return self.by == "count"

    def fit(self, data: Interactions, rng: int = 0) -> PopularityModel:
        """Count, or average. Nothing is drawn: `rng` has no effect."""
        self.check_log(data)
        if self.by == "count":
            return PopularityModel(data, data.item_counts.astype(np.float64), predicts_ratings=False)
        return PopularityModel(data, item_means(data, self.damping), predicts_ratings=True)


@final
class Random(Recommender):
    """A score for every pair, uniform on the rating scale and fixed by the seed and the ids: a floor for metrics.

    Where every rating of the log is the same, scores lie between 0 and 1 and only rank.
    """

    def fit(self, data: Interactions, rng: int = 0) -> RandomModel:
        """Nothing is learned but the ids and the scale."""
        self.check_log(data)
        low, high = data.scale
        return RandomModel(data, derive(rng, "models.Random"), predicts_ratings=low < high)


@final
@dataclass(frozen=True, eq=False, repr=False)
class PopularityModel(FittedModel):
    """One score an item, whoever asks."""

    data: Interactions
    item_scores: FloatArray
    """(items,)"""
    predicts_ratings: bool

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): the same row for every user."""
        return np.tile(self.item_scores, (len(users), 1))

    def score_vectors(self) -> ScoreVectors:
        """See `FittedModel`; offsets alone."""
        users, items = np.empty((self.data.n_users, 0)), np.empty((self.data.n_items, 0))
        return ScoreVectors(users, items, np.zeros(len(users)), self.item_scores)


@final
@dataclass(frozen=True, eq=False, repr=False)
class RandomModel(FittedModel):
    """Uniform scores, a pure function of the seed and of the ids of the pair."""

    data: Interactions
    seed: int
    predicts_ratings: bool

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): draws on the rating scale, or from 0 to 1 where that has no width."""
        draws = uniforms(self.seed, self.data.user_keys[users][:, None], self.data.item_keys[None, :])
        low, high = self.data.scale if self.predicts_ratings else (0.0, 1.0)
        scores: FloatArray = low + (high - low) * draws
        return scores


def item_means(data: Interactions, damping: float = 0.0) -> FloatArray:
    """(items,): `(sum of ratings + damping mu) / (count + damping)`, mu the global mean; mu without ratings."""
    overall = data.ratings.mean()
    totals = np.bincount(data.items, weights=data.ratings, minlength=data.n_items) + damping * overall
    counts = data.item_counts + damping
    means: FloatArray = np.where(counts > 0, totals / np.where(counts > 0, counts, 1), overall)
    return means

"""Popular of late: each rating counts, the less the older it is."""

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.data import Interactions
from recaudit.models import FittedModel, Recommender
from recaudit.models.checks import check_data


class RecentlyPopular(Recommender):
    """How often an item was rated, a rating counting half after every `half_life` of the log's span."""

    half_life: float = Field(default=0.1, gt=0)
    """As a share of the time between the first and the last rating."""

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """Count."""
        check_data(data)
        times = np.zeros(len(data)) if data.times is None else data.times.astype(np.float64)
        age = (times.max() - times) / max(float(np.ptp(times)), 1.0)
        counts = np.bincount(data.items, 0.5 ** (age / self.half_life), data.n_items)
        return Counted(data, counts)


@dataclass(frozen=True, eq=False)
class Counted(FittedModel):
    """The same scores for everybody."""

    data: Interactions
    counts: FloatArray
    predicts_ratings: bool = False

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)"""
        return np.tile(self.counts, (len(users), 1))

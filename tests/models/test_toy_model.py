"""Adding a model, from start to end: a configuration, a fitted model, and the contract that it inherits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

import recaudit as ra
from recaudit.data.splits import Split
from recaudit.models.checks import check_data
from recaudit.testing.models import ModelContract


class MidScale(ra.models.Recommender):
    """Predicts the middle of the scale, moved towards what the item got."""

    pull: float = 0.5

    def fit(self, data: ra.Interactions, rng: int = 0) -> FittedMidScale:
        check_data(data)
        middle = sum(data.scale) / 2
        total = np.bincount(data.items, data.ratings - middle, data.n_items)
        return FittedMidScale(data, middle + self.pull * total / np.maximum(data.item_counts, 1))


@final
@dataclass(frozen=True, eq=False)
class FittedMidScale(ra.models.FittedModel):
    data: ra.Interactions
    level: np.ndarray[tuple[int], np.dtype[np.float64]]

    def scores(self, users: np.ndarray[tuple[int], np.dtype[np.int64]]) -> NDArray[np.float64]:
        return np.tile(self.level, (len(users), 1))


class TestMidScale(ModelContract):
    recommender = MidScale()


def test_every_audit_takes_it(split: Split) -> None:
    model = MidScale().fit(split.train)
    assert ra.accuracy(model, split.test)["rmse"] < 1.5
    assert 0 < ra.exposure(model)["coverage"] < 1

"""Two things to keep low at once: which models are worth a look, and where more of one costs most of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray
from recaudit.models.factor.wals import WALS

Folded = Literal["folding", "shown_folding"]
"""Over all pairs, or over what would be shown."""
_ROUNDING = 1e-9
"""The ends lie on the chord, to within this."""


def on_front(first: FloatArray, second: FloatArray) -> BoolArray:
    """(points,): True where no other point is as low in both and lower in one; `first` and `second` are (points,)."""
    no_higher = (first[:, None] <= first) & (second[:, None] <= second)
    lower = (first[:, None] < first) | (second[:, None] < second)
    return np.asarray(~(no_higher & lower).any(axis=0))


def knee(first: FloatArray, second: FloatArray) -> int | None:
    """The position of the front's knee among the points (points,) each.

    Both are scaled so that they go from 0 to 1 along the front; the knee is the point farthest below the chord between
    its ends, on the side where both are low. None where no point lies below it: every gain is paid for in full.
    """
    front = np.flatnonzero(on_front(first, second))
    x, y = scaled(first[front]), scaled(second[front])
    below = 1 - x - y  # sqrt(2) times the distance to the chord from (0, 1) to (1, 0)
    best = int(np.argmax(below))
    return int(front[best]) if below[best] > _ROUNDING else None


def scaled(values: FloatArray) -> FloatArray:
    """From 0 at the lowest to 1 at the highest; of a front of one point, which is both, 1."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


@final
@dataclass(frozen=True)
class ModelChoice:
    """One recommender, its error, and its folding over all pairs and over what would be shown."""

    recommender: WALS
    rmse: float
    folding: float
    shown_folding: float

    def __str__(self) -> str:
        return (
            f"{self.recommender.factors} factors, unobserved weight {self.recommender.unobserved_weight:g}: RMSE "
            f"{self.rmse:.4f}, folding {self.folding:.4f}, of lists {self.shown_folding:.4f}"
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class MeasuredModels:
    """Models that were tried, and which of them are worth a look."""

    frame: pl.DataFrame
    """One row a model: the settings that vary, rmse, ndcg, folding, overshoot_share, shown_folding, spurious_share."""
    base: WALS
    """The settings that all models share."""
    varied: tuple[str, ...]
    """The settings that vary."""
    metric: Folded
    """The folding that is to be low."""

    @property
    def front(self) -> pl.DataFrame:
        """The rows that no other beats in both RMSE and folding, the lowest RMSE first."""
        return self.frame.filter(on_front(*self._objectives)).sort("rmse", self.metric)

    def best(self) -> ModelChoice:
        """The lowest RMSE, whatever it folds."""
        return self._choice(self.front.row(0, named=True))

    def knee(self) -> ModelChoice | None:
        """The model of the front after which a lower RMSE costs the most folding, or the other way round, if any."""
        place = knee(*self._objectives)
        return None if place is None else self._choice(self.frame.row(place, named=True))

    def __repr__(self) -> str:
        return f"MeasuredModels({len(self.frame)} models, {len(self.front)} on the front; best: {self.best()})"

    @property
    def _objectives(self) -> tuple[FloatArray, FloatArray]:
        return self.frame["rmse"].to_numpy(), self.frame[self.metric].to_numpy()

    def _choice(self, row: Mapping[str, Any]) -> ModelChoice:
        recommender = self.base.model_copy(update={name: row[name] for name in self.varied})
        return ModelChoice(recommender, row["rmse"], row["folding"], row["shown_folding"])

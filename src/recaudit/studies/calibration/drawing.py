"""Intervals of numbers that are made of means over users: each draw of users gives all of the means at once."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.metrics.intervals import Bootstrap

_BOOTSTRAP = Bootstrap()


@final
class DrawnMeans:
    """Means over users by name, and the same of every draw of users, for whatever is made of them."""

    def __init__(self, users: int) -> None:
        self.users = users
        self._sums: dict[Any, tuple[FloatArray, FloatArray]] = {}

    def add(self, name: Any, users: IntArray, totals: FloatArray, weights: FloatArray) -> None:
        """Add to a mean what users (n,) contribute: totals and weights (n,), nothing where the weight is 0."""
        held = self._sums.setdefault(name, (np.zeros(self.users), np.zeros(self.users)))
        for sums, values in zip(held, (np.where(weights > 0, totals, 0.0), weights), strict=True):
            np.add.at(sums, users, values)

    def drawn(self) -> dict[Any, FloatArray]:
        """By name (1 + samples,): the mean over all users, then over each draw of them."""
        totals, weights = (np.column_stack(parts) for parts in zip(*self._sums.values(), strict=True))
        known = weights.any(axis=1)
        totals, weights = totals[known], weights[known]
        parts = [np.ones((1, len(totals))), *_BOOTSTRAP.resamples(len(totals))]
        with np.errstate(invalid="ignore"):
            means: FloatArray = np.concatenate([(part @ totals) / (part @ weights) for part in parts])
        return dict(zip(self._sums, means.T, strict=True))

    def counts(self, name: Any) -> int:
        """How many users a mean stands on."""
        return int((self._sums[name][1] > 0).sum())


def interval(drawn: NDArray[np.float64]) -> dict[str, float]:
    """The number, and the interval that draws of users (1 + samples,) give it."""
    lower, upper = _BOOTSTRAP.percentiles(drawn[1:, None])[:, 0].tolist()
    return {"value": float(drawn[0]), "lower": lower, "upper": upper}

"""Aggregates over users with bootstrap intervals: overall and by group, in one pass over the same resamples.

Every metric here is `transform(sum of totals / sum of weights)` over users: a mean over users has weight 1 for
each user who has a value; a pooled one (RMSE) has weight = the user's number of ratings. Resampling users, not
ratings, keeps a user's ratings together, which are anything but independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from recaudit.errors import InputError
from recaudit.seeding import generator
from recaudit.status import Status

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made: percentile bootstrap over users."""

    confidence: float = 0.95
    samples: int = 1000
    rng: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InputError("confidence", received=self.confidence, expected="a number between 0 and 1")
        if self.samples < 2:
            raise InputError("samples", received=self.samples, expected="a whole number of 2 or more")

    def resamples(self, n: int) -> Iterator[FloatArray]:
        """Blocks (some samples, n) of how often each of n users is drawn; bounded memory, the same draws always."""
        draw = generator(self.rng, "bootstrap", n)
        block = max(1, min(self.samples, 20_000_000 // max(1, n)))
        for start in range(0, self.samples, block):
            count = min(block, self.samples - start)
            picks = draw.integers(0, n, (count, n)) + n * np.arange(count)[:, None]
            yield np.bincount(picks.ravel(), minlength=count * n).reshape(count, n).astype(np.float64)

    def percentiles(self, replicates: FloatArray) -> FloatArray:
        """(2, columns): the interval's ends of each column of (samples, columns), NaN where nothing is known."""
        tail = (1 - self.confidence) / 2
        ends = np.full((2, replicates.shape[1]), np.nan)
        known = np.isfinite(replicates).any(axis=0)
        ends[:, known] = np.nanquantile(replicates[:, known], [tail, 1 - tail], axis=0)
        return ends

    def around(self, estimate: FloatArray, replicates: FloatArray) -> FloatArray:
        """(2, columns): estimate -+ z times the bootstrap's standard error.

        For numbers such as "how many distinct items": a resample repeats users and so always shows fewer, and its
        percentiles would not even contain the estimate.
        """
        from scipy.special import ndtri  # noqa: PLC0415  a slow import that most calls do not need

        half = ndtri(0.5 + self.confidence / 2) * replicates.std(axis=0, ddof=1)
        return np.stack([estimate - half, estimate + half])


@final
@dataclass(frozen=True, eq=False)
class Ratio:
    """One number to report: `transform(sum totals / sum weights)` over users."""

    labels: tuple[str, ...]
    """What the row says of itself: the metric, or grouping, group and metric."""
    totals: FloatArray
    """(users,)"""
    weights: FloatArray
    """(users,): 0 for a user who has nothing to measure."""
    transform: Callable[[FloatArray], FloatArray]
    population: int
    """How many users could have been measured: the rest is reported as excluded."""
    baseline: float | None = None


def identity(x: FloatArray) -> FloatArray:
    """Unchanged."""
    return x


def aggregate(ratios: list[Ratio], bootstrap: Bootstrap) -> list[dict[str, object]]:
    """The value, interval, status and counts of each, as rows without their labels."""
    totals = np.column_stack([ratio.totals for ratio in ratios])
    weights = np.column_stack([ratio.weights for ratio in ratios])
    values = _transformed(ratios, totals.sum(axis=0)[None], weights.sum(axis=0)[None])[0]
    replicates = np.concatenate(
        [_transformed(ratios, drawn @ totals, drawn @ weights) for drawn in bootstrap.resamples(len(totals))]
    )
    lower, upper = bootstrap.percentiles(replicates)
    counts = (weights > 0).sum(axis=0)
    return [
        row(values[i], lower[i], upper[i], int(counts[i]), ratio.population, ratio.baseline)
        for i, ratio in enumerate(ratios)
    ]


def row(
    value: float, lower: float, upper: float, users: int, population: int, baseline: float | None = None
) -> dict[str, object]:
    """The shared columns of a result row; without users it is not applicable, with one it has no interval."""
    known = users > 0 and bool(np.isfinite(value))
    interval = known and users > 1
    return {
        "value": float(value) if known else None,
        "lower": float(lower) if interval else None,
        "upper": float(upper) if interval else None,
        "status": (Status.SOLVED if known else Status.NOT_APPLICABLE).value,
        "baseline": baseline,
        "users": users,
        "excluded": population - users,
    }


def _transformed(ratios: list[Ratio], totals: FloatArray, weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(weights > 0, totals / weights, np.nan)
    return np.column_stack([ratio.transform(means[:, i]) for i, ratio in enumerate(ratios)])

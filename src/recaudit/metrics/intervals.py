"""Aggregates over users with bootstrap intervals: overall and by group, in one pass over the same resamples.

Every metric here is `scale(sum of totals / sum of weights)` over users: a mean over users has weight 1 for
each user who has a value; a pooled one (RMSE) has weight = the user's number of ratings. Resampling users, not
ratings, keeps a user's ratings together, which are anything but independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri

from recaudit.arrays import FloatArray, StatusArray
from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.metrics.tables import GROUP_SCHEMA, SUMMARY_SCHEMA
from recaudit.seeding import generator
from recaudit.status import Status

Bools = NDArray[np.bool_] | np.bool_
MOST_SAMPLES = 10_000_000
"""More bootstrap samples move no digit that anybody reads."""


FEWEST_USERS = 30
"""Nothing that rests on fewer users is a finding: a handful of people says little about others, and the interval
around their mean is too narrow or too wide by luck. Tables have the number all the same, with how many they are."""
_MOST_DRAWS = 20_000_000
"""That are in memory at a time."""


def _drawn(draw: np.random.Generator, samples: int, n: int) -> NDArray[np.uint16]:
    """(samples, n): how often each of n users is drawn, n times over."""
    times = np.empty((samples, n), dtype=np.uint16)
    for row in times:  # one after the other: what is counted stays in the cache
        row[:] = np.bincount(draw.integers(0, n, n), minlength=n)
    return times


@lru_cache(maxsize=2)
def _drawn_once(rng: int, samples: int, n: int) -> NDArray[np.uint16]:
    """The same, kept: many numbers are about the same users."""
    return _drawn(generator(rng, "bootstrap", n), samples, n)


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
        if not 2 <= self.samples <= MOST_SAMPLES:
            raise InputError("samples", received=self.samples, expected=f"a whole number from 2 to {MOST_SAMPLES:,}")

    def resamples(self, n: int) -> Iterator[FloatArray]:
        """Blocks (some samples, n) of how often each of n users is drawn; bounded memory, the same draws always."""
        block = max(1, min(self.samples, _MOST_DRAWS // max(1, n)))
        if block == self.samples:
            yield _drawn_once(self.rng, self.samples, n).astype(np.float64)
            return
        draw = generator(self.rng, "bootstrap", n)
        for start in track(range(0, self.samples, block), "intervals", -(-self.samples // block)):
            yield _drawn(draw, min(block, self.samples - start), n).astype(np.float64)

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
        half = ndtri(0.5 + self.confidence / 2) * replicates.std(axis=0, ddof=1)
        return np.stack([estimate - half, estimate + half])


Scale = Literal["mean", "root", "geometric"]
SCALES: Mapping[Scale, Callable[[FloatArray], FloatArray]] = MappingProxyType(
    {"mean": np.asarray, "root": np.sqrt, "geometric": np.exp}
)
"""What becomes of a mean: itself, its root (of squares), or e to it (of logarithms)."""


@final
@dataclass(frozen=True, eq=False)
class Ratio:
    """One number to report: `scale(sum totals / sum weights)` over users."""

    metric: str
    totals: FloatArray
    """(users,)"""
    weights: FloatArray
    """(users,): 0 for a user who has nothing to measure."""
    population: int
    """How many users could have been measured: the rest is reported as excluded."""
    scale: Scale = "mean"
    by: str = ""
    group: str = ""
    baseline: float | None = None
    status: Status = Status.SOLVED
    """How the weakest answer that it stands on stands; failed where there is none, and some failed."""


def standing(bounded: Bools, answered: Bools, failed: Bools) -> StatusArray:
    """How numbers stand that are made of many answers, by whether any of these is bounded, known at all, or failed.

    A mean over lower bounds is a lower bound; of one over efforts that were not proved to be the least, less may do.
    What failed is left out of the mean: only where nothing else is there has the mean failed too.
    """
    found = [np.asarray(some) for some in (bounded, answered, failed)]
    return np.select(found, [status.value for status in _WEAKEST], Status.NOT_APPLICABLE.value)


_WEAKEST = (Status.BOUNDED, Status.SOLVED, Status.FAILED)


def weakest(statuses: StatusArray) -> Status:
    """The `standing` of a number that is made of answers with these statuses."""
    return Status(str(standing(*(np.any(statuses == status.value) for status in _WEAKEST))))


def mean(
    metric: str,
    values: FloatArray,
    members: FloatArray,
    by: str = "",
    group: str = "",
    *,
    scale: Scale = "mean",
    baseline: float | None = None,
    statuses: StatusArray | None = None,
) -> Ratio:
    """The average of `values` (users,) over the users in `members` (users,) that have one (not NaN).

    `statuses` (users,) says how the values stand; solved, where nothing is said.
    """
    known = ~np.isnan(values)
    asked = members > 0
    status = Status.SOLVED if statuses is None else weakest(statuses[asked & (known | (statuses == Status.FAILED))])
    totals, weights = np.nan_to_num(values) * members, known * members
    return Ratio(metric, totals, weights, int(asked.sum()), scale, by, group, baseline, status)


def aggregate(ratios: list[Ratio], bootstrap: Bootstrap) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The value, interval, status and counts of each: the overall rows, and the rows by group."""
    totals = np.column_stack([ratio.totals for ratio in ratios])
    weights = np.column_stack([ratio.weights for ratio in ratios])
    values = _transformed(ratios, totals.sum(axis=0)[None], weights.sum(axis=0)[None])[0]
    replicates = np.concatenate(
        [_transformed(ratios, drawn @ totals, drawn @ weights) for drawn in bootstrap.resamples(len(totals))]
    )
    lower, upper = bootstrap.percentiles(replicates)
    counts = (weights > 0).sum(axis=0)
    rows = [
        {"by": ratio.by, "group": ratio.group, "metric": ratio.metric}
        | row(values[i], lower[i], upper[i], int(counts[i]), ratio.population, ratio.baseline, ratio.status)
        for i, ratio in enumerate(ratios)
    ]
    table = pl.DataFrame(rows, GROUP_SCHEMA)
    overall = pl.col("by") == ""
    return table.filter(overall).select(SUMMARY_SCHEMA.keys()), table.filter(~overall)


def row(
    value: float,
    lower: float,
    upper: float,
    users: int,
    population: int,
    baseline: float | None = None,
    status: Status = Status.SOLVED,
) -> dict[str, object]:
    """The shared columns of a result row; without users it is not applicable, with one it has no interval.

    `status` is that of the weakest answer behind the value, see `standing`.
    """
    known = users > 0 and bool(np.isfinite(value))
    interval = known and users > 1
    if known:
        status = Status.BOUNDED if status is Status.BOUNDED else Status.SOLVED
    elif status is not Status.FAILED:
        status = Status.NOT_APPLICABLE
    return {
        "value": float(value) if known else None,
        "lower": float(lower) if interval else None,
        "upper": float(upper) if interval else None,
        "status": status.value,
        "baseline": baseline,
        "users": users,
        "excluded": population - users,
    }


def _transformed(ratios: list[Ratio], totals: FloatArray, weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(weights > 0, totals / weights, np.nan)
    return np.column_stack([SCALES[ratio.scale](means[:, i]) for i, ratio in enumerate(ratios)])


def paired_difference(one: pl.DataFrame, other: pl.DataFrame, metric: str, confidence: float) -> dict[str, object]:
    """How much more of a metric the same users have in one table of users than in another, as a result row.

    mean(d) +- z sd(d) / sqrt(n) over the differences d of users who have both values: two models are compared on the
    same people, so this interval is tighter than the two separate ones suggest.
    """
    both = one.select("user", metric).join(other.select("user", metric), on="user")
    gains = both.select(pl.col(metric) - pl.col(f"{metric}_right")).to_series().fill_null(np.nan).to_numpy()
    gains = gains[np.isfinite(gains)]
    n = len(gains)
    mean_gain = float(gains.mean()) if n else np.nan
    half = float(ndtri(0.5 + confidence / 2) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return {"metric": metric, **row(mean_gain, mean_gain - half, mean_gain + half, n, len(both))}

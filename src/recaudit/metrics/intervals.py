"""Averages over users with confidence intervals: overall, and by group.

Every metric here is `scale(sum of totals / sum of weights)` over users. A mean over users has weight 1 for each user
who has a value; a ratio of sums such as RMSE has weight = the user's number of ratings. How the interval of each is
made, `inference` says: that of a mean from the users' values and the bounds of the metric, that of a ratio of sums by
a jackknife over blocks of users, which keeps a user's ratings together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeVar, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray, StatusArray
from recaudit.engines.progress import track
from recaudit.metrics.inference import (
    MIN_USERS,
    Average,
    Bounds,
    PairedDifference,
    SampleEstimate,
    assign_blocks,
    estimate_difference,
    estimate_mean,
    estimate_statistic,
    estimate_statistic_difference,
)
from recaudit.metrics.tables import GROUP_SCHEMA, SUMMARY_SCHEMA
from recaudit.status import Status

Bools = NDArray[np.bool_] | np.bool_
UNBOUNDED: Bounds = (None, None)
AnyEstimate = TypeVar("AnyEstimate", SampleEstimate, PairedDifference)

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


def aggregate(
    ratios: Sequence[Ratio], bounds: Mapping[str, Bounds], confidence: float = 0.95
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compute the value, interval, status and counts of each number.

    Args:
        ratios: Numbers to compute.
        bounds: Smallest and largest value of a user by metric; a metric that is missing has none.
        confidence: Confidence level of the intervals.

    Returns:
        The rows of all users, with the columns of `SUMMARY_SCHEMA`, and those by group, with those of `GROUP_SCHEMA`.
    """
    label = "intervals" if sum(len(ratio.totals) for ratio in ratios) > _SILENT_VALUES else ""
    rows = [
        {"by": ratio.by, "group": ratio.group, "metric": ratio.metric}
        | row(
            estimate_ratio(ratio, bounds.get(ratio.metric, UNBOUNDED), confidence),
            ratio.population,
            ratio.baseline,
            ratio.status,
        )
        for ratio in track(ratios, label, len(ratios))
    ]
    table = pl.DataFrame(rows, GROUP_SCHEMA)
    overall = pl.col("by") == ""
    return table.filter(overall).select(SUMMARY_SCHEMA.keys()), table.filter(~overall)


_SILENT_VALUES = 2_000_000
"""Up to so many values of users, intervals take no time that is worth a progress bar."""


def estimate_ratio(ratio: Ratio, bounds: Bounds, confidence: float = 0.95) -> SampleEstimate:
    """Estimate one number by the method that fits it.

    If all users have the same weight, the ratio is a mean over users. If they differ, or if the number is a root, it
    is a statistic of the blocks of a jackknife.

    Args:
        ratio: The number.
        bounds: Smallest and largest value of a user, on the scale of the number.
        confidence: Confidence level of the interval.
    """
    counts = ratio.weights > 0
    totals, weights = ratio.totals[counts], ratio.weights[counts]
    n, scale = len(weights), SCALES[ratio.scale]
    if n == 0:
        return SampleEstimate(value=np.nan, n=0, reason="too_few_users")
    value = float(scale(totals.sum() / weights.sum()))
    if not np.isfinite(value):
        return SampleEstimate(value=np.nan, n=n)
    if ratio.scale != "root" and np.ptp(weights) == 0:
        average: Average = "geometric" if ratio.scale == "geometric" else "arithmetic"
        estimate = estimate_mean(scale(totals / weights), bounds, average=average, confidence=confidence)
        return replace(estimate, value=value)
    if n < MIN_USERS:
        return SampleEstimate(value=value, n=n, reason="too_few_users")
    blocks = _blocks_of(n)
    of_others = 1 - np.eye(int(blocks.max()) + 1)
    totals_without, weights_without = (of_others @ np.bincount(blocks, side) for side in (totals, weights))
    estimate = estimate_statistic(value, scale(totals_without / weights_without), n, confidence=confidence)
    return clip_interval(estimate, bounds)


def estimate_of_lists(
    compute: Callable[[FloatArray], FloatArray],
    shown: sparse.csr_array,
    bounds: Sequence[Bounds],
    confidence: float = 0.95,
) -> list[SampleEstimate]:
    """Estimate statistics of all users' lists together, such as coverage, by a jackknife over blocks of users.

    Args:
        compute: Function of counts of the items, shape (rows, items), that returns shape (rows, statistics).
        shown: 1 where an item is in a user's list, shape (users, items).
        bounds: Smallest and largest value of each statistic.
        confidence: Confidence level of the intervals.
    """
    values, without = compute_without_blocks(compute, shown)
    n_users = shown.shape[0]
    return [
        SampleEstimate(value=value, n=n_users)
        if not np.isfinite(value)
        else clip_interval(estimate_statistic(value, without[:, i], n_users, confidence=confidence), bounds[i])
        for i, value in enumerate(values.tolist())
    ]


def estimate_difference_of_lists(
    compute: Callable[[FloatArray], FloatArray],
    new_shown: sparse.csr_array,
    old_shown: sparse.csr_array,
    confidence: float = 0.95,
) -> list[PairedDifference]:
    """Estimate how statistics of all users' lists differ between two sets of lists of the same users.

    Args:
        compute: Function of counts of the items, shape (rows, items), that returns shape (rows, statistics).
        new_shown: 1 where an item is in a user's new list, shape (users, items).
        old_shown: The same of the old lists of the same users.
        confidence: Confidence level of the intervals.
    """
    (new, new_without), (old, old_without) = (compute_without_blocks(compute, each) for each in (new_shown, old_shown))
    is_changed = abs(new_shown - old_shown).sum(axis=1) > 0
    return [
        estimate_statistic_difference(
            new[i],
            old[i],
            new_without[:, i],
            old_without[:, i],
            n_users=new_shown.shape[0],
            n_changed=int(is_changed.sum()),
            confidence=confidence,
        )
        for i in range(len(new))
    ]


def compute_without_blocks(
    compute: Callable[[FloatArray], FloatArray], shown: sparse.csr_array
) -> tuple[FloatArray, FloatArray]:
    """Compute statistics of all users' lists, and of the lists without each block of users.

    Args:
        compute: Function of counts of the items, shape (rows, items), that returns shape (rows, statistics).
        shown: 1 where an item is in a user's list, shape (users, items).

    Returns:
        The statistics, shape (statistics,), and those without each block of `assign_blocks`, shape
        (blocks, statistics): no blocks if there are too few users for an interval.
    """
    n_users, n_items = shown.shape
    counts = np.asarray(shown.sum(axis=0), dtype=np.float64)
    values = compute(counts[None])[0]
    if n_users < MIN_USERS:
        return values, np.empty((0, len(values)))
    blocks = _blocks_of(n_users)
    n_blocks = int(blocks.max()) + 1
    of_blocks = sparse.csr_array((np.ones(n_users), (blocks, np.arange(n_users))), shape=(n_blocks, n_users)) @ shown
    step = max(1, _MAX_COUNTS // max(1, n_items))
    parts = [compute(counts - of_blocks[start : start + step].toarray()) for start in range(0, n_blocks, step)]
    return values, np.concatenate(parts)


_MAX_COUNTS = 1 << 22
"""Counts of items in memory at the same time, 32 MiB."""


@lru_cache(maxsize=8)
def _blocks_of(n_users: int) -> IntArray:
    """`assign_blocks`, which many metrics of the same users share."""
    return assign_blocks(n_users)


def clip_interval(estimate: AnyEstimate, bounds: Bounds) -> AnyEstimate:
    """Return an estimate whose interval is inside the bounds of its metric.

    An interval that is not finite, because the statistic is not defined without some users, is left out.
    """
    lower, upper = estimate.lower, estimate.upper
    if lower is None or upper is None or not np.isfinite([lower, upper]).all():
        return replace(estimate, lower=None, upper=None)
    lowest, highest = bounds
    return replace(
        estimate,
        lower=lower if lowest is None else max(lower, lowest),
        upper=upper if highest is None else min(upper, highest),
    )


def row(
    estimate: SampleEstimate | PairedDifference,
    population: int,
    baseline: float | None = None,
    status: Status = Status.SOLVED,
) -> dict[str, object]:
    """Return the columns of a result row that all tables share. A value of NaN is not applicable.

    Args:
        estimate: Value, interval, number of users, and the reason why there is no interval.
        population: Number of users that could have been measured: the others are excluded.
        baseline: Value that this one is compared with.
        status: Status of the weakest solution that the value depends on, see `standing`.
    """
    is_known = estimate.n > 0 and bool(np.isfinite(estimate.value))
    if is_known:
        status = Status.BOUNDED if status is Status.BOUNDED else Status.SOLVED
    elif status is not Status.FAILED:
        status = Status.NOT_APPLICABLE
    return {
        "value": float(estimate.value) if is_known else None,
        "lower": estimate.lower if is_known else None,
        "upper": estimate.upper if is_known else None,
        "reason": estimate.reason if is_known else None,
        "status": status.value,
        "baseline": baseline,
        "users": estimate.n,
        "excluded": population - estimate.n,
    }


def paired_difference(one: pl.DataFrame, other: pl.DataFrame, metric: str, confidence: float) -> dict[str, object]:
    """Compare a metric of the same users in two tables of users, as a result row.

    Args:
        one: Table with the columns `user` and the metric.
        other: The same of the other result.
        metric: Name of the metric.
        confidence: Confidence level of the interval.

    Returns:
        The mean difference, one minus other, of the users who have both values.
    """
    both = one.select("user", metric).join(other.select("user", metric), on="user")
    new, old = (both[name].cast(pl.Float64).fill_null(np.nan).to_numpy().copy() for name in (metric, f"{metric}_right"))
    is_known = np.isfinite(new) & np.isfinite(old)
    estimate = estimate_difference(new[is_known], old[is_known], confidence=confidence)
    return {"metric": metric, **row(estimate, len(both))}


def restore_quotient(difference: PairedDifference) -> PairedDifference:
    """Return the quotient of two geometric means, of the difference of their logarithms. It has no standard error."""
    lower, upper = difference.lower, difference.upper
    return replace(
        difference,
        value=float(np.exp(difference.value)),
        lower=None if lower is None else float(np.exp(lower)),
        upper=None if upper is None else float(np.exp(upper)),
        standard_error=None,
    )

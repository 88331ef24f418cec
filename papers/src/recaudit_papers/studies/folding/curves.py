"""Curves of RMSE and folding over the weight of unrated pairs, and numbers that are read off them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from scipy import stats

from recaudit.plugins import rank_correlation
from recaudit_papers.studies.reading import Quantity

KNEE = 0.03
"""The weight below which, in Section 4.2, folding rises."""
COST = 0.1
"""What RMSE may rise by: the paper's curves do from 0.8 to 0.9."""

Curve = pl.DataFrame
"""Models that differ in the weight alone, in its order: weight, rmse, folding, ..."""


def over(values: Sequence[float], units: str) -> Quantity:
    """The mean of some measurements, and its 95% interval by Student's t."""
    found = np.asarray(values, dtype=np.float64)
    mean, count = float(found.mean()), len(found)
    if count < 2:
        return Quantity(mean, over=f"1 {units.removesuffix('s')}")
    half = float(stats.t.ppf(0.975, count - 1) * found.std(ddof=1) / np.sqrt(count))
    return Quantity(mean, mean - half, mean + half, f"{count} {units}")


def by_seed(table: pl.DataFrame, value: Callable[[pl.DataFrame], float], units: str) -> Quantity:
    """What `value` gives for each seed's models, over seeds."""
    order = table.sort("seed", "factors", "weight")
    return over([value(part) for part in order.partition_by("seed", maintain_order=True)], units)


def curves(models: pl.DataFrame) -> list[Curve]:
    """A curve for each number of factors."""
    return models.sort("factors", "weight").partition_by("factors", maintain_order=True)


def at(models: pl.DataFrame, column: str, **settings: float) -> float:
    """The number of the model with these settings, to rounding."""
    near = [(pl.col(name) - value).abs() < 1e-9 for name, value in settings.items()]
    return float(models.filter(*near)[column].item())


def largest_error(curve: Curve) -> float:
    """The largest RMSE."""
    return float(curve["rmse"].max())  # type: ignore[arg-type]  # a column of numbers


def lowest_error(models: pl.DataFrame) -> float:
    """The lowest RMSE."""
    return float(models["rmse"].min())  # type: ignore[arg-type]  # a column of numbers


def error_at_knee(curve: Curve) -> float:
    """RMSE at the weight of the knee."""
    return at(curve, "rmse", weight=KNEE)


def rise_before_knee(curve: Curve) -> float:
    """The share of folding's rise, from the largest weight to none, that comes before the knee; NaN without a rise."""
    none, knee, most = curve["folding"][0], at(curve, "folding", weight=KNEE), curve["folding"][-1]
    return float((knee - most) / (none - most)) if none > most else np.nan


def rise_below_knee(curve: Curve) -> float:
    """Folding without weight over folding at the knee."""
    return float(curve["folding"][0] / at(curve, "folding", weight=KNEE))


def gain_before_knee(curve: Curve) -> float:
    """The share of RMSE's fall, from the largest weight to the lowest, that comes before the knee."""
    lowest, most = curve["rmse"].min(), curve["rmse"][-1]
    return float((most - error_at_knee(curve)) / (most - lowest))


def folding_of_best(curve: Curve) -> float:
    """Folding of the model with the lowest RMSE."""
    return float(curve["folding"][curve["rmse"].arg_min() or 0])


def folding_left(curve: Curve) -> float:
    """Folding where RMSE is `COST` above its lowest, over folding without weight; at the largest weight where RMSE
    never rises so far. Between two weights on a straight line."""
    rmse, folded = curve["rmse"].to_numpy(), curve["folding"].to_numpy()
    start = int(rmse.argmin())
    limit = rmse[start] + COST
    past = start + np.flatnonzero(rmse[start:] > limit)
    if not len(past):
        return float(folded[-1] / folded[0])
    end = int(past[0])
    part = (limit - rmse[end - 1]) / (rmse[end] - rmse[end - 1])
    return float((folded[end - 1] + part * (folded[end] - folded[end - 1])) / folded[0])


def left(column: str) -> Callable[[Curve], float]:
    """A column at the largest weight, over the same without weight."""
    return lambda curve: float(curve[column][-1] / curve[column][0])


def last(column: str) -> Callable[[Curve], float]:
    """A column at the largest weight."""
    return lambda curve: float(curve[column][-1])


def correlation(first: str, second: str) -> Callable[[pl.DataFrame], float]:
    """Spearman's correlation over the weights at fixed factors: the one farthest from what it is claimed to be.

    The largest of RMSE with folding (claimed to be negative), the smallest of two foldings (claimed to be 1).
    """
    worst = max if first == "rmse" else min
    return lambda models: worst(rank_correlation(curve[first], curve[second]) or 0.0 for curve in curves(models))


def smallest_step(column: str) -> Callable[[pl.DataFrame], float]:
    """How much a column falls from one number of factors to the next, at the same weight: the smallest of all."""

    def value(models: pl.DataFrame) -> float:
        steps = [np.diff(part[column].to_numpy()) for part in models.sort("factors").partition_by("weight")]
        return float(-np.max(steps))

    return value


def margin(factors: int) -> Callable[[pl.DataFrame], float]:
    """By how much this number of factors beats the best of the others, at the weight where it does so least."""

    def value(models: pl.DataFrame) -> float:
        own = pl.col("factors") == factors
        lowest = models.group_by("weight").agg(
            pl.col("rmse").filter(~own).min().alias("others"), pl.col("rmse").filter(own).min().alias("own")
        )
        return float((lowest["others"] - lowest["own"]).min())  # type: ignore[arg-type]  # a column of numbers

    return value

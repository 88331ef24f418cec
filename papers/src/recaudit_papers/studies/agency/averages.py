"""Means over users with their intervals, and differences on the same users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from recaudit.plugins import PairedDifference, SampleEstimate, estimate_difference, estimate_mean
from recaudit_papers.studies.reading import Quantity

Rows = pl.DataFrame
"""A row a user, with columns that are averaged."""


def only(table: pl.DataFrame, **where: Any) -> Rows:
    """The rows with these values; none of a table that has nothing."""
    if table.is_empty():
        return table
    return table.filter([pl.col(name) == value for name, value in where.items()])


def average(rows: Rows, column: str, scale: Callable[[Any], Any] = float) -> Quantity | None:
    """The mean of a column over users, on this scale; None without any."""
    if column not in rows.columns:
        return None
    values = rows[column].drop_nulls().drop_nans()
    return _quantity(estimate_mean(values.to_numpy().astype(np.float64)), scale) if len(values) else None


def contrast(
    first: Rows, second: Rows, column: str, scale: Callable[[Any], Any] = float, less: tuple[Rows, Rows] | None = None
) -> Quantity | None:
    """The mean difference of two columns on the users that both have; `less` that of two others."""
    parts = [first, second, *(less or ())]
    if any(column not in part.columns for part in parts):
        return None
    known = parts[0].select("user", pl.col(column).alias("0"))
    for place, part in enumerate(parts[1:], 1):
        known = known.join(part.select("user", pl.col(column).alias(str(place))), on="user", maintain_order="left")
    values = known.drop("user").to_numpy().astype(np.float64)
    signs = np.array([1.0, -1.0, -1.0, 1.0])[: values.shape[1]]
    found = values @ signs if len(values) else np.empty(0)
    found = found[np.isfinite(found)]
    return _quantity(estimate_difference(found, np.zeros(len(found))), scale) if len(found) else None


def _quantity(estimate: SampleEstimate | PairedDifference, scale: Callable[[Any], Any]) -> Quantity:
    """An estimate on another scale."""
    lower, upper = (None if end is None else float(scale(end)) for end in (estimate.lower, estimate.upper))
    return Quantity(float(scale(estimate.value)), lower, upper, f"{estimate.n} users")

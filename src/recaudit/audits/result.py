"""What an audit gives back: a frozen object with frames, a summary that prints well, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean
from recaudit.metrics.metric import METRICS
from recaudit.status import Status

if TYPE_CHECKING:
    import pandas as pd

SUMMARY_SCHEMA = {
    "metric": pl.String,
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "status": pl.String,
    "baseline": pl.Float64,
    "users": pl.Int64,
    "excluded": pl.Int64,
}
"""`lower` and `upper` enclose the value (here: a bootstrap interval over users); `baseline` is what the value
is compared with, where there is one; `users` is how many users it stands on, `excluded` how many had nothing
to measure. A value whose `status` is bounded is made of lower bounds: the truth may lie above it, and above `upper`."""

SERIES_SCHEMA = {"over": pl.String, "at": pl.Float64, **SUMMARY_SCHEMA}
"""`over` is what is varied (horizon, beta, weight, ...), `at` its value."""

GROUP_SCHEMA = {"by": pl.String, "group": pl.String, **SUMMARY_SCHEMA}


def user_table(ids: pl.Series, values: Mapping[str, NDArray[np.float64]]) -> pl.DataFrame:
    """One row a user: the id, and each user's own value (users,), NaN becoming null."""
    columns = {name: pl.Series(column).fill_nan(None) for name, column in values.items()}
    return pl.DataFrame({"user": ids, **columns})


def item_table(data: Interactions) -> pl.DataFrame:
    """One row an item: the id, its title if it has one, how often it was rated and how well."""
    titles = pl.Series([None] * data.n_items, dtype=pl.String) if data.titles is None else data.titles
    rated = np.where(data.item_counts > 0, data.item_counts, np.nan)
    means = np.bincount(data.items, data.ratings, data.n_items) / rated
    return pl.DataFrame(
        {
            "item": data.item_ids,
            "title": titles,
            "ratings": data.item_counts,
            "mean_rating": pl.Series(means).fill_nan(None),
        }
    )


@final
@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The answer of one audit."""

    audit: str
    settings: Mapping[str, object]
    """What the numbers depend on: the list length, the confidence level, the seed."""
    frame: pl.DataFrame
    """One row a metric, columns as in SUMMARY_SCHEMA."""
    groups: pl.DataFrame
    """The same by group of users or items, columns as in GROUP_SCHEMA."""
    users: pl.DataFrame
    """One row a user: the id and the user's own value of each metric, null where it has none."""
    items: pl.DataFrame
    """One row an item, where the audit says something about items; else empty."""
    pairs: pl.DataFrame = field(default_factory=pl.DataFrame)
    """One row a pair, where the audit asks about pairs; else empty."""
    series: pl.DataFrame = field(default_factory=pl.DataFrame)
    """One row a point of a curve, columns as in SERIES_SCHEMA, where the audit varies something; else empty."""
    further: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Tables that only this audit has, by name."""

    def __getitem__(self, metric: str) -> float:
        """The overall value of one metric."""
        rows = self.frame.filter(pl.col("metric") == metric)
        if rows.is_empty():
            remedy = did_you_mean(metric, self.frame["metric"])
            raise InputError("metric", received=metric, expected=f"a metric of {self.audit}", remedy=remedy)
        value, status = rows["value"][0], rows["status"][0]
        if value is None:
            raise InputError("metric", received=f"{metric}, which is {status}", expected="a metric that has a value")
        return float(value)

    def by(self, name: str) -> pl.DataFrame:
        """The rows of `groups` for one way of grouping."""
        rows = self.groups.filter(pl.col("by") == name)
        if rows.is_empty():
            remedy = did_you_mean(name, self.groups["by"].unique())
            raise InputError("name", received=name, expected="a way of grouping in this result", remedy=remedy)
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every non-empty frame by name, as a run folder stores them."""
        named = {
            "summary": self.frame,
            "groups": self.groups,
            "users": self.users,
            "items": self.items,
            "pairs": self.pairs,
            "series": self.series,
            **self.further,
        }
        return {name: frame for name, frame in named.items() if frame.width}

    def summary(self) -> str:
        """The overall values with their intervals, a line each."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        lines = [f"{self.audit} ({settings})"]
        k = str(self.settings.get("k", "k"))
        labels = [METRICS[name].label.replace("@k", f"@{k}") for name in self.frame["metric"]]
        width = max(map(len, labels))
        for name, row in zip(labels, self.frame.iter_rows(named=True), strict=True):
            label = name.ljust(width)
            if row["value"] is None:
                lines.append(f"  {label}  {row['status']}")
                continue
            interval = "" if row["lower"] is None else f"  [{row['lower']:.4f}, {row['upper']:.4f}]"
            left_out = f", {row['excluded']:,} excluded" if row["excluded"] else ""
            bound = ", a lower bound" if row["status"] == Status.BOUNDED else ""
            lines.append(f"  {label}  {row['value']:8.4f}{interval}  {row['users']:,} users{left_out}{bound}")
        return "\n".join(lines)

    __repr__ = summary

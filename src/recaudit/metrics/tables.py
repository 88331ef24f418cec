"""The tables that results are made of: their columns, and rows about users and items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions

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


def user_table(ids: pl.Series, values: Mapping[str, FloatArray]) -> pl.DataFrame:
    """One row a user: the id, and each user's own value (users,), NaN becoming null."""
    return pl.DataFrame({"user": ids, **{name: pl.Series(column).fill_nan(None) for name, column in values.items()}})


def item_table(data: Interactions) -> pl.DataFrame:
    """One row an item: the id, its title if it has one, how often it was rated and how well."""
    rated = np.where(data.item_counts > 0, data.item_counts, np.nan)
    means = np.bincount(data.items, data.ratings, data.n_items) / rated
    return pl.DataFrame(
        {
            "item": data.item_ids,
            "title": pl.Series([None] * data.n_items, dtype=pl.String) if data.titles is None else data.titles,
            "ratings": data.item_counts,
            "mean_rating": pl.Series(means).fill_nan(None),
        }
    )

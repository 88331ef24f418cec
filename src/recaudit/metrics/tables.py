"""The tables that results are made of: their columns, and rows about users and items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.metrics.groupings import Grouping

SUMMARY_SCHEMA = {
    "metric": pl.String,
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "reason": pl.String,
    "status": pl.String,
    "baseline": pl.Float64,
    "users": pl.Int64,
    "excluded": pl.Int64,
}
"""`lower` and `upper` are the ends of a confidence interval over users; without one, `reason` is a code that says why:
`too_few_users`, `too_few_changes` or `not_over_users`. `baseline` is what the value is compared with, where there is
one; `users` is how many users it stands on, `excluded` how many had nothing to measure. A value whose `status` is
bounded is made of lower bounds: the truth may lie above it, and above `upper`; of a metric that is the least of
something (`Metric.least`), below."""

NOT_OVER_USERS = "not_over_users"
"""Code of the reason why an average over items has no interval."""

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


def people_table(ids: pl.Series, at: IntArray | None, slices: Iterable[Grouping]) -> pl.DataFrame:
    """One row a user: the id, and the group of each grouping of users that this one belongs to, null for none.

    `at` (users,) are positions in the log that the groupings are of, -1 for who is not in it.
    """
    columns = {}
    for grouping in slices:
        assert at is not None
        members = np.where((at >= 0)[:, None], grouping.weights[at], 0.0)
        group = np.where(members.any(axis=1), members.argmax(axis=1), len(grouping.names))
        columns[grouping.by] = pl.Series([*grouping.names, None], dtype=pl.String).gather(group)
    return pl.DataFrame({"user": ids, **columns})


def means_by(rows: pl.DataFrame, by: str, value: str) -> pl.DataFrame:
    """(by, value): the mean of each group, groups in the order of their first rows.

    Of lists, whose sums have one order: a mean made while grouping adds up in whichever order threads come.
    """
    return rows.group_by(by, maintain_order=True).agg(value).with_columns(pl.col(value).list.mean())


def list_table(users: pl.Series, items: pl.Series, lists: IntArray) -> pl.DataFrame:
    """One row a place in a list: user, rank from 1, item; `lists` (users, n) are positions of items, below 0 none."""
    row, place = np.nonzero(lists >= 0)
    return pl.DataFrame({"user": users.gather(row), "rank": place + 1, "item": items.gather(lists[row, place])})

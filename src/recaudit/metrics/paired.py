"""Two results side by side: each number of both, their difference, and how sure it is that there is one.

The standard error of a difference comes from a paired bootstrap: users are drawn anew, the same draw for both results,
and both numbers are worked out again. So whatever two results share because they are about the same people cancels. The
interval is `difference -+ t se`, and `p` is of the t test that goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import polars as pl
from scipy import sparse, stats

from recaudit.arrays import FloatArray, IntArray
from recaudit.metrics.intervals import Bootstrap
from recaudit.metrics.terms import QUESTION, Terms

_COUNT_SAMPLES = 250
"""Draws for numbers that are made of everybody's lists, which take long: the standard error is within 5% or so."""
ROUNDING = 1e-6
"""Two numbers that differ by no more than this share of themselves are the same: other machines round differently."""
Functional = Callable[[FloatArray], FloatArray]
Correction = Literal["holm", "benjamini-hochberg", "none"]
DIFFERENCE_SCHEMA = {
    "by": pl.String,
    "group": pl.String,
    "metric": pl.String,
    "before": pl.Float64,
    "after": pl.Float64,
    "difference": pl.Float64,
    "error": pl.Float64,
    "error_before": pl.Float64,
    "error_after": pl.Float64,
    "users": pl.Int64,
}
"""`error` is the standard error of the difference, null where fewer than two users were measured, `error_before` and
`error_after` those of the two numbers over the same draws, so that the error of any a * after - b * before follows;
`users` is how many people the two numbers stand on together."""


def term_differences(before: pl.DataFrame, after: pl.DataFrame, bootstrap: Bootstrap) -> pl.DataFrame:
    """The numbers that two tables of terms both have; rows as in DIFFERENCE_SCHEMA."""
    columns = [*QUESTION, "scale"]
    asked = after.select(columns).unique()
    questions = before.select(columns).unique(maintain_order=True).join(asked, on=columns, maintain_order="left")
    users = pl.concat([before["user"], after["user"]]).unique().sort()
    if questions.is_empty() or users.is_empty():
        return pl.DataFrame(schema=DIFFERENCE_SCHEMA)
    first, second = (Terms(rows, users, questions) for rows in (before, after))
    # (questions,): how many users have a part in one of the two numbers.
    counts = np.diff((first.weights + second.weights).tocsc().indptr)
    changed = first.differs(second)
    other = second.only(changed)

    def both(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = first.values(draws)
        moved = found.copy()
        moved[:, changed] = other.values(draws)
        return found, moved

    values = np.concatenate(both(np.ones((1, len(users)))))
    drawn = map(both, bootstrap.resamples(len(users)))
    return questions.drop("scale").hstack(_differences(values, drawn, counts))


@final
@dataclass(frozen=True, eq=False)
class ListCounts:
    """Lists of users, and what is made of how often they show each item."""

    lists: pl.DataFrame
    """user, item"""
    items: pl.Series
    """The ids of the catalogue."""
    functional: Functional
    """Numbers (rows, metrics) of counts (rows, items)."""

    def shown(self, users: pl.Series) -> sparse.csr_array:
        """(items, users): 1 where the item is in the user's list."""
        placed = self.lists.join(pl.DataFrame({"user": users}).with_row_index("place"), on="user").join(
            pl.DataFrame({"item": self.items}).with_row_index("which"), on="item"
        )
        at = placed["which"].to_numpy(), placed["place"].to_numpy()
        return sparse.csr_array((np.ones(len(placed)), at), shape=(len(self.items), len(users)))


def count_differences(
    metrics: Sequence[str], before: ListCounts, after: ListCounts, bootstrap: Bootstrap
) -> pl.DataFrame:
    """The same of numbers that are made of item counts, over the users who have both lists."""
    users = before.lists.join(after.lists, on="user", how="semi")["user"].unique().sort()
    if users.is_empty() or not metrics:
        return pl.DataFrame(schema=DIFFERENCE_SCHEMA)
    first, second = before.shown(users), after.shown(users)

    def both(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
        return before.functional((first @ draws.T).T), after.functional((second @ draws.T).T)

    values = np.concatenate(both(np.ones((1, len(users)))))
    drawn = map(both, replace(bootstrap, samples=min(bootstrap.samples, _COUNT_SAMPLES)).resamples(len(users)))
    counts = np.full(len(metrics), len(users))
    named = pl.DataFrame({"metric": list(metrics)}).select(by=pl.lit(""), group=pl.lit(""), metric="metric")
    return named.hstack(_differences(values, drawn, counts))


def _differences(values: FloatArray, drawn: Iterable[tuple[FloatArray, FloatArray]], counts: IntArray) -> pl.DataFrame:
    """From both numbers (2, questions), both again for draws of users, and how many users each stands on."""
    first, second = (np.concatenate(side) for side in zip(*drawn, strict=True))
    replicates = second - first
    both = np.isfinite(replicates)
    known = (both.sum(axis=0) > len(replicates) / 2) & (counts > 1)
    n = counts[known]

    def error(drawn: FloatArray) -> FloatArray:
        # A draw of n out of n varies by (n - 1) / n less than n new people would.
        found = np.full(len(counts), np.nan)
        found[known] = np.nanstd(np.where(both, drawn, np.nan)[:, known], axis=0, ddof=1) * np.sqrt(n / (n - 1))
        return found

    before, after = values
    columns = {"before": before, "after": after, "difference": after - before}
    columns |= {"error": error(replicates), "error_before": error(first), "error_after": error(second)}
    return pl.DataFrame({name: pl.Series(column).fill_nan(None) for name, column in columns.items()}).with_columns(
        users=pl.Series(counts, dtype=pl.Int64)
    )


def judged(differences: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """With the interval, `lower` and `upper`, and `p`, how likely so large a difference is where there is none."""
    difference, error = (differences[name].fill_null(np.nan).to_numpy() for name in ("difference", "error"))
    size = np.maximum(*(np.abs(differences[name].fill_null(np.nan).to_numpy()) for name in ("before", "after")))
    freedom = np.maximum(differences["users"].to_numpy() - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(difference) / error, freedom)
    same = np.abs(difference) <= ROUNDING * size
    p = np.where(same, 1.0, p)
    half = stats.t.ppf(0.5 + confidence / 2, freedom) * error
    columns = {"lower": difference - half, "upper": difference + half, "p": p}
    return differences.with_columns(pl.Series(name, values).fill_nan(None) for name, values in columns.items())


def corrected(p: FloatArray, correction: Correction) -> FloatArray:
    """p-values of one family of questions, adjusted so that each can be held against the level itself; NaN stays.

    "holm": the chance that any difference at all is called one that is none stays below the level, however the
    questions hang together. "benjamini-hochberg": of those that are called differences, no more than that share is
    expected to be none.
    """
    found = np.array(p, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(found))
    n = len(known)
    if correction == "none" or not n:
        return found
    order = known[np.argsort(found[known], kind="stable")]
    if correction == "holm":
        adjusted = np.maximum.accumulate(found[order] * np.arange(n, 0, -1))
    else:
        adjusted = np.minimum.accumulate((found[order] * n / np.arange(1, n + 1))[::-1])[::-1]
    found[order] = np.minimum(adjusted, 1.0)
    return found

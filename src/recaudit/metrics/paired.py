"""Two results side by side: each number of both, their difference, and how sure it is that there is one.

The standard error of a difference comes from a paired bootstrap: users are drawn anew, the same draw for both results,
and both numbers are worked out again. So whatever two results share because they are about the same people cancels. The
interval is `difference -+ t se`, and `p` is of the t test that goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl
from scipy import sparse, stats

from recaudit.arrays import FloatArray
from recaudit.metrics.intervals import Bootstrap
from recaudit.metrics.terms import QUESTION, Terms

ROUNDING = 1e-6
"""Two numbers that differ by no more than this share of themselves are the same: other machines round differently."""
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
    sides = [Terms(rows, users, questions) for rows in (before, after)]
    # (questions,): how many users have a part in one of the two numbers.
    counts = np.diff((sides[0].weights + sides[1].weights).tocsc().indptr)
    values = np.stack([side.values(np.ones((1, len(users))))[0] for side in sides])
    drawn = (tuple(side.values(draws) for side in sides) for draws in bootstrap.resamples(len(users)))
    return questions.drop("scale").hstack(_differences(values, drawn, counts))


@final
@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of users, and what is made of how often they show each item."""

    lists: pl.DataFrame
    """user, item"""
    items: pl.Series
    """The ids of the catalogue."""
    functional: Callable[[FloatArray], FloatArray]
    """Numbers (rows, metrics) of counts (rows, items)."""

    def shown(self, users: pl.Series) -> sparse.csr_array:
        """(items, users): 1 where the item is in the user's list."""
        placed = self.lists.join(pl.DataFrame({"user": users}).with_row_index("place"), on="user").join(
            pl.DataFrame({"item": self.items}).with_row_index("which"), on="item"
        )
        at = placed["which"].to_numpy(), placed["place"].to_numpy()
        return sparse.csr_array((np.ones(len(placed)), at), shape=(len(self.items), len(users)))


def count_differences(metrics: Sequence[str], before: Lists, after: Lists, bootstrap: Bootstrap) -> pl.DataFrame:
    """The same of numbers that are made of item counts, over the users who have both lists."""
    users = before.lists.join(after.lists, on="user", how="semi")["user"].unique().sort()
    if users.is_empty() or not metrics:
        return pl.DataFrame(schema=DIFFERENCE_SCHEMA)
    sides = [(each.functional, each.shown(users)) for each in (before, after)]
    values = np.stack([made(np.asarray(shown.sum(axis=1), dtype=np.float64)[None])[0] for made, shown in sides])
    drawn = (tuple(made((shown @ draws.T).T) for made, shown in sides) for draws in bootstrap.resamples(len(users)))
    counts = np.full(len(metrics), len(users))
    named = pl.DataFrame({"metric": list(metrics)}).select(by=pl.lit(""), group=pl.lit(""), metric="metric")
    return named.hstack(_differences(values, drawn, counts))


def _differences(
    values: FloatArray, drawn: Iterator[tuple[FloatArray, ...]], counts: FloatArray | np.ndarray
) -> pl.DataFrame:
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
    p = np.where(same & ~np.isnan(error), 1.0, p)
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

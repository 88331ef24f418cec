"""What each user adds to a number: kept beside it, so that two results can be compared user by user, for any group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.metrics.intervals import SCALES, Ratio

QUESTION = ("by", "group", "metric")
"""What a number of a result is about; `by` and `group` are empty where it is about everybody."""

TERM_SCHEMA = {
    "user": pl.String,
    **dict.fromkeys((*QUESTION, "scale"), pl.String),
    "total": pl.Float64,
    "weight": pl.Float64,
}
"""Of a table of terms; users have their own type of ids, and are text where two runs are compared."""


def term_table(ratios: Iterable[Ratio], ids: pl.Series) -> pl.DataFrame:
    """One row a user and number: user, by, group, metric, scale, total, weight, as a `Ratio` has them.

    The number is `scale(sum of totals / sum of weights)` over users; over some of them it is that of their group. Who
    weighs nothing has no row.
    """
    return pl.concat(term_parts(ratios, ids))


def term_parts(ratios: Iterable[Ratio], ids: pl.Series) -> Iterator[pl.DataFrame]:
    """The same, one number after the other."""
    for ratio in ratios:
        some = np.flatnonzero(ratio.weights)
        own = {"user": ids.gather(some), "total": ratio.totals[some], "weight": ratio.weights[some]}
        named = (pl.lit(getattr(ratio, name)).alias(name) for name in (*QUESTION, "scale"))
        yield pl.DataFrame(own).select("user", *named, "total", "weight")


def by_group(terms: pl.DataFrame, people: pl.DataFrame) -> pl.DataFrame:
    """The terms, and those of everybody once more for each group of users, as a table of `people` has them."""
    everybody = terms.filter(pl.col("by") == "").drop("by", "group")
    slices = [
        everybody.join(people.select("user", group=by).drop_nulls("group"), on="user", maintain_order="left")
        .with_columns(by=pl.lit(by))
        .select(terms.columns)
        for by in people.columns[1:]
    ]
    return pl.concat([terms, *slices])


@final
class Terms:
    """What some users add to some numbers: `rows` of a table of terms, about these `users` and `questions`."""

    def __init__(self, rows: pl.DataFrame, users: pl.Series, questions: pl.DataFrame) -> None:
        """`questions` has the columns of QUESTION, and `scale`."""
        placed = rows.join(questions.with_row_index("question"), on=QUESTION).join(
            pl.DataFrame({"user": users}).with_row_index("place"), on="user"
        )
        # A row that is repeated does not count: every user has one part in a number.
        placed = placed.sort("question", "place").filter(
            (pl.col("question") != pl.col("question").shift()).fill_null(value=True)
            | (pl.col("place") != pl.col("place").shift())
        )
        self._users, self._totals, self._weights = (placed[name].to_numpy() for name in ("place", "total", "weight"))
        self._ends = np.searchsorted(placed["question"].to_numpy(), np.arange(len(questions) + 1))
        self._scales = [SCALES[scale] for scale in questions["scale"]]

    def of_question(self, question: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Positions of the users with a part in this number, ascending, and their totals and weights."""
        rows = slice(self._ends[question], self._ends[question + 1])
        return self._users[rows], self._totals[rows], self._weights[rows]

    def values(self) -> FloatArray:
        """Compute each number over all users, shape (questions,); NaN without any."""
        found = np.full(len(self._scales), np.nan)
        for question, scale in enumerate(self._scales):
            _, totals, weights = self.of_question(question)
            if weights.sum() > 0:
                found[question] = scale(np.array([totals.sum() / weights.sum()]))[0]
        return found

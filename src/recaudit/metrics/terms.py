"""What each user adds to a number: kept beside it, so that two results can be compared user by user, for any group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
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
        at = placed["place"].to_numpy(), placed["question"].to_numpy()
        shape = len(users), len(questions)
        self.totals, self.weights = (
            sparse.csc_array((placed[name].to_numpy(), at), shape=shape) for name in ("total", "weight")
        )
        self._scales = [SCALES[scale] for scale in questions["scale"]]

    def differs(self, other: Terms) -> BoolArray:
        """(questions,): whether anybody adds something else to the number in the other."""
        pairs = ((self.totals, other.totals), (self.weights, other.weights))
        apart = [np.abs(one - another).sum(axis=0) > 0 for one, another in pairs]
        return np.asarray(apart[0] | apart[1])

    def only(self, questions: BoolArray) -> Terms:
        """About some of the questions alone."""
        kept = copy(self)
        kept.totals, kept.weights = self.totals[:, questions], self.weights[:, questions]
        kept._scales = [scale for scale, wanted in zip(self._scales, questions, strict=True) if wanted]
        return kept

    def values(self, draws: FloatArray) -> FloatArray:
        """(samples, questions): each number over users that are drawn so often (samples, users); NaN without any."""
        found, (first, same) = np.full((len(draws), len(self._scales)), np.nan), _distinct(self.weights)
        weights = _product(draws, self.weights[:, first])[:, same]
        np.divide(_product(draws, self.totals), weights, out=found, where=weights > 0)
        for question, scale in enumerate(self._scales):
            found[:, question] = scale(found[:, question])
        return found


def _distinct(matrix: sparse.csc_array) -> tuple[IntArray, IntArray]:
    """Columns of which no two are alike, and for every column which of them it is: many numbers weigh users alike."""
    ends = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    contents = [matrix.indices[start:end].tobytes() + matrix.data[start:end].tobytes() for start, end in ends]
    places = {content: place for place, content in enumerate(dict.fromkeys(contents))}
    same = np.array([places[content] for content in contents], dtype=np.int64)
    return np.unique(same, return_index=True)[1], same


def _product(draws: FloatArray, matrix: sparse.csc_array) -> FloatArray:
    """The matrix product, some columns at a time."""
    step = max(1, _MOST_VALUES // max(1, draws.shape[1]))
    parts = [draws @ matrix[:, start : start + step].toarray() for start in range(0, matrix.shape[1], step)]
    return np.concatenate([np.empty((len(draws), 0)), *parts], axis=1)


_MOST_VALUES = 20_000_000
"""That are spread out at a time: 160 MB."""

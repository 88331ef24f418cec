"""The log as CF-NADE reads it: rows of ratings, each at one of a few levels, and split at random anew in each epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np

from recaudit.data import Interactions
from recaudit.errors import InputError
from recaudit.plugins import BoolArray, FloatArray, IntArray

RowKind = Literal["user", "item"]

MOST_LEVELS = 100
"""More levels than this are a mistake: each one has weights of its own for every column."""


@final
@dataclass(frozen=True, eq=False)
class RatingLevels:
    """The ratings that CF-NADE tells apart, evenly spaced; any other rating counts as the nearest of them."""

    values: FloatArray
    """(levels,), ascending."""

    @classmethod
    def of(cls, scale: tuple[float, float], count: int | None) -> RatingLevels:
        """That many levels from the lowest rating of the scale to the highest; None: the whole numbers in it."""
        low, high = scale
        if low == high:
            return cls(np.array([low]))
        if count is not None:
            return cls(np.linspace(low, high, count))
        values = np.arange(np.ceil(low), min(np.floor(high), np.ceil(low) + MOST_LEVELS) + 1)
        if not 2 <= len(values) <= MOST_LEVELS:
            raise InputError(
                "levels",
                received=f"None for ratings in [{low:g}, {high:g}]",
                expected=f"a scale with 2 to {MOST_LEVELS} whole numbers, or how many levels to round ratings to",
                remedy="Set levels=10, say.",
            )
        return cls(values)

    def classes(self, ratings: FloatArray) -> IntArray:
        """(ratings,): the place of each rating's level; halfway between two, the upper one."""
        if len(self.values) == 1:
            return np.zeros(len(ratings), dtype=np.int64)
        steps = (ratings - self.values[0]) / (self.values[1] - self.values[0])
        nearest: FloatArray = np.clip(np.floor(steps + 0.5), 0, len(self.values) - 1)
        return nearest.astype(np.int64)


class RatingTable(NamedTuple):
    """A log in which each row is a user with the items rated, or an item with the users who rated it."""

    starts: IntArray
    """(rows + 1,): the ratings of row r are `starts[r]:starts[r + 1]`."""
    columns: IntArray
    """(ratings,): the item, or the user, of each rating."""
    classes: IntArray
    """(ratings,): the place of its level."""
    n_columns: int

    @classmethod
    def of(cls, data: Interactions, rows: RowKind, levels: RatingLevels) -> RatingTable:
        """The log row by row."""
        matrix, n_columns = (data.csr, data.n_items) if rows == "user" else (data.csc, data.n_users)
        places = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
        return cls(*places, levels.classes(matrix.data), n_columns)


class RowSplit(NamedTuple):
    """One pass over the rows that have ratings, in random order, each split at random; (ratings,) each.

    A row stands for all orders of its ratings at once: with n of its D ratings drawn to be read, n uniform from 0 to
    D - 1, the cost of predicting the D - n others, times D / (D - n), has the mean of the cost over all orders.
    """

    group: IntArray
    """The batch of its row."""
    row: IntArray
    """Where its row stands in the batch."""
    predicted: BoolArray
    """Whether it is to be predicted, or read."""
    weight: FloatArray
    """D / (D - n) of its row."""
    heights: IntArray
    """(batches,): how many rows each has."""

    @classmethod
    def draw(cls, table: RatingTable, batch: int, draw: np.random.Generator) -> RowSplit:
        """All at once, in batches of that many rows."""
        counts = np.diff(table.starts)
        owner = np.repeat(np.arange(len(counts)), counts)
        # The rank of each rating in a random order of its row.
        shuffled = np.argsort(owner + draw.random(len(owner)))
        rank = np.empty(len(owner), dtype=np.int64)
        rank[shuffled] = np.arange(len(owner)) - table.starts[owner]
        reads = np.floor(draw.random(len(counts)) * counts).astype(np.int64)
        order = draw.permutation(np.flatnonzero(counts))
        turn = np.zeros(len(counts), dtype=np.int64)
        turn[order] = np.arange(len(order))
        group, row = np.divmod(turn, batch)
        heights = np.diff(np.append(np.arange(0, len(order), batch), len(order)))
        weight = counts / np.maximum(counts - reads, 1)
        return cls(group[owner], row[owner], rank >= reads[owner], weight[owner], heights)

    def parts(self) -> IntArray:
        """Its place among: read in the first batch, predicted in the first batch, read in the second, ..."""
        # Sixteen bits are sorted by counting.
        kind = np.int16 if 2 * len(self.heights) < 2**15 else np.int64
        return (2 * self.group + self.predicted).astype(kind)

"""CF-NADE's steps on a CPU: at the cost of the ratings that are there, and of Adam, which moves every weight.

Adam's memory is larger than the cache, so each step goes once over all of it: a column's slopes are summed and used
while its weights are at hand, and are kept nowhere.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from numba import njit

from recaudit.plugins import FloatArray, IntArray
from recaudit_papers.models.adam import AdamStep, descend, running_averages
from recaudit_papers.models.numerics import IN_ORDER, Singles, copy_into
from recaudit_papers.models.rating_rows import RatingTable, RowSplit
from recaudit_papers.models.vectors import add_rows, dot, filled_up, zeros


class ColumnWeights(NamedTuple):
    """The parameters of CF-NADE column by column, in single precision."""

    W: Singles
    """(columns, levels, hidden)"""
    V: Singles
    """(columns, levels, hidden)"""
    b: Singles
    """(columns, levels)"""
    c: Singles
    """(hidden,)"""


class ColumnRatings(NamedTuple):
    """Ratings of a batch of rows: those of column m are `starts[m]:starts[m + 1]`."""

    starts: IntArray
    rows: IntArray
    """(ratings,): where the row stands in the batch."""
    classes: IntArray
    weights: Singles


@final
class ColumnLearner:
    """Learns column by column. Hidden units are filled up to whole vectors."""

    def __init__(self, weights: ColumnWeights, table: RatingTable, ordinal: float, regularization: float) -> None:
        self.ordinal, self.pull, self.units = ordinal, np.float32(2 * regularization), len(weights.c)
        W, V, b, c = weights
        self.learned = ColumnWeights(filled_up(W), filled_up(V), b.copy(), filled_up(c))
        flat = (self.learned.W.reshape(len(b), -1), self.learned.V.reshape(len(b), -1), b, self.learned.c)
        self.averages = ColumnWeights(*map(running_averages, flat))
        self.order = np.argsort(table.columns, kind="stable")
        self.columns, self.classes = table.columns[self.order], table.classes[self.order]
        self.n_columns = table.n_columns
        self.steps = 0
        self.hidden, self.slopes = zeros(2, 0, len(self.learned.c))

    def learn(self, split: RowSplit, rate: float) -> float:
        """One pass, a step of Adam for each batch; returns the cost, summed over the rows."""
        if len(self.hidden) < split.heights[0]:
            self.hidden, self.slopes = zeros(2, split.heights[0], len(self.learned.c))
        parts = split.parts()[self.order]
        sort = np.argsort(parts, kind="stable")
        within = parts.astype(np.int64) * self.n_columns + self.columns
        ends = np.bincount(within, minlength=2 * len(split.heights) * self.n_columns).cumsum()
        starts = np.concatenate([[0], ends])
        at = self.order[sort]
        rows, classes, weights = split.row[at], self.classes[sort], split.weight[at].astype(np.float32)
        total = 0.0
        for group, height in enumerate(split.heights.tolist()):
            read, predict = (
                ColumnRatings(starts[part * self.n_columns : (part + 1) * self.n_columns + 1], rows, classes, weights)
                for part in (2 * group, 2 * group + 1)
            )
            total += self.step(read, predict, height, rate)
        return total

    def step(self, read: ColumnRatings, predict: ColumnRatings, height: int, rate: float) -> float:
        """Adam, once, on the mean cost of a batch of `height` rows; returns their cost, summed."""
        self.steps += 1
        adam = AdamStep.of(rate, self.steps)
        hidden, slopes = self.hidden[:height], self.slopes[:height]
        read_columns(read, self.learned, hidden)
        torch.from_numpy(hidden).tanh_()
        state = (self.learned, self.averages, self.pull, adam)
        total = step_outputs(predict, hidden, slopes, self.ordinal, *state)
        slopes *= 1 - hidden * hidden
        step_inputs(read, slopes, *state)
        return total

    def weights(self) -> ColumnWeights:
        """What has been learned."""
        W, V, b, c = self.learned
        return ColumnWeights(W[..., : self.units].copy(), V[..., : self.units].copy(), b.copy(), c[: self.units].copy())


@njit(fastmath=IN_ORDER, cache=True)
def read_columns(read: ColumnRatings, weights: ColumnWeights, entering: Singles) -> None:
    """Write what enters the hidden layer: `c` and, for each rating read, W of its column up to its level."""
    for row in entering:
        copy_into(row, weights.c)
    for m in range(len(weights.W)):
        for at in range(read.starts[m], read.starts[m + 1]):
            total = entering[read.rows[at]]
            for level in range(read.classes[at] + 1):
                w = weights.W[m, level]
                for k in range(len(total)):
                    total[k] += w[k]


@njit(fastmath=IN_ORDER, cache=True)
def step_outputs(
    predict: ColumnRatings,
    hidden: Singles,
    hidden_slopes: Singles,
    ordinal: float,
    weights: ColumnWeights,
    averages: ColumnWeights,
    pull: np.float32,
    step: AdamStep,
) -> float:
    """Predict from `hidden` (rows, units), take a step of Adam for V and b, and return the cost of all rows.

    Writes `hidden_slopes` (rows, units), those of the mean cost of the rows in `hidden`.
    """
    columns, levels, units = weights.V.shape
    of_V, of_b = np.empty((levels, units), np.float32), np.zeros((columns, levels), np.float32)
    scores, slopes, factors = np.empty(levels), np.empty(levels), np.empty(levels, np.float32)
    every = np.arange(levels)
    hidden_slopes[:] = 0
    total = 0.0
    for m in range(columns):
        V, b = weights.V[m], weights.b[m]
        of_V[:] = 0
        for at in range(predict.starts[m], predict.starts[m + 1]):
            row, weight = predict.rows[at], predict.weights[at]
            h = hidden[row]
            score = 0.0
            for level in range(levels):
                score += b[level] + dot(V[level], h)
                scores[level] = score
            total += weight * cost_and_slopes(scores, predict.classes[at], ordinal, slopes)
            slope = 0.0
            for level in range(levels - 1, -1, -1):
                slope += weight / len(hidden) * slopes[level]
                factors[level] = slope
                of_b[m, level] += factors[level]
                factor, of_level = factors[level], of_V[level]
                for k in range(units):
                    of_level[k] += factor * h[k]
            add_rows(hidden_slopes[row], V, every, factors)
        descend(V.reshape(-1), of_V.reshape(-1), averages.V[m], pull, step)
        descend(b, of_b[m], averages.b[m], pull, step)
    return total


@njit(fastmath=IN_ORDER, cache=True)
def step_inputs(
    read: ColumnRatings,
    slopes: Singles,
    weights: ColumnWeights,
    averages: ColumnWeights,
    pull: np.float32,
    step: AdamStep,
) -> None:
    """Take a step of Adam for W and c, down `slopes` (rows, units) in what enters the hidden layer."""
    columns, levels, units = weights.W.shape
    of_W, of_c = np.empty((levels, units), np.float32), np.zeros(units, np.float32)
    for m in range(columns):
        of_W[:] = 0
        for at in range(read.starts[m], read.starts[m + 1]):
            of_level, d = of_W[read.classes[at]], slopes[read.rows[at]]
            for k in range(units):
                of_level[k] += d[k]
        # A level's weights are read by the ratings at that level and above it.
        for level in range(levels - 2, -1, -1):
            of_level, above = of_W[level], of_W[level + 1]
            for k in range(units):
                of_level[k] += above[k]
        descend(weights.W[m].reshape(-1), of_W.reshape(-1), averages.W[m], pull, step)
    for row in range(len(slopes)):
        d = slopes[row]
        for k in range(units):
            of_c[k] += d[k]
    descend(weights.c, of_c, averages.c, pull, step)


@njit(cache=True, error_model="numpy")
def cost_and_slopes(scores: FloatArray, place: int, ordinal: float, slopes: FloatArray) -> float:
    """`costs` of one rating at level `place`, scores (levels,); writes its `slopes` (levels,) in the scores."""
    # A sum of weights that are all below the smallest number is 0, whose log would be no number.
    least = 1e-290
    levels, top = len(scores), scores.max()
    cost, everything = 0.0, 0.0
    for level in range(levels):
        everything += np.exp(scores[level] - top)
        slopes[level] = 0.0
    if ordinal > 0:
        for first, last, by in ((0, place, 1), (levels - 1, place, -1)):
            below = 0.0
            for level in range(first, last + by, by):
                weight = np.exp(scores[level] - top)
                below += weight
                cost += ordinal * (np.log(max(below, least)) - scores[level] + top)
                slopes[level] -= ordinal
                if below > least:
                    for other in range(first, level + by, by):
                        slopes[other] += ordinal * np.exp(scores[other] - top) / below
    if ordinal < 1:
        cost += (1 - ordinal) * (np.log(everything) - scores[place] + top)
        for level in range(levels):
            slopes[level] += (1 - ordinal) * np.exp(scores[level] - top) / everything
        slopes[place] -= 1 - ordinal
    return cost

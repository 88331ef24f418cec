"""What a log looks like in numbers, so that two logs can be held side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse, stats

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.lists.exposure import gini
from recaudit.data import splits
from recaudit.data.interactions import Interactions
from recaudit.models.base import Recommender
from recaudit.seeding import generator

LEAST_COUNT = 10
"""Means of fewer ratings are too noisy to be compared."""
AXES = 5
"""How many singular values count as structure."""


@final
@dataclass(frozen=True, eq=False)
class Marginals:
    """Users, or items: how often each rates or is rated, and how high."""

    ids: pl.Series
    counts: IntArray
    """(n,)"""
    means: FloatArray
    """(n,): NaN without ratings."""
    reliability: float | None
    """The correlation that the means would have with those of another log by the same people: that of two halves,
    corrected for their length (Spearman and Brown)."""
    count_reliability: float | None
    """The same for the counts, as a rank correlation."""

    @property
    def gini(self) -> float:
        """How unequal the counts are."""
        return float(gini(self.counts[None, :].astype(np.float64))[0])

    @property
    def firm(self) -> BoolArray:
        """(n,): True where there are ratings enough for a mean."""
        return self.counts >= LEAST_COUNT


@final
@dataclass(frozen=True, eq=False)
class Portrait:
    """One log. What cannot be computed is None."""

    ratings: FloatArray
    users: Marginals
    items: Marginals
    popularity_pull: float | None
    """Rank correlation over items of how often they are rated and how high."""
    error: float
    """Root mean square error of the reference recommender on a tenth of the ratings, held out."""
    explained: float
    """The share of the held-out variance that it explains."""
    taste_axes: float | None
    """The share of what users' and items' means leave unexplained that lies on the first axes."""
    choice_axes: float | None
    """The share of who rates what, beyond activity and popularity, that lies on the first axes."""


def portrait(data: Interactions, reference: Recommender, rng: int) -> Portrait:
    """The numbers of one log; the seed says which ratings are held out."""
    half = splits.random(data, 0.5, rng)
    users, items = _marginals(data, half, "user"), _marginals(data, half, "item")
    split = splits.random(data, 0.1, rng)
    test = split.test
    predicted = reference.fit(split.train, rng).predict(test.users.astype(np.int64), test.items.astype(np.int64))
    error = float(np.sqrt(np.mean((predicted - test.ratings) ** 2)))
    spread = float(test.ratings.var())
    return Portrait(
        ratings=data.ratings,
        users=users,
        items=items,
        popularity_pull=rank_correlation(items.counts[items.firm], items.means[items.firm]),
        error=error,
        explained=1 - error**2 / spread if spread > 0 else 0.0,
        taste_axes=_taste_axes(data),
        choice_axes=_choice_axes(data),
    )


def correlation(x: FloatArray, y: FloatArray) -> float | None:
    """Pearson's, of at least 10 pairs that vary."""
    if len(x) < LEAST_COUNT or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def rank_correlation(x: FloatArray | IntArray, y: FloatArray | IntArray) -> float | None:
    """Spearman's, of at least 10 pairs that vary."""
    return correlation(stats.rankdata(x), stats.rankdata(y))


def _marginals(data: Interactions, half: splits.Split, side: str) -> Marginals:
    ids: pl.Series = getattr(data, f"{side}_ids")
    sums = (_counts_and_means(getattr(log, f"{side}s"), log, len(ids)) for log in (data, half.train, half.test))
    (counts, means), (first_counts, first), (second_counts, second) = sums
    both = (counts >= LEAST_COUNT) & (first_counts > 0) & (second_counts > 0)
    reliability = _lengthened(correlation(first[both], second[both]))
    return Marginals(ids, counts, means, reliability, _lengthened(rank_correlation(first_counts, second_counts)))


def _counts_and_means(at: NDArray[np.int32], data: Interactions, n: int) -> tuple[IntArray, FloatArray]:
    counts = np.bincount(at, minlength=n)
    with np.errstate(invalid="ignore"):
        return counts, np.bincount(at, weights=data.ratings, minlength=n) / counts


def _lengthened(half: float | None) -> float | None:
    """The correlation of wholes, from that of halves."""
    return None if half is None else 2 * half / (1 + half) if half > 0 else 0.0


def _taste_axes(data: Interactions) -> float | None:
    """The share of the first squared singular values of the ratings less the means of items, then of users."""
    left = data.ratings - _counts_and_means(data.items, data, data.n_items)[1][data.items]
    means = np.bincount(data.users, weights=left, minlength=data.n_users) / np.maximum(data.user_counts, 1)
    left = left - means[data.users]
    matrix = sparse.csr_array((left, (data.users, data.items)), shape=(data.n_users, data.n_items))
    squares, total = _largest_squares(matrix, AXES), float(left @ left)
    return None if squares is None or total <= 1e-9 * len(data) else float(squares.sum()) / total


def _choice_axes(data: Interactions) -> float | None:
    """The share of the first axes of a correspondence analysis of who rated what, rare users and items left out.

    With `n_ui = 1 / sqrt(count_u count_i)` where u rated i, the first singular value is 1 and says that some rate more
    and some are rated more; the squares of the others sum to the inertia, what activity and popularity leave open.
    """
    kept = (data.user_counts >= LEAST_COUNT)[data.users] & (data.item_counts >= LEAST_COUNT)[data.items]
    users, items = data.users[kept], data.items[kept]
    if len(users) == 0:
        return None
    weights = 1 / np.sqrt(np.bincount(users)[users] * np.bincount(items)[items])
    matrix = sparse.csr_array((weights, (users, items)), shape=(data.n_users, data.n_items))
    squares, inertia = _largest_squares(matrix, AXES + 1), float(weights @ weights) - 1
    return None if squares is None or inertia <= 1e-9 else float(squares[1:].sum()) / inertia


def _largest_squares(matrix: sparse.csr_array, count: int) -> FloatArray | None:
    """(count,): the largest squared singular values, descending; None for a matrix too small to have more than these.

    Subspace iteration from a fixed start (Halko et al. 2011): unlike Lanczos it always has an answer, and the same one.
    """
    if min(matrix.shape) <= count:
        return None
    basis = generator(0, "subspace").standard_normal((matrix.shape[1], min(count + 20, *matrix.shape)))
    for _ in range(10):
        moved = matrix.T @ (matrix @ basis)
        squares, axes = np.linalg.eigh(moved.T @ moved)
        kept = squares > 1e-12 * squares.max(initial=0.0)
        basis = moved @ (axes[:, kept] / np.sqrt(squares[kept]))
    moved = matrix @ basis
    return np.asarray(np.linalg.eigvalsh(moved.T @ moved)[::-1][:count])

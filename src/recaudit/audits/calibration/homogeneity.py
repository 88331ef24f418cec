"""Whether a list could be a chance draw from the user's own taste: the tests that paper 004, section 3, mentions.

The null hypothesis is that list and history are random parts of one pool of items. The statistics are G and Pearson's
chi-squared of the table of genres by (list, history), items with several genres counting in parts. The p-value comes
from drawing the list again and again out of the pool (a permutation test), not from the chi-squared distribution: lists
are short, many genres are expected less than five times, and the parts of an item are not independent. That is right
for any size, up to the error of drawing, for which `samples` and the seed are stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import xlogy

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError, did_you_mean
from recaudit.seeding import generator

Statistic = Literal["g", "chi2"]


@final
@dataclass(frozen=True, eq=False)
class Homogeneity:
    """A test for each user."""

    statistic: FloatArray
    """(users,): 0 where list and history have the same proportions."""
    p_value: FloatArray
    """(users,): how often a random draw is at least as far off; from 1 / (samples + 1) to 1, and 1 without a test."""
    tested: NDArray[np.bool_]
    """(users,): whether list and history both have items with genres."""


def homogeneity(
    lists: IntArray,
    history: sparse.csr_array,
    shares: sparse.csr_array,
    keys: Sequence[object],
    *,
    statistic: Statistic = "g",
    samples: int = 999,
    rng: int = 0,
) -> Homogeneity:
    """Test each list against its user's history.

    `lists` (users, n): item positions, -1 where there is none; `history` (users, items): an entry above 0 where the
    user chose the item, each counting once; `shares` (items, genres): p(g|i), items without any genre do not count;
    `keys` (users,): ids, so that a user's draws follow from `rng` and the id alone.
    """
    if statistic not in get_args(Statistic):
        remedy = did_you_mean(statistic, get_args(Statistic))
        raise InputError("statistic", received=repr(statistic), expected="'g' or 'chi2'", remedy=remedy)
    if samples < 1:
        raise InputError("samples", received=samples, expected="at least one draw")
    has_genre = np.diff(shares.indptr) > 0
    found = np.zeros(len(lists))
    p_value, tested = np.ones(len(lists)), np.zeros(len(lists), dtype=bool)
    for user, items in enumerate(lists):
        own = history.indices[history.indptr[user] : history.indptr[user + 1]]
        own = own[history.data[history.indptr[user] : history.indptr[user + 1]] > 0]
        shown, chosen = items[items >= 0], own.astype(np.int64)
        shown, chosen = shown[has_genre[shown]], chosen[has_genre[chosen]]
        if not (len(shown) and len(chosen)):
            continue
        tested[user] = True
        draw = generator(rng, "homogeneity", keys[user])
        found[user], p_value[user] = _test(shares, shown, chosen, statistic, samples, draw)
    return Homogeneity(found, p_value, tested)


def _test(
    shares: sparse.csr_array,
    shown: IntArray,
    chosen: IntArray,
    statistic: Statistic,
    samples: int,
    draw: np.random.Generator,
) -> tuple[float, float]:
    """The statistic of one user, and its p-value."""
    pool = shares[np.concatenate([shown, chosen])].toarray()
    kinds, kind = np.unique(pool, axis=0, return_inverse=True)
    kinds = kinds[:, kinds.sum(axis=0) > 0]
    counts = np.bincount(kind.ravel(), minlength=len(kinds))
    lists = draw.multivariate_hypergeometric(counts, len(shown), size=samples)
    listed = np.vstack([np.bincount(kind.ravel()[: len(shown)], minlength=len(kinds)), lists]) @ kinds
    values = _statistics(listed, counts @ kinds, statistic)
    # A draw of the same table may differ in the last digits of its sums.
    as_far = values[1:] >= values[0] - 1e-9 * max(1.0, values[0])
    return float(values[0]), float((1 + as_far.sum()) / (1 + samples))


def _statistics(listed: FloatArray, pooled: FloatArray, statistic: Statistic) -> FloatArray:
    """(tables,): the statistic of lists with genre counts `listed` (tables, genres) out of `pooled` (genres,)."""
    observed = np.stack([listed, np.maximum(pooled - listed, 0)])  # a difference of rounded sums may be below 0
    sizes = observed.sum(axis=2, keepdims=True)
    expected = sizes * pooled / pooled.sum()
    # Every genre of the pool is expected somewhere, and a list is never all of the pool.
    if statistic == "g":
        return np.asarray(np.maximum(2 * xlogy(observed, observed / expected).sum(axis=(0, 2)), 0.0))
    return np.asarray((np.square(observed - expected) / expected).sum(axis=(0, 2)))

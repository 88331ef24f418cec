"""How far a list's genres are from a user's, and whether by more than chance: paper 004, section 3.

Distances take the interests `p` and the list's shares `q` (users, genres) of one category system. What a row of q lacks
to one (items without any genre) counts as a genre without interest. Where p or q is all 0 the number has no meaning:
see `measurable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.seeding import generator
from recaudit.solvers.lists.objective import SMOOTHING, CategoryVectors, divergence


def measurable(p: FloatArray, q: FloatArray) -> BoolArray:
    """(users,): whether the user has interests and the list has items with genres."""
    return np.asarray((p.sum(axis=1) > 0) & (q.sum(axis=1) > 0))


def kl(p: FloatArray, q: FloatArray, smoothing: float = SMOOTHING) -> FloatArray:
    """(users,): C_KL, the Kullback-Leibler divergence of the smoothed list from the history (Equations 4 and 5).

    sum_g p log(p / q~), q~ = (1 - alpha) q + alpha p, natural logarithm. From 0 to log(1 / alpha): 4.6 for 0.01.
    """
    return np.maximum(divergence(p, q, smoothing), 0.0)


def hellinger(p: FloatArray, q: FloatArray) -> FloatArray:
    """(users,): sqrt(sum_g (sqrt p - sqrt q)^2 / 2), the Hellinger distance (the paper prints 1 / 2: an erratum)."""
    missing = np.maximum(1 - q.sum(axis=1), 0.0)
    return np.asarray(np.sqrt((np.square(np.sqrt(p) - np.sqrt(q)).sum(axis=1) + missing) / 2))


def total_variation(p: FloatArray, q: FloatArray) -> FloatArray:
    """(users,): the share of the list that would have to be replaced: sum_g |p - q| / 2."""
    missing = np.maximum(1 - q.sum(axis=1), 0.0)
    return np.asarray((np.abs(p - q).sum(axis=1) + missing) / 2)


def representation(p: FloatArray, q: FloatArray) -> dict[str, FloatArray]:
    """How some users' lists treat each genre (genres,), as in the paper's Figure 3; zeros without any users.

    `history`: the mean of p; `over` and `under`: the means of max(0, q - p) and of max(0, p - q).
    """
    parts = {"history": p, "over": np.maximum(q - p, 0), "under": np.maximum(p - q, 0)}
    return {name: values.sum(axis=0) / max(1, len(p)) for name, values in parts.items()}


@final
@dataclass(frozen=True, eq=False)
class Homogeneity:
    """Whether a list could be a chance draw from the user's own taste; a block of users in, their tests out.

    The null hypothesis is that list and history are random parts of one pool of items; the statistic is G of the
    table of genres by (list, history). The p-value is that of a permutation test: lists are too short for the
    chi-squared distribution, and the parts of an item with several genres are not independent.
    """

    lists: IntArray
    """(users, n): item positions, -1 where there is none."""
    history: sparse.csr_array
    """(users, items): an entry where the user chose the item, each counting once."""
    vectors: CategoryVectors
    """The items' genres, p(g|i); items without any do not count."""
    keys: Sequence[object]
    """(users,): ids, so that a user's draws follow from `rng` and the id alone."""
    samples: int = 999
    rng: int = 0

    def __call__(self, users: IntArray) -> FloatArray:
        """(2, users): the statistic and its p-value, from 1 / (samples + 1); NaN where one has no items with genres."""
        has_genre = (np.diff(self.vectors.indptr) > 0)[self.vectors.vector_of]
        found = np.full((2, len(users)), np.nan)
        for place, user in enumerate(users):
            items, indptr = self.lists[user], self.history.indptr
            shown, chosen = items[items >= 0], self.history.indices[indptr[user] : indptr[user + 1]].astype(np.int64)
            shown, chosen = shown[has_genre[shown]], chosen[has_genre[chosen]]
            if len(shown) and len(chosen):
                found[:, place] = self._test(shown, chosen, generator(self.rng, "homogeneity", self.keys[user]))
        return found

    def _test(self, shown: IntArray, chosen: IntArray, draw: np.random.Generator) -> tuple[float, float]:
        """The statistic of one user, and its p-value."""
        distinct, kind = np.unique(self.vectors.vector_of[np.concatenate([shown, chosen])], return_inverse=True)
        kinds = self.vectors.rows(distinct)
        kinds = kinds[:, kinds.sum(axis=0) > 0]
        # In the order of their shares, whatever other items the catalogue has: draws follow from it.
        order = np.lexsort(kinds.T[::-1])
        kinds, kind = kinds[order], np.argsort(order)[kind]
        counts = np.bincount(kind, minlength=len(kinds))
        lists = draw.multivariate_hypergeometric(counts, len(shown), size=self.samples)
        listed = np.vstack([np.bincount(kind[: len(shown)], minlength=len(kinds)), lists]) @ kinds
        pooled = counts @ kinds
        observed = np.stack([listed, np.maximum(pooled - listed, 0)])  # a difference of rounded sums may be below 0
        expected = observed.sum(axis=2, keepdims=True) * pooled / pooled.sum()
        # Every genre of the pool is expected somewhere, and a list is never all of the pool.
        values = np.maximum(2 * xlogy(observed, observed / expected).sum(axis=(0, 2)), 0.0)
        # A draw of the same table may differ in the last digits of its sums.
        as_far = values[1:] >= values[0] - 1e-9 * max(1.0, values[0])
        return float(values[0]), float((1 + as_far.sum()) / (1 + self.samples))

"""What would really be shown: each user's list, and how its items stand to the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.models.base import FittedModel

UNRELATED, SIMILAR = 0.1, 0.3
"""Relatedness below 0.1 is less than 95% of the rated pairs have, in MovieLens 1M and in the demo, whether it is taken
from the log or from genres."""


@final
@dataclass(frozen=True, eq=False)
class Space:
    """A model's space, and what nearness in it is compared with."""

    model: FittedModel
    user_vectors: FloatArray
    """(users, factors): whose products with the item vectors are the similarity; of length one for cosines."""
    item_vectors: FloatArray
    """(items, factors)"""
    relatedness: Relatedness


@final
@dataclass(frozen=True, eq=False)
class JudgedLists:
    """The lists of some users, and how similar and related their items are; NaN where a list has no more items."""

    users: IntArray
    """(users,): positions."""
    items: IntArray
    """(users, k): positions, best first; -1 where none is left."""
    similarity: FloatArray
    """(users, k): s_ij."""
    relatedness: FloatArray
    """(users, k): r_ij."""
    unrelated: float
    similar: float

    @classmethod
    def of(
        cls, space: Space, users: IntArray, items: IntArray, unrelated: float = UNRELATED, similar: float = SIMILAR
    ) -> JudgedLists:
        """Judge the lists `items` (users, k)."""
        row, place = np.nonzero(items >= 0)
        people, films = users[row], items[row, place]
        s, r = np.full(items.shape, np.nan), np.full(items.shape, np.nan)
        s[row, place] = np.einsum("nd,nd->n", space.user_vectors[people], space.item_vectors[films])
        r[row, place] = space.relatedness.pairs(people, films)
        return cls(users, items, s, r, unrelated, similar)

    @property
    def overshoot(self) -> FloatArray:
        """(users, k): max(0, s_ij - r_ij)."""
        return np.maximum(0.0, self.similarity - self.relatedness)

    @property
    def spurious(self) -> FloatArray:
        """(users, k): 1 where `r < unrelated` although `s > similar`, else 0."""
        flags = (self.relatedness < self.unrelated) & (self.similarity > self.similar)
        return np.where(self.items >= 0, flags, np.nan)

    @property
    def folding(self) -> FloatArray:
        """(users,): the mean overshoot over each list; NaN for an empty one."""
        return _mean_over_list(self.overshoot)

    @property
    def spurious_share(self) -> FloatArray:
        """(users,): the share of each list that is spurious; NaN for an empty one."""
        return _mean_over_list(self.spurious)


def _mean_over_list(values: FloatArray) -> FloatArray:
    places = (~np.isnan(values)).sum(axis=1)
    return np.asarray(np.nansum(values, axis=1) / np.where(places > 0, places, np.nan))

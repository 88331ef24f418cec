"""How far users can lift items: per user, over any set of items, so that groups can be averaged and set side by side.

The mean is over a user's pairs first, then over users. Lifts are ratios, so their mean is geometric, the one that
neither a few items with tiny baselines nor the choice of the reciprocal can turn; the arithmetic mean, which paper 001
reports, is kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, StatusArray
from recaudit.audits.reachability.result import Reachability
from recaudit.metrics.intervals import standing
from recaudit.status import Status


@final
@dataclass(frozen=True, eq=False)
class Lifts:
    """The lifts of a result's pairs, without those that have none: no answer, or a baseline of 0."""

    found: Reachability
    values: FloatArray
    """(asked users, items): NaN where there is no lift."""
    bounded: BoolArray
    """(asked users, items): where the lift is a lower bound."""
    failed: BoolArray
    """(asked users, items): where an answer was looked for and not found."""

    @classmethod
    def of(cls, found: Reachability) -> Lifts:
        """From the rows of a result."""
        known = found.frame.filter(pl.col("lift").is_finite() & (pl.col("lift") > 0))
        values = np.full((len(found.users), found.data.n_items), np.nan)
        values[found.places(known)] = known["lift"].to_numpy()
        return cls(
            found,
            values,
            found.marked(known.filter(pl.col("status") == Status.BOUNDED.value)),
            found.marked(found.frame.filter(pl.col("status") == Status.FAILED.value)),
        )

    def statuses(self, weights: FloatArray) -> StatusArray:
        """(users,): how each user's mean over the items with a weight (items,) stands."""
        chosen = weights > 0
        marks = (self.bounded, ~np.isnan(self.values), self.failed)
        return standing(*(mark[:, chosen].any(axis=1) for mark in marks))

    def logs(self, weights: FloatArray) -> FloatArray:
        """(users,): each user's mean of log lift over the items with a weight (items,); NaN without any."""
        return self._mean(np.log(self.values), weights)

    def means(self, weights: FloatArray) -> FloatArray:
        """(users,): each user's arithmetic mean."""
        return self._mean(self.values, weights)

    def shares(self, weights: FloatArray, factor: float) -> FloatArray:
        """(users,): the share of each user's items that can be lifted by this factor or more."""
        above = np.where(np.isnan(self.values), np.nan, self.values >= factor)
        return self._mean(above, weights)

    def of_items(self) -> FloatArray:
        """(items,): each item's geometric mean over users; NaN without any."""
        known = ~np.isnan(self.values)
        total = np.where(known, np.log(self.values), 0.0).sum(axis=0)
        means: FloatArray = total / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        return np.exp(means)

    def weights(self, ids: Iterable[object] | None) -> FloatArray:
        """(items,): 1 for the items with these ids, else 0; 1 for all where none are named."""
        if ids is None:
            return np.ones(self.found.data.n_items)
        chosen = np.zeros(self.found.data.n_items)
        chosen[self.found.data.items_at(ids)] = 1.0
        return chosen

    @staticmethod
    def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
        known = ~np.isnan(values)
        total = known @ weights
        return np.asarray(np.where(known, values, 0.0) @ weights / np.where(total > 0, total, np.nan))

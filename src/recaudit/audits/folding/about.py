"""What items are about and what users rate, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean


@final
@dataclass(frozen=True, eq=False)
class About:
    """Items and users described by one category system; by their titles alone where the log has none."""

    data: Interactions
    categories: Categories

    @classmethod
    def of(cls, data: Interactions, system: str | None) -> About:
        """By the named system, or else the log's first."""
        if system is None:
            nothing = Categories((), sparse.csr_array((data.n_items, 0)))
            return cls(data, next(iter(data.categories.values()), nothing))
        if system not in data.categories:
            remedy = did_you_mean(system, data.categories) if data.categories else "This log has no categories."
            raise InputError("system", received=system, expected="a category system of the log", remedy=remedy)
        return cls(data, data.categories[system])

    def of_item(self, item: int) -> str | None:
        """The item's categories, the weightiest first: "Horror|Thriller"; None where it has none."""
        weights = self.categories.weights
        row = slice(weights.indptr[item], weights.indptr[item + 1])
        names, values = weights.indices[row], weights.data[row]
        order = np.argsort(-values, kind="stable")
        return "|".join(self.categories.names[g] for g in names[order]) or None

    def labels(self, items: IntArray) -> list[str]:
        """What to call these items in front of a person who has to judge: title and categories."""
        named = zip(self.data.item_labels(items), map(self.of_item, items), strict=True)
        return [f"{title} [{about}]" if about else title for title, about in named]

    def rated_by(self, user: int, most: int = 3) -> str | None:
        """The categories that the user rates most: "Drama 40%, Comedy 25%"; None where none is known."""
        shares = self.shares_rated(np.array([user]))
        if not shares.any():
            return None
        best = [g for g in np.argsort(-shares, kind="stable")[:most] if shares[g] > 0]
        return ", ".join(f"{self.categories.names[g]} {shares[g]:.0%}" for g in best)

    def in_common(self, user: int, items: IntArray) -> FloatArray:
        """(len(items),): the share of what the user rated that has a category in common with each item.

        NaN for an item without categories, and for a user without ratings.
        """
        belongs = self.categories.weights
        rated = self.data.history(user)[0]
        if not len(rated) or not belongs.shape[1]:
            return np.full(len(items), np.nan)
        shares = ((belongs[rated] @ belongs[items].T).toarray() > 0).mean(axis=0)
        return np.where(np.diff(belongs.indptr)[items] > 0, shares, np.nan)

    def shares_rated(self, users: IntArray) -> FloatArray:
        """(categories,): the share of each category in what these users rated, all their ratings together."""
        rows = np.concatenate([np.arange(self.data.indptr[u], self.data.indptr[u + 1]) for u in users])
        return self.shares(np.bincount(self.data.items[rows], minlength=self.data.n_items).astype(np.float64))

    def shares(self, weights: FloatArray) -> FloatArray:
        """(categories,): the share of each category in the items, each weighing `weights` (items,)."""
        totals = np.asarray(weights @ self.categories.weights)
        whole = float(totals.sum())
        return np.asarray(totals / whole) if whole > 0 else totals

    def distinctive(self, shares: FloatArray, everywhere: FloatArray, most: int = 2) -> str:
        """The categories that set these shares apart from those `everywhere`; "" where none does.

        By their part in the Kullback-Leibler divergence, `p log(p / q)`: frequent here, and more than elsewhere.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(shares > 0, shares * np.log(shares / everywhere), 0.0)
        best = [g for g in np.argsort(-parts, kind="stable")[:most] if parts[g] > 0]
        return "|".join(self.categories.names[g] for g in best)

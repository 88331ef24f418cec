"""What folding gives back: the numbers, and the questions that can be asked about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl

from recaudit.arguments import check_count
from recaudit.arrays import FloatArray
from recaudit.audits.folding.clusters import co_clusters
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.shown import Shown, Spurious, shown
from recaudit.audits.folding.spurious import Evidence, clearest, least_related
from recaudit.audits.folding.vectors import MIN_RATINGS, user_at
from recaudit.audits.result import Result
from recaudit.engines import Engine, Serial
from recaudit.models.base import FittedModel

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False, repr=False)
class Folding:
    """Folding of one model, and what is behind it."""

    result: Result
    """The numbers, as every audit has them: overall, by group, by user, by item, and (`pairs`) of each shown item."""
    model: FittedModel
    relatedness: Relatedness
    user_vectors: FloatArray
    """(users, factors): whose products with the item vectors are the similarity; of length one for cosines."""
    item_vectors: FloatArray
    """(items, factors)"""
    lists: Shown
    """The lists of the users who were asked about."""
    rule: Spurious
    """When a shown item is called spurious."""

    def __getitem__(self, metric: str) -> float:
        """The overall value of one metric: folding, overshoot_share, shown_folding or spurious_share."""
        return self.result[metric]

    @property
    def frame(self) -> pl.DataFrame:
        """One row a metric."""
        return self.result.frame

    @property
    def groups(self) -> pl.DataFrame:
        """The same by group of users or items."""
        return self.result.groups

    @property
    def users(self) -> pl.DataFrame:
        """One row a user who was asked about."""
        return self.result.users

    @property
    def items(self) -> pl.DataFrame:
        """One row an item."""
        return self.result.items

    def by(self, name: str) -> pl.DataFrame:
        """The rows of `groups` for one way of grouping."""
        return self.result.by(name)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every frame by name, as a run folder stores them."""
        return self.result.tables()

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.result.to_pandas()

    def summary(self) -> str:
        """The overall values with their intervals, a line each."""
        return self.result.summary()

    __repr__ = summary

    def spurious(
        self, user: object, n: int = 3, *, system: str | None = None, min_ratings: int = MIN_RATINGS
    ) -> pl.DataFrame:
        """The n items of this user's list that are least related to the user, with the evidence.

        A row an item, least related first: see `spurious.SCHEMA`. `system` names the categories to show, else the
        log's first; as evidence only items with `min_ratings` are named.
        """
        check_count("n", n)
        position = np.array([user_at(self.model.data, user)])
        k = self.lists.items.shape[1]
        vectors = (self.user_vectors, self.item_vectors)
        listed = shown(self.model, *vectors, self.relatedness, position, k, Serial())
        return self._evidence(system, min_ratings).frame(least_related(listed, n), self.rule)

    def worst(self, n: int = 10, *, system: str | None = None, min_ratings: int = MIN_RATINGS) -> pl.DataFrame:
        """The n clearest spurious recommendations over all users who were asked about, with the evidence.

        Ordered by overshoot times the share of the user's ratings that have no category in common with the item; each
        user and each item at most once, so that one stray item does not fill the table. Only items with at least
        `min_ratings`, as cases and as evidence. Fewer rows where fewer are spurious.
        """
        check_count("n", n)
        evidence = self._evidence(system, min_ratings)
        return evidence.frame(clearest(self.lists, self.rule, evidence.about, n, min_ratings), self.rule)

    def co_clusters(
        self,
        user_clusters: int = 6,
        item_clusters: int = 8,
        *,
        system: str | None = None,
        rng: int = 0,
        engine: Engine | None = None,
    ) -> pl.DataFrame:
        """Which kinds of users fold onto which kinds of items: a row for each pair of clusters, worst first.

        See `clusters.co_clusters`.
        """
        return co_clusters(
            self.model.data,
            self.relatedness,
            (self.user_vectors, self.item_vectors),
            self.lists,
            (user_clusters, item_clusters),
            system,
            rng,
            engine or Serial(),
        )

    def _evidence(self, system: str | None, min_ratings: int) -> Evidence:
        return Evidence.of(self.model, self.relatedness, system, min_ratings)

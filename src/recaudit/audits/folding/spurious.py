"""Spurious recommendations, one by one, with what a person needs to judge them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.folding.about import About
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.shown import Shown, Spurious
from recaudit.audits.folding.vectors import unit_rows, vectors_of
from recaudit.models.base import FittedModel

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "title": pl.String,
    "categories": pl.String,
    "rank": pl.Int64,
    "relatedness": pl.Float64,
    "similarity": pl.Float64,
    "overshoot": pl.Float64,
    "spurious": pl.Boolean,
    "user_rates": pl.String,
    "in_common": pl.Float64,
    "most_related": pl.List(pl.String),
    "relatedness_of_rated": pl.Float64,
    "nearest_by_model": pl.List(pl.String),
    "model_cosine": pl.Float64,
}
"""The columns after `user` and `item`: the item, its place in the list, r, s, max(0, s - r), whether that makes it
spurious; the categories that the user rates most, and the share of what they rated that has one in common with the
item. Then what `relatedness`, which is of the user and the item, compares with: of what the user rated, the items that
are most related to the user by the same number, and its median over all of them. And why the model may have placed the
item there: of what the user rated, the items whose vectors the model has nearest to this item's, and the cosine between
the nearest and this item. Only items with enough ratings are named."""

_NEAREST = 3
"""How many of the rated items are named."""

_SAME_WAY = 1e-9
"""A cosine above this is more than rounding."""


@final
@dataclass(frozen=True, eq=False)
class Cases:
    """Shown items, a row each."""

    users: IntArray
    """(n,): positions."""
    items: IntArray
    """(n,): positions."""
    rank: IntArray
    """(n,): place in the list, from 1."""
    relatedness: FloatArray
    similarity: FloatArray

    @classmethod
    def of(cls, lists: Shown, row: IntArray, place: IntArray) -> Cases:
        """The items at these places of these users' lists."""
        at = (row, place)
        return cls(lists.users[row], lists.items[at], place + 1, lists.relatedness[at], lists.similarity[at])


def least_related(lists: Shown, n: int) -> Cases:
    """The n items of the lists that are least related to their users; of equals the most similar first."""
    row, place = np.nonzero(lists.items >= 0)
    order = np.lexsort((place, -lists.similarity[row, place], lists.relatedness[row, place]))[:n]
    return Cases.of(lists, row[order], place[order])


def clearest(lists: Shown, rule: Spurious, about: About, n: int, min_ratings: int) -> Cases:
    """The n clearest spurious items of those with enough ratings, each user and each item once.

    By overshoot times the share of the user's ratings that have no category in common with the item: unrelated both by
    who rated what and by what it is about. By overshoot alone where categories are unknown.
    """
    known = about.data.item_counts[np.maximum(lists.items, 0)] >= min_ratings
    row, place = np.nonzero((lists.spurious(rule) > 0) & known)
    items, clarity = lists.items[row, place], lists.overshoot[row, place]
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    for own in np.split(np.arange(len(row)), starts[1:]):
        if len(own):
            common = about.in_common(int(lists.users[row[own[0]]]), items[own])
            clarity[own] *= 1 - np.nan_to_num(common)
    chosen, users, taken = [], set(), set()
    for at in np.lexsort((place, row, -clarity)):
        if row[at] not in users and items[at] not in taken:
            chosen.append(at)
            users.add(row[at])
            taken.add(items[at])
            if len(chosen) == n:
                break
    picked = np.array(chosen, dtype=np.int64)
    return Cases.of(lists, row[picked], place[picked])


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Where the evidence comes from."""

    about: About
    relatedness: Relatedness
    modelled: FloatArray
    """(items, factors): the model's vectors, of length one."""
    min_ratings: int
    """Items with fewer are not named."""

    @classmethod
    def of(cls, model: FittedModel, relatedness: Relatedness, system: str | None, min_ratings: int) -> Evidence:
        """For one model and relatedness; `system` names the categories to show."""
        return cls(About.of(model.data, system), relatedness, unit_rows(vectors_of(model)[1]), min_ratings)

    def frame(self, cases: Cases, rule: Spurious) -> pl.DataFrame:
        """A row a case: user, item, and the columns of SCHEMA."""
        data = self.about.data
        rows = []
        for at, (user, item) in enumerate(zip(cases.users, cases.items, strict=True)):
            r, s = float(cases.relatedness[at]), float(cases.similarity[at])
            rated = data.history(user)[0].astype(np.int64)
            related = self.relatedness.pairs(np.full(len(rated), user), rated)
            cosines = self.modelled[rated] @ self.modelled[item]
            nearest = self._highest(rated, cosines)
            rows.append(
                {
                    "title": data.item_labels(np.array([item]))[0],
                    "categories": self.about.of_item(item),
                    "rank": int(cases.rank[at]),
                    "relatedness": r,
                    "similarity": s,
                    "overshoot": max(0.0, s - r),
                    "spurious": r < rule.unrelated and s > rule.similar,
                    "user_rates": self.about.rated_by(user),
                    "in_common": _or_none(self.about.in_common(user, np.array([item]))[0]),
                    "most_related": self.about.labels(rated[self._highest(rated, related)]),
                    "relatedness_of_rated": float(np.median(related)) if len(rated) else None,
                    "nearest_by_model": self.about.labels(rated[nearest]),
                    "model_cosine": float(cosines[nearest[0]]) if len(nearest) else None,
                }
            )
        ids = {"user": data.user_ids.gather(cases.users), "item": data.item_ids.gather(cases.items)}
        return pl.concat([pl.DataFrame(ids), pl.DataFrame(rows, SCHEMA)], how="horizontal")

    def _highest(self, rated: IntArray, values: FloatArray) -> IntArray:
        """Places in `rated` of the items with the highest values, of those with enough ratings.

        None where no value is above 0: the nearest of strangers would be no evidence.
        """
        named = (self.about.data.item_counts[rated] >= self.min_ratings) & (values > _SAME_WAY)
        order = np.argsort(-values, kind="stable")
        return order[named[order]][:_NEAREST]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)

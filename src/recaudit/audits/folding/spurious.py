"""Spurious recommendations, one by one, with what a person needs to judge them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.audits.folding.about import About
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.shown import Shown, Spurious
from recaudit.audits.folding.vectors import unit_rows, vectors_of
from recaudit.models.arrays import FloatArray, IntArray
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
    "nearest_by_relatedness": pl.List(pl.String),
    "relatedness_cosine": pl.Float64,
    "nearest_by_model": pl.List(pl.String),
    "model_cosine": pl.Float64,
}
"""The columns after `user` and `item`: the item, its place in the list, r, s, max(0, s - r), whether that makes it
spurious; the categories that the user rates most, and the share of what they rated that has one in common with the
item; the items that the user rated which are nearest to this one by the
vectors of the relatedness, and by the model's own, each with the cosine of the nearest."""

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


def clearest(lists: Shown, rule: Spurious, about: About, n: int) -> Cases:
    """The n clearest spurious items, each user and each item once.

    By overshoot times the share of the user's ratings that have no category in common with the item: unrelated both by
    who rated what and by what it is about. By overshoot alone where categories are unknown.
    """
    row, place = np.nonzero(lists.spurious(rule) > 0)
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
    related: FloatArray
    """(items, d): vectors of the relatedness, of length one."""
    modelled: FloatArray
    """(items, factors): the model's vectors, of length one."""

    @classmethod
    def of(cls, model: FittedModel, relatedness: Relatedness, system: str | None) -> Evidence:
        """For one model and relatedness; `system` names the categories to show."""
        item_vectors = unit_rows(vectors_of(model)[1])
        return cls(About.of(model.data, system), unit_rows(relatedness.item_vectors), item_vectors)

    def frame(self, cases: Cases, rule: Spurious) -> pl.DataFrame:
        """A row a case: user, item, and the columns of SCHEMA."""
        data = self.about.data
        rows = []
        for at, (user, item) in enumerate(zip(cases.users, cases.items, strict=True)):
            r, s = float(cases.relatedness[at]), float(cases.similarity[at])
            by_relatedness, relatedness_cosine = self._nearest(self.related, user, item)
            by_model, model_cosine = self._nearest(self.modelled, user, item)
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
                    "nearest_by_relatedness": by_relatedness,
                    "relatedness_cosine": relatedness_cosine,
                    "nearest_by_model": by_model,
                    "model_cosine": model_cosine,
                }
            )
        ids = {"user": data.user_ids.gather(cases.users), "item": data.item_ids.gather(cases.items)}
        return pl.concat([pl.DataFrame(ids), pl.DataFrame(rows, SCHEMA)], how="horizontal")

    def _nearest(self, vectors: FloatArray, user: int, item: int) -> tuple[list[str], float | None]:
        """The items that the user rated which point most the same way as this one, and the cosine of the first.

        None where none points the same way at all: the nearest of strangers would be no evidence.
        """
        rated = self.about.data.history(user)[0].astype(np.int64)
        cosines = vectors[rated] @ vectors[item]
        order = [at for at in np.argsort(-cosines, kind="stable")[:_NEAREST] if cosines[at] > _SAME_WAY]
        return self.about.labels(rated[order]), float(cosines[order[0]]) if order else None


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)

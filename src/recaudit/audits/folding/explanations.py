"""What is needed to judge folding, in words: cases with the evidence, and neighbors of an item under two models."""

from __future__ import annotations

from typing import final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arguments import check_count, checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.folding.metric import FoldingSpace, JudgedLists
from recaudit.audits.folding.relatedness import MIN_RATINGS, category_system, unit_rows, vectors_of
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.base import FittedModel

CASE_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
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
"""The columns after `user` and `item`. `user_rates` are the categories that the user rates most, and `in_common` is the
share of what they rated that has one in common with the item. Of what the user rated, `most_related` to the user are to
be compared with, and `relatedness_of_rated`, the median; `nearest_by_model` are those whose vectors are nearest to the
item's, `model_cosine` that of the nearest. Only items with enough ratings are named."""

_NEAREST = 3  # how many of the rated items are named
_SAME_WAY = 1e-9  # a cosine above this is more than rounding


@final
class About:
    """Items and users described by one category system; by their titles alone where the log has none."""

    def __init__(self, data: Interactions, system: str | None) -> None:
        """By the named system, or else the log's first."""
        nothing = Categories((), sparse.csr_array((data.n_items, 0)))
        first = next(iter(data.categories.values()), nothing)
        self.data, self.categories = data, first if system is None else category_system(data, system)

    def of_item(self, item: int) -> str | None:
        """The item's categories, the weightiest first: "Horror|Thriller"; None where it has none."""
        row = self.categories.weights[[item]]
        return "|".join(self.categories.names[g] for g in row.indices[np.argsort(-row.data, kind="stable")]) or None

    def labels(self, items: IntArray) -> list[str]:
        """What to call these items in front of a person who has to judge: title and categories."""
        named = zip(self.data.item_labels(items), map(self.of_item, items), strict=True)
        return [f"{title} [{about}]" if about else title for title, about in named]

    def rated_by(self, user: int, most: int = 3) -> str | None:
        """The categories that the user rates most: "Drama 40%, Comedy 25%"; None where none is known."""
        totals = self.categories.weights[self.data.history(user)[0]].sum(axis=0)
        shares = totals / (totals.sum() or 1.0)
        best = [g for g in np.argsort(-shares, kind="stable")[:most] if shares[g] > 0]
        return ", ".join(f"{self.categories.names[g]} {shares[g]:.0%}" for g in best) or None

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


_LOOKED = 1000
"""Spurious items that are looked at first, by overshoot; then twice as many."""


def _by_row(rows: IntArray) -> list[IntArray]:
    """The places of each row among some."""
    order = np.argsort(rows, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(rows[order])) + 1) if len(rows) else []


def clearest(lists: JudgedLists, about: About, n: int, min_ratings: int) -> tuple[IntArray, IntArray]:
    """(n,) each, row and place: the clearest spurious items with enough ratings, as `FoldingResult.worst` says."""
    known = about.data.item_counts[np.maximum(lists.items, 0)] >= min_ratings
    row, place = np.nonzero((lists.spurious > 0) & known)
    bound = lists.overshoot[row, place]  # what clarity is at most
    order = np.lexsort((place, row, -bound))
    row, place, bound = row[order], place[order], bound[order]
    items, clarity = lists.items[row, place], bound.copy()
    looked, picked = 0, list[int]()
    while looked < len(row) and len(picked) < n:
        more = slice(looked, 2 * looked + _LOOKED)
        for at in _by_row(row[more]):
            own = looked + at
            clarity[own] *= 1 - np.nan_to_num(about.in_common(int(lists.users[row[own[0]]]), items[own]))
        looked = min(more.stop, len(row))
        # What was not looked at yet may be as clear as this.
        least = bound[looked] if looked < len(row) else -np.inf
        picked = []
        for at in np.lexsort((place[:looked], row[:looked], -clarity[:looked])):
            if len(picked) == n or clarity[at] <= least:
                break
            if row[at] not in row[picked] and items[at] not in items[picked]:
                picked.append(at)
    return row[picked], place[picked]


def cases(
    space: FoldingSpace, lists: JudgedLists, at: tuple[IntArray, IntArray], about: About, min_ratings: int
) -> pl.DataFrame:
    """A row for each item at these rows and places of the lists: user, item, and the columns of CASE_SCHEMA.

    Only items with `min_ratings` are evidence, and none where no value is above 0: the nearest of strangers is none.
    """
    data, modelled = about.data, unit_rows(vectors_of(space.model)[1])

    def highest(rated: IntArray, values: FloatArray) -> IntArray:
        """Places in `rated` of the items with the highest values, of those that may be named."""
        named = (data.item_counts[rated] >= min_ratings) & (values > _SAME_WAY)
        order = np.argsort(-values, kind="stable")
        return order[named[order]][:_NEAREST]

    users, items = lists.users[at[0]], lists.items[at]
    rows = []
    for place, user, item in zip(zip(*at, strict=True), users, items, strict=True):
        rated = data.history(user)[0].astype(np.int64)
        related = space.relatedness.pairs(np.full(len(rated), user), rated)
        cosines = modelled[rated] @ modelled[item]
        nearest, (common,) = highest(rated, cosines), about.in_common(user, np.array([item])).tolist()
        rows.append(
            {
                "title": data.item_labels(np.array([item]))[0],
                "categories": about.of_item(item),
                "rank": int(place[1]) + 1,
                "relatedness": float(lists.relatedness[place]),
                "similarity": float(lists.similarity[place]),
                "overshoot": float(lists.overshoot[place]),
                "spurious": bool(lists.spurious[place]),
                "user_rates": about.rated_by(user),
                "in_common": None if np.isnan(common) else common,
                "most_related": about.labels(rated[highest(rated, related)]),
                "relatedness_of_rated": float(np.median(related)) if len(rated) else None,
                "nearest_by_model": about.labels(rated[nearest]),
                "model_cosine": float(cosines[nearest[0]]) if len(nearest) else None,
            }
        )
    ids = {"user": data.user_ids.gather(users), "item": data.item_ids.gather(items)}
    return pl.concat([pl.DataFrame(ids), pl.DataFrame(rows, CASE_SCHEMA)], how="horizontal")


@checked
def neighbours(
    first: FittedModel,
    second: FittedModel,
    item: object,
    n: int = 9,
    *,
    system: str | None = None,
    min_ratings: int = MIN_RATINGS,
) -> pl.DataFrame:
    """The n items whose vectors have the largest cosine with this item's under each of two models (paper 002, Table 1).

    Of the items with at least `min_ratings` in the first model's log. Columns: rank (0 is the item itself), then
    `first_item`, `first_title`, `first_categories`, `first_cosine`, and the same for the second. Titles and
    categories are those of the first model's log; `system` names the categories, else the log's first.
    """
    check_count("n", n)
    data = first.data
    if not second.data.item_ids.equals(data.item_ids):
        raise InputError(
            "second",
            received=f"a model of {second.data.n_items:,} items",
            expected=f"a model of the same {data.n_items:,} items as the first",
            remedy="Fit both to the same log.",
        )
    position, about = int(data.items_at([item])[0]), About(data, system)
    others = np.flatnonzero((data.item_counts >= min_ratings) & (np.arange(data.n_items) != position))
    count = min(n, len(others)) + 1
    columns: dict[str, object] = {"rank": np.arange(count)}
    for name, model in (("first", first), ("second", second)):
        V = unit_rows(vectors_of(model)[1])
        cosines = V @ V[position]
        nearest = others[np.argsort(-cosines[others], kind="stable")]
        chosen = np.concatenate([[position], nearest])[:count]
        columns |= {
            f"{name}_item": data.item_ids.gather(chosen),
            f"{name}_title": data.item_labels(chosen),
            f"{name}_categories": pl.Series([about.of_item(i) for i in chosen], dtype=pl.String),
            f"{name}_cosine": cosines[chosen],
        }
    return pl.DataFrame(columns)

"""What a person needs to judge folding, in words: cases with the evidence, neighbours under two models, co-clusters."""

from __future__ import annotations

from typing import final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arguments import check_count, checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.folding.metric import FoldingSpace, JudgedLists, overshoot
from recaudit.audits.folding.relatedness import MIN_RATINGS, category_system, unit_rows, vectors_of
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.errors import InputError
from recaudit.models.base import FittedModel
from recaudit.seeding import generator

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
        shares = self.shares_rated(np.array([user]))
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

    def shares_rated(self, users: IntArray) -> FloatArray:
        """(categories,): the share of each category in what these users rated, all their ratings together."""
        rated = np.concatenate([self.data.history(user)[0] for user in users])
        return self.shares(np.bincount(rated, minlength=self.data.n_items).astype(np.float64))

    def shares(self, weights: FloatArray) -> FloatArray:
        """(categories,): the share of each category in the items, each weighing `weights` (items,)."""
        totals = np.asarray(weights @ self.categories.weights)
        return np.asarray(totals / (totals.sum() or 1.0))

    def distinctive(self, shares: FloatArray, everywhere: FloatArray, most: int = 2) -> str:
        """The categories that set these shares apart from those `everywhere`; "" where none does.

        By their part in the Kullback-Leibler divergence, `p log(p / q)`: frequent here, and more than elsewhere.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(shares > 0, shares * np.log(shares / everywhere), 0.0)
        best = [g for g in np.argsort(-parts, kind="stable")[:most] if parts[g] > 0]
        return "|".join(self.categories.names[g] for g in best)


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


# ---- co-clusters ---------------------------------------------------------------------------------------

CLUSTER_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "users": pl.String,
    "items": pl.String,
    "overshoot": pl.Float64,
    "shown_share": pl.Float64,
    "shown_overshoot": pl.Float64,
    "n_users": pl.Int64,
    "n_items": pl.Int64,
    "examples": pl.List(pl.String),
    "statement": pl.String,
}
"""What the users rate and what the items are about, more than others; the mean overshoot over all their pairs; the
share of these users' lists that such items take, and the mean overshoot there (null where none is shown); how many
they are; the most rated of the items that have a category of the items' name and none of the users' alone, if any; and
all that as a sentence."""

_ROUNDS = 100
_STARTS = 5


def co_clusters(
    space: FoldingSpace, lists: JudgedLists, clusters: tuple[int, int], system: str | None, rng: int, engine: Engine
) -> pl.DataFrame:
    """A row for each cluster of users and cluster of items, columns as in CLUSTER_SCHEMA, largest mean overshoot first.

    Users and items are clustered by the direction of their relatedness vectors (k-means, seeded): by who belongs
    together in the data, whatever the model makes of them. Of fewer distinct vectors there are fewer clusters.
    Names are the categories of `system`, else of the log's first, that are frequent in the cluster and more so than
    elsewhere, both counted in ratings.
    """
    for name, count in zip(("user_clusters", "item_clusters"), clusters, strict=True):
        check_count(name, count)
    data, relatedness, asked = space.model.data, space.relatedness, lists.users
    vectors = space.vectors or vectors_of(space.model)  # which says why there are none
    about = About(data, system)
    of_user = kmeans(unit_rows(relatedness.user_vectors[asked]), clusters[0], rng)
    of_item = kmeans(unit_rows(relatedness.item_vectors), clusters[1], rng)
    members, films = (np.eye(int(labels.max()) + 1)[labels] for labels in (of_user, of_item))
    summed = overshoot(*vectors, relatedness, asked, engine, films)
    sizes, counts = members.sum(axis=0), films.sum(axis=0)
    overshoots = members.T @ summed.group_sums / np.outer(sizes, counts)
    row, place = np.nonzero(lists.items >= 0)
    cell = of_user[row], of_item[lists.items[row, place]]
    places, spilled = np.zeros(overshoots.shape), np.zeros(overshoots.shape)
    np.add.at(places, cell, 1.0)
    np.add.at(spilled, cell, lists.overshoot[row, place])
    shares = places / np.maximum(1.0, places.sum(axis=1, keepdims=True))

    everybody = about.shares_rated(asked)
    tastes = [about.distinctive(about.shares_rated(asked[of_user == c]), everybody) for c in range(len(sizes))]
    everywhere = about.shares(data.item_counts.astype(np.float64))
    kinds = [about.distinctive(about.shares(films[:, c] * data.item_counts), everywhere) for c in range(len(counts))]
    user_names, item_names = _distinct(tastes), _distinct(kinds)
    rows = [
        {
            "users": user_names[u],
            "items": item_names[i],
            "overshoot": float(overshoots[u, i]),
            "shown_share": float(shares[u, i]),
            "shown_overshoot": float(spilled[u, i] / places[u, i]) if places[u, i] else None,
            "n_users": int(sizes[u]),
            "n_items": int(counts[i]),
            "examples": _most_rated(about, of_item == i, kinds[i], tastes[u]),
            "statement": f"users who rate {user_names[u]} are placed near {item_names[i]}: similarity exceeds "
            f"relatedness by {overshoots[u, i]:.2f} on average, and {shares[u, i]:.0%} of what they are shown is of "
            "that kind",
        }
        for u in range(len(sizes))
        for i in range(len(counts))
    ]
    return pl.DataFrame(rows, CLUSTER_SCHEMA).sort("overshoot", descending=True, maintain_order=True)


def kmeans(points: FloatArray, clusters: int, rng: int) -> IntArray:
    """(points,): the cluster of each of `points` (points, d), numbered from the largest down.

    Lloyd's rounds from k-means++ starts; of several the one with the smallest squared distances. The same points and
    seed give the same clusters.
    """
    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for start in range(_STARTS):
        labels, spread = _lloyd(points, _spread_out(points, clusters, generator(rng, "k-means", start)))
        # A tie within rounding goes to the earlier start.
        if spread < least * (1 - 1e-9):
            best, least = labels, spread
    _, labels, sizes = np.unique(best, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-sizes, kind="stable"))[labels]


def _spread_out(points: FloatArray, clusters: int, draw: np.random.Generator) -> FloatArray:
    """(at most clusters, d): k-means++ centres; fewer where fewer points are distinct."""
    centres = [points[draw.integers(len(points))]]
    distance = np.full(len(points), np.inf)
    while len(centres) < clusters:
        distance = np.minimum(distance, ((points - centres[-1]) ** 2).sum(axis=1))
        distance[distance < 1e-12] = 0.0
        if not distance.any():
            break
        centres.append(points[draw.choice(len(points), p=distance / distance.sum())])
    return np.array(centres)


def _lloyd(points: FloatArray, centres: FloatArray) -> tuple[IntArray, float]:
    """The clusters (points,) where the rounds come to rest, and the sum of squared distances to their centres."""
    labels = np.full(len(points), -1, dtype=np.int64)
    for _ in range(_ROUNDS):
        distances = (centres**2).sum(axis=1) - 2 * points @ centres.T
        nearest = distances.argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        for c in np.unique(labels):  # a centre without points stays where it is
            centres[c] = points[labels == c].mean(axis=0)
    return labels, float(((points - centres[labels]) ** 2).sum())


def _distinct(names: list[str]) -> list[str]:
    """Each name once: a number sets apart those that are alike, and stands for those without."""
    numbers = [names[: place + 1].count(name) for place, name in enumerate(names)]
    several = [f"{name} ({number})" if name else f"group {number}" for name, number in zip(names, numbers, strict=True)]
    return [name if name and names.count(name) == 1 else other for name, other in zip(names, several, strict=True)]


def _most_rated(about: About, members: BoolArray, kinds: str, taste: str) -> list[str]:
    """The titles of the members (items,) with the most ratings, of those that say what the names of the clusters say.

    They have a category of `kinds`, the items' name, and none of `taste`, the users', that is not in it too.
    """
    data, belongs = about.data, about.categories.weights

    def has(names: set[str]) -> BoolArray:
        return np.asarray(belongs[:, np.isin(about.categories.names, [*names])].sum(axis=1) > 0)

    own = {name for name in kinds.split("|") if name}
    if own:
        members = members & has(own) & ~has({name for name in taste.split("|") if name} - own)
    items = np.flatnonzero(members)
    return data.item_labels(items[np.argsort(-data.item_counts[items], kind="stable")[:3]])

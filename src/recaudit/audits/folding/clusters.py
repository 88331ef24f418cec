"""Which kinds of users fold onto which kinds of items: co-clusters, named by what they are about."""

from __future__ import annotations

import numpy as np
import polars as pl

from recaudit.arguments import check_count
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.folding.explanations import About
from recaudit.audits.folding.metric import FoldingSpace, JudgedLists, overshoot
from recaudit.audits.folding.relatedness import unit_rows
from recaudit.engines import Engine
from recaudit.seeding import generator

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
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
    """A row for each cluster of users and cluster of items, columns as in SCHEMA, largest mean overshoot first.

    Users and items are clustered by the direction of their relatedness vectors (k-means, seeded), so that the
    clusters say who belongs together in the data, whatever the model makes of them. Only users with a list in `lists`
    take part. Of fewer distinct vectors than clusters asked for there are fewer clusters. Names come from the category
    `system`, by default the log's first: the categories that are frequent in the cluster and more so than elsewhere,
    both counted in ratings, of users and of items alike, so that items that hardly anybody rated name nothing.
    """
    for name, count in zip(("user_clusters", "item_clusters"), clusters, strict=True):
        check_count(name, count)
    data, relatedness, asked = space.model.data, space.relatedness, lists.users
    about = About.of(data, system)
    of_user = kmeans(unit_rows(relatedness.user_vectors[asked]), clusters[0], rng)
    of_item = kmeans(unit_rows(relatedness.item_vectors), clusters[1], rng)
    members, films = (np.eye(int(labels.max()) + 1)[labels] for labels in (of_user, of_item))
    summed = overshoot(space.user_vectors, space.item_vectors, relatedness, asked, engine, films)
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
    return pl.DataFrame(rows, SCHEMA).sort("overshoot", descending=True, maintain_order=True)


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

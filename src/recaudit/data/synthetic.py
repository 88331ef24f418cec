"""Generated data with known ground truth.

`demo()` has what real logs have: popularity skew, several genres an item, ratings that are missing not at random,
times, and groups of users, one of them a minority with tastes of its own that the catalogue serves poorly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.blocks import BlockWorld, blocks, toy
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.seeding import generator

__all__ = ["BlockWorld", "World", "blocks", "demo", "demo_world", "toy"]

_GENRES = (
    ("Drama", 0.20),
    ("Comedy", 0.17),
    ("Action", 0.14),
    ("Thriller", 0.12),
    ("Romance", 0.10),
    ("Science fiction", 0.08),
    ("Family", 0.06),
    ("Horror", 0.05),
    ("Documentary", 0.04),
    ("Musical", 0.04),
)
_REGIONS = (("North", 0.55), ("South", 0.33), ("Islands", 0.12))
_AGES = (("under 25", 0.30), ("25 to 44", 0.45), ("45 and over", 0.25))
_FIRST = ("Silent", "Crimson", "Northern", "Broken", "Golden", "Hidden", "Last", "Distant", "Paper", "Winter")
_SECOND = ("Harbour", "Garden", "Signal", "River", "Letters", "Mountain", "Orchestra", "Station", "Lighthouse")
_JOIN = ("{a} {b}", "The {a} {b}", "{b} of the {a}", "A {a} {b}", "{a} {b} Returns", "Beyond the {a} {b}")
_YEAR = 365 * 86_400
_MOST_PAIRS = 10**8


@final
@dataclass(frozen=True, eq=False)
class World:
    """A generated log, and the truth behind it that no recommender gets to see."""

    data: Interactions
    expected: FloatArray
    """(users, items): the rating that each user would give each item on average, before rounding."""
    exposure: FloatArray
    """(users, items): how likely each item was, relative to the user's others, to be picked and rated."""


@checked
def demo(rng: int = 0) -> Interactions:
    """The built-in data set: 600 users, 400 films, about 23,000 ratings of 1 to 5 stars over three years."""
    return demo_world(rng).data


@checked
def demo_world(rng: int = 0, *, users: int = 600, items: int = 400) -> World:
    """The world behind `demo`: the log, every user's true expected rating, and how the ratings were picked."""
    if users < 10 or items < 20 or users * items > _MOST_PAIRS:
        raise InputError(
            "users, items",
            received=(users, items),
            expected=f"at least 10 users and 20 items, and at most {_MOST_PAIRS:,} pairs: a truth is made for each",
        )
    draw = generator(rng, "demo")
    genres = _item_genres(draw, items)
    region = draw.choice(len(_REGIONS), users, p=[share for _, share in _REGIONS])
    age = draw.choice(len(_AGES), users, p=[share for _, share in _AGES])
    tastes = _user_tastes(draw, region, age)

    quality = 0.45 * draw.standard_normal(items)
    generosity = 0.35 * draw.standard_normal(users)
    nuance = draw.standard_normal((users, 4)) @ draw.standard_normal((4, items)) * 0.15
    expected = 2.8 + generosity[:, None] + quality[None, :] + 1.8 * (tastes @ genres.T) + nuance

    # Fame is skewed, and only loosely tied to quality: well-made films stay unknown.
    fame = 1.1 * draw.standard_normal(items) + 0.5 * quality / 0.45
    release = np.sort(draw.uniform(-6, 2.6, items))[draw.permutation(items)]
    exposure = np.exp(fame[None, :] + 0.9 * (expected - expected.mean(axis=1, keepdims=True)))

    log = _picks(draw, expected, exposure, release)
    data = Interactions.from_frame(log, time="time", scale=(1, 5))
    data = data.with_items(_item_frame(draw, genres, release), title="title", unknown="ignore")
    pairs = [(f"film-{i:03d}", _GENRES[g][0], genres[i, g]) for i, g in zip(*np.nonzero(genres), strict=True)]
    long = pl.DataFrame(pairs, schema=["item", "category", "weight"], orient="row")
    data = data.with_categories("genre", long, weight="weight", unknown="ignore")
    people = pl.DataFrame(
        {
            "user": [f"user-{u:03d}" for u in range(users)],
            "region": [_REGIONS[r][0] for r in region],
            "age": [_AGES[a][0] for a in age],
        }
    )
    data = data.with_users(people, attributes=["region", "age"], unknown="ignore")
    kept_users = [int(name.split("-")[1]) for name in data.user_ids]
    kept_items = [int(name.split("-")[1]) for name in data.item_ids]
    kept = np.ix_(kept_users, kept_items)
    return World(data, expected[kept], exposure[kept])


def _item_genres(draw: np.random.Generator, items: int) -> FloatArray:
    """(items, genres): p(g|i), one to three genres an item, the first weighing most."""
    shares = np.array([share for _, share in _GENRES])
    weights = np.zeros((items, len(_GENRES)))
    for item, count in enumerate(draw.choice([1, 2, 3], items, p=[0.35, 0.45, 0.20])):
        chosen = draw.choice(len(_GENRES), count, replace=False, p=shares)
        weights[item, chosen] = {1: [1.0], 2: [0.65, 0.35], 3: [0.5, 0.3, 0.2]}[int(count)]
    return weights


def _user_tastes(draw: np.random.Generator, region: IntArray, age: IntArray) -> FloatArray:
    """(users, genres): interests that sum to zero; islanders lean to documentaries and musicals."""
    lean = np.zeros((len(_REGIONS), len(_GENRES)))
    names = [name for name, _ in _GENRES]
    lean[2, [names.index("Documentary"), names.index("Musical")]] = 1.1
    lean[2, [names.index("Action"), names.index("Thriller")]] = -0.9
    lean[1, names.index("Romance")] = 0.4
    by_age = np.zeros((len(_AGES), len(_GENRES)))
    by_age[0, names.index("Horror")] = 0.5
    by_age[2, names.index("Drama")] = 0.4
    tastes = 0.55 * draw.standard_normal((len(region), len(_GENRES))) + lean[region] + by_age[age]
    centred: FloatArray = tastes - tastes.mean(axis=1, keepdims=True)
    return centred


def _picks(
    draw: np.random.Generator,
    expected: FloatArray,
    exposure: FloatArray,
    release: FloatArray,
) -> pl.DataFrame:
    """The log: each user joins, picks released films by exposure without replacement, and rates them."""
    users, items = expected.shape
    rows = []
    for user in range(users):
        joined = draw.uniform(0, 2.2)
        wanted = int(np.clip(np.exp(draw.normal(3.4, 0.75)), 8, 0.6 * items))
        moments = joined + np.sort(draw.exponential(0.35, wanted)).clip(max=3 - joined)
        order = np.argsort(-(np.log(exposure[user]) + draw.gumbel(size=items)))
        picked = order[release[order] <= moments[-1]][:wanted]
        noise = 0.7 * draw.standard_normal(len(picked))
        stars = np.clip(np.rint(expected[user, picked] + noise), 1, 5)
        # A film cannot be rated before it is out.
        when = np.maximum(moments[: len(picked)], release[picked])
        rows.append((np.full(len(picked), user), picked, stars, (1_600_000_000 + when * _YEAR).astype(np.int64)))
    who, what, rating, time = (np.concatenate(column) for column in zip(*rows, strict=True))
    ids = {"user": [f"user-{user:03d}" for user in who], "item": [f"film-{item:03d}" for item in what]}
    return pl.DataFrame({**ids, "rating": rating, "time": time})


def _item_frame(draw: np.random.Generator, genres: FloatArray, release: FloatArray) -> pl.DataFrame:
    """Ids and titles; no two of the first 540 are alike."""
    names = [join.format(a=a, b=b) for join in _JOIN for a in _FIRST for b in _SECOND]
    chosen = draw.permutation(len(names))
    titles = [
        f"{names[chosen[item % len(names)]]} ({2020 + int(np.floor(release[item]))})" for item in range(len(genres))
    ]
    return pl.DataFrame({"item": [f"film-{item:03d}" for item in range(len(genres))], "title": titles})

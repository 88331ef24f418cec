"""Logs whose truth is known: people who are vectors, some busy and some not, and items some of which are popular."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.simulate.worlds.fitted import FromData
from recaudit.simulate.worlds.latent import Latent
from recaudit.simulate.worlds.pairs import drawn_pairs

TRUTH = Latent(users=200, items=150, users_per_step=40, factors=3, noise=0.5, offset=3.3)
RATINGS = 12_000
ACTIVITY: FloatArray = np.random.default_rng(7).lognormal(0, 0.6, 200)
POPULARITY: FloatArray = np.random.default_rng(8).lognormal(0, 0.8, 150)


def log(*, rounded: bool = False) -> Interactions:
    """12,000 ratings with noise 0.5 under ids, with titles, genres and regions; popular items are liked more."""
    return _log(rounded)


def fitted(*, rounded: bool = False) -> FromData:
    """The environment of that log, with as many factors as there are in truth."""
    return _fitted(rounded)


@cache
def _log(rounded: bool) -> Interactions:
    draw = np.random.default_rng(9)
    people = TRUTH.population(0)
    popularity = POPULARITY * np.exp(people.item_bias)
    users, items = drawn_pairs(draw, (200, 150), RATINGS, ACTIVITY, popularity)
    ratings = people.rate(users, items, draw.standard_normal(RATINGS))
    frame = pl.DataFrame(
        {
            "user": [f"user-{user:03d}" for user in users],
            "item": [f"item-{item:03d}" for item in items],
            "rating": np.rint(ratings) if rounded else ratings,
            "time": draw.permutation(RATINGS) + 1_600_000_000,
        }
    )
    data = Interactions.from_frame(frame, time="time", scale=(1, 5))
    known = [str(name) for name in data.item_ids]
    things = {"item": known, "title": [name.upper() for name in known], "genre": ["short", "long"] * (len(known) // 2)}
    regions = {"user": data.user_ids, "region": ["north", "south"] * (data.n_users // 2)}
    described = data.with_items(pl.DataFrame(things), title="title", categories={"genre": "genre"})
    return described.with_users(pl.DataFrame(regions), attributes=["region"])


@cache
def _fitted(rounded: bool) -> FromData:
    return FromData(data=_log(rounded), factors=3)

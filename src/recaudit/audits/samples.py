"""Who is asked: ids as named, or a number of them drawn so that the same ones are drawn for every model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from recaudit.arguments import check_argument
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.seeding import Keys, derive, uniforms

Asked = int | Iterable[object] | None
"""How many to draw at random, or the ids themselves, or all of them."""


def asked_users(data: Interactions, asked: Asked, rng: int, label: str = "users") -> list[object]:
    """The ids of the users asked, in the log's order; `label` tells draws apart that should be different people."""
    return _asked(data.user_ids, data.user_keys, asked, rng, label)


def asked_items(data: Interactions, asked: Asked, rng: int, label: str = "items") -> list[object]:
    """The ids of the items asked, in the log's order."""
    return _asked(data.item_ids, data.item_keys, asked, rng, label)


def some_users(data: Interactions, ids: list[object], count: int, rng: int, label: str = "users") -> list[object]:
    """As many of these users, by the same draw: of users drawn under this label, those that were drawn first."""
    places = data.users_at(ids)
    return _asked(data.user_ids.gather(places), data.user_keys[places], count, rng, label)


def _asked(ids: pl.Series, keys: Keys, asked: Asked, rng: int, label: str) -> list[object]:
    """Each id is as likely as any other; whether one is drawn follows from the seed and the ids alone."""
    if asked is None:
        return ids.to_list()
    check_argument(label, asked, int | Iterable[object])
    if not isinstance(asked, int | np.integer):
        return list(asked)
    if asked < 1:
        raise InputError(label, received=asked, expected="how many to draw, 1 or more, or their ids")
    draws = uniforms(derive(rng, label), keys, np.zeros(1, dtype=np.uint64))
    return ids.gather(np.sort(np.argsort(draws)[:asked])).to_list()

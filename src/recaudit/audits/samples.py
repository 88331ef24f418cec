"""Who is asked about: ids as named, or a number of them drawn so that the same ones are drawn for every model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np

from recaudit.arguments import check_argument
from recaudit.arrays import BoolArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.seeding import Keys, derive, uniforms

SomeIds = int | Iterable[object] | None
"""How many to draw at random, or the ids themselves, or None for all: what `Some | None` holds."""


def resolve_users(some: SomeIds, data: Interactions, rng: int, label: str = "users") -> IntArray:
    """The positions of these users, ascending; draws under another `label` are of different people."""
    return _resolved(some, data.user_keys, data.users_at, rng, label)


def resolve_items(some: SomeIds, data: Interactions, rng: int, label: str = "items") -> IntArray:
    """The positions of these items, ascending."""
    return _resolved(some, data.item_keys, data.items_at, rng, label)


def subsample(users: IntArray, count: int, data: Interactions, rng: int, label: str = "users") -> IntArray:
    """As many of these users (positions) by the same draw: of users drawn under this label, those drawn first."""
    return np.sort(users[_drawn(data.user_keys[users], count, rng, label)])


def _resolved(
    some: SomeIds, keys: Keys, positions: Callable[[Iterable[object]], IntArray], rng: int, label: str
) -> IntArray:
    check_argument(label, some, SomeIds)
    if some is None:
        return np.arange(len(keys))
    if isinstance(some, int | np.integer):
        return _drawn(keys, int(some), rng, label)
    found = np.unique(positions(some))
    if not len(found):
        raise InputError(label, received="no ids", expected=f"at least one, or None for all {label}")
    return found


def _drawn(keys: Keys, count: int, rng: int, label: str) -> IntArray:
    """Each is as likely as any other; whether one is drawn follows from the seed and its id alone."""
    if count < 1:
        raise InputError(label, received=count, expected="how many to draw, 1 or more, or their ids")
    draws = uniforms(derive(rng, label), keys, np.zeros(1, dtype=np.uint64))
    return np.sort(np.argsort(draws)[:count])


Candidates = Literal["unseen", "all"]
"""The items that are neither seen nor acted on (films), or all but the acted on (music, news)."""
Baseline = Literal["scores", "predicted", "factual"]
"""At the model's scores, or after the acted-on items were rated as predicted, or as they are in the log."""


def candidate_items(data: Interactions, users: IntArray, acted: IntArray | None, candidates: Candidates) -> BoolArray:
    """(users, items): True at each user's candidates; `acted` (users, actions) are positions, -1 for none."""
    if candidates not in ("unseen", "all"):
        raise InputError("candidates", received=candidates, expected="'unseen' or 'all'")
    allowed = ~data.seen(users) if candidates == "unseen" else np.ones((len(users), data.n_items), dtype=bool)
    if acted is not None:
        row, column = np.nonzero(acted >= 0)
        allowed[row, acted[row, column]] = False
    return allowed

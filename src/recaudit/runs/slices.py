"""Parts of a run's log, on which it is timed beforehand: some of its people, or some of its catalogue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from recaudit.arrays import IntArray
from recaudit.audits.samples import resolve_users
from recaudit.data.categories import Categories
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.runs.configuration import Configuration

SLICES = 1 / 64, 1 / 16
"""Shares of the users that steps are timed on."""
USERS = (32, 2048), (128, 8192)
"""The fewest and the most users of each slice."""
ITEMS = 1 / 8, 1 / 4
"""Shares of the items, for recommenders that grow with the catalogue; of at least so many items:"""
FEWEST_ITEMS = 100, 200


def size_of(users: int, which: int) -> int:
    """How many people are drawn for a slice."""
    return int(min(np.clip(SLICES[which] * users, *USERS[which]), users))


@final
@dataclass(frozen=True, eq=False)
class Slice:
    """A part of the run's people, or of its catalogue."""

    data: Interactions
    train: Interactions
    test: Interactions
    share: float
    """Of the people, or of the items."""

    @classmethod
    def of(cls, config: Configuration, data: Interactions, split: Split, which: int) -> Slice:
        """Some people, the fewer or the more of them; those whom an audit asks about by name too."""
        drawn = resolve_users(size_of(data.n_users, which), data, config.seed, "estimate")
        named = [getattr(audit, name) for audit in config.audits.values() for name in audit.drawn]
        ids = {one for some in named if isinstance(some, tuple) for one in some}
        users = np.union1d(drawn, np.flatnonzero([one in ids for one in data.user_ids])) if ids else drawn
        whole, train, test = (people(log, users) for log in (data, *split))
        return cls(whole, train, test, size_of(data.n_users, which) / data.n_users)

    @classmethod
    def of_items(cls, data: Interactions, split: Split, which: int) -> Slice:
        """By popularity every eighth item or every fourth: as dense as the whole.

        Of the ratings that are held out few are of these items. Whoever has some in the whole keeps one, or is left
        out: so everybody is asked about, as in the whole, and lists that were made of everybody serve the next audit.
        """
        count = min(data.n_items, max(FEWEST_ITEMS[which], round(ITEMS[which] * data.n_items)))
        order = np.argsort(-data.item_counts, kind="stable")
        items = np.sort(order[np.arange(count) * data.n_items // count])
        whole, asked = catalogue(data, items), split.test.user_counts > 0
        users = np.flatnonzero(~asked | (whole.user_counts > 1))
        whole, asked = people(whole, users), asked[users]
        held = np.zeros(len(whole), dtype=bool)
        held[whole.indptr[1:][asked] - 1] = True
        return cls(whole, whole.subset(~held), whole.subset(held), count / data.n_items)


def people(log: Interactions, users: IntArray) -> Interactions:
    """The log of these users (positions, ascending) alone; the catalogue stays."""
    counts = log.user_counts[users]
    rows = np.arange(counts.sum()) + np.repeat(log.indptr[users] - np.cumsum(counts) + counts, counts)
    return replace(
        log,
        user_ids=log.user_ids.gather(users),
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        items=log.items[rows],
        ratings=log.ratings[rows],
        times=None if log.times is None else log.times[rows],
        attributes=log.attributes[users] if log.attributes.height else log.attributes,
    ).frozen()


def catalogue(log: Interactions, items: IntArray) -> Interactions:
    """The log of these items (positions, ascending) alone; all users stay."""
    place = np.full(log.n_items, -1, dtype=np.int32)
    place[items] = np.arange(len(items))
    cut = log.subset(place[log.items] >= 0)
    return replace(
        cut,
        item_ids=log.item_ids.gather(items),
        items=place[cut.items],
        titles=None if log.titles is None else log.titles.gather(items),
        category_systems=tuple(
            (name, Categories(system.names, system.weights[items])) for name, system in log.category_systems
        ),
    ).frozen()

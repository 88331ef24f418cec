"""Who is asked about: ids as named, or a number of them drawn so that the same ones are drawn for every model.

Where nothing is said it is everybody, as long as the pairs that follow are not too many. Of more people some are drawn,
in proportion to how much they have rated (`stratified`): everybody is as likely as anybody else, so that plain means
over them estimate those over all without bias, and every group of users by history has its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from recaudit.arguments import check_argument
from recaudit.arrays import BoolArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.metrics.groupings import groupings
from recaudit.seeding import Keys, derive, uniforms

MIN_SAMPLED_USERS = 100
"""Smallest default sample: the intervals of skewed metrics miss their target too often with fewer users."""
SomeIds = int | Iterable[object] | None
"""How many to draw at random, the ids themselves, "all", or None where nothing is said: what `Some | None` holds."""
EVERYBODY = "all"
MOST_SCORES, DRAWN_SCORES, DRAWN_TARGETS = 10**11, 10**9, 1000
"""Users x others x items, by which the time goes that pairs take: of everybody, and where some are drawn; and of how
many items these are asked about."""


@final
@dataclass(frozen=True)
class Effort:
    """What a question costs, so that nobody who says nothing waits for days."""

    each: int
    """The cost of a person."""
    most: int
    """What may be spent on everybody."""
    drawn: int
    """What is spent on those who are drawn, where everybody is too much."""

    def people(self, users: int) -> int:
        """How many of so many users are measured: never fewer than `MIN_SAMPLED_USERS`, if there are so many."""
        if users * self.each <= self.most:
            return users
        return min(users, max(MIN_SAMPLED_USERS, self.drawn // self.each))


def resolve_users(
    some: SomeIds, data: Interactions, rng: int, label: str = "users", effort: Effort | None = None
) -> IntArray:
    """The positions of these users, ascending; draws under another `label` are of different people.

    Where nothing is said everybody, or as many as the `effort` allows, `stratified`.
    """
    if some is None and effort is not None and (count := effort.people(data.n_users)) < data.n_users:
        return stratified(data, count, rng, label)
    return _resolved(some, data.user_keys, data.users_at, rng, label)


def count_of(some: SomeIds, everybody: int, effort: Effort | None = None) -> int:
    """How many users or items these are at most, of so many: what `resolve_users` finds, before anything is drawn."""
    if some is None and effort is not None:
        return effort.people(everybody)
    if some is None or some == EVERYBODY:
        return everybody
    return min(everybody, some if isinstance(some, int | np.integer) else len(tuple(some)))


def stratified(data: Interactions, count: int, rng: int, label: str) -> IntArray:
    """So many users, ascending: from each quartile of history its share, rounded up or down at random.

    The users of each quartile are put into a random order, one quartile after the other, and from a random start every
    (users / count)-th is taken. So each is drawn with probability count / users, those of a quartile as in a simple
    draw from it, and what is drawn follows from the seed and the log alone.
    """
    stratum = groupings(data, ["history"])[0].weights.argmax(axis=1)
    nothing = np.zeros(1, dtype=np.uint64)
    order = np.lexsort((uniforms(derive(rng, label), data.user_keys, nothing), stratum))
    start = uniforms(derive(rng, label, "start"), nothing, nothing)[0]
    return np.sort(order[((np.arange(count) + start) * (data.n_users / count)).astype(np.int64)])


def draw_facts(some: SomeIds, asked: int, data: Interactions, targets: int | None = None) -> dict[str, Any]:
    """For the facts of a result: how many were drawn although nothing was said, where not all were `asked` about; and
    how many `targets` were drawn, where not all items are.

    An interval over them is that of a simple draw of so many from everybody; strata can only help, so that it is no
    narrower than what is known about all.
    """
    drawn: dict[str, Any] = {}
    if some is None and asked < data.n_users:
        drawn |= {"users": asked, "of": data.n_users, "by": "history"}
    if targets not in (None, data.n_items):
        drawn |= {"targets": targets, "items": data.n_items}
    return {"drawn": drawn} if drawn else {}


def drawn_words(drawn: Mapping[str, Any]) -> str:
    """The same in a sentence or two."""
    told = []
    if "users" in drawn:
        told.append(
            f"{drawn['users']:,} of {drawn['of']:,} users were asked about, drawn in proportion to how much they have "
            "rated; the intervals include what that leaves open."
        )
    if "targets" in drawn:
        told.append(f"The numbers are about {drawn['targets']:,} targets, drawn from {drawn['items']:,} items.")
    return " ".join(told)


def resolve_items(some: SomeIds, data: Interactions, rng: int, label: str = "items") -> IntArray:
    """The positions of these items, ascending."""
    return _resolved(some, data.item_keys, data.items_at, rng, label)


def subsample(users: IntArray, count: int, data: Interactions, rng: int, label: str = "users") -> IntArray:
    """As many of these users (positions) by the same draw: of users drawn under this label, those drawn first."""
    return np.sort(users[_drawn(data.user_keys[users], count, rng, label)])


def _resolved(
    some: SomeIds, keys: Keys, positions: Callable[[Iterable[object]], IntArray], rng: int, label: str
) -> IntArray:
    if isinstance(some, str) and some == EVERYBODY:
        some = None
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

"""Ways to hold ratings out: seeded, disjoint, and every id keeps its position in both halves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, NamedTuple, final

import numpy as np
from pydantic import Field

from recaudit.arguments import check_count, checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.registry import SPLITS
from recaudit.seeding import derive, uniforms
from recaudit.specification import Count, OneOf, Specification


class Split(NamedTuple):
    """Two disjoint logs over the same users and items."""

    train: Interactions
    test: Interactions


class Splitter(Specification, ABC):
    """How ratings are held out, as a configuration says it."""

    @abstractmethod
    def split(self, data: Interactions, rng: int = 0) -> Split:
        """Training and held-out ratings."""


AnySplitter = Annotated[Splitter, OneOf(SPLITS)]
Share = Annotated[float, Field(gt=0, lt=1)]
_SHARE = 0.1


@final
class RandomSplit(Splitter):
    """Hold out a share of all ratings at random."""

    fraction: Share = _SHARE
    """The share."""

    def split(self, data: Interactions, rng: int = 0) -> Split:
        """See `random`."""
        return random(data, self.fraction, rng)


@final
class LeaveLast(Splitter):
    """Hold out the last k ratings of each user by time."""

    k: Count = 1
    """How many of each user."""

    def split(self, data: Interactions, rng: int = 0) -> Split:
        """See `leave_last`."""
        return leave_last(data, self.k)


@final
class ByTime(Splitter):
    """Hold out the latest share of all ratings."""

    fraction: Share = _SHARE
    """The share."""

    def split(self, data: Interactions, rng: int = 0) -> Split:
        """See `by_time`."""
        return by_time(data, self.fraction)


@checked
def random(data: Interactions, fraction: float = _SHARE, rng: int = 0) -> Split:
    """Hold out that fraction of all ratings, uniformly at random, by the seed and the ids of each pair alone."""
    _check_fraction(fraction)
    draws = _pair_draws(data, rng)
    held = np.zeros(len(data), dtype=bool)
    held[np.argsort(draws, kind="stable")[: max(1, round(fraction * len(data)))]] = True
    return _split(data, held)


@checked
def leave_last(data: Interactions, k: int = 1) -> Split:
    """Hold out the last k ratings of each user by time (ties: the higher item id is later).

    A user keeps at least one training rating: those with k or fewer ratings give up fewer.
    """
    check_count("k", k)
    times = _times(data, "leave_last")
    order = np.lexsort((data.items, times, data.users))
    from_end = np.repeat(data.indptr[1:], data.user_counts) - np.arange(len(data))
    from_start = np.arange(len(data)) - np.repeat(data.indptr[:-1], data.user_counts)
    held = np.zeros(len(data), dtype=bool)
    held[order] = (from_end <= k) & (from_start >= 1)
    return _split(data, held)


@checked
def by_time(data: Interactions, fraction: float = _SHARE) -> Split:
    """Hold out the latest fraction of all ratings: everything at or after one moment.

    Ratings at the very moment of the cut are all held out, so the share can be a little above the fraction.
    """
    _check_fraction(fraction)
    times = _times(data, "by_time")
    cut = np.sort(times)[len(data) - max(1, round(fraction * len(data)))]
    if cut == times.min():
        raise InputError(
            "fraction",
            received=fraction,
            expected="a share that leaves ratings before the cut",
            remedy="So many ratings carry the same time that nothing is left to train on: split at random.",
        )
    return _split(data, times >= cut)


@checked
def folds(data: Interactions, n: int = 5, rng: int = 0) -> list[Split]:
    """n splits whose test halves are disjoint, together all ratings, and equal in size to within one."""
    if not 2 <= n <= len(data):
        raise InputError("n", received=n, expected=f"a whole number from 2 to the number of ratings ({len(data):,})")
    fold = np.empty(len(data), dtype=np.int64)
    fold[np.argsort(_pair_draws(data, rng), kind="stable")] = np.arange(len(data)) % n
    return [_split(data, fold == i) for i in range(n)]


def _pair_draws(data: Interactions, rng: int) -> FloatArray:
    return uniforms(derive(rng, "split"), data.user_keys[data.users], data.item_keys[data.items])


def _split(data: Interactions, held: BoolArray) -> Split:
    return Split(data.subset(~held), data.subset(held))


def _times(data: Interactions, split: str) -> IntArray | FloatArray:
    if data.times is None:
        raise InputError(
            "data",
            received="a log without times",
            expected=f"times, which {split} needs",
            remedy="Say which column holds the time (time = 'timestamp'), or split at random.",
        )
    return data.times


def _check_fraction(fraction: float) -> None:
    if not 0 < fraction < 1:
        raise InputError("fraction", received=fraction, expected="a number between 0 and 1, both excluded")

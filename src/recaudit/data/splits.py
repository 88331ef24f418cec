"""Ways to hold ratings out: seeded, disjoint, and every id keeps its position in both halves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, final

import numpy as np
from numba import njit
from pydantic import BeforeValidator, Field

from recaudit.arguments import check_count, checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.catalogue import joined
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.registry import SPLITS
from recaudit.seeding import derive, uniforms
from recaudit.specification import Count, InputFile, OneOf, Specification

if TYPE_CHECKING:
    from recaudit.data.sources import NamedData, OwnData


class Split(NamedTuple):
    """Two disjoint logs over the same users and items."""

    train: Interactions
    test: Interactions


class Splitter(Specification, ABC):
    """How ratings are held out, as a configuration says it."""

    @abstractmethod
    def split(self, data: Interactions, rng: int = 0) -> Split:
        """Training and held-out ratings."""

    def files(self, source: NamedData | OwnData) -> dict[str, Path]:
        """What `load` reads, by what it holds."""
        return source.files

    def load(self, source: NamedData | OwnData, rng: int = 0) -> tuple[Interactions, Split]:
        """The whole log of a source, and its split."""
        data = source.load()
        return data, self.split(data, rng)


def _with_kind(value: object) -> object:
    named = isinstance(value, Mapping) and "kind" not in value and value.keys() & {"train", "test"}
    return {"kind": "files", **value} if named else value  # type: ignore[dict-item]  # a table of a configuration


AnySplitter = Annotated[Splitter, OneOf(SPLITS), BeforeValidator(_with_kind)]
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


@final
class Files(Splitter):
    """Two files of your own: what was trained on, and what was held out. They are written as [data] says."""

    train: InputFile
    """The ratings that models are trained on, and may have seen."""
    test: InputFile
    """The ratings that were held out; no user and item of them is in `train`."""

    def split(self, data: Interactions, rng: int = 0) -> Split:
        """Files are the log: there is no other to split."""
        raise InputError("split", received="a log beside the files of the split", expected="the files alone")

    def files(self, source: NamedData | OwnData) -> dict[str, Path]:
        """See `Splitter`: two in the place of one."""
        others = {name: file for name, file in source.files.items() if name != "ratings"}
        return {"train": self.train, "test": self.test, **others}

    def load(self, source: NamedData | OwnData, rng: int = 0) -> tuple[Interactions, Split]:
        """The log that both files make together, read as the source says, and its two parts."""
        return source.load_parts(self.train, self.test)


@checked
def from_logs(train: Interactions, test: Interactions) -> Split:
    """Two logs that were split elsewhere, over the users and items of both; a pair that is in both is an error."""
    whole, held = joined(train, test)
    return _split(whole, held)


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
    return _split(data, _latest(_times(data, "leave_last"), data.indptr, k))


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


@njit(cache=True, nogil=True)
def _latest(times: IntArray | FloatArray, indptr: IntArray, k: int) -> BoolArray:
    """(rows,): the last k of each user, all but the first where there are no more; of equals the later row."""
    held = np.zeros(len(times), dtype=np.bool_)
    for user in range(len(indptr) - 1):
        start, end = indptr[user], indptr[user + 1]
        order = np.argsort(times[start:end], kind="mergesort")
        for place in order[max(1, end - start - k) :]:
            held[start + place] = True
    return held


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

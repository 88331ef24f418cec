"""What the searches over stars share: what ratings may become, and the least effort, found from below.

A node of a search tree has some ratings changed and all others as they are: each choice of changes is one node, and is
looked at once. Below it only ratings that come later may change, within what is left of the effort. What a number that
is affine in the ratings can lose by then is at most what a knapsack of its own holds, filled with the largest loss for
each unit of effort first.

All trees up to one change are searched, then those up to two, ..., so that what is found was proved to be the least.
Where effort is no count it doubles instead, and the last tree is searched to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numba import njit

from recaudit.arrays import FloatArray, IntArray

_LEVELS = 6
"""Where effort is no count: the first tree has so many halvings of the largest effort."""
_DIVE = 0.1
"""The part of the budget that looks for any way at all, before the least is looked for."""
_REALLY = 1e-9
"""By which part an effort must be less to be another one."""


class Certainty(Enum):
    """How an answer stands."""

    LEAST = "least"  # found, and proved to be the least
    SOME = "some"  # found, with a lower bound of the least
    NONE = "none"  # not found, with a lower bound
    IMPOSSIBLE = "impossible"  # proved


class LeastEffort(NamedTuple):
    """The least effort that was looked for."""

    found: Certainty
    value: float  # infinite where no way was found
    lower: float  # no smaller effort does it
    option: IntArray  # (ratings,): which option each rating takes, -1 where it stays
    nodes: int


@final
class Choices:
    """What each rating may become: `moves` (ratings, options), new rating less the present one, and the `costs` of it,
    above 0; of the options of a rating the first `counts` (ratings,) are there."""

    def __init__(self, moves: FloatArray, costs: FloatArray, counts: IntArray) -> None:
        self.moves, self.costs, self.counts = moves, costs, counts

    @classmethod
    def of_stars(cls, now: FloatArray, stars: FloatArray, costs: Callable[[FloatArray], FloatArray]) -> Choices:
        """Ratings `now` (ratings,) that may become any of `stars`; `costs` makes (ratings, stars) of such moves."""
        moves = stars[None, :] - now[:, None]
        really = np.abs(moves) > _REALLY
        order = np.argsort(~really, axis=1, kind="stable")
        return cls(
            np.take_along_axis(moves, order, axis=1),
            np.take_along_axis(costs(moves), order, axis=1),
            really.sum(axis=1),
        )

    @cached_property
    def none(self) -> IntArray:
        """(ratings,): nothing is changed."""
        return np.full(len(self.counts), -1, dtype=np.int64)

    @cached_property
    def whole(self) -> bool:
        """Whether effort is a count of changes."""
        return bool((self._known(self.costs) == 1.0).all())

    @cached_property
    def most(self) -> float:
        """No effort is larger."""
        return float(np.where(self._there, self.costs, 0.0).max(axis=1, initial=0.0).sum())

    @cached_property
    def _there(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return np.arange(self.moves.shape[1]) < self.counts[:, None]

    def _known(self, values: FloatArray) -> FloatArray:
        return np.asarray(values[self._there])


class Tree(NamedTuple):
    """The ratings in the order in which they are changed, and their options, the most promising first."""

    delta: FloatArray  # (numbers, ratings): how numbers that should fall move with the ratings
    moves: FloatArray  # (ratings, options)
    costs: FloatArray
    counts: IntArray
    order: IntArray  # (ratings,): which ratings they are
    options: IntArray  # (ratings, options): which options


class Searched(NamedTuple):
    """What a search up to some effort says."""

    effort: float  # infinite for none
    option: IntArray  # (ratings,): in the order of the tree
    nodes: int
    whole: bool  # whether nothing was left out


def in_order(delta: FloatArray, choices: Choices) -> Tree:
    """Ratings that move these numbers (numbers, ratings) most come first, and options that let them fall most."""
    there = np.arange(choices.moves.shape[1]) < choices.counts[:, None]
    size = np.abs(delta).sum(axis=0)[:, None] * np.abs(choices.moves) / np.where(there, choices.costs, 1.0)
    order = np.argsort(-np.where(there, size, 0.0).max(axis=1, initial=0.0), kind="stable")
    falls = np.where(there, delta.sum(axis=0)[:, None] * choices.moves, np.inf)[order]
    options = np.argsort(falls, axis=1, kind="stable")
    moves, costs = (np.take_along_axis(part[order], options, axis=1) for part in (choices.moves, choices.costs))
    return Tree(np.ascontiguousarray(delta[:, order]), moves, costs, choices.counts[order], order, options)


def least_effort(
    search: Callable[[float, bool, int], Searched], choices: Choices, tree: Tree, budget: int
) -> LeastEffort:
    """By searches up to an effort: for the first way that is found or for the least, within so many nodes."""
    most, whole = choices.most, choices.whole
    any_way = search(most, True, max(1, int(_DIVE * budget)))
    value, option, nodes = any_way.effort, any_way.option, any_way.nodes
    if value == np.inf and any_way.whole:
        return LeastEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, choices.none, nodes)
    lower, level = 0.0, 1.0 if whole else most * 0.5**_LEVELS
    while nodes < budget:
        smaller = np.inf if value == np.inf else value - 1.0 if whole else value * (1 - _REALLY)
        reach = min(level, most, smaller)
        if reach > 0:
            found = search(reach, whole, budget - nodes)
            nodes += found.nodes
            if found.effort < np.inf:
                value, option = found.effort, found.option
                lower = value if found.whole or whole else lower
                break
            if not found.whole:
                break
        if reach == smaller or reach <= 0:
            lower = value
            break
        lower = reach + 1.0 if whole else reach
        if reach == most:
            return LeastEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, choices.none, nodes)
        level = level + 1.0 if whole else 2 * level
    if value == np.inf:
        return LeastEffort(Certainty.NONE, value, lower, choices.none, nodes)
    taken = choices.none.copy()
    changed = np.flatnonzero(option >= 0)
    taken[tree.order[changed]] = tree.options[changed, option[changed]]
    return LeastEffort(Certainty.LEAST if lower >= value else Certainty.SOME, value, min(lower, value), taken, nodes)


@njit(nogil=True, cache=True)
def knapsacks(
    delta: FloatArray, moves: FloatArray, costs: FloatArray, counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(ratings + 1, numbers, ratings) each: the ratings from one on, by how far a number falls for each unit of effort,
    farthest first; and how far it falls at most by each. 0 fills up."""
    numbers, ratings = delta.shape
    ratio, gain = np.zeros((ratings + 1, numbers, ratings)), np.zeros((ratings + 1, numbers, ratings))
    for first in range(ratings - 1, -1, -1):
        for j in range(numbers):
            rate = most = 0.0
            for o in range(counts[first]):
                fall = -delta[j, first] * moves[first, o]
                rate, most = max(rate, fall / costs[first, o]), max(most, fall)
            place = 0
            while place < ratings - first - 1 and ratio[first + 1, j, place] >= rate:
                ratio[first, j, place], gain[first, j, place] = ratio[first + 1, j, place], gain[first + 1, j, place]
                place += 1
            ratio[first, j, place], gain[first, j, place] = rate, most
            for rest in range(place, ratings - first - 1):
                ratio[first, j, rest + 1] = ratio[first + 1, j, rest]
                gain[first, j, rest + 1] = gain[first + 1, j, rest]
    return ratio, gain


@njit(nogil=True, cache=True)
def filled(ratio: FloatArray, gain: FloatArray, effort: float) -> float:
    """How far a number falls with so much effort at most; `ratio` and `gain` (ratings,), the best first."""
    total = 0.0
    for r in range(len(ratio)):
        if ratio[r] <= 0.0 or effort <= 0.0:
            break
        full = gain[r] / ratio[r]
        if full > effort:
            return total + ratio[r] * effort
        total += gain[r]
        effort -= full
    return total

"""What the searches over stars share: what ratings may become, and the least effort, found from below.

A node of a search tree has some ratings changed and all others as they are: each choice of changes is one node, and is
looked at once. Below it only ratings that come later may change, within what is left of the effort. A rating takes at
most `fall` from a number that is affine in the ratings, and at most `rate` for each unit of effort spent on it,
whatever its option: so that all of them together take no more than the continuous knapsack, filled with the fastest
first.

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
REALLY = 1e-9
"""By which part an effort must be less to be another one."""
_ROOM = 1e-12
"""The part of the effort that rounding may take: above what sums of costs are rounded by, below another effort."""


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
        really = np.abs(moves) > REALLY
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
    def least(self) -> float:
        """No change takes less; infinite where there is none."""
        return float(self._known(self.costs).min(initial=np.inf))

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
    lower, level = choices.least, 1.0 if whole else most * 0.5**_LEVELS
    while nodes < budget and lower < value:
        smaller = np.inf if value == np.inf else value - 1.0 if whole else value * (1 - REALLY)
        reach = min(level, most, smaller)
        found = search(reach, whole, budget - nodes)
        nodes += found.nodes
        if found.effort < np.inf:
            value, option = found.effort, found.option
            lower = value if found.whole or whole else lower
            break
        if not found.whole:
            break
        if reach == smaller:
            lower = value
        elif reach == most:
            return LeastEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, choices.none, nodes)
        else:
            lower = max(lower, reach + 1.0 if whole else reach)
        level = level + 1.0 if whole else 2 * level
    if value == np.inf:
        return LeastEffort(Certainty.NONE, value, lower, choices.none, nodes)
    taken = choices.none.copy()
    changed = np.flatnonzero(option >= 0)
    taken[tree.order[changed]] = tree.options[changed, option[changed]]
    return LeastEffort(Certainty.LEAST if lower >= value else Certainty.SOME, value, min(lower, value), taken, nodes)


class Knapsacks(NamedTuple):
    """How far numbers can fall by each rating, (numbers, ratings) each: the rating with the farthest fall for a unit of
    effort first, that fall, and the farthest of all."""

    order: IntArray
    rate: FloatArray
    fall: FloatArray


@njit(nogil=True, cache=True)
def knapsacks(
    delta: FloatArray, moves: FloatArray, costs: FloatArray, counts: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """As `Knapsacks`: of numbers that move with the ratings by `delta` (numbers, ratings)."""
    numbers, ratings = delta.shape
    order = np.empty((numbers, ratings), dtype=np.int64)
    rate, fall = np.zeros((numbers, ratings)), np.zeros((numbers, ratings))
    for j in range(numbers):
        for k in range(ratings):
            fastest = farthest = 0.0
            for o in range(counts[k]):
                down = -delta[j, k] * moves[k, o]
                fastest, farthest = max(fastest, down / costs[k, o]), max(farthest, down)
            place = k
            while place > 0 and rate[j, place - 1] < fastest:
                order[j, place], rate[j, place] = order[j, place - 1], rate[j, place - 1]
                fall[j, place] = fall[j, place - 1]
                place -= 1
            order[j, place], rate[j, place], fall[j, place] = k, fastest, farthest
    return order, rate, fall


@njit(nogil=True, cache=True)
def farthest_fall(sacks: Knapsacks, j: int, start: int, effort: float) -> float:
    """How far number j falls at most with so much effort, by the ratings from `start` on."""
    total = 0.0
    for place in range(sacks.rate.shape[1]):
        rate = sacks.rate[j, place]
        if rate <= 0.0 or effort <= 0.0:
            break
        if sacks.order[j, place] < start:
            continue
        fall = sacks.fall[j, place]
        if fall > rate * effort:
            return float(total + rate * effort)
        total += fall
        effort -= fall / rate
    return total


class Path(NamedTuple):
    """The node that a search is at: one rating is changed at each depth."""

    rating: IntArray  # (depths,): which is changed
    option: IntArray  # (depths,): to which option
    spent: FloatArray  # (depths,): the effort above
    picked: IntArray  # (ratings,): the option of each rating, -1 where it stays


@njit(nogil=True, cache=True)
def root(ratings: int) -> Path:
    """Before the first node."""
    depths = ratings + 1
    places = np.zeros(depths, dtype=np.int64), np.zeros(depths, dtype=np.int64)
    return Path(places[0], places[1], np.zeros(depths), np.full(ratings, -1, dtype=np.int64))


@njit(nogil=True, cache=True)
def forward(tree: Tree, path: Path, depth: int, most: float) -> int:
    """The depth of the next node that takes no more effort than `most`; -1 where there is none."""
    while depth >= 0:
        k, o = path.rating[depth], path.option[depth]
        if k == len(tree.counts):
            depth -= 1
            if depth >= 0:
                leave(path, depth)
        elif o == tree.counts[k]:
            path.rating[depth], path.option[depth] = k + 1, 0
        elif path.spent[depth] + tree.costs[k, o] > most * (1 + _ROOM):
            path.option[depth] = o + 1
        else:
            path.picked[k] = o
            return depth
    return depth


@njit(nogil=True, cache=True)
def leave(path: Path, depth: int) -> None:
    """What is below the node is not looked at."""
    path.picked[path.rating[depth]] = -1
    path.option[depth] += 1


@njit(nogil=True, cache=True)
def enter(path: Path, depth: int, effort: float) -> int:
    """The depth of what is below the node, which took so much `effort`."""
    path.rating[depth + 1], path.option[depth + 1], path.spent[depth + 1] = path.rating[depth] + 1, 0, effort
    return depth + 1


@njit(nogil=True, cache=True)
def changes_of(tree: Tree, path: Path) -> FloatArray:
    """(ratings,): new ratings less the present ones, in the order of the question."""
    changes = np.zeros(len(tree.counts))
    for k in range(len(tree.counts)):
        if path.picked[k] >= 0:
            changes[tree.order[k]] = tree.moves[k, path.picked[k]]
    return changes


@njit(nogil=True, cache=True)
def effort_left(most: float, effort: float) -> float:
    """What may be spent below a node, with room for how sums of costs are rounded."""
    return most * (1 + 2 * _ROOM) - effort

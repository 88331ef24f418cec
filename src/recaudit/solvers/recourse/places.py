"""The least effort that brings an item into a list, or out of it.

The lead `d_j` of every rival j over the target is affine in the ratings. A rival whose lead no knapsack of the effort
that is left takes away (see `least`) is above the target in the whole subtree, and a subtree with too many of those is
not entered. To keep out of a list is the same question about leads with the other sign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.recourse.least import (
    REALLY,
    Certainty,
    Choices,
    Knapsacks,
    LeastEffort,
    Path,
    Searched,
    Tree,
    changes_of,
    effort_left,
    enter,
    farthest_fall,
    forward,
    in_order,
    knapsacks,
    least_effort,
    leave,
    root,
)
from recaudit.ties import TIE


def item_effort(
    slope: FloatArray, scores: FloatArray, target: int, n: int, inside: bool, choices: Choices, budget: int
) -> LeastEffort:
    """The least effort that brings item `target` among the first `n`, or out of them where not `inside`.

    `slope` (items, ratings) and `scores` (items,): the candidates, with the scores as ratings are now. `budget`: how
    many nodes may be looked at.
    """
    nothing = np.zeros(len(choices.counts))
    if (rank_after(slope, scores, target, nothing) <= n) == inside:
        return LeastEffort(Certainty.LEAST, 0.0, 0.0, choices.none, 1)
    sign, limit = (1.0, n - 1) if inside else (-1.0, len(scores) - 1 - n)
    lead, delta, limit, slack = _rivals(slope, scores, target, sign, limit, choices.moves, choices.counts)
    if limit < 0:
        return LeastEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, choices.none, 1)
    tree = in_order(delta, choices)
    sacks = Knapsacks(*knapsacks(tree.delta, tree.moves, tree.costs, tree.counts))
    asked = slope, scores, target, n, inside
    bounds = sacks, _rises(tree.delta, tree.moves, tree.counts), slack

    def search(most: float, first: bool, nodes: int) -> Searched:
        return Searched(*_search(asked, tree, (lead, limit), bounds, most, first, nodes))

    return least_effort(search, choices, tree, budget)


@njit(nogil=True, cache=True)
def _rivals(
    slope: FloatArray,
    scores: FloatArray,
    target: int,
    sign: float,
    limit: int,
    moves: FloatArray,
    counts: IntArray,
) -> tuple[FloatArray, FloatArray, int, float]:
    """Leads (rivals,) and how they move (rivals, ratings) of those that are not above or below whatever is done; how
    many of them may stay above; and how far two scores may be apart that are tied, by a chain of all others."""
    items, ratings = slope.shape
    reach = np.zeros(ratings)
    for k in range(ratings):
        for o in range(counts[k]):
            reach[k] = max(reach[k], abs(moves[k, o]))
    slack = TIE * items * (np.abs(scores) + np.abs(slope) @ reach).max()
    lead, delta = np.empty(items), np.empty((items, ratings))
    count = 0
    for j in range(items):
        if j == target:
            continue
        here = sign * (scores[j] - scores[target])
        low = high = here
        for k in range(ratings):
            moved = sign * (slope[j, k] - slope[target, k])
            delta[count, k] = moved
            least = most = 0.0
            for o in range(counts[k]):
                step = moved * moves[k, o]
                least, most = min(least, step), max(most, step)
            low, high = low + least, high + most
        if low > slack:
            limit -= 1
        elif high >= -slack:
            lead[count] = here
            count += 1
    return lead[:count].copy(), delta[:count].copy(), limit, slack


@njit(nogil=True, cache=True)
def _rises(delta: FloatArray, moves: FloatArray, counts: IntArray) -> FloatArray:
    """(ratings + 1, rivals): what a lead may grow by, at most, with the ratings from one on."""
    rivals, ratings = delta.shape
    rise = np.zeros((ratings + 1, rivals))
    for k in range(ratings - 1, -1, -1):
        for j in range(rivals):
            most = 0.0
            for o in range(counts[k]):
                most = max(most, delta[j, k] * moves[k, o])
            rise[k, j] = rise[k + 1, j] + most
    return rise


class _Rivals(NamedTuple):
    """At each depth, those that are neither above nor below the target in the whole subtree."""

    which: IntArray  # (depths, rivals)
    leads: FloatArray  # (depths, rivals)
    open: IntArray  # (depths,): how many
    allowed: IntArray  # (depths,): how many of them may stay above


@njit(nogil=True, cache=True)
def _search(
    asked: tuple[FloatArray, FloatArray, int, int, bool],
    tree: Tree,
    start: tuple[FloatArray, int],
    bounds: tuple[Knapsacks, FloatArray, float],
    most: float,
    first: bool,
    budget: int,
) -> tuple[float, IntArray, int, bool]:
    """As `Searched`: the least effort up to `most`; where `first`, the first way that is found."""
    slope, scores, target, n, inside = asked
    path, rivals = root(len(tree.counts)), _at_start(start[0], start[1], len(tree.counts))
    best, option, nodes = np.inf, path.picked.copy(), 0
    depth = forward(tree, path, 0, most)
    while depth >= 0:
        if nodes == budget:
            return best, option, nodes, False
        nodes += 1
        effort = path.spent[depth] + tree.costs[path.rating[depth], path.option[depth]]
        above, near, possible = _look(tree, path, rivals, depth, bounds, effort_left(most, effort))
        reached = possible and above + near <= rivals.allowed[depth]
        if possible and near > 0 and above <= rivals.allowed[depth] and not reached:
            reached = (rank_after(slope, scores, target, changes_of(tree, path)) <= n) == inside
        if reached:
            best, option, most = effort, path.picked.copy(), effort * (1 - REALLY)
            if first:
                return best, option, nodes, False
        if possible and not reached:
            depth = enter(path, depth, effort)
        else:
            leave(path, depth)
        depth = forward(tree, path, depth, most)
    return best, option, nodes, True


@njit(nogil=True, cache=True)
def _at_start(lead: FloatArray, limit: int, ratings: int) -> _Rivals:
    depths, rivals = ratings + 1, len(lead)
    leads, which = np.empty((depths, rivals)), np.empty((depths, rivals), dtype=np.int64)
    count, allowed = np.zeros(depths, dtype=np.int64), np.zeros(depths, dtype=np.int64)
    count[0], allowed[0] = rivals, limit
    copy_into(leads[0], lead)
    copy_into(which[0], np.arange(rivals))
    return _Rivals(which, leads, count, allowed)


@njit(nogil=True, cache=True)
def _look(
    tree: Tree, path: Path, rivals: _Rivals, depth: int, bounds: tuple[Knapsacks, FloatArray, float], left: float
) -> tuple[int, int, bool]:
    """How many rivals are above the target, how many as near as a tie may be, and whether it may be among the first
    below this node; `rivals` get what is still open there."""
    sacks, rise, slack = bounds
    k, move = path.rating[depth], tree.moves[path.rating[depth], path.option[depth]]
    above = near = sure = kept = 0
    for place in range(rivals.open[depth]):
        j = rivals.which[depth, place]
        lead = rivals.leads[depth, place] + tree.delta[j, k] * move
        if lead < -slack:
            if lead + rise[k + 1, j] < -slack:
                continue
        elif lead <= slack:
            near += 1
        else:
            above += 1
            if lead - farthest_fall(sacks, j, k + 1, left) > slack:
                sure += 1
                if sure > rivals.allowed[depth]:
                    return above, near, False
                continue
        rivals.which[depth + 1, kept], rivals.leads[depth + 1, kept] = j, lead
        kept += 1
    rivals.open[depth + 1], rivals.allowed[depth + 1] = kept, rivals.allowed[depth] - sure
    return above, near, True


@njit(nogil=True, cache=True)
def rank_after(slope: FloatArray, scores: FloatArray, target: int, changes: FloatArray) -> int:
    """Where the target stands after `changes` (ratings,), by the rule of `ranking`: tied is what small gaps link, and
    of tied items the first goes first."""
    values = scores + slope @ changes
    gap = TIE * np.abs(values).max()
    order = np.argsort(-values, kind="mergesort")
    place = np.flatnonzero(order == target)[0]
    start = end = place
    while start > 0 and values[order[start - 1]] - values[order[start]] <= gap:
        start -= 1
    while end + 1 < len(order) and values[order[end]] - values[order[end + 1]] <= gap:
        end += 1
    rank = int(start + 1)
    for other in order[start : end + 1]:
        if other < target:
            rank += 1
    return rank

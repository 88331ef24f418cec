"""The least effort that brings an item into a list, or out of it.

The lead `d_j` of every rival j over the target is affine in the ratings. A rival whose lead no knapsack of the effort
that is left takes away (see `least`) is above the target in the whole subtree, and a subtree with too many of those is
not entered. To keep out of a list is the same question about leads with the other sign.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.recourse.least import (
    Choices,
    LeastEffort,
    Certainty,
    Searched,
    Tree,
    filled,
    in_order,
    knapsacks,
    least_effort,
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
    ratio, gain = knapsacks(tree.delta, tree.moves, tree.costs, tree.counts)
    rise = _rises(tree.delta, tree.moves, tree.counts)
    asked, bounds = (slope, scores, target, n, inside), (lead, limit, slack, ratio, gain, rise)

    def search(most: float, first: bool, nodes: int) -> Searched:
        return Searched(*_search(asked, tree, bounds, most, first, nodes))

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


@njit(nogil=True, cache=True)
def _search(
    asked: tuple[FloatArray, FloatArray, int, int, bool],
    tree: Tree,
    bounds: tuple[FloatArray, int, float, FloatArray, FloatArray, FloatArray],
    most: float,
    first: bool,
    budget: int,
) -> tuple[float, IntArray, int, bool]:
    """As `Searched`: the least effort up to `most`; where `first`, the first way that is found."""
    slope, scores, target, n, inside = asked
    lead, limit, slack, ratio, gain, rise = bounds
    rivals, ratings = tree.delta.shape
    leads, active = np.empty((ratings + 1, rivals)), np.empty((ratings + 1, rivals), dtype=np.int64)
    size, allowed = np.zeros(ratings + 1, dtype=np.int64), np.zeros(ratings + 1, dtype=np.int64)
    at, using = np.zeros(ratings + 1, dtype=np.int64), np.zeros(ratings + 1, dtype=np.int64)
    spent, picked = np.zeros(ratings + 1), np.full(ratings, -1, dtype=np.int64)
    leads[0], active[0], size[0], allowed[0] = lead, np.arange(rivals), rivals, limit
    best, option, nodes, depth = np.inf, picked.copy(), 0, 0
    while depth >= 0:
        k, o = at[depth], using[depth]
        if k == ratings:
            depth -= 1
            if depth >= 0:
                picked[at[depth]] = -1
                using[depth] += 1
            continue
        if o == tree.counts[k]:
            at[depth], using[depth] = k + 1, 0
            continue
        left = most - spent[depth] - tree.costs[k, o]
        if left < -1e-12 * most:
            using[depth] += 1
            continue
        if nodes == budget:
            return best, option, nodes, False
        nodes += 1
        above = near = sure = kept = 0
        for place in range(size[depth]):
            j = active[depth, place]
            here = leads[depth, place] + tree.delta[j, k] * tree.moves[k, o]
            if here < -slack:
                if here + rise[k + 1, j] < -slack:
                    continue
            elif here > slack:
                above += 1
                if here - filled(ratio[k + 1, j], gain[k + 1, j], left) > slack:
                    sure += 1
                    if sure > allowed[depth]:
                        break
                    continue
            else:
                near += 1
            leads[depth + 1, kept], active[depth + 1, kept] = here, j
            kept += 1
        if sure > allowed[depth]:
            using[depth] += 1
            continue
        picked[k] = o
        reached = above + near <= allowed[depth]
        if above <= allowed[depth] and not reached:
            changes = np.zeros(ratings)
            for other in range(ratings):
                if picked[other] >= 0:
                    changes[tree.order[other]] = tree.moves[other, picked[other]]
            reached = (rank_after(slope, scores, target, changes) <= n) == inside
        if reached:
            best, option = spent[depth] + tree.costs[k, o], picked.copy()
            if first:
                return best, option, nodes, False
            most = best * (1 - 1e-9)
            picked[k] = -1
            using[depth] += 1
            continue
        depth += 1
        at[depth], using[depth], size[depth], allowed[depth] = k + 1, 0, kept, allowed[depth - 1] - sure
        spent[depth] = spent[depth - 1] + tree.costs[k, o]
    return best, option, nodes, True


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
    rank = start + 1
    for other in order[start : end + 1]:
        if other < target:
            rank += 1
    return rank

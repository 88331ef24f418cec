"""The least effort that makes an item likely enough, or a list as it should be: what it holds of a category, or how far
it is from the user's interests.

Softmax: `-log p = log sum_j exp(beta (s_j - s_i))` is convex in the ratings, so that its tangent bounds it from below in
a whole subtree: a subtree is entered where a knapsack of the effort that is left (see `least`) lets the tangent fall
far enough.

Lists: how far each score can fall and rise with what is left says which items are in the list whatever is done below,
and which may be; from these the largest and smallest share of a category follow, and a bound of the divergence of the
list from the interests: the least over all shares within their limits that add up to one. Only differences of scores
count, so that what moves all likely items alike is taken off first.
"""

from __future__ import annotations

from typing import Any

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

ROUNDING = 1e-10
"""A log-probability or a divergence that misses by less is taken to be reached."""
_LIKELY, _AT_LEAST, _AT_MOST, _CALIBRATED = range(4)
_HALVINGS = 40
_LOOKS = 20
"""A look at a list takes as long as so many looks at an item's place, and counts as many of the budget."""


def likely_effort(
    slope: FloatArray, scores: FloatArray, target: int, beta: float, least: float, choices: Choices, budget: int
) -> LeastEffort:
    """The least effort with which softmax shows item `target` with the probability `least` or more.

    `slope` (items, ratings), `scores` (items,): the candidates, with the scores as ratings are now.
    """
    lead, delta = beta * (scores - scores[target]), beta * (slope - slope[target])
    return _outcome_effort(_LIKELY, delta, lead, choices, budget, limit=-np.log(least))


def item_chance(scores: FloatArray, target: int, beta: float) -> float:
    """The log-probability of an item of `scores` (items,)."""
    return float(log_chance(beta * (scores - scores[target])))


def share_effort(
    slope: FloatArray,
    scores: FloatArray,
    n: int,
    shares: FloatArray,
    bound: float,
    at_least: bool,
    choices: Choices,
    budget: int,
) -> LeastEffort:
    """The least effort with which the first `n` hold at least (or at most) the part `bound` of a category.

    `shares` (items,): how much of each item belongs to it.
    """
    kind, weights = _AT_LEAST if at_least else _AT_MOST, shares[:, None]
    return _list_effort(kind, slope, scores, choices, budget, limit=n * bound, n=n, weights=weights)


def calibrated_effort(
    slope: FloatArray,
    scores: FloatArray,
    n: int,
    shares: FloatArray,
    interests: FloatArray,
    smoothing: float,
    most: float,
    choices: Choices,
    budget: int,
) -> LeastEffort:
    """The least effort with which C_KL of the first `n` is `most` or less (paper 004, Equations 4 and 5).

    `shares` (items, genres): p(g|i); `interests` (genres,): p(g|u).
    """
    asked = {"weights": shares, "interests": interests, "smoothing": smoothing}
    return _list_effort(_CALIBRATED, slope, scores, choices, budget, limit=most, n=n, **asked)


def _list_effort(
    kind: int, slope: FloatArray, scores: FloatArray, choices: Choices, budget: int, *, n: int, **asked: Any
) -> LeastEffort:
    """Of the items that can be in the list at all; order is all that counts."""
    reach = np.where(np.arange(choices.moves.shape[1]) < choices.counts[:, None], np.abs(choices.moves), 0.0)
    n = min(n, len(scores))
    likely = np.argsort(-scores, kind="stable")[: 5 * n]
    common = slope[likely].mean(axis=0)
    apart = slope - common
    width = np.abs(apart) @ reach.max(axis=1, initial=0.0)
    slack = TIE * len(scores) * float((np.abs(scores) + np.abs(slope) @ reach.max(axis=1, initial=0.0)).max())
    possible = scores + width >= np.sort(scores - width)[-n] - slack
    asked["weights"] = np.ascontiguousarray(asked["weights"][possible])
    numbers = (np.ascontiguousarray(apart[possible]), scores[possible])
    return _outcome_effort(kind, *numbers, choices, max(1, budget // _LOOKS), n=n, slack=slack, **asked)


def _outcome_effort(
    kind: int,
    delta: FloatArray,
    values: FloatArray,
    choices: Choices,
    budget: int,
    *,
    limit: float,
    n: int = 0,
    slack: float = 0.0,
    weights: FloatArray | None = None,
    interests: FloatArray | None = None,
    smoothing: float = 0.0,
) -> LeastEffort:
    tree = in_order(delta, choices)
    up = down = (np.zeros((1, 1, 1)), np.zeros((1, 1, 1)))
    if kind != _LIKELY:
        down = knapsacks(tree.delta, tree.moves, tree.costs, tree.counts)
        up = knapsacks(-tree.delta, tree.moves, tree.costs, tree.counts)
    goal = (
        kind,
        limit,
        n,
        slack,
        np.zeros((0, 0)) if weights is None else weights,
        np.zeros(0) if interests is None else interests,
        smoothing,
    )
    bounds = (*down, *up)
    reached, possible = _look(goal, tree, bounds, values, 0, choices.most)
    if reached:
        return LeastEffort(Certainty.LEAST, 0.0, 0.0, choices.none, 1)
    if not possible:
        return LeastEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, choices.none, 1)

    def search(most: float, first: bool, nodes: int) -> Searched:
        return Searched(*_search(goal, tree, bounds, values, most, first, nodes))

    return least_effort(search, choices, tree, budget)


_Goal = tuple[int, float, int, float, FloatArray, FloatArray, float]
_Bounds = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@njit(nogil=True, cache=True)
def _search(
    goal: _Goal, tree: Tree, bounds: _Bounds, values: FloatArray, most: float, first: bool, budget: int
) -> tuple[float, IntArray, int, bool]:
    """As `Searched`: the least effort up to `most`; where `first`, the first way that is found."""
    ratings = tree.delta.shape[1]
    held = np.empty((ratings + 1, len(values)))
    at, using = np.zeros(ratings + 1, dtype=np.int64), np.zeros(ratings + 1, dtype=np.int64)
    spent, picked = np.zeros(ratings + 1), np.full(ratings, -1, dtype=np.int64)
    held[0] = values
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
        cost = spent[depth] + tree.costs[k, o]
        if cost > most * (1 + 1e-12):
            using[depth] += 1
            continue
        if nodes == budget:
            return best, option, nodes, False
        nodes += 1
        held[depth + 1] = held[depth] + tree.delta[:, k] * tree.moves[k, o]
        reached, possible = _look(goal, tree, bounds, held[depth + 1], k + 1, most - cost)
        if reached:
            picked[k] = o
            best, option = cost, picked.copy()
            if first:
                return best, option, nodes, False
            most = best * (1 - 1e-9)
            picked[k] = -1
        if reached or not possible:
            using[depth] += 1
            continue
        picked[k] = o
        depth += 1
        at[depth], using[depth], spent[depth] = k + 1, 0, cost
    return best, option, nodes, True


@njit(nogil=True, cache=True)
def _look(
    goal: _Goal, tree: Tree, bounds: _Bounds, values: FloatArray, start: int, left: float
) -> tuple[bool, bool]:
    """Whether the goal is reached at these values, and whether it may be with the ratings from `start` on."""
    if goal[0] == _LIKELY:
        return _look_at_chance(goal[1], tree, values, start, left)
    return _look_at_list(goal, bounds, values, start, left)


@njit(nogil=True, cache=True)
def _look_at_chance(
    limit: float, tree: Tree, leads: FloatArray, start: int, left: float
) -> tuple[bool, bool]:
    missing = -log_chance(leads) - limit
    if missing <= ROUNDING:
        return True, True
    ratings = tree.delta.shape[1]
    weight = np.exp(leads - leads.max())
    weight /= weight.sum()
    slopes = np.zeros((1, ratings))
    for k in range(start, ratings):
        slopes[0, k] = (weight * tree.delta[:, k]).sum()
    ratio, gain = knapsacks(slopes[:, start:], tree.moves[start:], tree.costs[start:], tree.counts[start:])
    return False, filled(ratio[0, 0], gain[0, 0], left) >= missing - ROUNDING


@njit(nogil=True, cache=True)
def log_chance(leads: FloatArray) -> float:
    """The target's log-probability, where others lead by `leads` (items,), the target itself by 0, in units of beta."""
    top = leads.max()
    return -top - np.log(np.exp(leads - top).sum())


@njit(nogil=True, cache=True)
def _look_at_list(
    goal: _Goal, bounds: _Bounds, values: FloatArray, start: int, left: float
) -> tuple[bool, bool]:
    kind, limit, n, slack, weights, interests, smoothing = goal
    if _holds(kind, limit, n, weights, interests, smoothing, first_items(values, n)):
        return True, True
    items, genres = weights.shape
    low, high = np.empty(items), np.empty(items)
    for j in range(items):
        low[j] = values[j] - filled(bounds[0][start, j], bounds[1][start, j], left)
        high[j] = values[j] + filled(bounds[2][start, j], bounds[3][start, j], left)
    entry = np.partition(low, items - n)[items - n] - slack
    safe = np.partition(high, items - n - 1)[items - n - 1] + slack if items > n else -np.inf
    inside, maybe = low > safe, high >= entry
    places = n - inside.sum()
    most, least = np.zeros(genres), np.zeros(genres)
    open_items = np.flatnonzero(maybe & ~inside)
    for g in range(genres):
        own = weights[inside, g].sum()
        others = np.sort(weights[open_items, g])
        most[g] = own + others[max(0, len(others) - places) :].sum()
        least[g] = own + others[: min(places, len(others))].sum()
    if kind == _AT_LEAST:
        return False, most[0] >= limit - ROUNDING
    if kind == _AT_MOST:
        return False, least[0] <= limit + ROUNDING
    return False, _least_divergence(least / n, most / n, interests, smoothing) <= limit + ROUNDING


@njit(nogil=True, cache=True)
def first_items(values: FloatArray, n: int) -> IntArray:
    """(n,): the first n by the rule of `ranking`, in any order."""
    order = np.argsort(-values, kind="mergesort")
    gap = TIE * np.abs(values).max()
    if n >= len(order) or values[order[n - 1]] - values[order[n]] > gap:
        return order[:n]
    start, end = n - 1, n
    while start > 0 and values[order[start - 1]] - values[order[start]] <= gap:
        start -= 1
    while end + 1 < len(order) and values[order[end]] - values[order[end + 1]] <= gap:
        end += 1
    chosen = order[:n].copy()
    chosen[start:] = np.sort(order[start : end + 1])[: n - start]
    return chosen


@njit(nogil=True, cache=True)
def _holds(
    kind: int, limit: float, n: int, weights: FloatArray, interests: FloatArray, smoothing: float, chosen: IntArray
) -> bool:
    held = np.zeros(weights.shape[1])
    for item in chosen:
        held += weights[item]
    if kind == _AT_LEAST:
        return held[0] >= limit - ROUNDING
    if kind == _AT_MOST:
        return held[0] <= limit + ROUNDING
    return divergence_of(interests, held / n, smoothing) <= limit + ROUNDING


@njit(nogil=True, cache=True)
def divergence_of(p: FloatArray, q: FloatArray, smoothing: float) -> float:
    """C_KL of a list with the shares q (genres,) from the interests p (genres,)."""
    total = 0.0
    for g in range(len(p)):
        if p[g] > 0:
            total -= p[g] * np.log((1 - smoothing) * q[g] / p[g] + smoothing)
    return total


@njit(nogil=True, cache=True)
def _least_divergence(least: FloatArray, most: FloatArray, p: FloatArray, smoothing: float) -> float:
    """The least over q with `least` <= q <= `most` and sum q <= 1: q + s p = p / v, cut to the limits, for some v."""
    shift = smoothing / (1 - smoothing)
    if np.where(p > 0, most, 0.0).sum() <= 1:
        return divergence_of(p, most, smoothing)
    low, high = 0.0, 1.0 / shift
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        total = 0.0
        for g in range(len(p)):
            if p[g] > 0:
                total += min(max(p[g] * (level - shift), least[g]), most[g])
        if total > 1:
            high = level
        else:
            low = level
    # With a little more than one in all: no smaller than the least.
    q = np.minimum(np.maximum(p * (high - shift), least), most)
    return divergence_of(p, q, smoothing)

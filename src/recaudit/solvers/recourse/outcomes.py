"""The least effort that makes an item likely enough, or a list as it should be: what it holds of a category, or how far
it is from the user's interests.

Softmax: `-log p = log sum_j exp(beta (s_j - s_i))` is convex in the ratings, so that its tangent bounds it from below
in a whole subtree: a subtree is entered where a knapsack of the effort that is left (see `least`) lets the tangent
fall far enough.

Lists: how far each score can fall and rise with what is left says which items are in the list whatever is done below,
and which may be; from these the largest and smallest share of a category follow, and a bound of the divergence of the
list from the interests: the least over all shares within their limits that add up to one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.ranking import descending, nth_highest
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
    slack = ROUNDING * max(1.0, float(np.abs(lead).max()))
    every, limit = np.arange(len(scores)), -float(np.log(least))
    return _outcome_effort(_LIKELY, delta, lead, choices, budget, limit=limit, slack=slack, possible=every, apart=delta)


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
    n, kind, weights = min(n, len(scores)), _AT_LEAST if at_least else _AT_MOST, shares[:, None]
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
    n = min(n, len(scores))
    return _list_effort(_CALIBRATED, slope, scores, choices, budget, limit=most, n=n, **asked)


def _list_effort(
    kind: int, slope: FloatArray, scores: FloatArray, choices: Choices, budget: int, *, n: int, **asked: Any
) -> LeastEffort:
    """Of the items that can be in the list at all. What moves all likely ones alike is no reason to be in it: what each
    can gain and lose is counted without."""
    reach = np.where(np.arange(choices.moves.shape[1]) < choices.counts[:, None], np.abs(choices.moves), 0.0)
    furthest = reach.max(axis=1, initial=0.0)
    apart = slope - slope[np.argsort(-scores, kind="stable")[: 5 * n]].mean(axis=0)
    width = np.abs(apart) @ furthest
    slack = TIE * len(scores) * float((np.abs(scores) + np.abs(slope) @ furthest).max())
    possible = np.flatnonzero(scores + width >= np.sort(scores - width)[-n] - slack)
    asked["weights"] = np.ascontiguousarray(asked["weights"][possible])
    return _outcome_effort(
        kind,
        slope,
        scores,
        choices,
        max(1, budget // _LOOKS),
        possible=possible,
        apart=apart[possible],
        n=n,
        slack=slack,
        **asked,
    )


def _outcome_effort(
    kind: int,
    slope: FloatArray,
    scores: FloatArray,
    choices: Choices,
    budget: int,
    *,
    limit: float,
    slack: float,
    possible: IntArray,
    apart: FloatArray,
    n: int = 0,
    weights: FloatArray | None = None,
    interests: FloatArray | None = None,
    smoothing: float = 0.0,
) -> LeastEffort:
    tree = in_order(apart, choices)
    own = np.ascontiguousarray(slope[possible][:, tree.order])
    if kind == _LIKELY:
        falls = rises = Knapsacks(np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0)), np.zeros((0, 0)))
    else:
        falls, rises = (
            Knapsacks(*knapsacks(sign * tree.delta, tree.moves, tree.costs, tree.counts)) for sign in (1.0, -1.0)
        )
    none = np.zeros((0, 0))
    goal = _Goal(
        kind,
        limit,
        slack,
        n,
        none if weights is None else weights,
        np.zeros(0) if interests is None else interests,
        smoothing,
    )
    question = _Question(slope, scores, possible, own, falls, rises)

    def search(most: float, first: bool, nodes: int) -> Searched:
        return Searched(*_search(goal, question, tree, most, first, nodes))

    path = root(len(tree.counts))
    reached, may_be = _look(goal, question, tree, path, scores[possible], 0, choices.most)
    if reached:
        return LeastEffort(Certainty.LEAST, 0.0, 0.0, choices.none, 1)
    if not may_be:
        return LeastEffort(Certainty.IMPOSSIBLE, np.inf, np.inf, choices.none, 1)
    return least_effort(search, choices, tree, budget)


class _Goal(NamedTuple):
    kind: int
    limit: float
    slack: float  # how far numbers may be off, or scores be apart that are tied
    n: int
    weights: FloatArray  # (possible, genres): what each item counts
    interests: FloatArray  # (genres,)
    smoothing: float


class _Question(NamedTuple):
    slope: FloatArray  # (items, ratings): as asked
    scores: FloatArray  # (items,)
    possible: IntArray  # (possible,): which of them count
    own: FloatArray  # (possible, ratings): their slopes, in the order of the tree
    falls: Knapsacks  # of the possible, beside what moves all of them
    rises: Knapsacks


@njit(nogil=True, cache=True)
def _search(
    goal: _Goal, question: _Question, tree: Tree, most: float, first: bool, budget: int
) -> tuple[float, IntArray, int, bool]:
    """As `Searched`: the least effort up to `most`; where `first`, the first way that is found."""
    path = root(len(tree.counts))
    held = np.empty((len(tree.counts) + 1, len(question.possible)))
    copy_into(held[0], question.scores[question.possible])
    best, option, nodes = np.inf, path.picked.copy(), 0
    depth = forward(tree, path, 0, most)
    while depth >= 0:
        if nodes == budget:
            return best, option, nodes, False
        nodes += 1
        k, o = path.rating[depth], path.option[depth]
        effort = path.spent[depth] + tree.costs[k, o]
        for j in range(len(question.possible)):
            held[depth + 1, j] = held[depth, j] + question.own[j, k] * tree.moves[k, o]
        left = effort_left(most, effort)
        reached, possible = _look(goal, question, tree, path, held[depth + 1], k + 1, left)
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
def _look(
    goal: _Goal, question: _Question, tree: Tree, path: Path, values: FloatArray, start: int, left: float
) -> tuple[bool, bool]:
    """Whether the goal is reached at these values, and whether it may be with the ratings from `start` on."""
    if goal.kind == _LIKELY:
        return _look_at_chance(goal, tree, values, start, left)
    # Where it is a matter of ties which items are in the list, all scores decide by how much two of them are tied.
    chosen, sure = _highest(values, goal.n, goal.slack)
    if not sure:
        scores = question.scores + question.slope @ changes_of(tree, path)
        chosen = np.searchsorted(question.possible, first_items(scores, goal.n))
    return (True, True) if _holds(goal, chosen) else (False, _may_hold(goal, question, values, start, left))


@njit(nogil=True, cache=True)
def _look_at_chance(goal: _Goal, tree: Tree, leads: FloatArray, start: int, left: float) -> tuple[bool, bool]:
    missing = -log_chance(leads) - goal.limit
    if missing <= ROUNDING:
        return True, True
    ratings = tree.delta.shape[1]
    weight = np.exp(leads - leads.max())
    weight /= weight.sum()
    slopes = np.zeros((1, ratings))
    for k in range(start, ratings):
        slopes[0, k] = (weight * tree.delta[:, k]).sum()
    order, rate, fall = knapsacks(slopes, tree.moves, tree.costs, tree.counts)
    return False, farthest_fall(Knapsacks(order, rate, fall), 0, start, left) >= missing - goal.slack


@njit(nogil=True, cache=True)
def log_chance(leads: FloatArray) -> float:
    """The target's log-probability, where others lead by `leads` (items,), the target itself by 0, in units of beta."""
    top = leads.max()
    return float(-top - np.log(np.exp(leads - top).sum()))


@njit(nogil=True, cache=True)
def _highest(values: FloatArray, n: int, slack: float) -> tuple[IntArray, bool]:
    """(n,): the positions of the n highest, and whether none of the others may be tied with them."""
    order = descending(values)
    return order[:n], n == len(order) or values[order[n - 1]] - values[order[n]] > slack


@njit(nogil=True, cache=True)
def _may_hold(goal: _Goal, question: _Question, values: FloatArray, start: int, left: float) -> bool:
    """Whether a list below this node may be as it should: by which items must be in it and which can be."""
    n, items, genres = goal.n, *goal.weights.shape
    low, high = np.empty(items), np.empty(items)
    for j in range(items):
        low[j] = values[j] - farthest_fall(question.falls, j, start, left)
        high[j] = values[j] + farthest_fall(question.rises, j, start, left)
    entry = nth_highest(low, n) - goal.slack
    safe = nth_highest(high, n + 1) + goal.slack if items > n else -np.inf
    inside, can_be = low > safe, high >= entry
    places = n - inside.sum()
    most, least = np.zeros(genres), np.zeros(genres)
    others = np.flatnonzero(can_be & ~inside)
    for g in range(genres):
        own, more = goal.weights[inside, g].sum(), np.sort(goal.weights[others, g])
        most[g] = own + more[max(0, len(more) - places) :].sum()
        least[g] = own + more[: min(places, len(more))].sum()
    if goal.kind == _AT_LEAST:
        return bool(most[0] >= goal.limit - ROUNDING)
    if goal.kind == _AT_MOST:
        return bool(least[0] <= goal.limit + ROUNDING)
    return _least_divergence(least / n, most / n, goal.interests, goal.smoothing) <= goal.limit + ROUNDING


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
    copy_into(chosen[start:], np.sort(order[start : end + 1]))
    return chosen


@njit(nogil=True, cache=True)
def _holds(goal: _Goal, chosen: IntArray) -> bool:
    held = np.zeros(goal.weights.shape[1])
    for item in chosen:
        held += goal.weights[item]
    if goal.kind == _AT_LEAST:
        return bool(held[0] >= goal.limit - ROUNDING)
    if goal.kind == _AT_MOST:
        return bool(held[0] <= goal.limit + ROUNDING)
    return divergence_of(goal.interests, held / goal.n, goal.smoothing) <= goal.limit + ROUNDING


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
    low, high, whole = 0.0, shift, 0.0
    for g in range(len(p)):
        whole += most[g] if p[g] > 0 else 0.0
    if whole <= 1:
        return divergence_of(p, most, smoothing)
    for g in range(len(p)):
        if p[g] > 0:
            high = max(high, shift + most[g] / p[g])  # everything at its upper limit
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

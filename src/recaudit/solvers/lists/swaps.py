"""Lists made better by exchanging one item at a time: what the greedy chose early may not suit the list as a whole.

With S and W of the whole list, an item in place r is worth its value at rank r (see `kernel`) to the list
without it, and so is every item outside. A place is given to another item, or two places exchange their items, as long
as the objective of Equation 6 rises.

A sum over the categories only falls as a list grows. So the value of an item outside, to the list without the item in
place r, is at most its value to the whole list plus what the categories of the leaving item may add: most places are
settled without looking at any item.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.lists import kernel
from recaudit.solvers.lists.kernel import NOT_FINITE, ListState
from recaudit.solvers.lists.objective import CategoryVectors, ListObjective, ListUsers

_MOST = 20
"""Exchanges in a list, after which it is left as it is: lists of 50 out of 21,000 items take up to 40, of which the
first 20 bring nine tenths of the rise, in half of the time."""


@njit(nogil=True, cache=True)
def make_lists(
    users: ListUsers,
    vectors: CategoryVectors,
    objective: ListObjective,
    exchange: bool,
    lists: IntArray,
    evaluations: IntArray,
) -> None:
    """Fill in `lists` (users, n), which holds -1, and `evaluations` (users,): how many sums were computed.

    With `exchange` it is the greedy list or the one by score alone, whichever is better, then exchanges: all weights of
    the objective are the same then, and so are all totals. Caps hold, and what must be in the list stays. What comes in
    takes the place of what goes.
    """
    scores, allowed, must, interests, ties = users
    weights, rank_weights, totals, importance, alpha, caps = objective
    by_score = ListObjective(np.zeros(len(totals)), rank_weights, totals, importance, alpha, caps)
    plain = np.empty(len(totals), dtype=np.int64)
    for row in range(len(scores)):
        # In double precision, whatever the scores are in: the kernels are compiled for that alone.
        score, chosen, due = scores[row].astype(np.float64), lists[row], must[min(row, len(must) - 1)]
        state = kernel.new_state(score, allowed[row], due, interests[row], ties, row, vectors)
        if state.largest == np.inf:
            evaluations[row] = NOT_FINITE
            continue
        evaluations[row] = kernel.fill(vectors, objective, state, chosen)
        if not exchange:
            continue
        other = kernel.new_state(score, allowed[row], due, interests[row], ties, row, vectors)
        plain[:] = -1
        kernel.fill(vectors, by_score, other, plain)
        length = (chosen >= 0).sum()
        total = rank_weights[:length].sum()
        own = ListObjective(weights, rank_weights[:length], np.full(length, total), importance, alpha, caps)
        greedy, straight = _worth(chosen, own, state), _worth(plain, own, other)
        # Tied, as where both hold the same items: the one in the order of the scores.
        if length == (plain >= 0).sum() and straight >= greedy - _rise(greedy, weights[0], state.largest):
            copy_into(chosen, plain)
            state = other
        # What a cap has closed gets its best item outside the list again: an exchange may make room.
        for vector in range(len(state.closed)):
            if state.closed[vector]:
                state.closed[vector] = False
                state.best[vector] = kernel.next_best(vector, vectors, state)
        _improve(vectors, own, state, chosen[:length])


@njit(nogil=True, cache=True)
def _worth(chosen: IntArray, objective: ListObjective, state: ListState) -> float:
    """The objective of a list but for what all lists of its length have in common."""
    weight, alpha, p = objective.weights[0], objective.alpha, state.p
    relevance, sums = 0.0, 0.0
    if len(objective.totals) == 0:
        return 0.0
    for place in range(len(objective.totals)):
        relevance += state.score[chosen[place]]
    for g in range(len(p)):
        if p[g] > 0:
            smoothed = (1 - alpha) * state.held[g] + alpha * objective.totals[0] * p[g]
            sums += objective.importance[g] * p[g] * math.log(smoothed)
    return float((1 - weight) * relevance + weight * sums)


@njit(nogil=True, cache=True)
def _improve(vectors: CategoryVectors, objective: ListObjective, state: ListState, chosen: IntArray) -> None:
    """Exchange until nothing helps; `chosen` (places,) are the items, `state` is that of the list."""
    n, weight, w = len(chosen), objective.weights[0], objective.rank_weights
    equal = n == 0 or w[0] == w[-1]
    capped = bool((objective.caps < n).any())
    tops, logs = np.empty(len(state.ceiling)), np.empty(len(state.logs))
    first_term = np.searchsorted(vectors.term_genre, np.arange(len(objective.caps) + 1))
    settled, stamp, left, known = 0, 0, _MOST, False
    # Not 0: numba would compile what it is handed to for that constant, and once more.
    place: Any = np.int64(0)
    kernel.weigh(weight, state)
    while settled < n and left > 0:
        if not known:
            if capped:
                kernel.weigh(weight, state)
            _weigh_all(vectors, objective, state, tops)
            copy_into(logs, state.logs)
            known = True
        item, came, other = chosen[place], -1, -1
        if not state.due[item]:
            stamp += 1
            copy_into(state.logs, logs)
            came = _better(place, stamp, equal, item, capped, first_term, vectors, objective, state, tops)
        if came >= 0:
            state.free[item], state.free[came] = True, False
            chosen[place] = came
            _hold(item, w[place], -1, vectors, state)
            _hold(came, w[place], 1, vectors, state)
            for changed in (vectors.vector_of[item], vectors.vector_of[came]):
                kernel.put(changed, kernel.next_best(changed, vectors, state), weight, state)
        elif not equal:
            other = _better_place(place, chosen, vectors, objective, state)
            if other >= 0:
                _move(vectors.vector_of[item], w[other] - w[place], vectors, state.held)
                _move(vectors.vector_of[chosen[other]], w[place] - w[other], vectors, state.held)
                chosen[place], chosen[other] = chosen[other], item
        if came >= 0 or other >= 0:
            settled, left, known = 0, left - 1, False
        else:
            settled += 1
        place = (place + 1) % n


@njit(nogil=True, cache=True)
def _weigh_all(vectors: CategoryVectors, objective: ListObjective, state: ListState, tops: FloatArray) -> None:
    """Into `tops` (blocks,): no vector of the block adds more to the whole list, at any place; logarithms for it."""
    term_genre, term_share = vectors.term_genre, vectors.term_share
    weights, rank_weights, totals, importance, alpha, _ = objective
    p, held, logs, base, values = state.p, state.held, state.logs, state.base, state.values
    for term in range(len(term_genre)):
        g = term_genre[term]
        logs[term] = kernel.gain(term_share[term], p[g], importance[g], held[g], rank_weights[0], totals[0], alpha)
    for block in range(len(tops)):
        tops[block] = kernel.evaluate(block, weights[0], vectors.block_indptr, vectors.block_terms, logs, base, values)


@njit(nogil=True, cache=True)
def _better(
    place: int,
    stamp: int,
    equal: bool,
    item: int,
    capped: bool,
    first_term: IntArray,
    vectors: CategoryVectors,
    objective: ListObjective,
    state: ListState,
    tops: FloatArray,
) -> int:
    """The item outside that is worth most in this place, -1 if it is not worth more than the one that is there.

    `state.logs` are those of the whole list; with equal rank weights only those of the leaving item's genres change.
    """
    weight, w, first = objective.weights[0], objective.rank_weights[place], objective.rank_weights[0]
    vector, total, alpha = vectors.vector_of[item], objective.totals[0], objective.alpha
    more, worth = 0.0, 0.0
    _hold(item, w, -1, vectors, state)
    for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
        g, share = vectors.term_genre[vectors.terms[at]], vectors.term_share[vectors.terms[at]]
        p, m, held = state.p[g], objective.importance[g], state.held[g]
        worth += kernel.gain(share, p, m, held, w, total, alpha)
        # Of any share of this genre, without the item and with it: the difference is largest for the whole of an item.
        more += kernel.gain(1.0, p, m, held, first, total, alpha)
        more -= kernel.gain(1.0, p, m, held + w * share, first, total, alpha)
    worth = (1 - weight) * state.score[item] + weight * worth
    floor = worth + _rise(worth, weight, state.largest)
    came = -1
    if tops.max() + weight * more >= floor:
        if capped:
            _keep_within_caps(vectors, objective, state)
        if equal:
            for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
                g = vectors.term_genre[vectors.terms[at]]
                p, m, held = state.p[g], objective.importance[g], state.held[g]
                for term in range(first_term[g], first_term[g + 1]):
                    state.logs[term] = kernel.gain(vectors.term_share[term], p, m, held, w, total, alpha)
        for block in range(len(tops)):
            state.ceiling[block] = tops[block] + weight * more
        came, _ = kernel.winner(place, stamp, equal, floor, vectors, objective, state)
    _hold(item, w, 1, vectors, state)
    return came


@njit(nogil=True, cache=True)
def _rise(value: float, weight: float, largest: float) -> float:
    """What an exchange has to add: more than a tie of either side, and than rounding does to sums of order one."""
    return 2 * max(kernel.tied(value, weight, largest), 1e-12)


@njit(nogil=True, cache=True)
def _keep_within_caps(vectors: CategoryVectors, objective: ListObjective, state: ListState) -> None:
    """Leave out the vectors that a cap has no room for."""
    weight, score = objective.weights[0], state.score
    for vector in range(len(vectors.indptr) - 1):
        item = state.best[vector]
        fits = item >= 0
        for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            g = vectors.term_genre[vectors.terms[at]]
            fits &= state.used[g] < objective.caps[g]
        state.base[vector] = (1 - weight) * score[item] if fits else -np.inf


@njit(nogil=True, cache=True)
def _better_place(
    place: int, chosen: IntArray, vectors: CategoryVectors, objective: ListObjective, state: ListState
) -> int:
    """The place with whose item this one's should change places, -1 if none: of use where places weigh unequally."""
    weight, alpha, p, m = objective.weights[0], objective.alpha, state.p, objective.importance
    moved = np.zeros(len(p))
    best, highest = -1, 0.0
    for other in range(len(chosen)):
        step = objective.rank_weights[other] - objective.rank_weights[place]
        own, theirs = vectors.vector_of[chosen[place]], vectors.vector_of[chosen[other]]
        if step == 0 or own == theirs:
            continue
        _move(own, step, vectors, moved)
        _move(theirs, -step, vectors, moved)
        rise, size = 0.0, 0.0
        for g in range(len(moved)):
            if moved[g] != 0 and p[g] > 0:
                before = (1 - alpha) * state.held[g] + alpha * objective.totals[0] * p[g]
                change = math.log1p((1 - alpha) * moved[g] / before)
                rise += m[g] * p[g] * change
                size += m[g] * p[g] * abs(change)
            moved[g] = 0.0
        if weight * rise > highest + _rise(size, weight, state.largest):
            best, highest = other, weight * rise
    return best


@njit(nogil=True, cache=True)
def _hold(item: int, w: float, sign: int, vectors: CategoryVectors, state: ListState) -> None:
    """Count an item of weight w in, or with sign -1 out."""
    vector = vectors.vector_of[item]
    _move(vector, sign * w, vectors, state.held)
    for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
        g = vectors.term_genre[vectors.terms[at]]
        state.used[g] += sign
        state.held[g] = max(state.held[g], 0.0)  # a difference of rounded sums may be below 0


@njit(nogil=True, cache=True)
def _move(vector: int, w: float, vectors: CategoryVectors, held: FloatArray) -> None:
    """Add w times a vector to `held` (genres,)."""
    for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
        term = vectors.terms[at]
        held[vectors.term_genre[term]] += w * vectors.term_share[term]

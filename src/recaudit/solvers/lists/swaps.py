"""Lists made better by exchanging one item at a time: what the greedy chose early may not suit the list as a whole.

With S and W of the whole list, an item in place r is worth its value at rank r (see `calibrated_kernel`) to the list
without it, and so is every item outside. A place is given to another item, or two places exchange their items, as long
as the objective of Equation 6 rises.

A sum over the categories only falls as a list grows. So the value of an item outside, to the list without the item in
place r, is at most its value to the whole list plus what the categories of the leaving item may add: most places are
settled without looking at any item.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.lists.kernel import (
    NOT_FINITE,
    Scores,
    Setting,
    State,
    User,
    best_of_each_vector,
    evaluate,
    fill,
    gain,
    new_state,
    next_best,
    put,
    tied,
    weigh,
    winner,
)

if TYPE_CHECKING:
    from recaudit.solvers.lists.category_vectors import CategoryVectors

_MOST = 20
"""Exchanges in a list, after which it is left as it is: lists of 50 out of 21,000 items take up to 40, of which the
first 20 bring nine tenths of the rise, in half of the time."""


@njit(nogil=True, cache=True)
def whole_lists(
    scores: Scores,
    allowed: BoolArray,
    must: BoolArray,
    interests: FloatArray,
    vectors: CategoryVectors,
    setting: Setting,
    lists: IntArray,
    evaluations: IntArray,
) -> None:
    """Fill in `lists` (users, n): the greedy list or the one by score alone, whichever is better, then exchanges.

    The arguments are those of `greedy_lists`; all weights of `setting` are the same, and so are all totals. Caps hold,
    and what must be in the list stays. What comes in takes the place of what goes.
    """
    weights, rank_weights, totals, importance, alpha, caps = setting
    by_score = Setting(np.zeros(len(totals)), rank_weights, totals, importance, alpha, caps)
    plain = np.empty(len(totals), dtype=np.int64)
    for row in range(len(scores)):
        chosen, due = lists[row], must[min(row, len(must) - 1)]
        best, largest = best_of_each_vector(scores[row], allowed[row], vectors)
        if largest == np.inf:
            evaluations[row] = NOT_FINITE
            continue
        user = User(scores[row], allowed[row].copy(), due, interests[row], largest)
        state = new_state(best, vectors, len(importance))
        evaluations[row] = fill(user, vectors, setting, state, chosen)
        other = User(scores[row], allowed[row].copy(), due, interests[row], largest)
        other_state = new_state(best, vectors, len(importance))
        plain[:] = -1
        fill(other, vectors, by_score, other_state, plain)
        length = (chosen >= 0).sum()
        total = rank_weights[:length].sum()
        own = Setting(weights, rank_weights[:length], np.full(length, total), importance, alpha, caps)
        greedy, straight = _worth(chosen, user, own, state), _worth(plain, other, own, other_state)
        # Tied, as where both hold the same items: the one in the order of the scores.
        if length == (plain >= 0).sum() and straight >= greedy - _rise(greedy, weights[0], largest):
            chosen[:], user, state = plain, other, other_state
        _reopen(user, vectors, state)
        _improve(user, vectors, own, state, chosen[:length])


@njit(nogil=True, cache=True)
def _worth(chosen: IntArray, user: User, setting: Setting, state: State) -> float:
    """The objective of a list but for what all lists of its length have in common."""
    weight, alpha = setting.weights[0], setting.alpha
    relevance, sums = 0.0, 0.0
    if len(setting.totals) == 0:
        return 0.0
    for place in range(len(setting.totals)):
        relevance += user.score[chosen[place]]
    for g in range(len(user.p)):
        if user.p[g] > 0:
            smoothed = (1 - alpha) * state.held[g] + alpha * setting.totals[0] * user.p[g]
            sums += setting.importance[g] * user.p[g] * math.log(smoothed)
    return float((1 - weight) * relevance + weight * sums)


@njit(nogil=True, cache=True)
def _reopen(user: User, vectors: CategoryVectors, state: State) -> None:
    """Give vectors that a cap has closed their best item outside the list again: an exchange may make room."""
    for vector in range(len(state.closed)):
        if state.closed[vector]:
            state.closed[vector] = False
            state.best[vector] = next_best(vector, user, vectors, state)


@njit(nogil=True, cache=True)
def _improve(user: User, vectors: CategoryVectors, setting: Setting, state: State, chosen: IntArray) -> None:
    """Exchange until nothing helps; `chosen` (places,) are the items, `state` is that of the list."""
    n, weight = len(chosen), setting.weights[0]
    equal = n == 0 or setting.rank_weights[0] == setting.rank_weights[-1]
    capped = False
    for genre in range(len(setting.caps)):
        capped |= setting.caps[genre] < n
    tops, logs = np.empty(len(state.ceiling)), np.empty(len(state.logs))
    first_term = np.searchsorted(vectors.term_genre, np.arange(len(setting.caps) + 1))
    settled, place, stamp, left, known = 0, 0, 0, _MOST, False
    weigh(weight, user.score, state.best, state.base)
    while settled < n and left > 0:
        if not known:
            if capped:
                weigh(weight, user.score, state.best, state.base)
            _weigh_all(user, vectors, setting, state, tops)
            logs[:], known = state.logs, True
        item, came, other = chosen[place], -1, -1
        if not user.due[item]:
            stamp += 1
            state.logs[:] = logs
            came = _better(place, stamp, equal, item, capped, first_term, user, vectors, setting, state, tops)
        if came >= 0:
            user.free[item], user.free[came] = True, False
            chosen[place] = came
            _hold(item, setting.rank_weights[place], -1, vectors, state)
            _hold(came, setting.rank_weights[place], 1, vectors, state)
            for changed in (vectors.vector_of[item], vectors.vector_of[came]):
                put(changed, next_best(changed, user, vectors, state), weight, user, state)
        elif not equal:
            other = _better_place(place, chosen, user, vectors, setting, state)
            if other >= 0:
                _exchange(place, other, chosen, vectors, setting, state)
        if came >= 0 or other >= 0:
            settled, left, known = 0, left - 1, False
        else:
            settled += 1
        place = (place + 1) % n


@njit(nogil=True, cache=True)
def _weigh_all(user: User, vectors: CategoryVectors, setting: Setting, state: State, tops: FloatArray) -> None:
    """Into `tops` (blocks,): no vector of the block adds more to the whole list, at any place; logarithms for it."""
    _, _, _, term_genre, term_share, _, _, block_indptr, block_terms, _ = vectors
    weights, rank_weights, totals, importance, alpha, _ = setting
    _, base, _, _, _, held, logs, _, values = state
    p = user.p
    for term in range(len(term_genre)):
        g = term_genre[term]
        logs[term] = gain(term_share[term], p[g], importance[g], held[g], rank_weights[0], totals[0], alpha)
    for block in range(len(tops)):
        tops[block] = evaluate(block, weights[0], block_indptr, block_terms, logs, base, values)


@njit(nogil=True, cache=True)
def _better(
    place: int,
    stamp: int,
    equal: bool,
    item: int,
    capped: bool,
    first_term: IntArray,
    user: User,
    vectors: CategoryVectors,
    setting: Setting,
    state: State,
    tops: FloatArray,
) -> int:
    """The item outside that is worth most in this place, -1 if it is not worth more than the one that is there.

    `state.logs` are those of the whole list; with equal rank weights only those of the leaving item's genres change.
    """
    weight, w, first = setting.weights[0], setting.rank_weights[place], setting.rank_weights[0]
    vector, total = vectors.vector_of[item], setting.totals[0]
    more, worth = 0.0, 0.0
    _hold(item, w, -1, vectors, state)
    for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
        g, share = vectors.term_genre[vectors.terms[at]], vectors.term_share[vectors.terms[at]]
        p, m, held = user.p[g], setting.importance[g], state.held[g]
        worth += gain(share, p, m, held, w, total, setting.alpha)
        # Of any share of this genre, without the item and with it: the difference is largest for the whole of an item.
        more += gain(1.0, p, m, held, first, total, setting.alpha)
        more -= gain(1.0, p, m, held + w * share, first, total, setting.alpha)
    worth = (1 - weight) * user.score[item] + weight * worth
    floor = worth + _rise(worth, weight, user.largest)
    came = -1
    if tops.max() + weight * more >= floor:
        if capped:
            _keep_within_caps(user, vectors, setting, state)
        if equal:
            for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
                g = vectors.term_genre[vectors.terms[at]]
                for term in range(first_term[g], first_term[g + 1]):
                    share = vectors.term_share[term]
                    p, m, held = user.p[g], setting.importance[g], state.held[g]
                    state.logs[term] = gain(share, p, m, held, w, total, setting.alpha)
        state.ceiling[:] = tops + weight * more
        came, _ = winner(place, stamp, equal, floor, user, vectors, setting, state)
    _hold(item, w, 1, vectors, state)
    return came


@njit(nogil=True, cache=True)
def _rise(value: float, weight: float, largest: float) -> float:
    """What an exchange has to add: more than a tie of either side, and than rounding does to sums of order one."""
    return 2 * max(tied(value, weight, largest), 1e-12)


@njit(nogil=True, cache=True)
def _keep_within_caps(user: User, vectors: CategoryVectors, setting: Setting, state: State) -> None:
    """Leave out the vectors that a cap has no room for."""
    weight = setting.weights[0]
    for vector in range(len(vectors.indptr) - 1):
        item = state.best[vector]
        fits = item >= 0
        for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            g = vectors.term_genre[vectors.terms[at]]
            fits &= state.used[g] < setting.caps[g]
        state.base[vector] = (1 - weight) * user.score[item] if fits else -np.inf


@njit(nogil=True, cache=True)
def _better_place(
    place: int, chosen: IntArray, user: User, vectors: CategoryVectors, setting: Setting, state: State
) -> int:
    """The place with whose item this one's should change places, -1 if none: of use where places weigh unequally."""
    moved = np.zeros(len(user.p))
    best, highest = -1, 0.0
    for other in range(len(chosen)):
        step = setting.rank_weights[other] - setting.rank_weights[place]
        own, theirs = vectors.vector_of[chosen[place]], vectors.vector_of[chosen[other]]
        if step == 0 or own == theirs:
            continue
        _move(own, step, vectors, moved)
        _move(theirs, -step, vectors, moved)
        rise, size = 0.0, 0.0
        for g in range(len(moved)):
            if moved[g] != 0 and user.p[g] > 0:
                before = (1 - setting.alpha) * state.held[g] + setting.alpha * setting.totals[0] * user.p[g]
                change = math.log1p((1 - setting.alpha) * moved[g] / before)
                rise += setting.importance[g] * user.p[g] * change
                size += setting.importance[g] * user.p[g] * abs(change)
            moved[g] = 0.0
        if setting.weights[0] * rise > highest + _rise(size, setting.weights[0], user.largest):
            best, highest = other, setting.weights[0] * rise
    return best


@njit(nogil=True, cache=True)
def _exchange(
    place: int, other: int, chosen: IntArray, vectors: CategoryVectors, setting: Setting, state: State
) -> None:
    step = setting.rank_weights[other] - setting.rank_weights[place]
    _move(vectors.vector_of[chosen[place]], step, vectors, state.held)
    _move(vectors.vector_of[chosen[other]], -step, vectors, state.held)
    chosen[place], chosen[other] = chosen[other], chosen[place]


@njit(nogil=True, cache=True)
def _hold(item: int, w: float, sign: int, vectors: CategoryVectors, state: State) -> None:
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

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

from recaudit.solvers.calibrated_kernel import (
    BoolArray,
    FloatArray,
    IntArray,
    Scores,
    Setting,
    State,
    User,
    best_of_each_vector,
    evaluate,
    gain,
    new_state,
    next_best,
    put,
    tied,
    winner,
)

if TYPE_CHECKING:
    from recaudit.solvers.category_vectors import CategoryVectors

_MOST = 4
"""Exchanges for each place of a list, after which it is left as it is."""


@njit(nogil=True, cache=True)
def swap_lists(
    scores: Scores,
    allowed: BoolArray,
    must: BoolArray,
    interests: FloatArray,
    vectors: CategoryVectors,
    setting: Setting,
    lists: IntArray,
) -> None:
    """Exchange items of `lists` (users, n) while their objective rises; what comes in takes the place of what goes.

    The arguments are those of `greedy_lists`; all weights of `setting` are the same. Caps hold, and what must be in the
    list stays.
    """
    for row in range(len(scores)):
        chosen = lists[row][lists[row] >= 0]
        w = setting.rank_weights[: len(chosen)]
        own = Setting(
            setting.weights, w, np.full(len(chosen), w.sum()), setting.importance, setting.alpha, setting.caps
        )
        free = allowed[row].copy()
        free[chosen] = False
        state = new_state(vectors, len(setting.importance))
        largest = best_of_each_vector(scores[row], free, vectors.vector_of, state.best)
        for item in chosen:
            largest = max(largest, abs(scores[row][item]))
        user = User(scores[row], free, must[min(row, len(must) - 1)], interests[row], largest)
        _improve(user, vectors, own, state, chosen)
        lists[row, : len(chosen)] = chosen


@njit(nogil=True, cache=True)
def _improve(user: User, vectors: CategoryVectors, setting: Setting, state: State, chosen: IntArray) -> None:
    """Exchange until nothing helps; `chosen` (places,) are the items, `state.best` the best of each vector outside."""
    n, weight = len(chosen), setting.weights[0]
    equal = n == 0 or setting.rank_weights[0] == setting.rank_weights[-1]
    capped = False
    for place in range(n):
        _hold(chosen[place], setting.rank_weights[place], 1, vectors, state)
    for genre in range(len(setting.caps)):
        capped |= setting.caps[genre] < n
    tops = np.empty(len(state.ceiling))
    settled, place, stamp, left = 0, n - 1, 0, _MOST * n
    known = False
    while settled < n and left > 0:
        if not known:
            stamp += 1
            _weigh_all(stamp, user, vectors, setting, state, tops)
            known = True
        item = chosen[place]
        came = -1
        if not user.due[item]:
            stamp += 1
            came = _better(place, stamp, item, capped, user, vectors, setting, state, tops)
        if came < 0 and not equal:
            other = _better_place(place, chosen, user, vectors, setting, state)
            if other >= 0:
                _exchange(place, other, chosen, vectors, setting, state)
                settled, left, known = 0, left - 1, False
                continue
        if came < 0:
            settled += 1
        else:
            user.free[item], user.free[came] = True, False
            chosen[place] = came
            _hold(item, setting.rank_weights[place], -1, vectors, state)
            _hold(came, setting.rank_weights[place], 1, vectors, state)
            for changed in (vectors.vector_of[item], vectors.vector_of[came]):
                put(changed, next_best(changed, user, vectors, state), weight, user, state)
            settled, left, known = 0, left - 1, False
        place = place - 1 if place else n - 1


@njit(nogil=True, cache=True)
def _weigh_all(
    stamp: int, user: User, vectors: CategoryVectors, setting: Setting, state: State, tops: FloatArray
) -> None:
    """Into `tops` (blocks,): no vector of the block adds more to the whole list, at any place."""
    for term in range(len(vectors.term_genre)):
        g = vectors.term_genre[term]
        state.logs[term] = gain(
            vectors.term_share[term],
            user.p[g],
            setting.importance[g],
            state.held[g],
            setting.rank_weights[0],
            setting.totals[0],
            setting.alpha,
        )
        state.logs_stamp[term] = stamp
    for vector in range(len(state.best)):
        item = state.best[vector]
        state.base[vector] = (1 - setting.weights[0]) * user.score[item] if item >= 0 else -np.inf
    for block in range(len(tops)):
        tops[block] = evaluate(
            block,
            setting.weights[0],
            vectors.block_indptr,
            vectors.block_terms,
            state.logs,
            state.base,
            state.values,
        )


@njit(nogil=True, cache=True)
def _better(
    place: int,
    stamp: int,
    item: int,
    capped: bool,
    user: User,
    vectors: CategoryVectors,
    setting: Setting,
    state: State,
    tops: FloatArray,
) -> int:
    """The item outside that is worth most in this place, -1 if it is not worth more than the one that is there."""
    weight, w = setting.weights[0], setting.rank_weights[place]
    vector = vectors.vector_of[item]
    more, worth = 0.0, 0.0
    _hold(item, w, -1, vectors, state)
    for at in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
        term = vectors.terms[at]
        g, share = vectors.term_genre[term], vectors.term_share[term]
        p, m, held, total = user.p[g], setting.importance[g], state.held[g], setting.totals[0]
        worth += gain(share, p, m, held, w, total, setting.alpha)
        # Of a term of this genre, with or without the item: the difference is largest for the largest share.
        first = setting.rank_weights[0]
        more += gain(1.0, p, m, held, first, total, setting.alpha)
        more -= gain(1.0, p, m, held + w * share, first, total, setting.alpha)
    worth = (1 - weight) * user.score[item] + weight * worth
    floor = worth + _rise(worth, weight, user.largest)
    came = -1
    if tops.max() + weight * more >= floor:
        if capped:
            _keep_within_caps(user, vectors, setting, state)
        state.ceiling[:] = tops + weight * more
        came, _, _ = winner(place, stamp, floor, user, vectors, setting, state)
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
    """The place whose item this one should exchange places with; -1 if none. It matters where places weigh unequally."""
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

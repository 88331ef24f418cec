"""The greedy of paper 004, Equation 6, over a whole catalogue, without looking at most of it.

Everything that differs between candidates is, with weights w_n (not rising in the rank n), S_g = sum of w p(g|i) over
the list so far and W_n = w_1 + ... + w_n,

    (1 - lambda) s_i + lambda sum_g m_g p_g log(1 + (1 - alpha) w_n p(g|i) / ((1 - alpha) S_g + alpha W_n p_g)).

Three facts make it quick. Items with the same categories differ in score alone, so that only the best unused one of
each distinct category vector can win. The sum's terms depend on the genre and the share alone, of which there are few:
each is computed once a rank, however many vectors have it. And the sum only falls as the list grows, so that a value
from an earlier rank is an upper bound (Minoux's lazy greedy): kept for blocks of similar vectors, because at a
calibrated list all genres are worth nearly the same, and a queue of single vectors would re-evaluate many of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.ties import TIE

if TYPE_CHECKING:
    from recaudit.solvers.lists.category_vectors import CategoryVectors

IndexArray = NDArray[np.int32]
Scores = NDArray[np.float64] | NDArray[np.float32]

LANES = 16
"""Vectors that are evaluated side by side: more fill the processor's registers better, fewer waste less."""

NOT_FINITE = -1
"""In place of a number of evaluations: a score is NaN or infinite."""

_SLACK = 1e-12
"""How far, relative to its size, rounding may lift a value above an earlier one."""


class Setting(NamedTuple):
    """What is asked for, the same for every user; n is the length of the lists."""

    weights: FloatArray
    """(n,): lambda at each rank."""
    rank_weights: FloatArray
    """(n,): w, not rising."""
    totals: FloatArray
    """(n,): W at each rank, not falling."""
    importance: FloatArray
    """(genres,): m, the weight of the genre's category system."""
    alpha: float
    caps: IntArray
    """(genres,): how many items of a genre a list may have."""


class User(NamedTuple):
    """Whose list is made."""

    score: Scores
    free: BoolArray
    """(items,): what may be in the list and is not yet."""
    due: BoolArray
    """(items,): what must be."""
    p: FloatArray
    largest: float
    """The largest absolute score of what may be in the list."""


class State(NamedTuple):
    """Where a list stands; vectors are padded to full blocks."""

    best: IndexArray
    """(vectors,): the best unused item; -1 without any."""
    base: FloatArray
    """(vectors,): (1 - lambda) s of it, -inf without any: lambda may be 1."""
    ceiling: FloatArray
    """(blocks,): no vector of the block has a higher value."""
    closed: BoolArray
    """(vectors,): only items that must be in the list are left."""
    used: IntArray
    """(genres,): places that are taken, or kept for items that must be in the list."""
    held: FloatArray
    """(genres,): S."""
    logs: FloatArray
    """(terms + 1,): what a term adds to the sum. The last is 0: for vectors with fewer terms than their block."""
    logs_stamp: IndexArray
    """(terms + 1,): the stamp that a log is from."""
    values: FloatArray
    """(vectors,): as of when the block was looked at last."""


@njit(nogil=True, cache=True)
def greedy_lists(
    scores: Scores,
    allowed: BoolArray,
    must: BoolArray,
    interests: FloatArray,
    vectors: CategoryVectors,
    setting: Setting,
    lists: IntArray,
    evaluations: IntArray,
) -> None:
    """Fill in `lists` (users, n), which holds -1, and `evaluations` (users,): how many sums were computed.

    `scores`, `allowed` (users, items); `must` (users, items), or (1, items) for the same in every list; `interests`
    (users, genres): p. Items that must be in the list are there whatever the caps, and count. Of tied values the one
    with the higher score wins, of tied scores the item that comes first (`recaudit.ties`).
    """
    for user in range(len(scores)):
        due = must[min(user, len(must) - 1)]
        best, largest = best_of_each_vector(scores[user], allowed[user], vectors)
        if largest == np.inf:
            evaluations[user] = NOT_FINITE
            continue
        asked = User(scores[user], allowed[user].copy(), due, interests[user], largest)
        state = new_state(best, vectors, len(setting.importance))
        evaluations[user] = fill(asked, vectors, setting, state, lists[user])


@njit(nogil=True, cache=True)
def new_state(best: IndexArray, vectors: CategoryVectors, genres: int) -> State:
    """Nothing chosen, nothing known but the best item of each vector."""
    blocks, terms = len(vectors.block_indptr) - 1, len(vectors.term_genre)
    return State(
        best.copy(),
        np.full(blocks * LANES, -np.inf),
        np.full(blocks, np.inf),
        np.zeros(len(vectors.indptr) - 1, dtype=np.bool_),
        np.zeros(genres, dtype=np.int64),
        np.zeros(genres),
        np.zeros(terms + 1),
        np.full(terms + 1, -1, dtype=np.int32),
        np.empty(blocks * LANES),
    )


@njit(nogil=True, cache=True)
def fill(user: User, vectors: CategoryVectors, setting: Setting, state: State, chosen: IntArray) -> int:
    """One user's list into `chosen` (n,); how many sums were computed."""
    genres = len(user.p)
    due_left = _reserve(user.due, vectors, state.used)
    for genre in range(genres):
        if state.used[genre] >= setting.caps[genre]:
            _close(genre, setting.weights[0], user, vectors, state)
    evaluations = 0
    for rank in range(len(chosen)):
        weight, rank_weight = setting.weights[rank], setting.rank_weights[rank]
        if due_left == len(chosen) - rank:
            _close(-1, weight, user, vectors, state)
        if rank == 0 or weight != setting.weights[rank - 1]:
            state.ceiling[:] = np.inf
            weigh(weight, user.score, state.best, state.base)
        # Without a weight nothing depends on the logarithms.
        item, evaluated = winner(rank, rank, weight == 0, -np.inf, user, vectors, setting, state)
        evaluations += evaluated
        if item < 0:
            break
        chosen[rank], vector = item, vectors.vector_of[item]
        user.free[item] = False
        put(vector, next_best(vector, user, vectors, state), weight, user, state)
        if user.due[item]:
            due_left -= 1
        for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            genre = vectors.term_genre[vectors.terms[place]]
            state.held[genre] += rank_weight * vectors.term_share[vectors.terms[place]]
            if not user.due[item]:
                state.used[genre] += 1
                if state.used[genre] == setting.caps[genre]:
                    _close(genre, weight, user, vectors, state)
    return evaluations


@njit(nogil=True, cache=True)
def winner(
    rank: int,
    stamp: int,
    ready: bool,
    floor: float,
    user: User,
    vectors: CategoryVectors,
    setting: Setting,
    state: State,
) -> tuple[int, int]:
    """The item with the highest value at this rank, and how many values were computed.

    -1 if no item is left, or none is above `floor`. `stamp` is another number whenever `held` is another; `ready` says
    that the logarithms are there already. Ceilings are lowered to what was found.
    """
    # Unpacked once: taking an array out of a tuple counts references, which costs more than what is done with it.
    _, _, _, term_genre, term_share, _, _, block_indptr, block_terms, _ = vectors
    weights, rank_weights, totals, importance, alpha, _ = setting
    _, base, ceiling, closed, _, held, logs, logs_stamp, values = state
    _, _, _, p, largest = user
    weight, rank_weight, total = weights[rank], rank_weights[rank], totals[rank]
    # With more terms than vectors, most terms are of vectors that a rank does not look at.
    eager = len(term_genre) <= len(closed)
    if eager and not ready:
        for term in range(len(term_genre)):
            g = term_genre[term]
            logs[term] = gain(term_share[term], p[g], importance[g], held[g], rank_weight, total, alpha)
    start = int(np.argmax(ceiling))
    highest, evaluated = -np.inf, 0
    for step in range(-1, len(ceiling)):
        # The most promising one first: it leaves the fewest others to look at.
        block = start if step < 0 else step
        if ceiling[block] < floor or step == start:
            continue
        if not (eager or ready):
            for place in range(block_indptr[block] * LANES, block_indptr[block + 1] * LANES):
                term = block_terms[place]
                if term < len(term_genre) and logs_stamp[term] != stamp:
                    logs_stamp[term], g = stamp, term_genre[term]
                    logs[term] = gain(term_share[term], p[g], importance[g], held[g], rank_weight, total, alpha)
        ceiling[block] = evaluate(block, weight, block_indptr, block_terms, logs, base, values)
        evaluated += LANES
        if ceiling[block] > highest:
            highest = ceiling[block]
            floor = max(floor, highest - max(tied(highest, weight, largest), _SLACK * max(1.0, abs(highest))))
    if highest < floor or highest == -np.inf:
        return -1, evaluated
    floor = max(floor, highest - tied(highest, weight, largest))
    return _first_of_the_best(floor, user, vectors, state), evaluated


@njit(nogil=True, cache=True)
def _first_of_the_best(floor: float, user: User, vectors: CategoryVectors, state: State) -> int:
    """Of the items with values of at least `floor` those with the highest score, and of these the first.

    Whatever was not looked at has a ceiling below the floor.
    """
    best, _, ceiling, closed, _, _, _, _, values = state
    score, largest = user.score, user.largest
    top = -np.inf
    for block in range(len(ceiling)):
        if ceiling[block] >= floor:
            for vector in range(block * LANES, (block + 1) * LANES):
                if values[vector] >= floor:
                    top = max(top, score[best[vector]])
    item = len(score)
    for block in range(len(ceiling)):
        if ceiling[block] >= floor:
            for vector in range(block * LANES, (block + 1) * LANES):
                if values[vector] >= floor and score[best[vector]] >= top - TIE * largest:
                    item = min(item, _first_tied(vector, top - TIE * largest, user, vectors, closed[vector]))
    return item


@njit(nogil=True, cache=True)
def tied(value: float, weight: float, largest: float) -> float:
    """How far below the highest value another one is still tied with it."""
    return TIE * max(abs(value), (1 - weight) * largest)


@njit(nogil=True, cache=True)
def _first_tied(vector: int, level: float, user: User, vectors: CategoryVectors, closed: bool) -> int:
    """The first item of a vector, of those that are left, whose score reaches a level."""
    for item in vectors.members[vectors.member_indptr[vector] : vectors.member_indptr[vector + 1]]:
        if user.free[item] and user.score[item] >= level and (user.due[item] or not closed):
            return int(item)
    return len(user.score)


@njit(nogil=True, cache=True)
def gain(
    share: float, p: float, importance: float, held: float, rank_weight: float, total: float, alpha: float
) -> float:
    """What a share of a genre adds to the sum; 0 for a genre that the user has no interest in."""
    if p <= 0:
        return 0.0
    before = (1 - alpha) * held + alpha * total * p
    return importance * p * math.log1p((1 - alpha) * rank_weight * share / before)


@njit(nogil=True, cache=True)
def evaluate(
    block: int,
    weight: float,
    block_indptr: IndexArray,
    block_terms: NDArray[np.uint32],
    logs: FloatArray,
    base: FloatArray,
    values: FloatArray,
) -> float:
    """The value of each vector of a block, into `values` (vectors,), and the highest."""
    first = np.uint64(block * LANES)
    for lane in range(np.uint64(LANES)):
        values[first + lane] = 0.0
    for row in range(np.uint64(block_indptr[block]), np.uint64(block_indptr[block + 1])):
        for lane in range(np.uint64(LANES)):
            values[first + lane] += logs[block_terms[np.uint64(row * np.uint64(LANES) + lane)]]
    highest = -np.inf
    for lane in range(np.uint64(LANES)):
        values[first + lane] = base[first + lane] + weight * values[first + lane]
    for lane in range(np.uint64(LANES)):
        highest = max(highest, values[first + lane])
    return highest


@njit(nogil=True, cache=True)
def best_of_each_vector(score: Scores, free: BoolArray, vectors: CategoryVectors) -> tuple[IndexArray, float]:
    """(vectors,): the first of the highest-scored allowed items of each vector, -1 without any.

    And the largest absolute score of an allowed item; infinite where one of them is NaN or infinite.
    """
    vector_of = vectors.vector_of
    best = np.full((len(vectors.block_indptr) - 1) * LANES, -1, dtype=np.int32)
    top = np.full(len(best), -np.inf, dtype=score.dtype)
    finite, largest = True, 0.0
    for item in range(len(score)):
        vector, size = vector_of[item], abs(score[item])
        finite &= size < np.inf or not free[item]
        if free[item]:
            largest = max(largest, size)
        if score[item] > top[vector] and free[item]:
            best[vector], top[vector] = item, score[item]
    return best, largest if finite else np.inf


@njit(nogil=True, cache=True)
def _reserve(due: BoolArray, vectors: CategoryVectors, used: IntArray) -> int:
    """Count the items of each genre (genres,) that must be in the list; how many items must be."""
    due_left = 0
    for item in range(len(due)):
        if due[item]:
            due_left += 1
            vector = vectors.vector_of[item]
            for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
                used[vectors.term_genre[vectors.terms[place]]] += 1
    return due_left


@njit(nogil=True, cache=True)
def _close(genre: int, weight: float, user: User, vectors: CategoryVectors, state: State) -> None:
    """Leave only items that must be in the list to the vectors that have this genre; to all of them for genre -1."""
    for vector in range(len(state.closed)):
        has = genre < 0
        for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            has |= vectors.term_genre[vectors.terms[place]] == genre
        if has and not state.closed[vector]:
            state.closed[vector] = True
            if state.best[vector] >= 0 and not user.due[state.best[vector]]:
                put(vector, next_best(vector, user, vectors, state), weight, user, state)


@njit(nogil=True, cache=True)
def weigh(weight: float, score: Scores, best: IndexArray, base: FloatArray) -> None:
    """Every vector's base (vectors,) for a weight."""
    for vector in range(len(best)):
        base[vector] = (1 - weight) * score[best[vector]] if best[vector] >= 0 else -np.inf


@njit(nogil=True, cache=True)
def put(vector: int, item: int, weight: float, user: User, state: State) -> None:
    """Make an item, or -1, the best one of a vector."""
    state.best[vector] = item
    state.base[vector] = (1 - weight) * user.score[item] if item >= 0 else -np.inf


@njit(nogil=True, cache=True)
def next_best(vector: int, user: User, vectors: CategoryVectors, state: State) -> int:
    """The first of the highest-scored items of a vector that are left; -1 if none is."""
    score, free, due, _, _ = user
    closed = state.closed[vector]
    best, highest = -1, -np.inf
    for item in vectors.members[vectors.member_indptr[vector] : vectors.member_indptr[vector + 1]]:
        if score[item] > highest and free[item] and (due[item] or not closed):
            best, highest = item, score[item]
    return best

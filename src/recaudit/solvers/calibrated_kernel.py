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

if TYPE_CHECKING:
    from recaudit.solvers.category_vectors import CategoryVectors

IntArray = NDArray[np.int64]
IndexArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
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


class _User(NamedTuple):
    score: Scores
    free: BoolArray
    """(items,): what may be in the list."""
    due: BoolArray
    """(items,): what must be."""
    p: FloatArray


class _State(NamedTuple):
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
    logs_rank: IndexArray
    """(terms + 1,): the rank that a log is from."""
    values: FloatArray
    """(LANES,): of the block that was looked at last."""


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
    (users, genres): p. Items that must be in the list are there whatever the caps, and count. Of equal values the one
    with the higher score wins, then the item that comes first.
    """
    for user in range(len(scores)):
        due = must[min(user, len(must) - 1)]
        asked = _User(scores[user], allowed[user], due, interests[user])
        evaluations[user] = _fill(asked, vectors, setting, lists[user])


@njit(nogil=True, cache=True)
def _fill(user: _User, vectors: CategoryVectors, setting: Setting, chosen: IntArray) -> int:
    """One user's list into `chosen` (n,); how many sums were computed, or NOT_FINITE."""
    genres, terms = len(user.p), len(vectors.term_genre)
    blocks = len(vectors.block_indptr) - 1
    state = _State(
        np.full(blocks * LANES, -1, dtype=np.int32),
        np.full(blocks * LANES, -np.inf),
        np.full(blocks, np.inf),
        np.zeros(len(vectors.indptr) - 1, dtype=np.bool_),
        np.zeros(genres, dtype=np.int64),
        np.zeros(genres),
        np.zeros(terms + 1),
        np.full(terms + 1, -1, dtype=np.int32),
        np.empty(LANES),
    )
    if not _best_of_each_vector(user.score, user.free, vectors.vector_of, state.best):
        return NOT_FINITE
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
            _weigh(weight, user.score, state.best, state.base)
        winner, evaluated = _winner(rank, user, vectors, setting, state)
        evaluations += evaluated
        if winner < 0:
            break
        item = state.best[winner]
        chosen[rank] = item
        _put(winner, _next_best(winner, user, vectors, state), weight, user, state)
        if user.due[item]:
            due_left -= 1
        for place in range(vectors.indptr[winner], vectors.indptr[winner + 1]):
            genre = vectors.term_genre[vectors.terms[place]]
            state.held[genre] += rank_weight * vectors.term_share[vectors.terms[place]]
            if not user.due[item]:
                state.used[genre] += 1
                if state.used[genre] == setting.caps[genre]:
                    _close(genre, weight, user, vectors, state)
    return evaluations


@njit(nogil=True, cache=True)
def _winner(rank: int, user: _User, vectors: CategoryVectors, setting: Setting, state: _State) -> tuple[int, int]:
    """The vector with the highest value at this rank, -1 if no item is left, and how many were evaluated."""
    # Unpacked once: taking an array out of a tuple counts references, which costs more than what is done with it.
    _, _, _, term_genre, term_share, _, _, block_indptr, block_terms, _ = vectors
    weights, rank_weights, totals, importance, alpha, _ = setting
    best, base, ceiling, closed, _, held, logs, logs_rank, values = state
    score, p = user.score, user.p
    weight, rank_weight, total = weights[rank], rank_weights[rank], totals[rank]
    # With more terms than vectors, most terms are of vectors that a rank does not look at.
    eager = len(term_genre) <= len(closed)
    if eager:
        for term in range(len(term_genre)):
            g = term_genre[term]
            logs[term] = _gain(term_share[term], p[g], importance[g], held[g], rank_weight, total, alpha)
    start = int(np.argmax(ceiling))
    winner, highest, floor, evaluated = -1, -np.inf, -np.inf, 0
    for step in range(-1, len(ceiling)):
        # The most promising one first: it leaves the fewest others to look at.
        block = start if step < 0 else step
        if ceiling[block] < floor or step == start:
            continue
        if not eager:
            for place in range(block_indptr[block] * LANES, block_indptr[block + 1] * LANES):
                term = block_terms[place]
                if term < len(term_genre) and logs_rank[term] != rank:
                    logs_rank[term], g = rank, term_genre[term]
                    logs[term] = _gain(term_share[term], p[g], importance[g], held[g], rank_weight, total, alpha)
        top = _evaluate(block, weight, block_indptr, block_terms, logs, base, values)
        ceiling[block] = top
        evaluated += LANES
        if top >= highest and top > -np.inf:
            for lane in range(LANES):
                vector = block * LANES + lane
                if values[lane] == top and (top > highest or _precedes(best[vector], best[winner], score)):
                    winner, highest = vector, top
            floor = highest - _SLACK * max(1.0, abs(highest))
    return winner, evaluated


@njit(nogil=True, cache=True)
def _gain(
    share: float, p: float, importance: float, held: float, rank_weight: float, total: float, alpha: float
) -> float:
    """What a share of a genre adds to the sum; 0 for a genre that the user has no interest in."""
    if p <= 0:
        return 0.0
    before = (1 - alpha) * held + alpha * total * p
    return importance * p * math.log1p((1 - alpha) * rank_weight * share / before)


@njit(nogil=True, cache=True)
def _evaluate(
    block: int,
    weight: float,
    block_indptr: IndexArray,
    block_terms: NDArray[np.uint32],
    logs: FloatArray,
    base: FloatArray,
    values: FloatArray,
) -> float:
    """The value of each vector of a block, into `values` (LANES,), and the highest."""
    for lane in range(LANES):
        values[lane] = 0.0
    for row in range(np.uint64(block_indptr[block]), np.uint64(block_indptr[block + 1])):
        for lane in range(LANES):
            values[lane] += logs[block_terms[np.uint64(row * np.uint64(LANES) + np.uint64(lane))]]
    for lane in range(LANES):
        values[lane] = base[block * LANES + lane] + weight * values[lane]
    highest = -np.inf
    for lane in range(LANES):
        highest = max(highest, values[lane])
    return highest


@njit(nogil=True, cache=True)
def _best_of_each_vector(score: Scores, free: BoolArray, vector_of: IndexArray, best: IndexArray) -> bool:
    """Fill in `best` (vectors,), which holds -1: the first of the highest-scored allowed items of each vector.

    Whether all allowed items have finite scores.
    """
    top = np.full(len(best), -np.inf, dtype=score.dtype)
    finite = True
    for item in range(len(score)):
        vector = vector_of[item]
        finite &= abs(score[item]) < np.inf or not free[item]
        if score[item] > top[vector] and free[item]:
            best[vector], top[vector] = item, score[item]
    return finite


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
def _close(genre: int, weight: float, user: _User, vectors: CategoryVectors, state: _State) -> None:
    """Leave only items that must be in the list to the vectors that have this genre; to all of them for genre -1."""
    for vector in range(len(state.closed)):
        has = genre < 0
        for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            has |= vectors.term_genre[vectors.terms[place]] == genre
        if has and not state.closed[vector]:
            state.closed[vector] = True
            if state.best[vector] >= 0 and not user.due[state.best[vector]]:
                _put(vector, _next_best(vector, user, vectors, state), weight, user, state)


@njit(nogil=True, cache=True)
def _weigh(weight: float, score: Scores, best: IndexArray, base: FloatArray) -> None:
    """Every vector's base (vectors,) for a weight."""
    for vector in range(len(best)):
        base[vector] = (1 - weight) * score[best[vector]] if best[vector] >= 0 else -np.inf


@njit(nogil=True, cache=True)
def _put(vector: int, item: int, weight: float, user: _User, state: _State) -> None:
    """Make an item, or -1, the best one of a vector."""
    state.best[vector] = item
    state.base[vector] = (1 - weight) * user.score[item] if item >= 0 else -np.inf


@njit(nogil=True, cache=True)
def _next_best(vector: int, user: _User, vectors: CategoryVectors, state: _State) -> int:
    """The item of a vector that follows its best one by falling score, then position; -1 if none does."""
    score, free, due, _ = user
    last, closed = state.best[vector], state.closed[vector]
    best, highest = -1, -np.inf
    for item in vectors.members[vectors.member_indptr[vector] : vectors.member_indptr[vector + 1]]:
        if (
            score[item] > highest
            and (score[item] < score[last] or (score[item] == score[last] and item > last))
            and free[item]
            and (due[item] or not closed)
        ):
            best, highest = item, score[item]
    return best


@njit(nogil=True, cache=True)
def _precedes(item: int, other: int, score: Scores) -> bool:
    """Whether an item comes before another of the same value."""
    return bool(score[item] > score[other] or (score[item] == score[other] and item < other))

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

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.solvers.category_vectors import LANES, CategoryVectors

IntArray = NDArray[np.int64]
IndexArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Scores = NDArray[np.float64] | NDArray[np.float32]

NOT_FINITE = -1
"""In place of a number of evaluations: a score is NaN or infinite."""

_SLACK = 1e-12
"""How far, relative to its size, rounding may lift a value above an earlier one."""


@njit(nogil=True, cache=True)
def greedy_lists(
    scores: Scores,
    allowed: BoolArray,
    must: BoolArray,
    vectors: CategoryVectors,
    interests: FloatArray,
    importance: FloatArray,
    weights: FloatArray,
    rank_weights: FloatArray,
    alpha: float,
    caps: IntArray,
    lists: IntArray,
    evaluations: IntArray,
) -> None:
    """Fill in `lists` (users, n), which holds -1, and `evaluations` (users,): how many sums were computed.

    `scores`, `allowed` (users, items); `must` (users, items), or (1, items) for the same in every list; `interests`
    (users, genres): p; `importance` (genres,): m, the weight of a genre's category system; `weights` (n,): lambda at
    each rank; `rank_weights` (n,): w; `caps` (genres,): how many items of a genre a list may have. Items that must be
    in the list are there whatever the caps, and count. Of equal values the one with the higher score wins, then the
    item that comes first.
    """
    for user in range(len(scores)):
        due = must[min(user, len(must) - 1)]
        evaluations[user] = _fill(
            scores[user],
            allowed[user],
            due,
            vectors,
            interests[user],
            importance,
            weights,
            rank_weights,
            alpha,
            caps,
            lists[user],
        )


@njit(nogil=True, cache=True)
def _fill(
    score: Scores,
    free: BoolArray,
    due: BoolArray,
    vectors: CategoryVectors,
    p: FloatArray,
    importance: FloatArray,
    weights: FloatArray,
    rank_weights: FloatArray,
    alpha: float,
    caps: IntArray,
    chosen: IntArray,
) -> int:
    """One user's list into `chosen` (n,); how many sums were computed, or NOT_FINITE."""
    vector_of, indptr, terms, term_genre, term_share, member_indptr, members, block_indptr, block_terms, _ = vectors
    count, length, blocks = len(indptr) - 1, len(chosen), len(block_indptr) - 1
    best = np.full(blocks * LANES, -1, dtype=np.int32)
    if not _best_of_each_vector(score, free, vector_of, best):
        return NOT_FINITE
    base = np.full(blocks * LANES, -np.inf)  # (1 - lambda) s of the vectors' best items, -inf without any
    ceiling = np.full(blocks, np.inf)
    closed = np.zeros(count, dtype=np.bool_)
    used, due_left = _reserve(due, vector_of, indptr, terms, term_genre, len(p))
    for genre in range(len(p)):
        if used[genre] >= caps[genre]:
            _close(genre, score, free, due, vectors, weights[0], best, base, closed)
    # One more for vectors with fewer terms than their block: it stays 0. With more terms than vectors, most terms
    # belong to a vector that a rank does not look at.
    logs, logs_rank = np.zeros(len(term_genre) + 1), np.full(len(term_genre) + 1, -1, dtype=np.int32)
    eager = len(term_genre) <= count
    held, values = np.zeros(len(p)), np.empty(LANES)
    total, weight, evaluations = 0.0, np.nan, 0
    for rank in range(length):
        total += rank_weights[rank]
        if due_left == length - rank:
            _close(-1, score, free, due, vectors, weights[rank], best, base, closed)
        if weights[rank] != weight:
            weight = weights[rank]
            ceiling[:] = np.inf
            for vector in range(count):
                base[vector] = (1 - weight) * score[best[vector]] if best[vector] >= 0 else -np.inf
        if eager:
            for term in range(len(term_genre)):
                logs[term] = _gain(
                    term_genre[term], term_share[term], p, importance, held, total, rank_weights[rank], alpha
                )
        start = np.argmax(ceiling)
        winner, highest, floor = -1, -np.inf, -np.inf
        for step in range(-1, blocks):
            # The most promising one first: it leaves the fewest others to look at.
            block = start if step < 0 else step
            if ceiling[block] < floor or step == start:
                continue
            if not eager:
                for place in range(block_indptr[block] * LANES, block_indptr[block + 1] * LANES):
                    term = block_terms[place]
                    if logs_rank[term] != rank and term < len(term_genre):
                        logs_rank[term] = rank
                        logs[term] = _gain(
                            term_genre[term], term_share[term], p, importance, held, total, rank_weights[rank], alpha
                        )
            ceiling[block] = _evaluate(block, block_indptr, block_terms, logs, base, weight, values)
            evaluations += LANES
            if ceiling[block] >= highest and ceiling[block] > -np.inf:
                for lane in range(LANES):
                    vector = block * LANES + lane
                    if values[lane] == ceiling[block] and (
                        values[lane] > highest or _precedes(best[vector], best[winner], score)
                    ):
                        winner, highest = vector, values[lane]
                floor = highest - _SLACK * max(1.0, abs(highest))
        if winner < 0:
            break
        item = best[winner]
        chosen[rank] = item
        for place in range(indptr[winner], indptr[winner + 1]):
            held[term_genre[terms[place]]] += rank_weights[rank] * term_share[terms[place]]
        group = members[member_indptr[winner] : member_indptr[winner + 1]]
        best[winner] = _next_best(score, free, due, closed[winner], group, item)
        base[winner] = (1 - weight) * score[best[winner]] if best[winner] >= 0 else -np.inf
        if due[item]:
            due_left -= 1
            continue
        for place in range(indptr[winner], indptr[winner + 1]):
            genre = term_genre[terms[place]]
            used[genre] += 1
            if used[genre] == caps[genre]:
                _close(genre, score, free, due, vectors, weight, best, base, closed)
    return evaluations


@njit(nogil=True, cache=True)
def _gain(
    genre: int,
    share: float,
    p: FloatArray,
    importance: FloatArray,
    held: FloatArray,
    total: float,
    rank_weight: float,
    alpha: float,
) -> float:
    """What a share of a genre adds to the sum; 0 for a genre that the user has no interest in."""
    if p[genre] <= 0:
        return 0.0
    before = (1 - alpha) * held[genre] + alpha * total * p[genre]
    return importance[genre] * p[genre] * math.log1p((1 - alpha) * rank_weight * share / before)


@njit(nogil=True, cache=True)
def _evaluate(
    block: int,
    block_indptr: IndexArray,
    block_terms: NDArray[np.uint32],
    logs: FloatArray,
    base: FloatArray,
    weight: float,
    values: FloatArray,
) -> float:
    """The value of each vector of a block, into `values` (LANES,), and the highest."""
    for lane in range(LANES):
        values[lane] = 0.0
    for row in range(np.uint64(block_indptr[block]), np.uint64(block_indptr[block + 1])):
        for lane in range(LANES):
            values[lane] += logs[block_terms[np.uint64(row * np.uint64(LANES) + np.uint64(lane))]]
    highest = -np.inf
    for lane in range(LANES):
        values[lane] = base[block * LANES + lane] + weight * values[lane]
    for lane in range(LANES):
        highest = max(highest, values[lane])
    return highest


@njit(nogil=True, cache=True)
def _best_of_each_vector(score: Scores, free: BoolArray, vector_of: IndexArray, best: IndexArray) -> bool:
    """Fill in `best` (vectors,), which holds -1: the first of the highest-scored allowed items of each vector.

    Whether all of these scores are finite.
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
def _reserve(
    due: BoolArray, vector_of: IndexArray, indptr: IndexArray, terms: IndexArray, term_genre: IndexArray, genres: int
) -> tuple[IntArray, int]:
    """(genres,): how many items of a genre must be in the list, and how many items must."""
    used, due_left = np.zeros(genres, dtype=np.int64), 0
    for item in range(len(due)):
        if due[item]:
            due_left += 1
            for place in range(indptr[vector_of[item]], indptr[vector_of[item] + 1]):
                used[term_genre[terms[place]]] += 1
    return used, due_left


@njit(nogil=True, cache=True)
def _close(
    genre: int,
    score: Scores,
    free: BoolArray,
    due: BoolArray,
    vectors: CategoryVectors,
    weight: float,
    best: IndexArray,
    base: FloatArray,
    closed: BoolArray,
) -> None:
    """Leave only items that must be in the list to the vectors that have this genre; to all of them for genre -1."""
    _, indptr, terms, term_genre, _, member_indptr, members, _, _, _ = vectors
    for vector in range(len(closed)):
        has = genre < 0
        for place in range(indptr[vector], indptr[vector + 1]):
            has |= term_genre[terms[place]] == genre
        if not has or closed[vector]:
            continue
        closed[vector] = True
        if best[vector] >= 0 and not due[best[vector]]:
            group = members[member_indptr[vector] : member_indptr[vector + 1]]
            best[vector] = _next_best(score, free, due, True, group, best[vector])
            base[vector] = (1 - weight) * score[best[vector]] if best[vector] >= 0 else -np.inf


@njit(nogil=True, cache=True)
def _next_best(score: Scores, free: BoolArray, due: BoolArray, closed: bool, group: IndexArray, last: int) -> int:
    """The allowed item of the group that follows `last` by falling score, then position; -1 if none does."""
    best, highest = -1, -np.inf
    for item in group:
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
    return score[item] > score[other] or (score[item] == score[other] and item < other)

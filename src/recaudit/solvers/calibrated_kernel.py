"""The greedy of paper 004, Equation 6, over a whole catalogue, without looking at most of it.

Everything that differs between candidates is, with weights w_n (not rising in the rank n), S_g = sum of w p(g|i) over
the list so far and W_n = w_1 + ... + w_n,

    (1 - lambda) s_i + lambda sum_g m_g p_g log(1 + (1 - alpha) w_n p(g|i) / ((1 - alpha) S_g + alpha W_n p_g)).

Three facts make it quick. Items with the same categories differ in score alone, so that only the best unused one of
each distinct category vector can win. The sum only falls as the list grows: one from an earlier rank is an upper bound
(Minoux's lazy greedy), and few vectors need a new one. And its terms depend on the genre and the share alone, of which
there are few: each is computed once a rank, however many vectors have it.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_SLACK = 1e-12
"""How far, relative to its size, rounding may lift a value above an earlier one."""

_UNKNOWN = 1e300
"""Above any sum, and finite: times a weight of 0 it is 0."""


@njit(parallel=True, cache=True)
def greedy_lists(
    scores: FloatArray,
    allowed: BoolArray,
    vector_of: IntArray,
    indptr: IntArray,
    terms: IntArray,
    term_genre: IntArray,
    term_share: FloatArray,
    member_indptr: IntArray,
    members: IntArray,
    interests: FloatArray,
    importance: FloatArray,
    weights: FloatArray,
    rank_weights: FloatArray,
    alpha: float,
    caps: IntArray,
) -> tuple[IntArray, IntArray]:
    """(users, n) lists, -1 where nothing is left, and (users,) how many sums were computed.

    `scores`, `allowed` (users, items); `vector_of` (items,): which distinct category vector an item has; the terms of
    vector v are `terms[indptr[v]:indptr[v + 1]]`, each a pair of a genre, `term_genre`, and a share of it, `term_share`;
    `member_indptr`, `members`: the items of each vector, ascending; `interests` (users, genres): p; `importance`
    (genres,): m, the weight of a genre's category system; `weights` (n,): lambda at each rank; `rank_weights` (n,): w;
    `caps` (genres,): how many items of a genre a list may have.
    """
    users, length = len(scores), len(weights)
    lists = np.full((users, length), -1, dtype=np.int64)
    evaluations = np.zeros(users, dtype=np.int64)
    for user in prange(users):
        score, free, p = scores[user], allowed[user], interests[user]
        best, top = _best_of_each_vector(score, free, vector_of, len(indptr) - 1)
        sums = np.full(len(indptr) - 1, _UNKNOWN)
        logs, logs_rank = np.zeros(len(term_genre)), np.full(len(term_genre), -1, dtype=np.int64)
        held, used = np.zeros(len(p)), np.zeros(len(p), dtype=np.int64)
        total = 0.0
        for rank in range(length):
            total += rank_weights[rank]
            weight, rank_weight = weights[rank], rank_weights[rank]
            winner, highest = -1, -np.inf
            start = _most_promising(top, sums, weight)
            if start < 0:
                break
            floor = -np.inf
            for step in range(-1, len(best)):
                # The most promising one first: it leaves the fewest others to look at.
                vector = start if step < 0 else step
                if (1 - weight) * top[vector] + weight * sums[vector] < floor or (vector == start and step >= 0):
                    continue
                total_log, full = 0.0, False
                for place in range(indptr[vector], indptr[vector + 1]):
                    term = terms[place]
                    genre = term_genre[term]
                    full |= used[genre] >= caps[genre]
                    if logs_rank[term] != rank:
                        logs_rank[term] = rank
                        logs[term] = 0.0
                        if p[genre] > 0:
                            share = (1 - alpha) * rank_weight * term_share[term]
                            before = (1 - alpha) * held[genre] + alpha * total * p[genre]
                            logs[term] = importance[genre] * p[genre] * np.log1p(share / before)
                    total_log += logs[term]
                if full:
                    top[vector] = -np.inf  # caps only fill up: none of its items can come later
                    continue
                sums[vector] = total_log
                evaluations[user] += 1
                value = (1 - weight) * top[vector] + weight * total_log
                if value > highest or (value == highest and best[vector] < best[winner]):
                    winner, highest = vector, value
                    floor = highest - _SLACK * max(1.0, abs(highest))
            if winner < 0:
                break
            lists[user, rank] = best[winner]
            for place in range(indptr[winner], indptr[winner + 1]):
                genre = term_genre[terms[place]]
                held[genre] += rank_weight * term_share[terms[place]]
                used[genre] += 1
            group = members[member_indptr[winner] : member_indptr[winner + 1]]
            best[winner] = _next_best(score, free, group, best[winner])
            top[winner] = score[best[winner]] if best[winner] >= 0 else -np.inf
    return lists, evaluations


@njit(cache=True)
def _best_of_each_vector(
    score: FloatArray, free: BoolArray, vector_of: IntArray, count: int
) -> tuple[IntArray, FloatArray]:
    """(vectors,): the first of the highest-scored allowed items of each vector, -1 without any, and its score."""
    best, top = np.full(count, -1, dtype=np.int64), np.full(count, -np.inf)
    for item in range(len(score)):
        vector = vector_of[item]
        if score[item] > top[vector] and free[item]:
            best[vector], top[vector] = item, score[item]
    return best, top


@njit(cache=True)
def _most_promising(top: FloatArray, sums: FloatArray, weight: float) -> int:
    """The vector with the largest upper bound; -1 where none has an item left."""
    found, largest = -1, -np.inf
    for vector in range(len(top)):
        bound = (1 - weight) * top[vector] + weight * sums[vector]
        if bound > largest:
            found, largest = vector, bound
    return found


@njit(cache=True)
def _next_best(score: FloatArray, free: BoolArray, group: IntArray, last: int) -> int:
    """The allowed item of the group that follows `last` by falling score, then position; -1 if none does."""
    best = -1
    for item in group:
        follows = score[item] < score[last] or (score[item] == score[last] and item > last)
        if free[item] and follows and (best < 0 or score[item] > score[best]):
            best = item
    return best

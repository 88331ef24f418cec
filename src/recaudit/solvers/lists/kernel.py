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
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.lists.objective import LANES, CategoryVectors, IndexArray, ListObjective
from recaudit.ties import TIE, TieKeys, tie_key

NOT_FINITE = -1
"""In place of a number of evaluations: a score is NaN or infinite."""

_SLACK = 1e-12
"""How far, relative to its size, rounding may lift a value above an earlier one."""


class ListState(NamedTuple):
    """One user's list in the making; vectors are padded to full blocks."""

    score: FloatArray  # (items,)
    free: BoolArray  # (items,): what may be in the list and is not yet
    due: BoolArray  # (items,): what must be
    p: FloatArray  # (genres,): the user's interests
    largest: float  # The largest absolute score of what may be in the list
    best: IndexArray  # (vectors,): the best unused item; -1 without any
    base: FloatArray  # (vectors,): (1 - lambda) s of it, -inf without any: lambda may be 1
    ceiling: FloatArray  # (blocks,): no vector of the block has a higher value
    closed: BoolArray  # (vectors,): only items that must be in the list are left
    used: IntArray  # (genres,): places that are taken, or kept for items that must be in the list
    held: FloatArray  # (genres,): S
    logs: FloatArray
    """(terms + 1,): what a term adds to the sum. The last is 0: for vectors with fewer terms than their block."""
    logs_stamp: IndexArray  # (terms + 1,): the stamp that a log is from
    values: FloatArray  # (vectors,): as of when the block was looked at last
    ties: TieKeys  # (users, items)
    row: int  # the user's


@njit(nogil=True, cache=True)
def new_state(
    score: FloatArray,
    allowed: BoolArray,
    due: BoolArray,
    p: FloatArray,
    ties: TieKeys,
    row: int,
    vectors: CategoryVectors,
) -> ListState:
    """Nothing chosen yet; `largest` is infinite where the score of an allowed item is NaN or infinite."""
    vector_of = vectors.vector_of
    blocks, terms = len(vectors.block_indptr) - 1, len(vectors.term_genre)
    best = np.full(blocks * LANES, -1, dtype=np.int32)
    top = np.full(len(best), -np.inf)
    finite, largest = True, 0.0
    for item in range(len(score)):
        vector, size = vector_of[item], abs(score[item])
        finite &= size < np.inf or not allowed[item]
        if allowed[item]:
            largest = max(largest, size)
        if score[item] > top[vector] and allowed[item]:
            best[vector], top[vector] = item, score[item]
    if not finite:
        largest = np.inf
    base, values, ceiling = np.full(blocks * LANES, -np.inf), np.empty(blocks * LANES), np.full(blocks, np.inf)
    closed, used = np.zeros(len(vectors.indptr) - 1, dtype=np.bool_), np.zeros(len(p), dtype=np.int64)
    logs, stamps = np.zeros(terms + 1), np.full(terms + 1, -1, dtype=np.int32)
    free, held = allowed.copy(), np.zeros(len(p))
    return ListState(
        score, free, due, p, largest, best, base, ceiling, closed, used, held, logs, stamps, values, ties, row
    )


@njit(nogil=True, cache=True)
def fill(vectors: CategoryVectors, objective: ListObjective, state: ListState, chosen: IntArray) -> int:
    """One user's list into `chosen` (n,), which holds -1; how many sums were computed.
    Items that must be in the list are there whatever the caps, and count."""
    due_left = 0
    for must_have in np.flatnonzero(state.due):
        due_left += 1
        vector = vectors.vector_of[must_have]
        for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            state.used[vectors.term_genre[vectors.terms[place]]] += 1
    for genre in range(len(state.p)):
        if state.used[genre] >= objective.caps[genre]:
            _close(genre, objective.weights[0], vectors, state)
    evaluations = 0
    for rank in range(len(chosen)):
        weight, rank_weight = objective.weights[rank], objective.rank_weights[rank]
        if due_left == len(chosen) - rank:
            _close(-1, weight, vectors, state)
        if rank == 0 or weight != objective.weights[rank - 1]:
            state.ceiling[:] = np.inf
            weigh(weight, state)
        # Without a weight nothing depends on the logarithms.
        item, evaluated = winner(rank, rank, weight == 0, -np.inf, vectors, objective, state)
        evaluations += evaluated
        if item < 0:
            break
        chosen[rank], vector = item, vectors.vector_of[item]
        state.free[item] = False
        put(vector, next_best(vector, vectors, state), weight, state)
        if state.due[item]:
            due_left -= 1
        for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            genre = vectors.term_genre[vectors.terms[place]]
            state.held[genre] += rank_weight * vectors.term_share[vectors.terms[place]]
            if not state.due[item]:
                state.used[genre] += 1
                if state.used[genre] == objective.caps[genre]:
                    _close(genre, weight, vectors, state)
    return evaluations


@njit(nogil=True, cache=True)
def winner(
    rank: int,
    stamp: int,
    ready: bool,
    floor: float,
    vectors: CategoryVectors,
    objective: ListObjective,
    state: ListState,
) -> tuple[int, int]:
    """The item with the highest value at this rank, -1 if none is above `floor`; how many values were computed.
    `stamp` is another number whenever `held` is another; `ready`: the logarithms are there already. Ceilings are
    lowered to what was found."""
    # Unpacked once: taking an array out of a tuple counts references, which costs more than what is done with it.
    _, _, _, term_genre, term_share, _, _, block_indptr, block_terms, _ = vectors
    weights, rank_weights, totals, importance, alpha, _ = objective
    _, _, _, p, largest, _, base, ceiling, closed, _, held, logs, logs_stamp, values, _, _ = state
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
    return _first_of_the_best(max(floor, highest - tied(highest, weight, largest)), vectors, state), evaluated


@njit(nogil=True, cache=True)
def _first_of_the_best(floor: float, vectors: CategoryVectors, state: ListState) -> int:
    """Of the items with values of at least `floor` those with the highest score, and of these the first by tie key."""
    score, free, due, _, largest, best, _, ceiling, closed, _, _, _, _, values, ties, row = state
    top = -np.inf
    for block in range(len(ceiling)):
        if ceiling[block] >= floor:
            for vector in range(block * LANES, (block + 1) * LANES):
                if values[vector] >= floor:
                    top = max(top, score[best[vector]])
    level, first, lowest = top - TIE * largest, -1, np.uint64(0)
    for block in range(len(ceiling)):
        if ceiling[block] >= floor:
            for vector in range(block * LANES, (block + 1) * LANES):
                if values[vector] >= floor and score[best[vector]] >= level:
                    for place in range(vectors.member_indptr[vector], vectors.member_indptr[vector + 1]):
                        item = vectors.members[place]
                        if free[item] and score[item] >= level and (due[item] or not closed[vector]):
                            key = tie_key(ties.users, ties.items, row, item)
                            if first < 0 or key < lowest:
                                first, lowest = item, key
    return first


@njit(nogil=True, cache=True)
def tied(value: float, weight: float, largest: float) -> float:
    """How far below the highest value another one is still tied with it."""
    return TIE * max(abs(value), (1 - weight) * largest)


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
def _close(genre: int, weight: float, vectors: CategoryVectors, state: ListState) -> None:
    """Leave only items that must be in the list to the vectors that have this genre; to all of them for genre -1."""
    for vector in range(len(state.closed)):
        has = genre < 0
        for place in range(vectors.indptr[vector], vectors.indptr[vector + 1]):
            has |= vectors.term_genre[vectors.terms[place]] == genre
        if has and not state.closed[vector]:
            state.closed[vector] = True
            if state.best[vector] >= 0 and not state.due[state.best[vector]]:
                put(vector, next_best(vector, vectors, state), weight, state)


@njit(nogil=True, cache=True)
def weigh(weight: float, state: ListState) -> None:
    """Every vector's base for a weight."""
    score, best, base = state.score, state.best, state.base
    for vector in range(len(best)):
        base[vector] = (1 - weight) * score[best[vector]] if best[vector] >= 0 else -np.inf


@njit(nogil=True, cache=True)
def put(vector: int, item: int, weight: float, state: ListState) -> None:
    """Make an item, or -1, the best one of a vector."""
    state.best[vector] = item
    state.base[vector] = (1 - weight) * state.score[item] if item >= 0 else -np.inf


@njit(nogil=True, cache=True)
def next_best(vector: int, vectors: CategoryVectors, state: ListState) -> int:
    """The first of the highest-scored items of a vector that are left; -1 if none is."""
    score, free, due, closed = state.score, state.free, state.due, state.closed[vector]
    best, highest = -1, -np.inf
    for item in vectors.members[vectors.member_indptr[vector] : vectors.member_indptr[vector + 1]]:
        if score[item] > highest and free[item] and (due[item] or not closed):
            best, highest = item, score[item]
    return best

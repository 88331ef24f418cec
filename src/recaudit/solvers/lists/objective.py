"""What a calibrated list is judged by: paper 004, Equations 3 to 6, and the catalogue's distinct category vectors.

How good the best possible list can be: an upper bound for each user, from two arguments.

Relaxation. With x_ir the (fractional) choice of item i for rank r, the objective of Equation 6 for a list of k items is

    f = (1 - lambda) t - lambda sum_g m_g p_g log(p_g / ((1 - alpha) S_g / W + alpha p_g)),

which depends on x only through t = sum of s and S_g = sum of w_r p(g|i), and is concave in them. So at any point x,
with c the gradient in S, no list is above f(x) + max over lists y of (1 - lambda) (t_y - t) + c.(S_y - S). Frank and
Wolfe's steps towards the maximising y make it tighter. A list y is worth the sum of a_i + w_r(i) b_i, with
a = (1 - lambda) s and b_i = c.p(.|i) >= 0; with equal rank weights the maximum is the k largest. Otherwise, for any
level v,

    sum of a_i + w_r b_i <= (k largest a_i + v b_i) + sum_r max(0, w_r - v) b_(r),    b_(r) the r-th largest b,

of which the smallest over a few levels is taken.

Submodularity (equal rank weights). With W fixed and scores shifted so that the list's lowest is 0, adding items of the
list never hurts, and gains only fall: no list is above f(list) + the k largest positive gains of the other items.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import did_you_mean
from recaudit.solvers.checks import require
from recaudit.ties import TieKeys

IndexArray = NDArray[np.int32]
Scores = NDArray[np.float64] | NDArray[np.float32]

SMOOTHING = 0.01
"""The paper's alpha (Equation 5). Every C_KL depends on it."""

LANES = 16
"""Vectors that are evaluated side by side: more fill the processor's registers better, fewer waste less."""

_ROUNDS = 12
"""Steps of Frank and Wolfe: with 21,000 items and lists of 50, a hundred steps lower the bound by another 2%."""
_SEARCH = 20
"""Halvings of a step's length."""
_CHUNK = 4_000_000
"""(user, item) pairs at a time."""

RankWeighting = Literal["none", "mrr", "ndcg"]


def rank_weights(kind: RankWeighting, n: int) -> FloatArray:
    """(n,): the weight of each rank: 1, or 1 / rank as in MRR, or 1 / log2(rank + 1) as in nDCG."""
    rank = np.arange(1, n + 1, dtype=np.float64)
    weightings = {"none": np.ones(n), "mrr": 1 / rank, "ndcg": 1 / np.log2(rank + 1)}
    require(kind in weightings, "rank_weights", repr(kind), "a weighting", did_you_mean(kind, weightings))
    return weightings[kind]


def list_distribution(lists: IntArray, shares: sparse.csr_array, weights: FloatArray | None = None) -> FloatArray:
    """(users, genres): q(g|u), the share of each genre in each list (Equation 3); zeros for an empty list.
    `lists` (users, n): item positions, -1 where there is none; `shares` (items, genres): p(g|i); `weights` (n,): of
    the ranks, or all 1. An item without any genre takes its place: the row sums to less than one."""
    users, n = lists.shape
    weight = np.where(lists >= 0, np.ones(n) if weights is None else weights, 0.0)
    indptr = np.arange(users + 1) * n
    places = sparse.csr_array((weight.ravel(), np.maximum(lists, 0).ravel(), indptr), shape=(users, shares.shape[0]))
    held: FloatArray = (places @ shares).toarray()
    total = weight.sum(axis=1, keepdims=True)
    return held / np.where(total > 0, total, 1.0)


def divergence(
    p: FloatArray, q: FloatArray, smoothing: float = SMOOTHING, importance: FloatArray | None = None
) -> FloatArray:
    """(users,): sum over genres of m_g p_g log(p_g / q~_g), with q~ = (1 - alpha) q + alpha p (Equations 4 and 5).
    `p`, `q` (users, genres); `importance` (genres,): m, all 1 where none is given. 0 for a user without interests."""
    m = np.ones(p.shape[1]) if importance is None else importance
    # log(q~ / p) from logarithms: alpha p and q / p leave the range of numbers where p is tiny.
    with np.errstate(divide="ignore"):
        ratio = np.log(q) - np.log(np.where(p > 0, p, 1.0))
    return np.asarray(-(m * p * np.logaddexp(np.log(smoothing), np.log1p(-smoothing) + ratio)).sum(axis=1))


class ListUsers(NamedTuple):
    """The users whose lists are made."""

    scores: Scores  # (users, items): finite where allowed
    allowed: BoolArray  # (users, items)
    must: BoolArray  # (users, items): what has to be in the list; or (1, items), the same in every list
    interests: FloatArray  # (users, genres): p
    ties: TieKeys  # (users, items)

    def take(self, rows: slice) -> ListUsers:
        """The users of these rows."""
        must = self.must if len(self.must) < len(self.scores) else self.must[rows]
        return ListUsers(self.scores[rows], self.allowed[rows], must, self.interests[rows], self.ties.rows(rows))


class ListObjective(NamedTuple):
    """Equation 6, the same for every user; n is the length of the lists."""

    weights: FloatArray  # (n,): lambda at each rank
    rank_weights: FloatArray  # (n,): w, not rising
    totals: FloatArray  # (n,): W at each rank, not falling
    importance: FloatArray  # (genres,): m, the weight of the genre's category system
    alpha: float
    caps: IntArray  # (genres,): how many items of a genre a list may have


class CategoryVectors(NamedTuple):
    """Items grouped by their categories; a vector is a set of terms, a term is a genre and a share of it.

    Items with the same vector differ in score alone. Vectors are ordered by the number of their terms, then by the
    terms, so that neighbours resemble each other: the solver takes LANES of them at a time.
    """

    vector_of: IndexArray  # (items,): the vector that an item has
    indptr: IndexArray  # (vectors + 1,): the terms of vector v are `terms[indptr[v]:indptr[v + 1]]`, by ascending genre
    terms: IndexArray
    term_genre: IndexArray  # (distinct terms,)
    term_share: FloatArray  # (distinct terms,): p(g|i), above 0
    member_indptr: IndexArray
    """(vectors + 1,): the items of vector v are `members[member_indptr[v]:member_indptr[v + 1]]`, ascending."""
    members: IndexArray
    block_indptr: IndexArray
    """(blocks + 1,): the terms of block b are the rows `block_indptr[b]:block_indptr[b + 1]` of `block_terms`."""
    block_terms: NDArray[np.uint32]
    """(rows * LANES,): one term of each of the block's vectors in turn; the number of distinct terms, one past the
    last of them, where a vector has no more. Unsigned: compiled code looks for negative positions otherwise."""
    n_genres: int

    @classmethod
    def of(cls, shares: sparse.csr_array) -> CategoryVectors:
        """From `shares` (items, genres): p(g|i). A row sums to one in each category system, or to zero."""
        shares = shares.astype(np.float64, copy=True)
        proper = bool((np.isfinite(shares.data) & (shares.data >= 0)).all())
        require(proper, "shares", "a share below 0, NaN or infinite", "finite shares of 0 or more")
        shares.sum_duplicates()
        shares.eliminate_zeros()
        items, genres = shares.shape
        sizes, size = np.unique(shares.data, return_inverse=True)
        distinct, terms = np.unique(shares.indices * max(1, len(sizes)) + size, return_inverse=True)
        rows = [tuple(row.tolist()) for row in np.split(terms, shares.indptr[1:-1])] if items else []
        vectors = sorted(set(rows), key=lambda row: (len(row), row))
        number = {row: vector for vector, row in enumerate(vectors)}
        vector_of = np.fromiter((number[row] for row in rows), np.int32, count=items)
        block_indptr, block_terms = _blocks(vectors, len(distinct))
        return cls(
            vector_of,
            _offsets([len(row) for row in vectors]),
            np.fromiter((term for row in vectors for term in row), np.int32),
            (distinct // max(1, len(sizes))).astype(np.int32),
            sizes[distinct % max(1, len(sizes))],
            _offsets(np.bincount(vector_of, minlength=len(vectors)).tolist()),
            np.argsort(vector_of, kind="stable").astype(np.int32),
            block_indptr,
            block_terms,
            int(genres),
        )

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.vector_of)

    @property
    def n_vectors(self) -> int:
        """How many distinct vectors there are."""
        return len(self.indptr) - 1

    def shares(self) -> sparse.csr_array:
        """(vectors, genres): p(g|i) of the vectors' items."""
        parts = (self.term_share[self.terms], self.term_genre[self.terms], self.indptr)
        return sparse.csr_array(parts, shape=(self.n_vectors, self.n_genres))

    def rows(self, vectors: IntArray) -> FloatArray:
        """(len(vectors), genres): p(g|i) of these vectors' items."""
        counts = self.indptr[vectors + 1] - self.indptr[vectors]
        ends = np.cumsum(counts)
        at = self.terms[np.arange(counts.sum()) + np.repeat(self.indptr[vectors] - ends + counts, counts)]
        found = np.zeros((len(vectors), self.n_genres))
        found[np.repeat(np.arange(len(vectors)), counts), self.term_genre[at]] = self.term_share[at]
        return found

    def distribution(self, lists: IntArray, weights: FloatArray) -> FloatArray:
        """(users, genres): `list_distribution` of lists of items (users, n), by way of their vectors."""
        of_vectors = np.where(lists >= 0, self.vector_of[np.maximum(lists, 0)], -1).astype(np.int64)
        return list_distribution(of_vectors, self.shares(), weights)


def _blocks(vectors: list[tuple[int, ...]], no_term: int) -> tuple[IndexArray, NDArray[np.uint32]]:
    """The vectors' terms, LANES vectors at a time: where each block's rows start, and the rows."""
    blocks = []
    for start in range(0, len(vectors), LANES):
        together = vectors[start : start + LANES]
        block = np.full((max(map(len, together)), LANES), no_term, dtype=np.uint32)
        for lane, row in enumerate(together):
            block[: len(row), lane] = row
        blocks.append(block)
    flat = np.concatenate(blocks, axis=None) if blocks else np.zeros(0, dtype=np.uint32)
    return _offsets([len(block) for block in blocks]), flat


def _offsets(counts: list[int]) -> IndexArray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int32)


def upper_bound(users: ListUsers, vectors: CategoryVectors, objective: ListObjective, lists: IntArray) -> FloatArray:
    """(users,): no list of as many items as the given one (users, n), with all that must be in it, is better.
    One number lambda. Caps are left out: with them it is still a bound."""
    count, items = users.scores.shape
    step = max(1, _CHUNK // max(1, items))
    chunks = [slice(start, start + step) for start in range(0, max(1, count), step)]
    bounds = [_Relaxation(users.take(rows), vectors, objective, lists[rows]).bound() for rows in chunks]
    return np.concatenate(bounds)


@final
class _Relaxation:
    """Some users' lists and candidates; k, the length of a list, may differ between them."""

    def __init__(self, users: ListUsers, vectors: CategoryVectors, objective: ListObjective, lists: IntArray) -> None:
        self.weight, self.alpha = float(objective.weights[0]), objective.alpha
        self.p, self.must = users.interests, users.must if users.must.any() else None
        self.mp = self.p * objective.importance
        score = np.asarray(users.scores, dtype=np.float64)
        self.scores = np.where(users.allowed, score, -np.inf)
        self.shares = vectors.shares().toarray()  # (vectors, genres)
        self.vector_of = vectors.vector_of
        self.chosen, self.filled = lists, lists >= 0
        rank_weights = objective.rank_weights
        self.equal_ranks = bool((rank_weights == rank_weights[0]).all())
        self.w = rank_weights * self.filled  # (users, n): 0 beyond the list's end
        weight = self.w.sum(axis=1, keepdims=True)
        self.all_weight = np.where(weight > 0, weight, 1.0)  # (users, 1): W; 1 for an empty list, whose S is 0
        # S (users, genres) and t (users,) of the lists.
        self.held = vectors.distribution(lists, objective.rank_weights) * weight
        self.total = (np.take_along_axis(score, np.maximum(lists, 0), axis=1) * self.filled).sum(axis=1)

    def bound(self) -> FloatArray:
        """Return the smallest bound of both arguments, after the steps of Frank and Wolfe, shape (users,)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # of genres that the user has no interest in
            held, total = self.held, self.total
            best = self.by_submodularity() if self.equal_ranks else np.full_like(total, np.inf)
            for _ in range(_ROUNDS):
                c = self.slope(held)
                bound, to_held, to_total = self.best_response(c)
                bound = bound + self.value(held, total) - (1 - self.weight) * total - (c * held).sum(axis=1)
                best = np.minimum(best, bound)
                length = self.search(held, to_held - held, to_total - total)
                held, total = held + length[:, None] * (to_held - held), total + length * (to_total - total)
        return best

    def smoothed(self, held: FloatArray) -> FloatArray:
        """Return q~ / p for genres that the user has an interest in, 1 for the others, shape (users, genres)."""
        ratio = (1 - self.alpha) * held / self.all_weight / self.p + self.alpha
        return np.where(self.p > 0, ratio, 1.0)

    def value(self, held: FloatArray, total: FloatArray) -> FloatArray:
        """Return f, shape (users,)."""
        similarity: FloatArray = (self.mp * np.log(self.smoothed(held))).sum(axis=1)
        return (1 - self.weight) * total + self.weight * similarity

    def slope(self, held: FloatArray) -> FloatArray:
        """Return c, the derivative of f with respect to S, shape (users, genres)."""
        c = self.weight * self.mp * (1 - self.alpha) / self.all_weight / self.p / self.smoothed(held)
        return np.where(self.p > 0, c, 0.0)

    def best_response(self, c: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return a bound on the sum of a_i + w_r b_i over all lists, and S and t of a list that is good for it."""
        n = min(self.w.shape[1], self.scores.shape[1])
        w, filled = self.w[:, :n], self.filled[:, :n]
        a, b = self._relevance(self.scores), (c @ self.shares.T)[:, self.vector_of]
        candidates_b = np.where(self.scores == -np.inf, 0.0, b)
        b_largest = np.take_along_axis(candidates_b, _largest(candidates_b, n), axis=1)
        k = np.maximum(filled.sum(axis=1, keepdims=True), 1)
        mean, first, last = w.sum(axis=1, keepdims=True) / k, w[:, :1], np.take_along_axis(w, k - 1, axis=1)
        bounds, lists = [], []
        for level in [mean] if bool((first == last).all()) else [mean, first, last]:
            worth = a + level * b
            lists.append(_largest(worth if self.must is None else np.where(self.must, np.inf, worth), n))
            sums = np.where(filled, np.take_along_axis(worth, lists[-1], axis=1), 0.0).sum(axis=1)
            bounds.append(sums + (np.maximum(w - level, 0.0) * b_largest).sum(axis=1))
        # What matters most for the genres goes to the ranks that weigh most.
        in_list = np.where(filled, np.take_along_axis(b, lists[0], axis=1), -np.inf)
        items = np.take_along_axis(lists[0], np.argsort(-in_list, axis=1, kind="stable"), axis=1)
        held = (w[:, :, None] * self.shares[self.vector_of[items]]).sum(axis=1)
        total = np.where(filled, np.take_along_axis(self.scores, items, axis=1), 0.0).sum(axis=1)
        return np.min(bounds, axis=0), held, total

    def _relevance(self, scores: FloatArray) -> FloatArray:
        """Return (1 - lambda) times the scores, and -inf where they are: lambda may be 1."""
        return np.where(scores == -np.inf, -np.inf, (1 - self.weight) * scores)

    def search(self, held: FloatArray, to_held: FloatArray, to_total: FloatArray) -> FloatArray:
        """Return how far to go, from 0 to 1, shape (users,): f is concave on the way, its slope is halved in."""
        low, high = np.zeros(len(held)), np.ones(len(held))
        for _ in range(_SEARCH):
            middle = (low + high) / 2
            rise = (1 - self.weight) * to_total + (self.slope(held + middle[:, None] * to_held) * to_held).sum(axis=1)
            low, high = np.where(rise > 0, middle, low), np.where(rise > 0, high, middle)
        return (low + high) / 2

    def by_submodularity(self) -> FloatArray:
        """Return the bound from the gains of what is not in the list, shape (users,)."""
        n = min(self.w.shape[1], self.scores.shape[1])
        unit = self.w[:, :1]
        sums = np.zeros((len(self.p), len(self.shares)))
        before = self.smoothed(self.held) * self.p * self.all_weight
        for genre in range(self.p.shape[1]):
            added = (1 - self.alpha) * unit * self.shares[:, genre]
            here = np.where(self.p[:, genre] > 0, before[:, genre], 1.0)[:, None]
            sums += self.mp[:, genre, None] * np.log1p(added / here)
        own = np.take_along_axis(self.scores, np.maximum(self.chosen, 0), axis=1)
        lowest = np.where(self.filled[:, 0], np.where(self.filled, own, np.inf).min(axis=1), 0.0)
        gains = self._relevance(self.scores - lowest[:, None]) + self.weight * sums[:, self.vector_of]
        row, rank = np.nonzero(self.filled)
        gains[row, self.chosen[row, rank]] = 0.0
        largest = np.where(self.filled[:, :n], np.take_along_axis(gains, _largest(gains, n), axis=1), 0.0)
        gained: FloatArray = np.maximum(largest, 0.0).sum(axis=1)
        return self.value(self.held, self.total) + gained


def _largest(values: FloatArray, n: int) -> IntArray:
    """Return the positions of the n largest values of each row, largest first, shape (rows, n)."""
    some = np.argpartition(-values, n - 1, axis=1)[:, :n]
    order = np.argsort(-np.take_along_axis(values, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)

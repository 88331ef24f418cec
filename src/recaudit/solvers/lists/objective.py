"""What a calibrated list is judged by: paper 004, Equations 3 to 6, and the catalogue's distinct category vectors."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import did_you_mean
from recaudit.solvers.checks import require

IndexArray = NDArray[np.int32]
Scores = NDArray[np.float64] | NDArray[np.float32]

SMOOTHING = 0.01
"""The paper's alpha (Equation 5). Every C_KL depends on it."""

LANES = 16
"""Vectors that are evaluated side by side: more fill the processor's registers better, fewer waste less."""

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
    the ranks, all 1 where none are given. An item without any genre takes its place: the row sums to less than one.
    """
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

    `p`, `q` (users, genres); `importance` (genres,): m, all 1 where none is given. 0 for a user without interests.
    """
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

    def take(self, rows: slice) -> ListUsers:
        """The users of these rows."""
        must = self.must if len(self.must) < len(self.scores) else self.must[rows]
        return ListUsers(self.scores[rows], self.allowed[rows], must, self.interests[rows])


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

    Items with the same vector differ in score alone. Items without any category share a vector without terms. Vectors
    are ordered by the number of their terms, then by the terms, so that neighbours resemble each other: the solver
    takes LANES of them at a time.
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

"""A catalogue's distinct category vectors: what the solver of calibrated lists looks at instead of items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.solvers.lists.kernel import LANES, IndexArray


class CategoryVectors(NamedTuple):
    """Items grouped by their categories; a vector is a set of terms, a term is a genre and a share of it.

    Items with the same vector differ in score alone. Items without any category share a vector without terms. Vectors
    are ordered by the number of their terms, then by the terms, so that neighbours resemble each other: the solver
    takes LANES of them at a time.
    """

    vector_of: IndexArray
    """(items,): the vector that an item has."""
    indptr: IndexArray
    """(vectors + 1,): the terms of vector v are `terms[indptr[v]:indptr[v + 1]]`, by ascending genre."""
    terms: IndexArray
    term_genre: IndexArray
    """(distinct terms,)"""
    term_share: FloatArray
    """(distinct terms,): p(g|i), above 0."""
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
        shares = _checked(shares)
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


def _checked(shares: sparse.csr_array) -> sparse.csr_array:
    """The shares without stored zeros and with ascending genres."""
    shares = shares.astype(np.float64, copy=True)
    if not (np.isfinite(shares.data).all() and (shares.data >= 0).all()):
        raise InputError("shares", received="a share below 0, NaN or infinite", expected="finite shares of 0 or more")
    shares.sum_duplicates()
    shares.eliminate_zeros()
    return shares

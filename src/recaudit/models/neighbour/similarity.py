"""Sums over co-ratings, each row by one thread in the order of the log: no number depends on the thread count."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.models.rows import SparseRows
from recaudit.ranking import nth_highest
from recaudit.ties import TIE

Similarity = Literal["cosine", "pearson"]

_BLOCK = 1024
"""Rows between two reports of progress; no number depends on it."""

_DENSE = 4096
"""Up to so many rows the products of all pairs are held at once: 128 MB. No number depends on it."""


def nearest(
    vectors: sparse.csr_array,
    k: int,
    similarity: Similarity,
    shrinkage: float = 0.0,
    minimum: float = 0.0,
    label: str = "",
) -> sparse.csr_array:
    """(rows, rows): for each row of `vectors` its k most similar other rows, and how similar they are.

    Similarities are defined in `ItemKNN`. A pair without a shared column is never a neighbour, nor one at or below
    `minimum`; where the similarity is 0 / 0 (a row without variation) it is 0. Similarities within `ties.TIE` of each
    other are equal: the row that comes first. `label` names the progress bar.
    """
    if similarity == "pearson":
        vectors = _shifted(vectors)
    count = vectors.shape[0]
    k = min(k, count - 1)
    norms = np.sqrt(_row_sums(vectors, vectors.data**2))
    rows, columns = SparseRows.of(vectors), SparseRows.of(vectors.tocsc())
    # A product of 0 is no neighbour where the minimum is 0 or more, whether or not a column is shared.
    if similarity == "cosine" and minimum >= 0 and count <= _DENSE:
        neighbours, weights = _nearest_of_all(products(rows, columns), norms, k, shrinkage, minimum)
    else:
        rule = (norms, k, shrinkage, minimum, similarity == "pearson", get_num_threads())
        blocks = track(range(0, count, _BLOCK), label, -(-count // _BLOCK))
        found = [_nearest(np.arange(count)[start : start + _BLOCK], rows, columns, *rule) for start in blocks]
        neighbours, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
    filled = neighbours >= 0
    indptr = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    result = sparse.csr_array((weights[filled], neighbours[filled], indptr), shape=(count, count))
    result.sort_indices()
    return result


def _row_sums(matrix: sparse.csr_array, values: FloatArray) -> FloatArray:
    """(rows,): the sum of each row's entries in their order, an entry of the matrix standing for one of `values`."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    sums: FloatArray = np.bincount(row, weights=values, minlength=matrix.shape[0]).astype(np.float64)
    return sums


def _shifted(matrix: sparse.csr_array) -> sparse.csr_array:
    """The matrix less the mean of each row's entries, so that large ones that differ little do not cancel in sums."""
    counts = np.diff(matrix.indptr)
    means = _row_sums(matrix, matrix.data) / np.maximum(counts, 1)
    values = matrix.data - np.repeat(means, counts)
    return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


@parallel_njit()
def _nearest_of_all(
    dots: FloatArray, norms: FloatArray, k: int, shrinkage: float, minimum: float
) -> tuple[NDArray[np.int32], FloatArray]:
    """(rows, k) each: neighbours, -1 where there are fewer, and cosines, from the products `dots` of all pairs."""
    count = len(dots)
    neighbours = np.full((count, k), -1, dtype=np.int32)
    weights = np.zeros((count, k))
    for row in prange(count):
        others, values, found = np.empty(count, dtype=np.int32), np.empty(count), 0
        for other in range(count):
            # Without shrinkage the scale is 0 where a norm is: then the product is 0 as well, and so no neighbour.
            others[found] = other
            values[found] = dots[row, other] / max(norms[row] * norms[other] + shrinkage, 1e-300)
            found += other != row and values[found] > minimum + TIE
        _keep_best(others[:found], values[:found], neighbours[row], weights[row])
    return neighbours, weights


@parallel_njit()
def _nearest(
    wanted: IntArray,
    rows: SparseRows,
    columns: SparseRows,
    norms: FloatArray,
    k: int,
    shrinkage: float,
    minimum: float,
    pearson: bool,
    workers: int,
) -> tuple[NDArray[np.int32], FloatArray]:
    """(wanted, k) each: the neighbours in no particular order, -1 where there are fewer, and similarities."""
    count = len(rows.indptr) - 1
    neighbours = np.full((len(wanted), k), -1, dtype=np.int32)
    weights = np.zeros((len(wanted), k))
    for worker in prange(workers):
        # One scratch row a worker, cleaned only where it was written: O(rows) memory a thread.
        sums = np.zeros((count, 6 if pearson else 2))
        touched = np.empty(count, dtype=np.uint32)
        others, values = np.empty(count, dtype=np.int32), np.empty(count)
        for at in range(worker, len(wanted), workers):
            row, found = wanted[at], 0
            sharing = touched[: _co_rating_sums(wanted[at], rows, columns, pearson, sums, touched)]
            for other in sharing:
                if pearson:
                    value = _correlation(sums[other], shrinkage)
                else:
                    scale = norms[row] * norms[other] + shrinkage
                    value = sums[other, 1] / scale if scale > 0 else 0.0
                sums[other] = 0.0
                if other != row and value > minimum + TIE:
                    others[found], values[found] = other, value
                    found += 1
            _keep_best(others[:found], values[:found], neighbours[at], weights[at])
    return neighbours, weights


@njit(cache=True)
def _keep_best(
    others: NDArray[np.int32], values: FloatArray, neighbours: NDArray[np.int32], weights: FloatArray
) -> None:
    """Fill `neighbours` and `weights` (k,): all above the k-th largest value, and of those tied with it the first."""
    k, cut, last = len(neighbours), -np.inf, 0.0
    if len(values) > k:
        cut = nth_highest(values, k)
        tied = others[(values >= cut - TIE) & (values <= cut + TIE)]
        last = nth_highest(tied, len(tied) + 1 - k + int(np.sum(values > cut + TIE)))
    filled = 0
    for place in range(len(values)):
        if values[place] > cut + TIE or (values[place] >= cut - TIE and others[place] <= last):
            neighbours[filled], weights[filled] = others[place], values[place]
            filled += 1


@njit(cache=True)
def _co_rating_sums(
    row: int, rows: SparseRows, columns: SparseRows, pearson: bool, sums: FloatArray, touched: NDArray[np.uint32]
) -> int:
    """Fill `sums[other]` with (n, xy) or (n, xy, x, y, xx, yy) over shared columns, and `touched` with who shares."""
    found = 0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        column, x = rows.indices[entry], rows.values[entry]
        for shared in range(columns.indptr[column], columns.indptr[column + 1]):
            other, y = columns.indices[shared], columns.values[shared]
            if sums[other, 0] == 0:
                touched[found] = other
                found += 1
            sums[other, 0] += 1
            sums[other, 1] += x * y
            if pearson:
                sums[other, 2] += x
                sums[other, 3] += y
                sums[other, 4] += x * x
                sums[other, 5] += y * y
    return found


@njit(cache=True)
def _correlation(sums: FloatArray, shrinkage: float) -> float:
    """Pearson's correlation from its sums, shrunk by n / (n + shrinkage); 0 where a side is constant."""
    n, xy, x, y, xx, yy = sums
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    # A constant side has a spread of 0 up to rounding, which must not pass for a correlation.
    if spread_x <= 1e-10 * n * xx or spread_y <= 1e-10 * n * yy:
        return 0.0
    shrunk: float = (n * xy - x * y) / math.sqrt(spread_x * spread_y) * (n / (n + shrinkage))
    return shrunk


@parallel_njit()
def weighted_averages(
    rows: IntArray, left: SparseRows, right: SparseRows, weights_left: bool, fallback: FloatArray
) -> FloatArray:
    """(len(rows), columns): `sum_k left[r, k] right[k, c] / sum_k |w|` over the k that both hold.

    w is the left factor or the right one; `fallback` (columns,) stands where there is no such k, or only
    weights of 0.
    """
    out = np.zeros((len(rows), len(fallback)))
    for block_row in prange(len(rows)):
        row = rows[block_row]
        totals = np.zeros(len(fallback))
        for entry in range(left.indptr[row], left.indptr[row + 1]):
            middle, a = left.indices[entry], left.values[entry]
            for inner in range(right.indptr[middle], right.indptr[middle + 1]):
                column, b = right.indices[inner], right.values[inner]
                out[block_row, column] += a * b
                totals[column] += abs(a if weights_left else b)
        for column in range(len(fallback)):
            total = totals[column]
            out[block_row, column] = out[block_row, column] / total if total > 0 else fallback[column]
    return out


def gram(vectors: sparse.csr_array) -> FloatArray:
    """(columns, columns): `X^T X` of a sparse X (rows, columns), dense."""
    return products(SparseRows.of(vectors.tocsc()), SparseRows.of(vectors))


@parallel_njit()
def products(rows: SparseRows, columns: SparseRows) -> FloatArray:
    """(rows, rows): the dot products of all pairs of rows of a sparse matrix, given by rows and by columns."""
    count = len(rows.indptr) - 1
    out = np.empty((count, count))
    # A row from the top and one from the bottom: every turn is as long as the others.
    for pair in prange((count + 1) // 2):
        _lower_products(pair, rows, columns, out)
        if count - 1 - pair != pair:
            _lower_products(count - 1 - pair, rows, columns, out)
    for row in prange(count):
        for other in range(row + 1, count):
            out[row, other] = out[other, row]
    return out


@njit(cache=True)
def _lower_products(row: int, rows: SparseRows, columns: SparseRows, out: FloatArray) -> None:
    """`out[row, other]` for every other up to the row itself."""
    sums = out[row]
    sums[: row + 1] = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        column, x = rows.indices[entry], rows.values[entry]
        for shared in range(columns.indptr[column], columns.indptr[column + 1]):
            other = columns.indices[shared]
            if other > row:
                break
            sums[other] += x * columns.values[shared]

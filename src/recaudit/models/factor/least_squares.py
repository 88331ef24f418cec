"""The normal equations that ALS and WALS solve for every user and every item, and again for edited items.

Each vector's numbers depend on its own ratings only, so that they are the same on any number of threads. Sums are added
in the order written here (only a product and the sum that it enters may be rounded as one): a compiler that may reorder
them gives other last digits to code that it has just compiled than to the same code from its cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from recaudit.arithmetic import copy_into, copy_rows
from recaudit.arrays import FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.models.rows import Indices, SparseRows
from recaudit.models.vectors import SIDE, add_products

_TOGETHER = 32
"""Ratings whose vectors are copied next to each other, and stay in the nearest cache."""

IN_ORDER = {"contract"}
"""The freedom that the compiler has with sums, in these functions and in those that call them."""


@parallel_njit(fastmath=IN_ORDER)
def solve_vectors(
    rows: SparseRows, Y: FloatArray, penalty: FloatArray, weight: FloatArray, gram: FloatArray, pull: FloatArray
) -> FloatArray:
    """(rows, factors): `x = (weight gram + sum y y^T + penalty I)^-1 (pull + sum value y)` over each row's entries.

    An entry is a value and a row y of Y (others, factors); penalty and weight (rows,), gram (factors, factors), pull
    (rows, factors).
    """
    d = Y.shape[1]
    size = padded(d)
    X = np.empty((len(weight), d))
    for x in prange(len(X)):
        G = np.zeros((size, size))
        b = np.zeros(size)
        for k in range(d):
            for j in range(k + 1):
                G[k, j] = weight[x] * gram[k, j]
            b[k] = pull[x, k]
        start, end = rows.indptr[x], rows.indptr[x + 1]
        add_ratings(rows.indices[start:end], rows.values[start:end], Y, G, b)
        for k in range(size):
            G[k, k] += penalty[x]
        cholesky_solve(G, b)
        copy_into(X[x], b)
    return X


@njit(cache=True)
def padded(factors: int) -> int:
    """The size of the equations: `factors`, rounded up to blocks. What is added stays apart, and solves to zero."""
    return (factors + SIDE - 1) // SIDE * SIDE


@njit(fastmath=IN_ORDER, cache=True)
def add_ratings(others: Indices, targets: FloatArray, Y: FloatArray, G: FloatArray, b: FloatArray) -> None:
    """G (padded, padded) += lower triangle of sum y y^T; b (padded,) += sum target * y; y the rows `others` of Y."""
    together = np.zeros((min(_TOGETHER, len(others)), len(b)))
    for first in range(0, len(others), _TOGETHER):
        count = min(_TOGETHER, len(others) - first)
        for c in range(count):
            y, target = others[first + c], targets[first + c]
            for k in range(Y.shape[1]):
                together[c, k] = Y[y, k]
                b[k] += target * Y[y, k]
        add_products(together, together, G, count, 0)


@njit(fastmath=IN_ORDER, cache=True)
def cholesky_solve(G: FloatArray, b: FloatArray) -> None:
    """Solve G x = b in place for a positive definite G given by its lower triangle; x is left in b.

    G (padded, padded) becomes L with L L^T = G, four columns at a time: once they stand, their products are taken off
    everything to their right, and L z = b is solved along the way.
    """
    size = len(b)
    columns = np.zeros((4, size))
    negative = np.zeros((4, size))
    for f in range(0, size, 4):
        for i in range(f, f + 4):
            for j in range(f, i + 1):
                total = G[i, j]
                for k in range(f, j):
                    total -= G[i, k] * G[j, k]
                G[i, j] = np.sqrt(total) if i == j else total / G[j, j]
        d0, d1, d2, d3 = 1 / G[f, f], 1 / G[f + 1, f + 1], 1 / G[f + 2, f + 2], 1 / G[f + 3, f + 3]
        for i in range(f + 4, size):
            l0 = G[i, f] * d0
            l1 = (G[i, f + 1] - l0 * G[f + 1, f]) * d1
            l2 = (G[i, f + 2] - l0 * G[f + 2, f] - l1 * G[f + 2, f + 1]) * d2
            l3 = (G[i, f + 3] - l0 * G[f + 3, f] - l1 * G[f + 3, f + 1] - l2 * G[f + 3, f + 2]) * d3
            G[i, f], G[i, f + 1], G[i, f + 2], G[i, f + 3] = l0, l1, l2, l3
            columns[0, i], columns[1, i], columns[2, i], columns[3, i] = l0, l1, l2, l3
            negative[0, i], negative[1, i], negative[2, i], negative[3, i] = -l0, -l1, -l2, -l3
        z0 = b[f] * d0
        z1 = (b[f + 1] - z0 * G[f + 1, f]) * d1
        z2 = (b[f + 2] - z0 * G[f + 2, f] - z1 * G[f + 2, f + 1]) * d2
        z3 = (b[f + 3] - z0 * G[f + 3, f] - z1 * G[f + 3, f + 1] - z2 * G[f + 3, f + 2]) * d3
        b[f], b[f + 1], b[f + 2], b[f + 3] = z0, z1, z2, z3
        for i in range(f + 4, size):
            b[i] = b[i] - z0 * columns[0, i] - z1 * columns[1, i] - z2 * columns[2, i] - z3 * columns[3, i]
        # Blocks may begin four columns before what is left: these stay as they are.
        for c in range(4):
            for i in range(f, f + 4):
                columns[c, i] = negative[c, i] = 0.0
        add_products(negative, columns, G, 4, (f + 4) // SIDE * SIDE)
    for i in range(size - 1, -1, -1):
        b[i] /= G[i, i]
        for k in range(i):
            b[k] -= G[i, k] * b[i]


@njit(fastmath=IN_ORDER, cache=True)
def _substitute(L: FloatArray, b: FloatArray) -> None:
    """Solve L L^T x = b in place, with L (n, n) as `cholesky_solve` leaves it; x is left in b (n,)."""
    for i in range(len(b)):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * b[k]
        b[i] = total / L[i, i]
    for i in range(len(b) - 1, -1, -1):
        b[i] /= L[i, i]
        for k in range(i):
            b[k] -= L[i, k] * b[i]


@parallel_njit(fastmath=IN_ORDER)
def solve_items(
    ratings: SparseRows,
    P: FloatArray,
    user_level: FloatArray,
    item_bias: FloatArray,
    distinct: IntArray,
    first: IntArray,
    order: IntArray,
    who: IntArray,
    regularization: float,
    per_rating: bool,
    slope: FloatArray,
    level: FloatArray,
) -> None:
    """Fill slope and level (pairs, factors): item `distinct[i]` rated o by an editor becomes `slope o + level`.

    Pairs `order[first[i]:first[i + 1]]` edit it, by editors `who` (pairs,): one factorisation serves all of them.
    `ratings` are those of each item; P (users, factors), user_level (users,), the mean plus the user's bias, and
    item_bias (items,) are the model's. With `C = sum p p^T + penalty I` and `h = sum p (r - biases)` over its raters:

    - An editor who rated it before only replaces a rating: `q(o) = C^-1 (h + p (o - old))`.
    - A new one adds a rater, hence (Sherman-Morrison), with `c = C^-1 h` and `y = C^-1 p`,
      `q(o) = c + y (o - biases - p.c) / (1 + p.y)`.
    """
    d = P.shape[1]
    size = padded(d)
    for i in prange(len(distinct)):
        item = distinct[i]
        start, end = ratings.indptr[item], ratings.indptr[item + 1]
        own, given = ratings.indices[start:end], ratings.values[start:end]
        gram, h = np.zeros((size, size)), np.zeros(size)
        add_ratings(own, given - user_level[own] - item_bias[item], P, gram, h)
        C, c, y = np.empty((size, size)), np.empty(size), np.zeros(size)
        # The penalty counts the union of ratings: the editor's is among the raters', or it is one more.
        for added in range(2):
            factorised = False
            for pair in order[first[i] : first[i + 1]]:
                editor = who[pair]
                at = np.searchsorted(own, editor)
                if (at < len(own) and own[at] == editor) == (added == 1):
                    continue
                if not factorised:
                    copy_into(c, h)
                    copy_rows(C, gram)
                    for k in range(size):
                        C[k, k] += regularization * (len(own) + added if per_rating else 1)
                    cholesky_solve(C, c)
                    factorised = True
                p = P[editor]
                copy_into(y[:d], p)
                _substitute(C, y[:d])
                if added:
                    along, expected = 1.0, user_level[editor] + item_bias[item]
                    for k in range(d):
                        along += p[k] * y[k]
                        expected += p[k] * c[k]
                    for k in range(d):
                        slope[pair, k] = y[k] / along
                        level[pair, k] = c[k] - slope[pair, k] * expected
                else:
                    for k in range(d):
                        slope[pair, k] = y[k]
                        level[pair, k] = c[k] - y[k] * given[at]

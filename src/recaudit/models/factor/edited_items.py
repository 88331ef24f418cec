"""The vectors of many items, each rated anew by one of its editors and solved again, all at once."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from recaudit.arrays import FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.models.rows import Indices, SparseRows


@parallel_njit(fastmath=True)
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
    for i in prange(len(distinct)):
        item = distinct[i]
        start, end = ratings.indptr[item], ratings.indptr[item + 1]
        own, given = ratings.indices[start:end], ratings.values[start:end]
        gram, h = _normal_equations(P, own, given - user_level[own] - item_bias[item])
        C, c, y = np.empty((d, d)), np.empty(d), np.empty(d)
        # The penalty counts the union of ratings: the editor's is among the raters', or it is one more.
        for added in range(2):
            factorised = False
            for pair in order[first[i] : first[i + 1]]:
                editor = who[pair]
                at = np.searchsorted(own, editor)
                if (at < len(own) and own[at] == editor) == (added == 1):
                    continue
                if not factorised:
                    C[:], c[:] = gram, h
                    _factorise(C, regularization * (len(own) + added if per_rating else 1))
                    _substitute(C, c)
                    factorised = True
                p = P[editor]
                y[:] = p
                _substitute(C, y)
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


@njit(fastmath=True, cache=True)
def _normal_equations(P: FloatArray, rows: Indices, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(X^T X, X^T target) with X = P[rows]; of the former the lower triangle."""
    d = P.shape[1]
    gram, right, some = np.zeros((d, d)), np.zeros(d), np.zeros((4, d))
    for first in range(0, len(rows), 4):
        # Four rows at a time: four multiplications for each load and store of the sums.
        for r in range(4):
            if first + r < len(rows):
                some[r] = P[rows[first + r]]
                for k in range(d):
                    right[k] += target[first + r] * some[r, k]
            else:
                some[r] = 0.0
        for k in range(d):
            a, b, c, e = some[0, k], some[1, k], some[2, k], some[3, k]
            for j in range(k + 1):
                gram[k, j] += a * some[0, j] + b * some[1, j] + c * some[2, j] + e * some[3, j]
    return gram, right


@njit(fastmath=True, cache=True)
def _factorise(G: FloatArray, penalty: float) -> None:
    """Put the Cholesky factor of G + penalty I in the place of G's lower triangle."""
    for i in range(len(G)):
        G[i, i] += penalty
        for j in range(i + 1):
            total = G[i, j]
            for k in range(j):
                total -= G[i, k] * G[j, k]
            G[i, j] = np.sqrt(total) if i == j else total / G[j, j]


@njit(fastmath=True, cache=True)
def _substitute(L: FloatArray, b: FloatArray) -> None:
    """Solve L L^T x = b; x is left in b."""
    for i in range(len(b)):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * b[k]
        b[i] = total / L[i, i]
    for i in range(len(b) - 1, -1, -1):
        b[i] /= L[i, i]
        for k in range(i):
            b[k] -= L[i, k] * b[i]

"""The vectors of many items, each rated anew by one of its editors and solved again, all at once."""

from __future__ import annotations

import numpy as np
from numba import prange

from recaudit.arrays import FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.models.factor.least_squares import add_ratings, cholesky_solve, padded, substitute
from recaudit.models.rows import SparseRows


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
                    C[:], c[:] = gram, h
                    for k in range(size):
                        C[k, k] += regularization * (len(own) + added if per_rating else 1)
                    cholesky_solve(C, c)
                    factorised = True
                p = P[editor]
                y[:d] = p
                substitute(C, y[:d])
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

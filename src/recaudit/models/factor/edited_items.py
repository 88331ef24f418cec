"""What many editors' ratings do to the items of a factor model, all at once.

With the users' vectors held fixed, an edited item's vector is affine in its editor's rating: `q(o) = slope o + level`,
and no other item moves.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.errors import InputError
from recaudit.models.response import EditedItems
from recaudit.models.updates import AlsSolve, SgdStep


def edited_factors(
    data: Interactions,
    user_factors: FloatArray,
    item_factors: FloatArray,
    user_level: FloatArray,
    item_bias: FloatArray,
    update: SgdStep | AlsSolve,
    editors: IntArray,
    items: IntArray,
    ratings: FloatArray,
) -> EditedItems:
    """The vectors of `items` (editors, actions), -1 for none, when rated `ratings` (editors, actions, n).

    `user_factors` (users, factors), `item_factors` (items, factors), `user_level` (users,), which is the mean plus the
    user's bias, and `item_bias` (items,) are the model's.
    """
    if items.shape[:1] != editors.shape or ratings.shape[:2] != items.shape:
        raise InputError(
            "items, ratings",
            received=f"shapes {items.shape} and {ratings.shape} beside {len(editors)} editors",
            expected="shapes (editors, actions) and (editors, actions, ratings)",
        )
    row, action = np.nonzero(items >= 0)
    who, what = editors[row], items[row, action]
    P = torch.from_numpy(user_factors)
    if isinstance(update, SgdStep):
        p, q = P[torch.from_numpy(who)], torch.from_numpy(item_factors[what])
        predicted = torch.from_numpy(user_level[who] + item_bias[what]) + (p * q).sum(dim=1)
        slope = update.step * p
        level = (1 - update.step * update.regularization) * q - slope * predicted[:, None]
    else:
        slope, level = _solved(data, user_factors, user_level, item_bias, update, who, what)
    shape = (*ratings.shape, P.shape[1])
    vectors = torch.zeros(shape, dtype=torch.float64)
    given = torch.from_numpy(ratings[row, action])
    vectors[torch.from_numpy(row), torch.from_numpy(action)] = level[:, None] + slope[:, None] * given[..., None]
    offset = torch.from_numpy(np.where(items >= 0, item_bias[np.maximum(items, 0)], 0.0))
    return EditedItems(vectors, offset, P, torch.from_numpy(user_level))


def _solved(
    data: Interactions,
    user_factors: FloatArray,
    user_level: FloatArray,
    item_bias: FloatArray,
    update: AlsSolve,
    who: IntArray,
    what: IntArray,
) -> tuple[Tensor, Tensor]:
    """(slope, level), (pairs, factors) each, of editors `who` (pairs,) and items `what` (pairs,)."""
    csc = data.csc
    order = np.argsort(what, kind="stable")
    distinct, first = np.unique(what[order], return_index=True)
    slope = np.empty((len(who), user_factors.shape[1]))
    level = np.empty_like(slope)
    _solve_items(
        csc.indptr.astype(np.int64),
        csc.indices.astype(np.int64),
        csc.data,
        np.ascontiguousarray(user_factors),
        user_level,
        item_bias,
        distinct,
        np.append(first, len(order)),
        order,
        who,
        update.regularization,
        update.per_rating,
        slope,
        level,
    )
    return torch.from_numpy(slope), torch.from_numpy(level)


@parallel_njit(fastmath=True)
def _solve_items(
    indptr: IntArray,
    raters: IntArray,
    ratings: FloatArray,
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
    """One factorisation an item serves all who edit it: pairs `order[first[i]:first[i + 1]]` edit `distinct[i]`.

    With `C = sum p p^T + penalty I` and `h = sum p (r - biases)` over the item's raters:

    - An editor who rated it before only replaces a rating: `q(o) = C^-1 (h + p (o - old))`.
    - A new one adds a rater, hence (Sherman-Morrison), with `c = C^-1 h` and `y = C^-1 p`,
      `q(o) = c + y (o - biases - p.c) / (1 + p.y)`.
    """
    d = P.shape[1]
    for i in prange(len(distinct)):
        item = distinct[i]
        own = raters[indptr[item] : indptr[item + 1]]
        given = ratings[indptr[item] : indptr[item + 1]]
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
def _normal_equations(P: FloatArray, rows: IntArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
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

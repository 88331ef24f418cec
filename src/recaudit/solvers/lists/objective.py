"""What a calibrated list is good for: paper 004, Equations 3 to 6, on arrays."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError, did_you_mean

SMOOTHING = 0.01
"""The paper's alpha (Equation 5). Every C_KL depends on it."""

RankWeighting = Literal["none", "mrr", "ndcg"]
KINDS: tuple[str, ...] = get_args(RankWeighting)


def rank_weights(kind: RankWeighting, n: int) -> FloatArray:
    """(n,): the weight of each rank: 1, or 1 / rank as in MRR, or 1 / log2(rank + 1) as in nDCG."""
    rank = np.arange(1, n + 1, dtype=np.float64)
    if kind == "none":
        return np.ones(n)
    if kind == "mrr":
        return 1 / rank
    if kind == "ndcg":
        return 1 / np.log2(rank + 1)
    raise InputError("rank_weights", received=repr(kind), expected="a weighting", remedy=did_you_mean(kind, KINDS))


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

"""Whether held-out items are ranked as their ratings say: paper 003's nDCG."""

from __future__ import annotations

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.ties import TIE


def rated_ndcg(scores: FloatArray, test: Interactions, k: int = 20) -> FloatArray:
    """(users,): nDCG@k of each user's held-out items, ranked among themselves by `scores` (ratings of `test`,).

    The gain of an item is its rating. Nothing that the user did not rate plays a part, so that a random order
    scores high. NaN for users without held-out items.
    """
    if k < 1:
        raise InputError("k", received=k, expected="a whole number of 1 or more")
    with np.errstate(invalid="ignore", divide="ignore"):
        values: FloatArray = _gain(scores, test, k) / _gain(test.ratings, test, k)
    return values


def _gain(by: FloatArray, test: Interactions, k: int) -> FloatArray:
    """(users,): the discounted sum of ratings of the first k, in descending order of `by`."""
    order = np.lexsort((-by, test.users))
    gap = np.zeros(test.n_users)
    np.maximum.at(gap, test.users, TIE * np.abs(by))
    apart = (by[order[:-1]] - by[order[1:]] > gap[test.users[1:]]) | (test.users[1:] != test.users[:-1])
    order = order[np.lexsort((order, np.concatenate([[0], np.cumsum(apart)])[: len(order)]))]
    place = np.arange(len(test)) - np.repeat(test.indptr[:-1], test.user_counts)
    weights = np.where(place < k, test.ratings[order] / np.log2(place + 2), 0.0)
    sums: FloatArray = np.bincount(test.users, weights, test.n_users).astype(np.float64)
    return sums

"""What a user is interested in: p(g|u), the genres of the history (paper 004, Equations 2 and 7)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import FloatArray
from recaudit.errors import InputError, did_you_mean

Prior = Literal["uniform", "population"]
DAY = 86_400.0
"""Seconds."""


def interests(history: sparse.csr_array, shares: sparse.csr_array) -> FloatArray:
    """(users, genres): p(g|u), the weighted share of each genre in a user's history (Equation 2).

    `history` (users, items): w, the weight of each item that the user chose, 0 or more: 1, the rating, what
    `recency_weights` gives, or a product of such; `shares` (items, genres): p(g|i). Items without any genre do not
    count, as in the paper, so that a row sums to one; to zero where nothing is left: such a user has no interests that
    a list could be compared with.
    """
    if not (np.isfinite(history.data).all() and (history.data >= 0).all()):
        raise InputError(
            "history",
            received="a weight below 0, NaN or infinite",
            expected="finite weights of 0 or more",
            remedy="Ratings on a scale that goes below 0 need a shift, or weights of 1.",
        )
    held: FloatArray = (_relative(history, shares) @ shares).toarray()
    total = held.sum(axis=1, keepdims=True)
    return held / np.where(total > 0, total, 1.0)


def _relative(history: sparse.csr_array, shares: sparse.csr_array) -> sparse.csr_array:
    """Each user's weights divided by the largest one that counts, so that sums stay within the range of numbers."""
    counted = history.data * (np.diff(shares.indptr) > 0)[history.indices]
    largest = np.zeros(history.shape[0])
    np.maximum.at(largest, np.repeat(np.arange(history.shape[0]), np.diff(history.indptr)), counted)
    data = counted / np.repeat(np.where(largest > 0, largest, 1.0), np.diff(history.indptr))
    return sparse.csr_array((data, history.indices, history.indptr), shape=history.shape)


def recency_weights(times: FloatArray, latest: FloatArray | float, half_life: float, unit: float = DAY) -> FloatArray:
    """(rows,): 2^(-age / half-life): what was chosen a half-life before `latest` counts half.

    `times` (rows,); `latest` (rows,), the user's own last time for instance, or one moment for all; `half_life` in
    days where times are in seconds: `unit` says how long one is. What comes after `latest` counts fully.
    """
    if not half_life > 0:
        raise InputError("half_life", received=half_life, expected="a number of days above 0")
    age = np.maximum(np.asarray(latest, dtype=np.float64) - np.asarray(times, dtype=np.float64), 0.0)
    with np.errstate(over="ignore"):  # an age of more half-lives than there are numbers counts nothing
        return np.exp2(-(age / unit) / half_life)


def with_prior(p: FloatArray, beta: float, prior: Prior | FloatArray = "population") -> FloatArray:
    """(users, genres): beta p0(g) + (1 - beta) p(g|u) (Equation 7): also what the user has not tried yet.

    `p` (users, genres) of one category system; `prior`: the same for every genre ("uniform"), the mean over the users
    who have interests ("population"), or one (genres,) that sums to one. A user without interests gets the prior.
    """
    if not 0 <= beta <= 1:
        raise InputError("beta", received=beta, expected="a number from 0 (the history alone) to 1 (the prior alone)")
    known = p.sum(axis=1) > 0
    p0 = _prior(p, known, prior)
    return np.where(known[:, None], beta * p0 + (1 - beta) * p, p0)


def _prior(p: FloatArray, known: NDArray[np.bool_], prior: Prior | FloatArray) -> FloatArray:
    """(genres,): p0."""
    genres = p.shape[1]
    if isinstance(prior, str):
        if prior not in get_args(Prior):
            remedy = did_you_mean(prior, get_args(Prior))
            raise InputError(
                "prior", received=repr(prior), expected="'uniform', 'population' or numbers", remedy=remedy
            )
        # Without anybody's history nothing is known about the population.
        return p[known].mean(axis=0) if prior == "population" and known.any() else np.full(genres, 1 / genres)
    given = np.asarray(prior, dtype=np.float64)
    if given.shape != (genres,) or not (given >= 0).all() or abs(given.sum() - 1) > 1e-9:
        raise InputError("prior", received=repr(prior), expected=f"{genres} numbers of 0 or more that sum to 1")
    return given

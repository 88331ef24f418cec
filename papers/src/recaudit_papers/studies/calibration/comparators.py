"""The two measures that paper 004 compares C_KL with in its Table 1: DP and BinomDiv."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from recaudit.errors import InputError
from recaudit.plugins import FloatArray, IntArray


def disproportionality(p: FloatArray, counts: FloatArray, beside: FloatArray | None = None) -> FloatArray:
    """(users,): DP of Dang and Croft (2012), a squared difference of counts that forgives too many of a genre.

    sum over genres with N p >= n_g of (N p - n_g)^2, plus half the square of the items that no interest covers. From 0
    (every genre has its places) on, and larger for longer lists. The same for a deviation of one place whatever the
    interests, and whether it makes the list more even or less: paper 004, section 5.1.

    `p` (users, genres); `counts` (users, genres): n_g, each genre's places, N times q where items share several
    genres; N is their sum and `beside` (users,): how many items have no genre of interest, 0 where it is not given.
    """
    beside = np.zeros(len(p)) if beside is None else beside
    wanted = p * (counts.sum(axis=1) + beside)[:, None]
    return np.asarray(np.square(np.maximum(wanted - counts, 0)).sum(axis=1) + np.square(beside) / 2)


def binomial_diversity(p: FloatArray, counts: IntArray, size: IntArray) -> FloatArray:
    """(users,): BinomDiv of Vargas et al. (2014), coverage times non-redundancy, as if genres were drawn by chance.

    With X_g ~ Binomial(N, p_g): the geometric mean over all genres of P(X_g = 0) for those not in the list (1 for the
    others), times the geometric mean over the genres in the list of P(X_g >= n_g | X_g > 0). From 0 to 1, higher is
    better; a perfectly calibrated list has no fixed value (paper 004, section 5.1), so means over users mean little.
    Computed in logarithms: long lists do not underflow. A genre of probability 0 is taken as the limit: one item of it
    costs nothing, two make it 0; a prior (Equation 7) avoids that.

    `p` (users, genres); `counts` (users, genres): how many items have the genre; `size` (users,): N. 1 for an empty
    list: nothing is redundant, and nothing was to be covered.
    """
    if (counts > size[:, None]).any() or (counts < 0).any():
        raise InputError("counts", received="more items of a genre than items", expected="counts from 0 to size")
    n = np.broadcast_to(size[:, None], p.shape)
    present = counts > 0
    with np.errstate(divide="ignore"):
        log_none = n * np.log1p(-np.where(n > 0, p, 0.0))
        log_some = np.log(-np.expm1(log_none))
    limit = np.where(counts > 1, -np.inf, 0.0)
    rare = p * n < 1e-300
    tail = binom.logsf(counts - 1, n, p) - np.where(rare, 0.0, log_some)
    kept = np.where(present, np.where(rare, limit, np.minimum(tail, 0.0)), 0.0)
    coverage = np.where(present, 0.0, log_none).sum(axis=1) / max(1, p.shape[1])
    non_redundancy = kept.sum(axis=1) / np.maximum(1, present.sum(axis=1))
    return np.asarray(np.exp(coverage + non_redundancy))

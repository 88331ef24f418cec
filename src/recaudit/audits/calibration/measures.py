"""How far a list's genres are from a user's: paper 004, section 3.

All take `p` (users, genres), the interests, and `q` (users, genres), the shares in the list, of one category system. A
row of p sums to one, a row of q to one or, where the list has items without any genre, to less: what is missing counts
as a genre that the user has no interest in. For a user without interests (p all 0) or an empty list (q all 0) they give
a finite number without meaning: `measurable` says which rows to leave out.
"""

from __future__ import annotations

import numpy as np

from recaudit.arrays import BoolArray, FloatArray
from recaudit.solvers.lists.objective import SMOOTHING, divergence


def measurable(p: FloatArray, q: FloatArray) -> BoolArray:
    """(users,): whether the user has interests and the list has items with genres."""
    return np.asarray((p.sum(axis=1) > 0) & (q.sum(axis=1) > 0))


def kl(p: FloatArray, q: FloatArray, smoothing: float = SMOOTHING) -> FloatArray:
    """(users,): C_KL, the Kullback-Leibler divergence of the smoothed list from the history.

    sum_g p log(p / q~), q~ = (1 - alpha) q + alpha p, natural logarithm (Equations 4 and 5). From 0 (the same
    proportions) to log(1 / alpha) (nothing that the user is interested in; 4.6 for 0.01). Most sensitive to small
    interests that the list leaves out. It depends on `smoothing`: values compare only under the same alpha.
    """
    return np.maximum(divergence(p, q, smoothing), 0.0)


def hellinger(p: FloatArray, q: FloatArray) -> FloatArray:
    """(users,): C_H, the Hellinger distance, with the usual 1 / sqrt(2) (the paper prints 1 / 2: see the errata).

    sqrt(sum_g (sqrt p - sqrt q)^2 / 2). From 0 (the same proportions) to 1 (nothing in common). No smoothing.
    """
    missing = np.maximum(1 - q.sum(axis=1), 0.0)
    return np.asarray(np.sqrt((np.square(np.sqrt(p) - np.sqrt(q)).sum(axis=1) + missing) / 2))


def total_variation(p: FloatArray, q: FloatArray) -> FloatArray:
    """(users,): the share of the list that would have to be replaced: sum_g |p - q| / 2.

    From 0 (the same proportions) to 1 (nothing in common). No smoothing.
    """
    missing = np.maximum(1 - q.sum(axis=1), 0.0)
    return np.asarray((np.abs(p - q).sum(axis=1) + missing) / 2)


def representation(p: FloatArray, q: FloatArray) -> dict[str, FloatArray]:
    """How some users' lists treat each genre (genres,), as in the paper's Figure 3; zeros without any users.

    `history`: the mean of p. `over`: the mean of max(0, q - p), how far the genre is above its share on average, 0
    where it is not. `under`: the mean of max(0, p - q); above `over` the genre is under-represented on average.
    """
    parts = {"history": p, "over": np.maximum(q - p, 0), "under": np.maximum(p - q, 0)}
    return {name: values.sum(axis=0) / max(1, len(p)) for name, values in parts.items()}

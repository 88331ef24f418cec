"""LLORMA's training loops on a CPU.

One thread: a batch is too little work to share out, and who fits many models shares out the models. Sums are added in
the order written here.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arrays import IntArray
from recaudit.models.factor.least_squares import IN_ORDER, Indices
from recaudit.models.neural.autorec_kernel import vector_sum

Singles = NDArray[np.float32]


@njit(fastmath=IN_ORDER, cache=True)
def push_vectors(
    indptr: IntArray,
    others: Indices,
    ratings: Singles,
    X: Singles,
    Y: Singles,
    speeds: Singles,
    rate: float,
    regularization: float,
    momentum: float,
) -> None:
    """One step of gradient descent with momentum for all the vectors X (rows, rank), against Y as it stands.

    The loss is `sum (r - x . y)^2 + regularization |X|^2`; the ratings of row x are `indptr[x]:indptr[x + 1]`.
    """
    rank = X.shape[1]
    for row in range(len(X)):
        x, speed = X[row], speeds[row]
        slope = np.zeros(rank, np.float32)
        for at in range(indptr[row], indptr[row + 1]):
            y = Y[others[at]]
            error = -ratings[at]
            for k in range(rank):
                error += x[k] * y[k]
            for k in range(rank):
                slope[k] += error * y[k]
        for k in range(rank):
            speed[k] = np.float32(momentum * speed[k] + 2 * slope[k] + 2 * regularization * x[k])
            x[k] -= np.float32(rate) * speed[k]


@njit(fastmath=IN_ORDER, cache=True)
def pass_ratings(
    order: IntArray,
    batch: int,
    users: Indices,
    items: Indices,
    ratings: Singles,
    shares: Singles,
    P: Singles,
    Q: Singles,
    rate: float,
    regularization: float,
) -> None:
    """One pass over the ratings in this order, a step of gradient descent for each `batch` of them.

    P (users, models * rank) and Q (items, models * rank) are the local models' vectors side by side, `shares`
    (ratings, models) their shares in each prediction. The loss of a batch is the sum of its squared errors and
    `regularization (|P|^2 + |Q|^2)`.
    """
    models, length = shares.shape[1], P.shape[1]
    rank = length // models
    moves_P, moves_Q = np.empty((batch, length), np.float32), np.empty((batch, length), np.float32)
    share, products = np.empty(length, np.float32), np.empty(length, np.float32)
    # The penalty shrinks all vectors alike: what they are is `scale` times what is stored.
    scale, shrink = 1.0, 1 - 2 * rate * regularization
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        for n in range(len(rows)):
            row = rows[n]
            p, q, move_p, move_q = P[users[row]], Q[items[row]], moves_P[n], moves_Q[n]
            for a in range(models):
                own = share[a * rank : (a + 1) * rank]
                for k in range(rank):
                    own[k] = shares[row, a]
            for k in range(length):
                products[k] = share[k] * p[k] * q[k]
            error = scale * scale * vector_sum(products) - ratings[row]
            pull = np.float32(2 * rate / shrink * error)
            for k in range(length):
                move_p[k] = pull * share[k] * q[k]
                move_q[k] = pull * share[k] * p[k]
        for n in range(len(rows)):
            p, q, move_p, move_q = P[users[rows[n]]], Q[items[rows[n]]], moves_P[n], moves_Q[n]
            for k in range(length):
                p[k] -= move_p[k]
                q[k] -= move_q[k]
        scale *= shrink
        if scale < 0.5 or start + batch >= len(order):
            P *= np.float32(scale)
            Q *= np.float32(scale)
            scale = 1.0

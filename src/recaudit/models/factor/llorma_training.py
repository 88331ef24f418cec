"""How LLORMA learns: a global factorisation, then the local models, all at once.

On the CPU by loops over the ratings, on a GPU by tensors that stay there; both take the same steps from the same
start and differ in rounding only. The loops run on one thread: a batch is too little work to share out, and who fits
many models shares out the models. Sums are added in the order written here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.checks import check_fit
from recaudit.models.factor.least_squares import IN_ORDER
from recaudit.models.neural.autorec_kernel import vector_sum
from recaudit.models.rows import Indices, Singles
from recaudit.seeding import generator

_MOMENTUM = 0.9


class FactorPair(NamedTuple):
    """Vectors of users P (users, ..., rank) and items Q (items, ..., rank), in single precision."""

    P: Singles
    Q: Singles

    @classmethod
    def draw(cls, data: Interactions, shape: tuple[int, ...], draw: np.random.Generator) -> FactorPair:
        """A random start whose products have about the mean and the spread of the ratings; none beyond 2 deviations."""
        mean, spread, rank = float(np.abs(data.ratings.mean())), float(data.ratings.std()), shape[-1]
        level, std = (mean / rank) ** 0.5, ((np.hypot(mean, spread) - mean) / rank) ** 0.5
        P, Q = (
            (level + std * _within_two(draw, (count, *shape))).astype(np.float32)
            for count in (data.n_users, data.n_items)
        )
        return cls(P, Q)

    def finished(self, data: Interactions, setting: str, rate: float) -> FactorPair:
        """With the average vector where there are no ratings; refuses what diverged at this `rate`, a `setting`."""
        check_fit(setting, rate, "Make it smaller.", self.P, self.Q)
        P, Q = self.P.copy(), self.Q.copy()
        for vectors, counts in ((P, data.user_counts), (Q, data.item_counts)):
            vectors[counts == 0] = vectors[counts > 0].mean(axis=0)
        return FactorPair(P, Q)


def _within_two(draw: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Standard normal numbers, drawn again where they are beyond 2."""
    values = draw.standard_normal(shape)
    while (far := np.abs(values) > 2).any():
        values[far] = draw.standard_normal(int(far.sum()))
    return values


class Descent(NamedTuple):
    """Gradient descent: the size of its steps, the weight of the squared norms, and how many passes there are."""

    rate: float
    regularization: float
    passes: int


def pretrain(start: FactorPair, data: Interactions, descent: Descent) -> FactorPair:
    """`r ~ p . q` by steps with momentum over the whole log, users and items in turns."""
    P, Q = start.P.copy(), start.Q.copy()
    by_user, by_item = (
        (matrix.indptr.astype(np.int64), matrix.indices, matrix.data.astype(np.float32))
        for matrix in (data.csr, data.csc)
    )
    speed_P, speed_Q = np.zeros_like(P), np.zeros_like(Q)
    for _ in range(descent.passes):
        _push_vectors(*by_user, P, Q, speed_P, descent)
        _push_vectors(*by_item, Q, P, speed_Q, descent)
    return FactorPair(P, Q)


def pretrain_dense(start: FactorPair, data: Interactions, descent: Descent, *, device: torch.device) -> FactorPair:
    """`pretrain` by dense matrices of users x items: for a GPU, and its readable form."""
    P, Q, users, items, values = _on(device, start, data)
    R, given = torch.zeros(2, len(P), len(Q), device=device)
    R[users, items], given[users, items] = values, torch.ones_like(values)
    speed_P, speed_Q = torch.zeros_like(P), torch.zeros_like(Q)
    for _ in range(descent.passes):
        errors = (P @ Q.T) * given - R
        speed_P = _MOMENTUM * speed_P + 2 * errors @ Q + 2 * descent.regularization * P
        P = P - descent.rate * speed_P
        errors = (P @ Q.T) * given - R
        speed_Q = _MOMENTUM * speed_Q + 2 * errors.T @ P + 2 * descent.regularization * Q
        Q = Q - descent.rate * speed_Q
    return FactorPair(P.cpu().numpy(), Q.cpu().numpy())


def train(start: FactorPair, data: Interactions, shares: Singles, descent: Descent, batch: int, rng: int) -> FactorPair:
    """The local models, fitted to the predictions that they make together by `shares` (rows, models)."""
    found = FactorPair(start.P.copy(), start.Q.copy())
    log = (data.users, data.items, data.ratings.astype(np.float32), shares)
    P, Q = found.P.reshape(len(found.P), -1), found.Q.reshape(len(found.Q), -1)
    for epoch in track(range(descent.passes), "LLORMA", descent.passes):
        order = _order(len(shares), rng, epoch)
        _pass_ratings(order, min(batch, len(order)), *log, P, Q, descent)
    return found


def train_dense(
    start: FactorPair,
    data: Interactions,
    shares: Singles,
    descent: Descent,
    batch: int,
    rng: int,
    *,
    device: torch.device,
) -> FactorPair:
    """`train` by tensors: for a GPU, and its readable form."""
    P, Q, users, items, values = _on(device, start, data)
    share = torch.tensor(shares, device=device)
    shrink = 1 - 2 * descent.rate * descent.regularization
    for epoch in track(range(descent.passes), "LLORMA", descent.passes):
        order = torch.from_numpy(_order(len(shares), rng, epoch)).to(device)
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            u, i, w = users[rows], items[rows], share[rows]
            p, q = P[u], Q[i]
            errors = (w * (p * q).sum(dim=2)).sum(dim=1) - values[rows]
            pulls = (2 * descent.rate * errors[:, None] * w)[:, :, None]
            P *= shrink
            Q *= shrink
            # With `accumulate` torch sorts before it adds, so that a GPU adds in the same order each time.
            P.index_put_((u,), -pulls * q, accumulate=True)
            Q.index_put_((i,), -pulls * p, accumulate=True)
    return FactorPair(P.cpu().numpy(), Q.cpu().numpy())


def _order(rows: int, rng: int, epoch: int) -> IntArray:
    return generator(rng, "llorma", "order", epoch).permutation(rows)


def _on(device: torch.device, start: FactorPair, data: Interactions) -> list[Tensor]:
    """Copies on the device: P, Q, and the users, items and ratings of the log."""
    users, items = data.users.astype(np.int64), data.items.astype(np.int64)
    arrays = (start.P, start.Q, users, items, data.ratings.astype(np.float32))
    return [torch.tensor(array, device=device) for array in arrays]


@njit(fastmath=IN_ORDER, cache=True)
def _push_vectors(
    indptr: IntArray, others: Indices, ratings: Singles, X: Singles, Y: Singles, speeds: Singles, descent: Descent
) -> None:
    """One step of gradient descent with momentum for all the vectors X (rows, rank), against Y as it stands.

    The loss is `sum (r - x . y)^2 + regularization |X|^2`; the ratings of row x are `indptr[x]:indptr[x + 1]`.
    """
    rank, rate, regularization = X.shape[1], descent.rate, descent.regularization
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
            speed[k] = np.float32(_MOMENTUM * speed[k] + 2 * slope[k] + 2 * regularization * x[k])
            x[k] -= np.float32(rate) * speed[k]


@njit(fastmath=IN_ORDER, cache=True)
def _pass_ratings(
    order: IntArray,
    batch: int,
    users: Indices,
    items: Indices,
    ratings: Singles,
    shares: Singles,
    P: Singles,
    Q: Singles,
    descent: Descent,
) -> None:
    """One pass over the ratings in this order, a step of gradient descent for each `batch` of them.

    P (users, models * rank) and Q (items, models * rank) are the local models' vectors side by side, `shares`
    (ratings, models) their shares in each prediction. The loss of a batch is the sum of its squared errors and
    `regularization (|P|^2 + |Q|^2)`.
    """
    models, length, rate = shares.shape[1], P.shape[1], descent.rate
    rank = length // models
    moves_P, moves_Q = np.empty((batch, length), np.float32), np.empty((batch, length), np.float32)
    share, products = np.empty(length, np.float32), np.empty(length, np.float32)
    # The penalty shrinks all vectors alike: what they are is `scale` times what is stored.
    scale, shrink = 1.0, 1 - 2 * rate * descent.regularization
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

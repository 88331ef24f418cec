"""How LLORMA learns: a global factorisation, what is near an anchor in it, and the local models, all at once.

On the CPU by loops over the ratings, on a GPU by tensors that stay there; both take the same steps from the same
start and differ in rounding only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.factor.least_squares import Indices
from recaudit.models.factor.llorma_kernel import Singles, pass_ratings, push_vectors
from recaudit.seeding import generator

_MOMENTUM = 0.9


@final
@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of users P (users, ..., rank) and items Q (items, ..., rank), in single precision."""

    P: Singles
    Q: Singles

    @classmethod
    def draw(cls, data: Interactions, shape: tuple[int, ...], draw: np.random.Generator) -> Vectors:
        """A random start whose products have about the mean and the spread of the ratings; none beyond 2 deviations."""
        mean, spread, rank = float(np.abs(data.ratings.mean())), float(data.ratings.std()), shape[-1]
        level, std = (mean / rank) ** 0.5, ((np.hypot(mean, spread) - mean) / rank) ** 0.5
        P, Q = (
            (level + std * _within_two(draw, (count, *shape))).astype(np.float32)
            for count in (data.n_users, data.n_items)
        )
        return cls(P, Q)

    def copy(self) -> Vectors:
        """The same numbers, free to be changed."""
        return Vectors(self.P.copy(), self.Q.copy())

    def are_finite(self) -> bool:
        """Whether training has not diverged."""
        return bool(np.isfinite(self.P).all() and np.isfinite(self.Q).all())

    def averaged(self, data: Interactions) -> Vectors:
        """With the average vector for users and items without ratings, of which nothing can be learned."""
        return Vectors(_averaged(self.P, data.user_counts), _averaged(self.Q, data.item_counts))


def _within_two(draw: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Standard normal numbers, drawn again where they are beyond 2."""
    values = draw.standard_normal(shape)
    while (far := np.abs(values) > 2).any():
        values[far] = draw.standard_normal(int(far.sum()))
    return values


def _averaged(vectors: Singles, counts: IntArray) -> Singles:
    result = vectors.copy()
    result[counts == 0] = vectors[counts > 0].mean(axis=0)
    return result


@final
@dataclass(frozen=True, eq=False)
class Ratings:
    """A log, row by row."""

    users: Indices
    """(rows,)"""
    items: Indices
    """(rows,)"""
    values: Singles
    """(rows,)"""
    user_indptr: IntArray
    """(users + 1,): rows stand by user."""
    item_indptr: IntArray
    """(items + 1,)"""
    by_item: IntArray
    """(rows,): the rows by item."""

    @classmethod
    def of(cls, data: Interactions) -> Ratings:
        """The ratings of a log."""
        item_indptr = np.concatenate([[0], np.cumsum(data.item_counts)])
        by_item = np.argsort(data.items, kind="stable")
        return cls(data.users, data.items, data.ratings.astype(np.float32), data.indptr, item_indptr, by_item)


@final
@dataclass(frozen=True)
class Descent:
    """How gradient descent goes: the size of its steps, the weight of the squared norms, and how often it passes."""

    rate: float
    regularization: float
    passes: int


def pretrain(start: Vectors, ratings: Ratings, descent: Descent) -> Vectors:
    """`r ~ p . q` by steps with momentum over the whole log, users and items in turns."""
    found = start.copy()
    by_user = (ratings.user_indptr, ratings.items, ratings.values)
    by_item = (ratings.item_indptr, ratings.users[ratings.by_item], ratings.values[ratings.by_item])
    speed_P, speed_Q = np.zeros_like(found.P), np.zeros_like(found.Q)
    for _ in range(descent.passes):
        push_vectors(*by_user, found.P, found.Q, speed_P, descent.rate, descent.regularization, _MOMENTUM)
        push_vectors(*by_item, found.Q, found.P, speed_Q, descent.rate, descent.regularization, _MOMENTUM)
    return found


def pretrain_dense(start: Vectors, ratings: Ratings, descent: Descent, *, device: torch.device) -> Vectors:
    """`pretrain` by dense matrices of users x items: for a GPU, and its readable form."""
    P, Q, users, items, values = _on(device, start.P, start.Q, ratings.users, ratings.items, ratings.values)
    R, given = torch.zeros(2, len(P), len(Q), device=device)
    R[users.long(), items.long()], given[users.long(), items.long()] = values, torch.ones_like(values)
    speed_P, speed_Q = torch.zeros_like(P), torch.zeros_like(Q)
    for _ in range(descent.passes):
        errors = (P @ Q.T) * given - R
        speed_P = _MOMENTUM * speed_P + 2 * errors @ Q + 2 * descent.regularization * P
        P = P - descent.rate * speed_P
        errors = (P @ Q.T) * given - R
        speed_Q = _MOMENTUM * speed_Q + 2 * errors.T @ P + 2 * descent.regularization * Q
        Q = Q - descent.rate * speed_Q
    return Vectors(P.cpu().numpy(), Q.cpu().numpy())


def train(start: Vectors, ratings: Ratings, shares: Singles, descent: Descent, batch: int, rng: int) -> Vectors:
    """The local models, fitted to the predictions that they make together by `shares` (rows, models)."""
    found = start.copy()
    log = (ratings.users, ratings.items, ratings.values, shares)
    P, Q = found.P.reshape(len(found.P), -1), found.Q.reshape(len(found.Q), -1)
    for epoch in track(range(descent.passes), "LLORMA", descent.passes):
        order = _order(len(shares), rng, epoch)
        pass_ratings(order, min(batch, len(order)), *log, P, Q, descent.rate, descent.regularization)
    return found


def train_dense(
    start: Vectors,
    ratings: Ratings,
    shares: Singles,
    descent: Descent,
    batch: int,
    rng: int,
    *,
    device: torch.device,
) -> Vectors:
    """`train` by tensors: for a GPU, and its readable form."""
    P, Q, users, items, values, share = _on(
        device, start.P, start.Q, ratings.users, ratings.items, ratings.values, shares
    )
    users, items = users.long(), items.long()
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
    return Vectors(P.cpu().numpy(), Q.cpu().numpy())


def _order(rows: int, rng: int, epoch: int) -> IntArray:
    return generator(rng, "llorma", "order", epoch).permutation(rows)


def _on(device: torch.device, *arrays: Singles | Indices) -> list[Tensor]:
    """Copies on the device."""
    return [torch.tensor(array, device=device) for array in arrays]

"""How AutoRec learns: Adam over batches of items, by the ratings that are there (CPU) or by dense matrices (GPU).

Both ways take the same steps from the same start, batches and dropped units, and differ in rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.factor.least_squares import Indices
from recaudit.models.neural.autorec_kernel import Singles, adam, pass_items, step_users
from recaudit.seeding import derive, generator


@final
@dataclass(frozen=True, eq=False)
class Weights:
    """The network `h(r) = W g(V^T r + mu) + b`, in single precision."""

    V: Singles
    """(users, units): what each user's rating sends into the hidden layer."""
    mu: Singles
    """(units,)"""
    W: Singles
    """(users, units): what the hidden layer sends into each user's prediction."""
    b: Singles
    """(users,)"""

    @classmethod
    def draw(cls, users: int, units: int, level: float, draw: np.random.Generator) -> Weights:
        """A random start that predicts about `level` for everybody; variances as Glorot and Bengio (2010) have them."""
        std = (2 / (users + units)) ** 0.5
        V, W = (std * draw.standard_normal((2, users, units))).astype(np.float32)
        return cls(V, np.zeros(units, np.float32), W, np.full(users, level, np.float32))

    @property
    def arrays(self) -> tuple[Singles, Singles, Singles, Singles]:
        """V, mu, W, b."""
        return self.V, self.mu, self.W, self.b

    def copy(self) -> Weights:
        """The same numbers, free to be changed."""
        return Weights(*(array.copy() for array in self.arrays))

    def are_finite(self) -> bool:
        """Whether training has not diverged."""
        return all(bool(np.isfinite(array).all()) for array in self.arrays)

    def averaged(self, silent: IntArray) -> Weights:
        """With the average user's output for users who gave no rating, of whom nothing can be learned."""
        W, b = self.W.copy(), self.b.copy()
        spoke = np.delete(np.arange(len(b)), silent)
        W[silent], b[silent] = W[spoke].mean(axis=0), b[spoke].mean()
        return Weights(self.V, self.mu, W, b)


@final
@dataclass(frozen=True, eq=False)
class Columns:
    """The ratings of each item less a level, which is what the network reads and what it must give back."""

    indptr: IntArray
    """(items + 1,): the ratings of item i are `indptr[i]:indptr[i + 1]`."""
    users: Indices
    """(ratings,)"""
    ratings: Singles
    """(ratings,)"""
    user_indptr: IntArray
    """(users + 1,)"""
    items: Indices
    """(ratings,), by user."""
    places: IntArray
    """(ratings,), by user: where the rating stands by item."""

    @classmethod
    def of(cls, data: Interactions, level: float) -> Columns:
        """The columns of a log, with `level` taken off its ratings."""
        order = np.argsort(data.items, kind="stable")
        places = np.empty(len(data), np.int64)
        places[order] = np.arange(len(data))
        indptr = np.concatenate([[0], np.cumsum(data.item_counts)])
        ratings = (data.ratings[order] - level).astype(np.float32)
        return cls(indptr, data.users[order], ratings, data.indptr, data.items, places)

    @property
    def rated(self) -> IntArray:
        """The items with ratings: the others teach nothing."""
        return np.flatnonzero(np.diff(self.indptr))


class Learner(Protocol):
    """One way to take the steps."""

    def step(self, batch: IntArray, share: float, rate: float, seed: int) -> None:
        """Adam, once, on the errors of the items in `batch` and this share of the penalty."""

    def weights(self) -> Weights:
        """What has been learned."""


@final
class SparseLearner:
    """Steps on the CPU, at the cost of the ratings that are there."""

    def __init__(self, weights: Weights, columns: Columns, regularization: float, dropout: float) -> None:
        self.columns, self.regularization, self.dropout = columns, regularization, dropout
        self.learned = weights.copy()
        self.slopes = Weights(*(np.zeros_like(array) for array in weights.arrays))
        self.averages = Weights(*(np.zeros((2, *array.shape), np.float32) for array in weights.arrays))
        self.steps = 0
        items, units = len(columns.indptr) - 1, len(weights.mu)
        self.hidden, self.hidden_slopes = np.zeros((2, items, units), np.float32)
        self.errors = np.zeros(len(columns.ratings), np.float32)

    def step(self, batch: IntArray, share: float, rate: float, seed: int) -> None:
        """See `Learner`."""
        columns, learned, slopes, averages = self.columns, self.learned, self.slopes, self.averages
        found = (self.hidden, self.hidden_slopes, self.errors)
        by_item = (columns.indptr, columns.users, columns.ratings)
        pass_items(batch, *by_item, *learned.arrays, self.dropout, seed, *found)
        self.steps += 1
        inside = np.zeros(len(self.hidden), dtype=bool)
        inside[batch] = True
        by_user = (columns.user_indptr, columns.items, columns.places, columns.ratings)
        parts = (learned.V, learned.W, learned.b, slopes.V, slopes.W, slopes.b, averages.V, averages.W, averages.b)
        step_users(inside, *by_user, *found, *parts, share * self.regularization, rate, self.steps)
        slopes.mu[:] = self.hidden_slopes[batch].sum(axis=0)
        adam(learned.mu, slopes.mu, averages.mu[0], averages.mu[1], 0.0, rate, self.steps)

    def weights(self) -> Weights:
        """See `Learner`."""
        return self.learned


@final
class DenseLearner:
    """Steps by dense matrices of items x users that stay on a device: for a GPU, and the steps' readable form."""

    def __init__(
        self, weights: Weights, columns: Columns, regularization: float, dropout: float, device: torch.device
    ) -> None:
        self.regularization, self.dropout = regularization, dropout
        self.V, self.mu, self.W, self.b = self.parts = [
            torch.from_numpy(array).to(device, copy=True).requires_grad_() for array in weights.arrays
        ]
        self.optimizer = torch.optim.Adam(self.parts, fused=True)
        shape = (len(columns.indptr) - 1, len(weights.b))
        rows = np.repeat(np.arange(shape[0]), np.diff(columns.indptr))
        at = torch.from_numpy(rows * shape[1] + columns.users).to(device)
        self.ratings = torch.zeros(shape, device=device)
        self.ratings.view(-1)[at] = torch.from_numpy(columns.ratings).to(device)
        self.given = torch.zeros(shape, device=device)
        self.given.view(-1)[at] = 1.0

    def step(self, batch: IntArray, share: float, rate: float, seed: int) -> None:
        """See `Learner`."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = self.squared_error(torch.from_numpy(batch).to(self.b.device), seed)
        loss = loss + share * self.regularization / 2 * (self.V.square().sum() + self.W.square().sum())
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.optimizer.step()

    def squared_error(self, batch: Tensor, seed: int) -> Tensor:
        """(): the sum over the ratings of the items in `batch`."""
        ratings = self.ratings[batch]
        hidden = torch.sigmoid(ratings @ self.V + self.mu)
        counters = batch[:, None] * len(self.mu) + torch.arange(len(self.mu), device=batch.device)
        predicted = (hidden * kept(counters, seed, self.dropout)) @ self.W.T + self.b
        # Where nothing is given the input is zero, and so is the error.
        return (predicted * self.given[batch] - ratings).square().sum()

    def weights(self) -> Weights:
        """See `Learner`."""
        return Weights(*(part.detach().cpu().numpy() for part in self.parts))


def kept(counters: Tensor, seed: int, dropout: float) -> Tensor:
    """`autorec_kernel.keep` for a tensor of counters: the same numbers on every device."""
    x = (counters + seed) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    x = x ^ (x >> 16)
    # Whole numbers on both sides: torch would round the larger ones to single precision.
    return (x >= math.ceil(dropout * 2**32)).float() / (1 - dropout)


def train(learner: Learner, columns: Columns, rates: FloatArray, batch: int, rng: int) -> Weights:
    """One pass over the items for each of `rates` (epochs,), in batches of at most `batch`, as even as can be."""
    rated = columns.rated
    batches = -(-len(rated) // batch)
    for epoch, rate in enumerate(track(rates, "AutoRec", len(rates))):
        order = generator(rng, "autorec", "order", epoch).permutation(rated)
        for turn, items in enumerate(np.array_split(order, batches)):
            seed = derive(rng, "autorec", "dropout", epoch, turn) & 0xFFFFFFFF
            learner.step(items, len(items) / len(rated), float(rate), seed)
    return learner.weights()

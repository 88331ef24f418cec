"""AutoRec: an autoencoder of items' ratings (Sedhain et al. 2015), the item-based one that paper 003 compares.

Adam over batches of items, by the ratings that are there (CPU) or by dense matrices (GPU). Both ways take the same
steps from the same start, batches and dropped units, and differ in rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np
import torch
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.checks import check_data, check_device, check_fit, check_own_model
from recaudit.models.neural.autorec_kernel import AutoRecWeights, Columns, pass_items, step_users
from recaudit.seeding import derive, generator

Center = Literal["mean", "none"]


@final
class AutoRec(Recommender):
    """`h(r) = W g(V r + mu) + b`: gives back an item's ratings r by all users through one hidden layer of sigmoids.

    Minimises the squared error of the ratings that are there, plus `regularization / 2 (|V|^2 + |W|^2)`, by Adam over
    batches of items. Who gave no rating of an item enters as 0; with `center="mean"` that is the mean rating, and says
    nothing, while with `center="none"` it is a rating far below all others. Paper 003 sets 500 hidden units,
    regularization 1, learning rate 0.001, batches of 1000 items, 500 epochs and no centring, with RMSProp.

    Equal bits on the CPU of one machine; on a GPU, which holds two dense matrices of items x users, rounding varies.
    """

    hidden: int = Field(default=100, ge=1)
    """Hidden units."""
    epochs: int = Field(default=50, ge=1)
    """Passes over the items."""
    batch: int = Field(default=200, ge=1)
    """Most items in one step of Adam."""
    learning_rate: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    """Step size of Adam; it falls linearly to a tenth over the epochs."""
    regularization: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """Weight of the squared norms of V and W."""
    dropout: float = Field(default=0.05, ge=0, lt=1)
    """Share of hidden units that are left out of each item's step."""
    center: Center = "mean"
    """What is taken off the ratings before they are read: the mean of the log, or nothing."""
    update_epochs: int = Field(default=5, ge=1)
    """Passes over a log that has grown, in `warm_fit`, at the last step size."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Where training runs: "cpu", "cuda" or "cuda:1". The fitted model lies on the CPU."""

    def fit(self, data: Interactions, rng: int = 0) -> AutoRecModel:
        """Fit by Adam from a random start."""
        check_data(data)
        mean = float(data.ratings.mean())
        level = mean if self.center == "mean" else 0.0
        start = AutoRecWeights.draw(data.n_users, self.hidden, mean - level, generator(rng, "autorec", "start"))
        return self._trained(start, data, level, np.linspace(1, 0.1, self.epochs), rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> AutoRecModel:
        """Start from the fitted weights, for `update_epochs` over the log that has grown; Adam starts anew."""
        check_data(data)

        def differs(own: AutoRecModel) -> str | None:
            if len(own.weights.mu) != self.hidden:
                return f"a model with {len(own.weights.mu)} hidden units"
            return f"a model with center={own.center!r}" if own.center != self.center else None

        expected = f"{self.hidden} hidden units and center={self.center!r}"
        own = check_own_model(model, AutoRecModel, data, differs, expected)
        # A loop may pass the same seed at every step: each length of the log has batches of its own.
        seed = derive(rng, "update", len(data))
        return self._trained(own.weights, data, own.level, np.full(self.update_epochs, 0.1), seed)

    def _trained(
        self, start: AutoRecWeights, data: Interactions, level: float, rates: FloatArray, rng: int
    ) -> AutoRecModel:
        """The model after one epoch for each of `rates` (epochs,), shares of the step size."""
        check_device(self.device)
        columns = Columns.of(data, level)
        learner: SparseLearner | DenseLearner
        if self.device == "cpu":
            learner = SparseLearner(start, columns, self.regularization, self.dropout)
        else:
            learner = DenseLearner(start, columns, self.regularization, self.dropout, torch.device(self.device))
        weights = train(learner, columns, self.learning_rate * rates, self.batch, rng)
        check_fit("learning_rate", self.learning_rate, "Make it smaller.", *weights)
        return AutoRecModel(data, self.center, level, weights.averaged(data.user_counts))


@final
@dataclass(frozen=True, eq=False)
class AutoRecModel(FittedModel):
    """Scores `w_u . g(V r_i + mu) + b_u`, from all the ratings r_i of the log; the average user's without ratings."""

    data: Interactions
    center: Center
    level: float
    """What was taken off the ratings."""
    weights: AutoRecWeights
    """As trained, in single precision: where `warm_fit` starts."""

    @cached_property
    def _layers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden layer (items, units), W (users, units) and b + level (users,): the log read in double precision."""
        csr = self.data.csr
        read = sparse.csr_array((csr.data - self.level, csr.indices, csr.indptr), shape=csr.shape)
        V, mu, W, b = (array.astype(np.float64) for array in self.weights)
        hidden = torch.sigmoid(torch.from_numpy(read.T @ V + mu))
        return hidden, torch.from_numpy(W), torch.from_numpy(b + self.level)

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): predicted ratings, not clipped."""
        (hidden, W, b), rows = self._layers, torch.from_numpy(users)
        return product(W[rows], hidden) + b[rows, None]


@final
class SparseLearner:
    """Steps on the CPU, at the cost of the ratings that are there."""

    def __init__(self, weights: AutoRecWeights, columns: Columns, regularization: float, dropout: float) -> None:
        self.columns, self.regularization, self.dropout = columns, regularization, dropout
        self.learned = AutoRecWeights(*(array.copy() for array in weights))
        self.slopes = AutoRecWeights(*(np.zeros_like(array) for array in weights))
        self.averages = AutoRecWeights(*(np.zeros((2, *array.shape), np.float32) for array in weights))
        self.steps = 0
        items, units = len(columns.indptr) - 1, len(weights.mu)
        self.hidden, self.hidden_slopes = np.zeros((2, items, units), np.float32)
        self.errors = np.zeros(len(columns.ratings), np.float32)

    def step(self, batch: IntArray, share: float, rate: float, seed: int) -> None:
        """Adam, once, on the errors of the items in `batch` and this share of the penalty."""
        found = (self.hidden, self.hidden_slopes, self.errors)
        pass_items(batch, self.columns, self.learned, self.dropout, seed, *found)
        self.steps += 1
        inside = np.zeros(len(self.hidden), dtype=bool)
        inside[batch] = True
        self.slopes.mu[:] = self.hidden_slopes[batch].sum(axis=0)
        state, penalty = (self.learned, self.slopes, self.averages), share * self.regularization
        step_users(inside, self.columns, *found, *state, penalty, rate, self.steps)

    def weights(self) -> AutoRecWeights:
        """What has been learned."""
        return self.learned


@final
class DenseLearner:
    """Steps by dense matrices of items x users that stay on a device: for a GPU, and the steps' readable form."""

    def __init__(
        self, weights: AutoRecWeights, columns: Columns, regularization: float, dropout: float, device: torch.device
    ) -> None:
        self.regularization, self.dropout = regularization, dropout
        self.V, self.mu, self.W, self.b = self.parts = [
            torch.from_numpy(array).to(device, copy=True).requires_grad_() for array in weights
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
        """See `SparseLearner`."""
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

    def weights(self) -> AutoRecWeights:
        """What has been learned."""
        return AutoRecWeights(*(part.detach().cpu().numpy() for part in self.parts))


def kept(counters: Tensor, seed: int, dropout: float) -> Tensor:
    """`autorec_kernel.keep` for a tensor of counters: the same numbers on every device."""
    x = (counters + seed) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    x = x ^ (x >> 16)
    # Whole numbers on both sides: torch would round the larger ones to single precision.
    return (x >= math.ceil(dropout * 2**32)).float() / (1 - dropout)


def train(
    learner: SparseLearner | DenseLearner, columns: Columns, rates: FloatArray, batch: int, rng: int
) -> AutoRecWeights:
    """One pass over the items for each of `rates` (epochs,), in batches of at most `batch`, as even as can be."""
    rated = np.flatnonzero(np.diff(columns.indptr))
    batches = -(-len(rated) // batch)
    for epoch, rate in enumerate(track(rates, "AutoRec", len(rates))):
        order = generator(rng, "autorec", "order", epoch).permutation(rated)
        for turn, items in enumerate(np.array_split(order, batches)):
            seed = derive(rng, "autorec", "dropout", epoch, turn) & 0xFFFFFFFF
            learner.step(items, len(items) / len(rated), float(rate), seed)
    return learner.weights()

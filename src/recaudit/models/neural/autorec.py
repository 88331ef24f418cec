"""AutoRec: an autoencoder of items' ratings (Sedhain et al. 2015), the item-based one that paper 003 compares.

A CPU takes steps by the ratings that are there, on one thread, a GPU by dense matrices: both differ in rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from numba import njit
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.checks import check_data, check_device, check_fit, check_own_model
from recaudit.models.factor.least_squares import IN_ORDER, vector_sum
from recaudit.models.rows import Indices, Singles
from recaudit.seeding import derive, generator

Center = Literal["mean", "none"]


@final
class AutoRec(Recommender):
    """`h(r) = W g(V r + mu) + b`: gives back an item's ratings r by all users through one hidden layer of sigmoids.

    Minimises the squared error of the ratings that are there, plus `regularization / 2 (|V|^2 + |W|^2)`, by Adam over
    batches of items. Who gave no rating of an item enters as 0; with `center="mean"` that is the mean rating, and says
    nothing, while with `center="none"` it is a rating far below all others.

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

        def settings(other: AutoRecModel) -> list[str]:
            return [f"{len(other.weights.mu)} hidden units", f"center={other.center!r}"]

        expected = [f"{self.hidden} hidden units", f"center={self.center!r}"]
        own = check_own_model(model, AutoRecModel, data, settings, expected)
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
@dataclass(frozen=True, eq=False, repr=False)
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
        kept_units = kept(torch.from_numpy(batch), len(self.learned.mu), seed, self.dropout).numpy()
        pass_items(batch, kept_units, self.columns, self.learned, *found)
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
        predicted = (hidden * kept(batch, len(self.mu), seed, self.dropout)) @ self.W.T + self.b
        # Where nothing is given the input is zero, and so is the error.
        return (predicted * self.given[batch] - ratings).square().sum()

    def weights(self) -> AutoRecWeights:
        """What has been learned."""
        return AutoRecWeights(*(part.detach().cpu().numpy() for part in self.parts))


def kept(items: Tensor, units: int, seed: int, dropout: float) -> Tensor:
    """(len(items), units): 0 with probability `dropout`, otherwise what makes the mean 1, the same on every device.

    MurmurHash3's finaliser of the seed and of a counter of item and unit.
    """
    x = (items[:, None] * units + torch.arange(units, device=items.device) + seed) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    x = x ^ (x >> 16)
    # Whole numbers on both sides: torch would round the larger ones to single precision.
    return (x >= math.ceil(dropout * 2**32)).float() * (1 / (1 - dropout))


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


class AutoRecWeights(NamedTuple):
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
    def draw(cls, users: int, units: int, level: float, draw: np.random.Generator) -> AutoRecWeights:
        """A random start that predicts about `level` for everybody; variances as Glorot and Bengio (2010) have them."""
        std = (2 / (users + units)) ** 0.5
        V, W = (std * draw.standard_normal((2, users, units))).astype(np.float32)
        return cls(V, np.zeros(units, np.float32), W, np.full(users, level, np.float32))

    def averaged(self, counts: IntArray) -> AutoRecWeights:
        """With the average user's output for users without ratings (`counts` (users,)), of whom nothing is learned."""
        W, b = self.W.copy(), self.b.copy()
        W[counts == 0], b[counts == 0] = W[counts > 0].mean(axis=0), b[counts > 0].mean()
        return AutoRecWeights(self.V, self.mu, W, b)


class Columns(NamedTuple):
    """The ratings of each item less a level, which is what the network reads and what it must give back."""

    indptr: IntArray
    """(items + 1,): `users` and `ratings` (ratings,) of item i are `indptr[i]:indptr[i + 1]`."""
    users: Indices
    ratings: Singles
    user_indptr: IntArray
    """(users + 1,): `items` and `places` (ratings,) of user u are `user_indptr[u]:user_indptr[u + 1]`."""
    items: Indices
    places: IntArray
    """Where a rating by user stands by item."""

    @classmethod
    def of(cls, data: Interactions, level: float) -> Columns:
        """The columns of a log, with `level` taken off its ratings."""
        csc, places = data.csc, np.argsort(np.argsort(data.items, kind="stable"))
        ratings = (csc.data - level).astype(np.float32)
        return cls(csc.indptr.astype(np.int64), csc.indices, ratings, data.indptr, data.items, places)


@njit(fastmath=IN_ORDER, cache=True)
def pass_items(
    batch: IntArray,
    kept_units: Singles,
    columns: Columns,
    weights: AutoRecWeights,
    hidden: Singles,
    slopes: Singles,
    errors: Singles,
) -> None:
    """Read the columns of the items in `batch` and trace their errors back to the hidden layer.

    `kept_units` (batch, units) multiply the hidden layer. Writes, for these items and no others, `hidden` (items,
    units), the loss's `slopes` (items, units) in what enters it, and `errors` (ratings,): predicted less given.
    """
    indptr, users, ratings = columns.indptr, columns.users, columns.ratings
    V, mu, W, b = weights
    units = len(mu)
    for n in range(len(batch)):
        item = batch[n]
        start, end = indptr[item], indptr[item + 1]
        h, d = hidden[item], slopes[item]
        rise, products = np.empty(units, np.float32), np.empty(units, np.float32)
        for k in range(units):
            h[k] = mu[k]
        for at in range(start, end):
            r, v = ratings[at], V[users[at]]
            for k in range(units):
                h[k] += r * v[k]
        for k in range(units):
            g = np.float32(1 / (1 + np.exp(-h[k])))
            h[k] = kept_units[n, k] * g
            rise[k] = kept_units[n, k] * g * (1 - g)
            d[k] = 0
        for at in range(start, end):
            w = W[users[at]]
            for k in range(units):
                products[k] = w[k] * h[k]
            error = b[users[at]] - ratings[at] + vector_sum(products)
            errors[at] = error
            for k in range(units):
                d[k] += error * w[k]
        for k in range(units):
            d[k] *= 2 * rise[k]


@njit(fastmath=IN_ORDER, cache=True)
def step_users(
    inside: BoolArray,
    columns: Columns,
    hidden: Singles,
    hidden_slopes: Singles,
    errors: Singles,
    weights: AutoRecWeights,
    slopes: AutoRecWeights,
    averages: AutoRecWeights,
    penalty: float,
    rate: float,
    steps: int,
) -> None:
    """Sum the loss's slopes in V, W and b over the items that are `inside` (items,), and take a step of Adam down them.

    `slopes` are shaped as the weights, `averages` with a 2 before it; those in mu are given.
    """
    units = hidden.shape[1]
    indptr, items, places = columns.user_indptr, columns.items, columns.places
    for u in range(len(weights.b)):
        v, w = slopes.V[u], slopes.W[u]
        total = np.float32(0)
        for k in range(units):
            v[k] = 0
            w[k] = 0
        for at in range(indptr[u], indptr[u + 1]):
            item = items[at]
            if not inside[item]:
                continue
            r, slope = columns.ratings[places[at]], np.float32(2 * errors[places[at]])
            h, d = hidden[item], hidden_slopes[item]
            total += slope
            for k in range(units):
                v[k] += r * d[k]
                w[k] += slope * h[k]
        slopes.b[u] = total
        _adam(weights.V[u], v, averages.V[:, u], penalty, rate, steps)
        _adam(weights.W[u], w, averages.W[:, u], penalty, rate, steps)
    _adam(weights.b, slopes.b, averages.b, 0.0, rate, steps)
    _adam(weights.mu, slopes.mu, averages.mu, 0.0, rate, steps)


@njit(fastmath=IN_ORDER, cache=True)
def _adam(values: Singles, slopes: Singles, averages: Singles, penalty: float, rate: float, steps: int) -> None:
    """One step of Adam in place, down `slopes + penalty * values`, (n,) both.

    `averages` (2, n) are the running averages of slopes and of their squares, 0 before the first of the `steps`
    (Kingma and Ba 2015, Algorithm 1, with its constants).
    """
    means, squares = averages[0], averages[1]
    new, new_square, tiny = np.float32(0.1), np.float32(0.001), np.float32(1e-8)
    step = np.float32(rate / (1 - 0.9**steps))
    correction = np.float32(1 / np.sqrt(1 - 0.999**steps))
    pull = np.float32(penalty)
    for k in range(len(values)):
        slope = slopes[k] + pull * values[k]
        means[k] += new * (slope - means[k])
        squares[k] += new_square * (slope * slope - squares[k])
        values[k] -= step * means[k] / (correction * np.sqrt(squares[k]) + tiny)

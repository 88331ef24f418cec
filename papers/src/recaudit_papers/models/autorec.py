"""AutoRec: an autoencoder of items' ratings (Sedhain et al. 2015), the item-based one that paper 003 compares.

A CPU takes steps by the ratings that are there, on one thread, a GPU by dense matrices: both differ in rounding only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
import torch
from numba import njit
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.data import Interactions
from recaudit.engines import track
from recaudit.models import FittedModel, Recommender
from recaudit.plugins import FloatArray, IntArray, check_device, check_fit, check_own_model, derive, generator
from recaudit_papers.models.adam import AdamStep, descend, running_averages
from recaudit_papers.models.numerics import IN_ORDER, Indices, Singles, product
from recaudit_papers.models.vectors import LANES, add_rows, dot, zeros

Center = Literal["mean", "none"]

_BLOCK = 128
"""Most hidden units in a block."""


@final
class AutoRec(Recommender):
    """`h(r) = W g(V r + mu) + b`: gives back an item's ratings r by all users through one hidden layer of sigmoids.

    Minimises the squared error of the ratings that are there, plus `regularization / 2 (|V|^2 + |W|^2)`, by Adam over
    batches of items. Who gave no rating of an item enters as 0; with `center="mean"` that is the mean rating, and says
    nothing, while with `center="none"` it is a rating far below all others.

    Equal bits on the CPU of one machine; on a GPU, which holds two dense matrices of items x users, rounding varies.
    """

    learns_from_clicks: ClassVar[bool] = False

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
        self.check_log(data)
        mean = float(data.ratings.mean())
        level = mean if self.center == "mean" else 0.0
        start = AutoRecWeights.draw(data.n_users, self.hidden, mean - level, generator(rng, "autorec", "start"))
        return self._trained(start, data, level, np.linspace(1, 0.1, self.epochs), rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> AutoRecModel:
        """Start from the fitted weights, for `update_epochs` over the log that has grown; Adam starts anew."""
        self.check_log(data)

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

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        (hidden, W, b), rows = self._layers, torch.from_numpy(users)
        scores: FloatArray = (product(W[rows], hidden) + b[rows, None]).numpy()
        return scores


@final
class SparseLearner:
    """Steps on the CPU, at the cost of the ratings that are there.

    Hidden units are cut into blocks, and each pass goes through one block after the other: the rows of a block, which
    are read once for each rating, stay in the core's own cache.
    """

    def __init__(self, weights: AutoRecWeights, columns: Columns, regularization: float, dropout: float) -> None:
        self.columns, self.regularization, self.dropout = columns, regularization, dropout
        self.units = len(weights.mu)
        V, mu, W, b = weights
        self.learned = AutoRecWeights(in_blocks(V), in_blocks(mu), in_blocks(W), b.copy())
        blocks, width = self.learned.mu.shape
        flat = (self.learned.V.reshape(blocks, -1), self.learned.mu, self.learned.W.reshape(blocks, -1), b)
        self.averages = AutoRecWeights(*map(running_averages, flat))
        self.steps = 0
        self.places = np.zeros(len(columns.indptr) - 1, dtype=np.int64)
        self.errors = np.zeros(len(columns.ratings), np.float32)
        self.memory = zeros(2, blocks * len(self.places) * width)

    def step(self, batch: IntArray, share: float, rate: float, seed: int) -> None:
        """Adam, once, on the errors of the items in `batch` and this share of the penalty."""
        blocks, width = self.learned.mu.shape
        hidden, slopes = (part[: blocks * len(batch) * width].reshape(blocks, -1, width) for part in self.memory)
        read_items(batch, self.columns, self.learned, hidden)
        torch.from_numpy(hidden).sigmoid_()
        found = (hidden, slopes, self.errors)
        trace_items(batch, self.units, seed, self.dropout, self.columns, self.learned, *found)
        self.steps += 1
        self.places[:] = -1
        self.places[batch] = np.arange(len(batch))
        pull = np.float32(share * self.regularization)
        step_users(self.places, self.columns, *found, self.learned, self.averages, pull, AdamStep.of(rate, self.steps))

    def weights(self) -> AutoRecWeights:
        """What has been learned."""
        V, mu, W = (out_of_blocks(blocks, self.units) for blocks in self.learned[:3])
        return AutoRecWeights(V, mu, W, self.learned.b.copy())


def in_blocks(rows: Singles) -> Singles:
    """(..., units) cut into (blocks, ..., units of one block), filled up with zeros to whole vectors."""
    *shape, units = rows.shape
    blocks = -(-units // _BLOCK)
    width = -(-units // (blocks * LANES)) * LANES
    filled = np.zeros((*shape, blocks * width), np.float32)
    filled[..., :units] = rows
    cut = zeros(blocks, *shape, width)
    cut[:] = np.moveaxis(filled.reshape(*shape, blocks, width), -2, 0)
    return cut


def out_of_blocks(blocks: Singles, units: int) -> Singles:
    """What `in_blocks` was made of."""
    together = np.moveaxis(blocks, 0, -2)
    return together.reshape(*together.shape[:-2], -1)[..., :units].copy()


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
        csc, places = data.csc, np.empty(len(data), dtype=np.int64)
        places[np.argsort(data.items, kind="stable")] = np.arange(len(data))
        ratings = (csc.data - level).astype(np.float32)
        return cls(csc.indptr.astype(np.int64), csc.indices, ratings, data.indptr, data.items, places)


@njit(fastmath=IN_ORDER, cache=True)
def read_items(batch: IntArray, columns: Columns, weights: AutoRecWeights, entering: Singles) -> None:
    """Write what enters the hidden layer for the items in `batch`: (blocks, batch, units of a block)."""
    for block in range(len(entering)):
        for n in range(len(batch)):
            own = slice(columns.indptr[batch[n]], columns.indptr[batch[n] + 1])
            total, mu = entering[block, n], weights.mu[block]
            for k in range(len(total)):
                total[k] = mu[k]
            add_rows(total, weights.V[block], columns.users[own], columns.ratings[own])


@njit(fastmath=IN_ORDER, cache=True)
def trace_items(
    batch: IntArray,
    units: int,
    seed: int,
    dropout: float,
    columns: Columns,
    weights: AutoRecWeights,
    hidden: Singles,
    slopes: Singles,
    errors: Singles,
) -> None:
    """Predict the ratings of the items in `batch` and trace the errors back to the hidden layer.

    Multiplies `hidden` (blocks, batch, units of a block) by what `kept` gives the first `units`, and by 0 behind them.
    Writes the loss's `slopes`, shaped alike, in what enters the hidden layer and, of these items and no others,
    `errors` (ratings,): predicted less given.
    """
    dropped, factor = math.ceil(dropout * 2**32), np.float32(1 / (1 - dropout))
    width = hidden.shape[2]
    for block in range(len(hidden)):
        count = min(width, units - block * width)
        for n in range(len(batch)):
            item, h, rise = batch[n], hidden[block, n], slopes[block, n]
            first = np.uint32(item * units + block * width + seed)
            for k in range(count):
                x = np.uint32(first + np.uint32(k))
                x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
                x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
                x ^= x >> np.uint32(16)
                g, by = h[k], factor if x >= dropped else np.float32(0)
                h[k] = by * g
                rise[k] = 2 * by * g * (1 - g)
            h[count:] = 0
            rise[count:] = 0
            for at in range(columns.indptr[item], columns.indptr[item + 1]):
                user = columns.users[at]
                before = errors[at] if block else weights.b[user] - columns.ratings[at]
                errors[at] = before + dot(weights.W[block, user], h)
    total = np.empty(width, np.float32)
    for block in range(len(hidden)):
        for n in range(len(batch)):
            own, d = slice(columns.indptr[batch[n]], columns.indptr[batch[n] + 1]), slopes[block, n]
            for k in range(width):
                total[k] = 0
            add_rows(total, weights.W[block], columns.users[own], errors[own])
            for k in range(width):
                d[k] *= total[k]


@njit(fastmath=IN_ORDER, cache=True)
def step_users(
    position: IntArray,
    columns: Columns,
    hidden: Singles,
    hidden_slopes: Singles,
    errors: Singles,
    weights: AutoRecWeights,
    averages: AutoRecWeights,
    pull: np.float32,
    step: AdamStep,
) -> None:
    """Sum the loss's slopes in each weight over the items of a batch, and take a step of Adam down them.

    `position` (items,) is an item's row in each block of `hidden` and `hidden_slopes`, -1 where it is not in the batch.
    """
    users, width = len(weights.b), hidden.shape[2]
    starts, of_b = np.zeros(users + 1, np.int64), np.zeros(users, np.float32)
    most = len(errors) + 1
    rows, ratings, slopes = np.empty(most, np.uint32), np.empty(most, np.float32), np.empty(most, np.float32)
    count = 0
    for u in range(users):
        for at in range(columns.user_indptr[u], columns.user_indptr[u + 1]):
            # What is not in the batch is overwritten by the next: no branch to be guessed.
            row, place = position[columns.items[at]], columns.places[at]
            rows[count], ratings[count], slopes[count] = row, columns.ratings[place], 2 * errors[place]
            count += row >= 0
        starts[u + 1] = count
        of_b[u] = slopes[starts[u] : count].sum()
    descend(weights.b, of_b, averages.b, np.float32(0), step)
    of_V, of_W = np.empty((users, width), np.float32), np.empty((users, width), np.float32)
    for block in range(len(hidden)):
        of_V[:] = 0
        of_W[:] = 0
        for u in range(users):
            own = slice(starts[u], starts[u + 1])
            add_rows(of_V[u], hidden_slopes[block], rows[own], ratings[own])
            add_rows(of_W[u], hidden[block], rows[own], slopes[own])
        descend(weights.V[block].reshape(-1), of_V.reshape(-1), averages.V[block], pull, step)
        descend(weights.W[block].reshape(-1), of_W.reshape(-1), averages.W[block], pull, step)
        of_mu = np.zeros(width, np.float32)
        for n in range(hidden_slopes.shape[1]):
            d = hidden_slopes[block, n]
            for k in range(width):
                of_mu[k] += d[k]
        descend(weights.mu[block], of_mu, averages.mu[block], np.float32(0), step)

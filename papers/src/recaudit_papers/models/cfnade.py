"""CF-NADE: a neural autoregressive model of ratings (Zheng et al. 2016), as paper 003 compares it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, final

import numpy as np
import torch
from pydantic import Field
from scipy import sparse
from torch import Tensor, nn

from recaudit.data import Interactions
from recaudit.engines import track
from recaudit.models import FittedModel, Recommender
from recaudit.plugins import FloatArray, IntArray, check_device, check_fit, check_own_model, derive, generator
from recaudit_papers.models.cfnade_columns import ColumnLearner, ColumnWeights
from recaudit_papers.models.numerics import Singles, product
from recaudit_papers.models.rating_rows import MOST_LEVELS, RatingLevels, RatingTable, RowKind, RowSplit

_DIVERGED = 10.0
"""Training that ends above this many times the cost of knowing nothing has diverged."""


@final
class CFNADE(Recommender):
    """A distribution over the levels of each rating, given the other ratings of its row; the score is its mean.

    A row is an item with its ratings by users, or a user with ratings of items: one hidden layer reads them, and a
    softmax for each column predicts. The defaults are those of paper 003 on its topics data. Equal bits on the CPU of
    one machine; on a GPU rounding varies, and training amplifies it.
    """

    learns_from_clicks: ClassVar[bool] = False

    rows: RowKind = "item"
    """What a row is: "item", as paper 003 trains it, or "user"."""
    hidden: int = Field(default=500, ge=1)
    """Hidden units."""
    levels: int | None = Field(default=None, ge=2, le=MOST_LEVELS)
    """To how many ratings, evenly spaced over the scale, ratings are rounded; None: the whole numbers in the scale."""
    ordinal: float = Field(default=1.0, ge=0, le=1)
    """Share of the ordinal cost, which knows that 4 is nearer to 5 than 1 is; the rest looks at the class alone."""
    epochs: int = Field(default=30, ge=1)
    """Passes over the rows."""
    batch: int = Field(default=64, ge=1)
    """Rows in one step of Adam."""
    learning_rate: float = Field(default=0.001, gt=0, allow_inf_nan=False)
    """Step size of Adam."""
    regularization: float = Field(default=0.02, ge=0, allow_inf_nan=False)
    """Weight of the squared norm of all parameters, beside the cost of one row."""
    init_width: float = Field(default=0.05, gt=0, le=1e6, allow_inf_nan=False)
    """The random start is uniform within this of 0."""
    update_epochs: int = Field(default=2, ge=1)
    """Passes over the rows of a log that has grown, in `warm_fit`."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Where training runs: "cpu", "cuda" or "cuda:1". The fitted model lies on the CPU."""

    def fit(self, data: Interactions, rng: int = 0) -> CFNADEModel:
        """Fit by Adam from a random start."""
        self.check_log(data)
        levels = RatingLevels.of(data.scale, self.levels)
        columns = data.n_items if self.rows == "user" else data.n_users
        network = RatingNetwork(len(levels.values), columns, self.hidden)
        network.draw(self.init_width, generator(rng, "cfnade", "start"))
        return self._trained(network, data, levels, self.epochs, rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> CFNADEModel:
        """Start from the fitted network, for `update_epochs` over the log that has grown; Adam starts anew."""
        self.check_log(data)
        levels = RatingLevels.of(data.scale, self.levels)

        def settings(other: CFNADEModel) -> list[str]:
            units, values = len(other.network.c), other.levels.values.tolist()
            return [f"{other.rows} rows, {units} hidden units and levels {values}"]

        expected = [f"{self.rows} rows, {self.hidden} hidden units and levels {levels.values.tolist()}"]
        fitted = check_own_model(model, CFNADEModel, data, settings, expected).network
        network = RatingNetwork(fitted.levels, fitted.columns, self.hidden)
        network.load_state_dict(fitted.state_dict())
        # A loop may pass the same seed at every step: each length of the log has splits of its own.
        return self._trained(network, data, levels, self.update_epochs, derive(rng, "update", len(data)))

    def _trained(
        self, network: RatingNetwork, data: Interactions, levels: RatingLevels, epochs: int, rng: int
    ) -> CFNADEModel:
        """Train the network by Adam; each epoch draws from a seed of its own."""
        check_device(self.device)
        table = RatingTable.of(data, self.rows, levels)
        learner: ColumnLearner | TensorLearner
        if self.device == "cpu":
            learner = ColumnLearner(network.by_column(), table, self.ordinal, self.regularization)
        else:
            learner = TensorLearner(network, table, self.ordinal, self.regularization, torch.device(self.device))
        total = 0.0
        for epoch in track(range(epochs), "CFNADE", epochs):
            draw = generator(rng, "cfnade", "epoch", epoch)
            total = learner.learn(RowSplit.draw(table, self.batch, draw), self.learning_rate)
        network = network.cpu().requires_grad_(False)
        network.take(learner.weights())
        blank = costs(torch.zeros(network.levels, network.levels), torch.arange(network.levels), self.ordinal).max()
        limit = _DIVERGED * float(blank) * len(table.columns)
        ended = np.array(total if total <= limit else math.inf)
        weights = (weight.numpy() for weight in network.parameters())
        check_fit("learning_rate", self.learning_rate, "Make it smaller.", ended, *weights)
        return CFNADEModel(data, self.rows, levels, network)


@final
@dataclass(frozen=True, eq=False, repr=False)
class CFNADEModel(FittedModel):
    """A fitted CF-NADE: the mean rating of each distribution, from all the ratings of the log."""

    data: Interactions
    rows: RowKind
    levels: RatingLevels
    network: RatingNetwork
    """As trained, in single precision: where `warm_fit` starts."""

    @cached_property
    def _layers(self) -> tuple[Tensor, Tensor, Tensor]:
        """h (rows, hidden) after all ratings; V (levels, columns, hidden) and b (levels, columns), summed by level."""
        network, table = self.network, RatingTable.of(self.data, self.rows, self.levels)
        W, V = network.by_level(network.W), network.by_level(network.V.transpose(1, 2))
        bias = network.by_level(network.b.transpose(1, 2))[..., 0]
        at = table.classes * table.n_columns + table.columns
        reads = sparse.csr_array((np.ones(len(at)), at, table.starts), shape=(len(table.starts) - 1, bias.numel()))
        hidden = torch.tanh(network.c.double() + torch.from_numpy(reads @ W.flatten(0, 1).numpy()))
        # What nobody has rated keeps its random start, which means nothing: it is predicted as any rating of the log.
        blank = np.bincount(table.columns, minlength=table.n_columns) == 0
        frequency = np.bincount(table.classes, minlength=len(bias)) / len(at)
        V[:, blank] = 0
        bias[:, blank] = torch.from_numpy(np.log(np.maximum(frequency, 1e-300)))[:, None]
        return hidden, V, bias

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): the mean of each distribution over the levels."""
        scores: FloatArray = (self.probabilities(users) * self.levels.values[:, None]).sum(axis=1)
        return scores

    def probabilities(self, users: IntArray) -> FloatArray:
        """(len(users), levels, items): the probability that the user rates the item at each level."""
        (hidden, V, bias), index = self._layers, torch.from_numpy(users)
        shape = (len(users), len(self.levels.values), self.data.n_items)
        if self.rows == "user":
            scores = product(hidden[index], V.flatten(0, 1)).view(shape) + bias
        else:
            own = V[:, index].transpose(0, 1).flatten(0, 1)
            scores = product(own, hidden).view(shape) + bias[:, index].T[..., None]
        # Written out: torch's softmax is cut between threads in a way that shows in the last bit.
        odds = (scores - scores.amax(dim=1, keepdim=True)).exp()
        probabilities: FloatArray = (odds / odds.sum(dim=1, keepdim=True)).numpy()
        return probabilities


def _block_size(columns: int) -> int:
    """Columns are cut into blocks of equal size, at most 256, the last filled up with columns that nobody rates."""
    return -(-columns // -(-columns // 256))


@final
class RatingNetwork(nn.Module):
    """`h = tanh(c + sum_j sum_(k <= r_j) W^k_j)`, `s^k_m = sum_(t <= k) (b^t_m + V^t_m . h)`.

    Parameters are shared between the levels: a rating of 4 has all that a rating of 3 has, and more. W lies as
    (levels * blocks, size, hidden) and V as (levels * blocks, hidden, size), so that each side is one product of a
    stack of matrices.
    """

    def __init__(self, levels: int, columns: int, hidden: int) -> None:
        super().__init__()
        self.levels, self.columns, self.size = levels, columns, _block_size(columns)
        self.blocks = -(-columns // 256)
        self.W = nn.Parameter(torch.zeros(levels * self.blocks, self.size, hidden))
        self.V = nn.Parameter(torch.zeros(levels * self.blocks, hidden, self.size))
        self.b = nn.Parameter(torch.zeros(levels * self.blocks, 1, self.size))
        self.c = nn.Parameter(torch.zeros(hidden))

    def draw(self, width: float, draw: np.random.Generator) -> None:
        """A random start, uniform within `width` of 0."""
        with torch.no_grad():
            for weight in self.parameters():
                uniform = draw.random(tuple(weight.shape), dtype=np.float32)
                weight.copy_(torch.from_numpy((2 * uniform - 1) * np.float32(width)))

    def hidden(self, read: Tensor) -> Tensor:
        """(batch, hidden): h after the ratings in `read` (blocks, batch, size), bytes: class + 1, or 0 for none."""
        levels = torch.arange(self.levels, dtype=torch.int8, device=read.device)
        reached = (read > levels[:, None, None, None]).to(self.W.dtype).flatten(0, 1)
        return torch.tanh(torch.bmm(reached, self.W).sum(dim=0) + self.c)

    def increments(self, hidden: Tensor) -> Tensor:
        """(levels * blocks, batch, size): `b^k_m + V^k_m . h` from h (batch, hidden)."""
        return torch.baddbmm(self.b, hidden.expand(len(self.V), -1, -1), self.V)

    def by_level(self, weight: Tensor) -> Tensor:
        """(levels, columns, n), double precision: a stack (levels * blocks, size, n) summed up to each level."""
        return self._unstacked(weight).double().cumsum(dim=0)

    def by_column(self) -> ColumnWeights:
        """A copy of all parameters, column by column."""

        def columns_first(weight: Tensor) -> Singles:
            return self._unstacked(weight.detach()).transpose(0, 1).contiguous().numpy()

        W, V, b = (columns_first(weight) for weight in (self.W, self.V.transpose(1, 2), self.b.transpose(1, 2)))
        return ColumnWeights(W, V, b[..., 0], self.c.detach().clone().numpy())

    def take(self, weights: ColumnWeights) -> None:
        """Set all parameters."""

        def stacked(rows: Singles) -> Tensor:
            filled = torch.zeros(self.blocks * self.size, *rows.shape[1:])
            filled[: self.columns] = torch.from_numpy(rows)
            return filled.view(self.blocks, self.size, self.levels, -1).permute(2, 0, 1, 3).flatten(0, 1)

        with torch.no_grad():
            self.W.copy_(stacked(weights.W))
            self.V.copy_(stacked(weights.V).transpose(1, 2))
            self.b.copy_(stacked(weights.b).transpose(1, 2))
            self.c.copy_(torch.from_numpy(weights.c))

    def _unstacked(self, weight: Tensor) -> Tensor:
        """(levels, columns, n) of a stack (levels * blocks, size, n)."""
        return weight.reshape(self.levels, self.blocks * self.size, -1)[:, : self.columns]


def costs(scores: Tensor, classes: Tensor, ordinal: float) -> Tensor:
    """(n,): `(1 - ordinal) * regular + ordinal * ordinal cost` of ratings at `classes` (n,), scores (n, levels).

    Regular: the negative log of the softmax at the class. Ordinal: the class is to rank first, and levels rank lower
    the further they are from it, downwards and upwards apart:
    `sum_(j <= k) log(sum_(t <= j) e^s_t / e^s_j) + sum_(j >= k) log(sum_(t >= j) e^s_t / e^s_j)` for class k.
    """
    levels = scores.shape[1]
    scores = scores - scores.amax(dim=1, keepdim=True).detach()
    weights = scores.exp()
    at_class = scores.gather(1, classes[:, None])[:, 0]
    cost = torch.zeros_like(at_class)
    if ordinal > 0:
        place = torch.arange(levels, device=scores.device)
        up_to = torch.ones(levels, levels, dtype=scores.dtype, device=scores.device).triu()
        # A sum of weights that are all below the smallest number is 0, whose log would be no number.
        least = torch.finfo(scores.dtype).tiny
        from_below = (weights @ up_to).clamp_min(least).log() * (place <= classes[:, None])
        from_above = (weights @ up_to.T).clamp_min(least).log() * (place >= classes[:, None])
        # The class itself stands in both sums, every other level in one of them.
        cost = cost + ordinal * ((from_below + from_above - scores).sum(dim=1) - at_class)
    if ordinal < 1:
        cost = cost + (1 - ordinal) * (weights.sum(dim=1).log() - at_class)
    return cost


class TrainingStep(NamedTuple):
    """What one step of Adam learns from; a place is that of (row of the batch, column) in (blocks, rows, size)."""

    rows: int
    read: tuple[Tensor, Tensor]
    """(n,) each: places and classes."""
    predict: tuple[Tensor, Tensor, Tensor]
    """(n,) each: places, classes and weights."""


def steps(table: RatingTable, split: RowSplit, device: torch.device) -> Iterator[TrainingStep]:
    """The steps of one pass. All is sent to the device in one go: what is left for a step there are slices."""
    parts = split.parts()
    sort = np.argsort(parts, kind="stable")
    bounds = np.searchsorted(parts[sort], np.arange(2 * len(split.heights) + 1)).tolist()
    block, column = np.divmod(table.columns, size := _block_size(table.n_columns))
    height = split.heights[split.group]
    places = torch.from_numpy(((block * height + split.row) * size + column)[sort]).to(device)
    classes = torch.from_numpy(table.classes[sort]).to(device)
    weight = torch.from_numpy(split.weight[sort].astype(np.float32)).to(device)
    for start, middle, end, rows in zip(bounds[:-1:2], bounds[1::2], bounds[2::2], split.heights.tolist(), strict=True):
        read, predict = slice(start, middle), slice(middle, end)
        yield TrainingStep(rows, (places[read], classes[read]), (places[predict], classes[predict], weight[predict]))


@final
class TensorLearner:
    """Steps by dense tensors on a device: for a GPU, and the readable form of `ColumnLearner`."""

    def __init__(
        self, network: RatingNetwork, table: RatingTable, ordinal: float, regularization: float, device: torch.device
    ) -> None:
        self.network, self.table, self.ordinal = network.to(device), table, ordinal
        # The gradient of `regularization * |w|^2`; fused: one pass over the weights.
        self.optimizer = torch.optim.Adam(network.parameters(), weight_decay=2 * regularization, eps=1e-8, fused=True)

    def learn(self, split: RowSplit, rate: float) -> float:
        """See `ColumnLearner`."""
        device = self.network.W.device
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        total = torch.zeros((), device=device)
        for step in steps(self.table, split, device):
            self.optimizer.zero_grad()
            cost = cost_of(self.network, step, self.ordinal)
            cost.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            self.optimizer.step()
            total += step.rows * cost.detach()
        return float(total)

    def weights(self) -> ColumnWeights:
        """What has been learned."""
        return self.network.cpu().by_column()


def cost_of(network: RatingNetwork, step: TrainingStep, ordinal: float) -> Tensor:
    """The cost of a step: over its rows the mean of the weighted costs of the ratings to predict."""
    places, classes, weights = step.predict
    shape = (network.blocks, step.rows, network.size)
    read = torch.zeros(math.prod(shape), dtype=torch.int8, device=places.device)
    read.scatter_(0, step.read[0], (step.read[1] + 1).to(torch.int8))
    increments = network.increments(network.hidden(read.view(shape)))
    # Only the ratings to predict are looked at: (n, levels).
    at = places[:, None] + len(read) * torch.arange(network.levels, device=places.device)
    scores = increments.flatten().index_select(0, at.flatten()).view(at.shape).cumsum(dim=1)
    return (costs(scores, classes, ordinal) * weights.to(scores.dtype)).sum() / step.rows

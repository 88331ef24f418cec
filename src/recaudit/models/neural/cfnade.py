"""CF-NADE: a neural autoregressive model of ratings (Zheng et al. 2016), as paper 003 compares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel, Recommender, check_data
from recaudit.models.devices import check_device
from recaudit.models.given.own_model import own_model
from recaudit.models.neural.cfnade_network import MOST_LEVELS, Levels, Network, Rows, Table
from recaudit.models.neural.cfnade_training import train
from recaudit.seeding import derive, generator


@final
class CFNADE(Recommender):
    """A distribution over the levels of each rating, given the other ratings of its row; the score is its mean.

    A row is an item with its ratings by users, or a user with ratings of items: one hidden layer reads them, and a
    softmax for each column predicts. Training and cost are the paper's: every order of a row's ratings at once, the
    ordinal cost, parameters shared between levels. The defaults are those of paper 003 on its topics data.

    Ratings are rounded to `levels`. On a scale from 0.5 to 5 in halves, the default are the levels 1 to 5, and a
    half rating counts as the whole number above it; `levels=10` tells halves apart.

    On the CPU of one machine a model is the same number by number; on a GPU rounding varies, and training amplifies it.
    The network holds `2 * levels * columns * hidden` numbers, and Adam two more for each.
    """

    rows: Rows = "item"
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
    init_width: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    """The random start is uniform within this of 0."""
    update_epochs: int = Field(default=2, ge=1)
    """Passes over the rows of a log that has grown, in `warm_fit`."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Where training runs: "cpu", "cuda" or "cuda:1". The fitted model lies on the CPU."""

    def fit(self, data: Interactions, rng: int = 0) -> CFNADEModel:
        """Fit by Adam from a random start."""
        check_data(data)
        check_device(self.device)
        levels = Levels.of(data.scale, self.levels)
        table = Table.of(data, self.rows, levels)
        network = Network(len(levels.values), table.n_columns, self.hidden)
        network.draw(self.init_width, generator(rng, "cfnade", "start"))
        return self._trained(network, data, levels, table, self.epochs, rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> CFNADEModel:
        """Go on from the fitted network for `update_epochs` over the log that has grown; Adam starts anew."""
        check_data(data)
        check_device(self.device)
        levels = Levels.of(data.scale, self.levels)
        table = Table.of(data, self.rows, levels)
        network = Network(len(levels.values), table.n_columns, self.hidden)
        network.load_state_dict(self._own(model, data, levels).network.state_dict())
        # A loop may pass the same seed at every step: each length of the log has splits of its own.
        return self._trained(network, data, levels, table, self.update_epochs, derive(rng, "update", len(data)))

    def _trained(
        self, network: Network, data: Interactions, levels: Levels, table: Table, epochs: int, rng: int
    ) -> CFNADEModel:
        network = network.to(self.device)
        train(
            network,
            table,
            epochs=epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            regularization=self.regularization,
            ordinal=self.ordinal,
            rng=rng,
        )
        return CFNADEModel.of(data, self.rows, levels, table, network.cpu().requires_grad_(False))

    def _own(self, model: FittedModel, data: Interactions, levels: Levels) -> CFNADEModel:
        """The model, when this configuration could have fitted it to the same users and items."""

        def differs(own: CFNADEModel) -> str | None:
            rows, hidden, values = own.rows, own.hidden.shape[1], own.levels.values
            same = (rows, hidden) == (self.rows, self.hidden) and np.array_equal(values, levels.values)
            return None if same else f"one with {rows} rows, {hidden} hidden units, levels {values}"

        expected = f"{self.rows} rows, {self.hidden} hidden units and levels {levels.values}"
        return own_model(model, CFNADEModel, data, differs, expected)


@final
@dataclass(frozen=True, eq=False)
class CFNADEModel(FittedModel):
    """A fitted CF-NADE: the mean rating of each distribution, from all the ratings of the log."""

    data: Interactions
    rows: Rows
    levels: Levels
    network: Network
    """As trained, in single precision: where `warm_fit` goes on from."""
    hidden: Tensor
    """(rows, hidden): h of each row after all its ratings."""
    weights: Tensor
    """(levels, columns, hidden): V summed up to each level; 0 for columns without ratings."""
    bias: Tensor
    """(levels, columns): b summed up to each level; log frequencies of the log for columns without ratings."""

    @classmethod
    def of(cls, data: Interactions, rows: Rows, levels: Levels, table: Table, network: Network) -> CFNADEModel:
        """Read the whole log in double precision."""
        W, V = network.by_level(network.W), network.by_level(network.V.transpose(1, 2))
        bias = network.by_level(network.b.transpose(1, 2))[..., 0]
        at = table.classes * table.n_columns + table.columns
        reads = sparse.csr_array((np.ones(len(at)), at, table.starts), shape=(len(table.counts), bias.numel()))
        hidden = torch.tanh(network.c.double() + torch.from_numpy(reads @ W.flatten(0, 1).numpy()))
        # What nobody has rated keeps its random start, which means nothing: it is predicted as any rating of the log.
        blank = np.bincount(table.columns, minlength=table.n_columns) == 0
        frequency = np.bincount(table.classes, minlength=len(bias)) / len(at)
        V[:, blank] = 0
        bias[:, blank] = torch.from_numpy(np.log(np.maximum(frequency, 1e-300)))[:, None]
        return cls(data, rows, levels, network, hidden, V, bias)

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): the mean of each distribution over the levels."""
        return (self.probabilities(users) * torch.from_numpy(self.levels.values)[:, None]).sum(dim=1)

    def probabilities(self, users: IntArray) -> Tensor:
        """(len(users), levels, items): the probability that the user rates the item at each level."""
        index, levels = torch.from_numpy(users), len(self.levels.values)
        shape = (len(users), levels, self.data.n_items)
        if self.rows == "user":
            scores = product(self.hidden[index], self.weights.flatten(0, 1)).view(shape) + self.bias
        else:
            own = self.weights[:, index].transpose(0, 1).flatten(0, 1)
            scores = product(own, self.hidden).view(shape) + self.bias[:, index].T[..., None]
        # Written out: torch's softmax is cut between threads in a way that shows in the last bit.
        odds = (scores - scores.amax(dim=1, keepdim=True)).exp()
        return odds / odds.sum(dim=1, keepdim=True)

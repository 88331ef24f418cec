"""AutoRec: an autoencoder of items' ratings (Sedhain et al. 2015), the item-based one that paper 003 compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from pydantic import Field
from scipy import sparse
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.base import FittedModel, Recommender, check_data
from recaudit.models.devices import check_device
from recaudit.models.given.own_model import own_model
from recaudit.models.neural.autorec_training import Columns, DenseLearner, SparseLearner, Weights, train
from recaudit.seeding import derive, generator

Center = Literal["mean", "none"]


@final
class AutoRec(Recommender):
    """`h(r) = W g(V r + mu) + b`: gives back an item's ratings r by all users through one hidden layer of sigmoids.

    Minimises the squared error of the ratings that are there, plus `regularization / 2 (|V|^2 + |W|^2)`, by Adam over
    batches of items. Who gave no rating of an item enters as 0; with `center="mean"` that is the mean rating, and says
    nothing, while with `center="none"` it is a rating far below all others.

    Paper 003 sets 500 hidden units, regularization 1, learning rate 0.001, dropout 0.05, batches of 1000 items,
    500 epochs and no centring, with RMSProp. The code that goes with it takes the mean error over all pairs, penalises
    the biases in place of the weights, and never resets its gradients.

    On the CPU of one machine, where one thread trains, a model is the same number by number; on a GPU rounding varies.
    A GPU holds two dense matrices of items x users.
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
        start = Weights.draw(data.n_users, self.hidden, mean - level, generator(rng, "autorec", "start"))
        return self._trained(start, data, level, np.linspace(1, 0.1, self.epochs), rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> AutoRecModel:
        """Go on from the fitted weights for `update_epochs` over the log that has grown; Adam starts anew."""
        check_data(data)
        own = self._own(model, data)
        # A loop may pass the same seed at every step: each length of the log has batches of its own.
        seed = derive(rng, "update", len(data))
        return self._trained(own.weights, data, own.level, np.full(self.update_epochs, 0.1), seed)

    def _trained(self, start: Weights, data: Interactions, level: float, rates: FloatArray, rng: int) -> AutoRecModel:
        """The model after one epoch for each of `rates` (epochs,), shares of the step size."""
        check_device(self.device)
        columns = Columns.of(data, level)
        if self.device == "cpu":
            learner = SparseLearner(start, columns, self.regularization, self.dropout)
            weights = train(learner, columns, self.learning_rate * rates, self.batch, rng)
        else:
            dense = DenseLearner(start, columns, self.regularization, self.dropout, torch.device(self.device))
            weights = train(dense, columns, self.learning_rate * rates, self.batch, rng)
        if not weights.are_finite():
            raise InputError(
                "learning_rate",
                received=self.learning_rate,
                expected="a step at which training converges; this one diverged",
                remedy="Make it smaller.",
            )
        silent = np.flatnonzero(data.user_counts == 0)
        return AutoRecModel.of(data, self.center, level, weights.averaged(silent))

    def _own(self, model: FittedModel, data: Interactions) -> AutoRecModel:
        """The model, when this configuration could have fitted it to the same users and items."""

        def differs(own: AutoRecModel) -> str | None:
            if len(own.weights.mu) != self.hidden:
                return f"a model with {len(own.weights.mu)} hidden units"
            return f"a model with center={own.center!r}" if own.center != self.center else None

        expected = f"{self.hidden} hidden units and center={self.center!r}"
        return own_model(model, AutoRecModel, data, differs, expected)


@final
@dataclass(frozen=True, eq=False)
class AutoRecModel(FittedModel):
    """A fitted AutoRec: scores `w_u . g(V r_i + mu) + b_u`, from all the ratings r_i of the log.

    A user without ratings is scored as the average user.
    """

    data: Interactions
    center: Center
    level: float
    """What was taken off the ratings."""
    weights: Weights
    """As trained, in single precision: where `warm_fit` goes on from."""
    item_vectors: Tensor
    """(items, units): the hidden layer of each item."""
    user_vectors: Tensor
    """(users, units): W."""
    user_bias: Tensor
    """(users,): b, with what was taken off the ratings."""

    @classmethod
    def of(cls, data: Interactions, center: Center, level: float, weights: Weights) -> AutoRecModel:
        """Read the whole log in double precision, nothing left out."""
        csr = data.csr
        read = sparse.csr_array((csr.data - level, csr.indices, csr.indptr), shape=csr.shape)
        V, mu, W, b = (array.astype(np.float64) for array in weights.arrays)
        hidden = torch.sigmoid(torch.from_numpy(read.T @ V + mu))
        return cls(data, center, level, weights, hidden, torch.from_numpy(W), torch.from_numpy(b + level))

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): predicted ratings, not clipped."""
        rows = torch.from_numpy(users)
        return product(self.user_vectors[rows], self.item_vectors) + self.user_bias[rows, None]

"""AutoRec as RecLab's code trains it, mistakes and all: what the published numbers of AutoRec are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from pydantic import Field
from torch import Tensor

from recaudit.data import Interactions
from recaudit.models import FittedModel, Recommender
from recaudit.plugins import FloatArray, IntArray, check_data, derive

_RATE, _FALLS = 1e-3, 100
"""The step size, and after how many batches it falls."""
_SMOOTHING = 0.99


@final
class ReclabAutoRec(Recommender):
    """`h(r) = W g(V r + mu) + b` over items' ratings, by RMSProp down the sum of all gradients so far.

    RecLab's code never resets gradients; it penalises the biases mu and b rather than the weights; it averages squared
    errors over all pairs, rated or not; its step size falls a hundredfold every 100 batches; predictions are cut to
    the scale before they are compared, so that many tie at its top.
    """

    hidden: int = Field(default=500, ge=1)
    batch: int = Field(default=1000, ge=1)
    regularization: float = 1.0
    dropout: float = 0.05
    batches: int = Field(default=200, ge=1)
    """Steps of RMSProp; of RecLab's 1,000 those after 200 have a size of 1e-7 and less."""
    decay: float = Field(default=0.01, gt=0, le=1)
    """To which share of itself the step size falls every 100 batches. One script of RecLab has 1, which is worse by
    far (RMSE 1.64 on the log of topics-static) than what is published (1.377)."""

    def fit(self, data: Interactions, rng: int = 0) -> ReclabAutoRecModel:
        """Fit from the start that PyTorch gives a linear layer."""
        check_data(data)
        draw = torch.Generator().manual_seed(derive(rng, "reclab.autorec"))
        ratings = torch.from_numpy(data.csc.toarray().T).float().contiguous()
        parts = [part.requires_grad_() for part in _linear(data.n_users, self.hidden, draw)]
        parts += [part.requires_grad_() for part in _linear(self.hidden, data.n_users, draw)]
        V, mu, W, b = parts
        squares = [torch.zeros_like(part) for part in parts]
        left = torch.empty(0, dtype=torch.int64)
        for step in range(self.batches):
            if len(left) == 0:
                left = torch.randperm(data.n_items, generator=draw)
            items, left = left[: self.batch], left[self.batch :]
            given = ratings[items]
            kept = (torch.rand(len(items), self.hidden, generator=draw) >= self.dropout) / (1 - self.dropout)
            found = torch.addmm(b, torch.sigmoid(torch.addmm(mu, given, V.T)) * kept, W.T)
            error = torch.where(given > 0, found, 0) - given
            loss = error.square().mean() + self.regularization / 2 * (mu.square().sum() + b.square().sum())
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            rate = _RATE * self.decay ** (step // _FALLS)
            with torch.no_grad():
                for part, square in zip(parts, squares, strict=True):
                    slope = part.grad
                    assert slope is not None
                    square.mul_(_SMOOTHING).addcmul_(slope, slope, value=1 - _SMOOTHING)
                    part.addcdiv_(slope, square.sqrt().add_(1e-8), value=-rate)
        with torch.no_grad():
            hidden = torch.sigmoid(torch.addmm(mu, ratings, V.T))
        return ReclabAutoRecModel(data, hidden, W.detach(), b.detach())


def _linear(inputs: int, outputs: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Weights (outputs, inputs) and biases (outputs,), uniform within one over the root of the inputs."""
    width = inputs**-0.5
    weights, biases = (torch.rand(shape, generator=draw) for shape in ((outputs, inputs), (outputs,)))
    return width * (2 * weights - 1), width * (2 * biases - 1)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ReclabAutoRecModel(FittedModel):
    """Scores inside the scale."""

    data: Interactions
    hidden: Tensor
    """(items, units)"""
    W: Tensor
    """(users, units)"""
    b: Tensor
    """(users,)"""

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items)"""
        rows = torch.from_numpy(users)
        found = torch.addmm(self.b[rows, None], self.W[rows], self.hidden.T)
        scores: FloatArray = found.clamp(*self.data.scale).double().numpy()
        return scores

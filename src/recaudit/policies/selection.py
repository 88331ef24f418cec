"""The selection rules of papers 000 and 003."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from recaudit.arrays import BoolArray, IntArray
from recaudit.policies.base import Policy
from recaudit.ranking import top_items
from recaudit.seeding import Keys, derive, uniforms


@final
class Top1(Policy):
    """The allowed item with the highest score, always; of tied ones (`recaudit.ties`) the one that comes first.

    As a list of n: the n highest scores.
    """

    certain: ClassVar[bool] = True

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return torch.where(_is_top(scores, allowed), 0.0, -torch.inf).double()


@final
class Softmax(Policy):
    """P(i) proportional to exp(beta s_i) (paper 000, Definition 1)."""

    beta: float = Field(default=1.0, gt=0, le=1e4, allow_inf_nan=False)
    """How sharply the best item is preferred: towards 0 uniform, towards infinity top-1."""

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        # Below the row's best, so that scores of any size stay safe.
        below = torch.where(allowed, scores - scores.amax(dim=1, keepdim=True), 0.0)
        return _log_normalised(self.beta * below, allowed)


@final
class EpsilonGreedy(Policy):
    """The top item with probability 1 - epsilon, each of the other n - 1 with epsilon / (n - 1).

    Paper 003 prints epsilon / n for the others, which does not sum to one; this is paper 000's rule. With a
    single allowed item that item is certain.

    A list is made place by place: each place is explored with probability epsilon, whatever happens at the others, so
    that Binomial(n, epsilon) of n places are. A place that is not explored shows the best of the items that are left;
    one that is explored shows any of the others that are left, all alike, which may be one that would have come next.
    With epsilon towards 0 lists become the n highest scores.
    """

    epsilon: float = Field(default=0.1, ge=0, le=1)
    """How often one of the other items is shown."""

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        others = allowed.sum(dim=1, keepdim=True).double() - 1
        rest = torch.log(torch.where(others > 0, self.epsilon / others.clamp(min=1), 0.0))
        best = torch.log(torch.where(others > 0, 1 - self.epsilon, torch.ones_like(others)))
        return torch.where(_is_top(scores, allowed), best, torch.where(allowed, rest, -torch.inf))

    def _sample(self, scores: Tensor, allowed: Tensor, n: int, rng: int, users: Keys, items: Keys) -> IntArray:
        places = np.arange(n).astype(np.uint64)
        explored = uniforms(derive(rng, "explored"), users[:, None], places[None, :]) < self.epsilon
        # One random order of the items serves every place: whoever is left and not the best was not the best before,
        # and so lost in every draw so far; the order among them is still drawn uniformly. At most n of its first
        # n + 1 are taken or the best, and at most n - 1 of the n highest scores are taken.
        chance = torch.from_numpy(uniforms(rng, users[:, None], items[None, :]))
        by_score, by_chance = top_items(scores, allowed, n), top_items(chance, allowed, n + 1)
        out = np.full((len(users), n), -1, dtype=np.int64)
        taken = np.zeros((len(users), len(items) + 1), dtype=bool)  # the last column is that of no item: -1
        rows = np.arange(len(users))
        for place in range(n):
            best = _first(by_score, np.take_along_axis(taken, by_score, axis=1))
            other = _first(by_chance, np.take_along_axis(taken, by_chance, axis=1) | (by_chance == best[:, None]))
            out[:, place] = np.where(explored[:, place] & (other >= 0), other, best)
            taken[rows, out[:, place]] = True
            taken[:, -1] = False
        return out


@final
class Power(Policy):
    """P(i) proportional to s_i^p: power sampling, which paper 003 calls Thompson sampling.

    For scores on a scale that starts at 0 or above. A negative score counts as 0 (an even power would turn it
    into a preference); where every allowed score is 0 or less, all are equally likely.
    """

    power: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """How sharply higher scores are preferred."""

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        positive = scores.clamp(min=0)
        largest = positive.amax(dim=1, keepdim=True)
        # Dividing by the largest keeps the ratio in [0, 1], so that no power overflows.
        logs = self.power * torch.log(positive / torch.where(largest > 0, largest, 1.0))
        return _log_normalised(torch.where(largest > 0, logs, 0.0), allowed)


def _first(items: IntArray, passed: BoolArray) -> IntArray:
    """(rows,): the first of the items (rows, n) that is not passed over; -1 where all are."""
    found: IntArray = np.take_along_axis(items, passed.argmin(axis=1)[:, None], axis=1)[:, 0]
    return np.where(passed.all(axis=1), -1, found)


def _is_top(scores: Tensor, allowed: Tensor) -> Tensor:
    """True at the top item of each row, nowhere in a row without any."""
    top = torch.from_numpy(top_items(scores.cpu(), allowed.cpu(), 1)).to(scores.device)
    return torch.zeros_like(allowed).scatter_(1, top.clamp(min=0), top >= 0)


def _log_normalised(logits: Tensor, allowed: Tensor) -> Tensor:
    """Log-softmax over the allowed entries; a row without any is -inf throughout."""
    masked = logits.masked_fill(~allowed, -torch.inf)
    total = torch.logsumexp(masked, dim=1, keepdim=True)
    return (masked - torch.where(torch.isfinite(total), total, 0.0)).masked_fill(~allowed, -torch.inf)

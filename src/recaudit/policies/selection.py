"""The selection rules of papers 000 and 003."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from pydantic import Field

from recaudit.policies.base import Policy, Tensor
from recaudit.policies.ranking import top_items


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
        return _log_normalised(self.beta * _below_best(scores, allowed), allowed)


@final
class EpsilonGreedy(Policy):
    """The top item with probability 1 - epsilon, each of the other n - 1 with epsilon / (n - 1).

    Paper 003 prints epsilon / n for the others, which does not sum to one; this is paper 000's rule. With a
    single allowed item that item is certain.
    """

    epsilon: float = Field(default=0.1, ge=0, le=1)
    """How often one of the other items is shown."""

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        others = allowed.sum(dim=1, keepdim=True).double() - 1
        rest = torch.log(torch.where(others > 0, self.epsilon / others.clamp(min=1), 0.0))
        best = torch.log(torch.where(others > 0, 1 - self.epsilon, torch.ones_like(others)))
        return torch.where(_is_top(scores, allowed), best, torch.where(allowed, rest, -torch.inf))


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


def _is_top(scores: Tensor, allowed: Tensor) -> Tensor:
    """True at the top item of each row, nowhere in a row without any."""
    top = torch.from_numpy(top_items(scores.cpu(), allowed.cpu(), 1)).to(scores.device)
    return torch.zeros_like(allowed).scatter_(1, top.clamp(min=0), top >= 0)


def _below_best(scores: Tensor, allowed: Tensor) -> Tensor:
    """Scores minus the row's best: at most 0, so that scores of any size stay safe; 0 where not allowed."""
    best = scores.amax(dim=1, keepdim=True)
    return torch.where(allowed, scores - best, 0.0)


def _log_normalised(logits: Tensor, allowed: Tensor) -> Tensor:
    """Log-softmax over the allowed entries; a row without any is -inf throughout."""
    masked = logits.masked_fill(~allowed, -torch.inf)
    total = torch.logsumexp(masked, dim=1, keepdim=True)
    return (masked - torch.where(torch.isfinite(total), total, 0.0)).masked_fill(~allowed, -torch.inf)

"""A policy that saturates: very good items are all as likely."""

from pydantic import Field
from torch import Tensor, logsumexp
from torch.nn.functional import logsigmoid

from recaudit.policies import Policy


class Logistic(Policy):
    """P(i) proportional to 1 / (1 + exp(-steepness (s_i - middle)))."""

    steepness: float = Field(default=1.0, gt=0)
    """How fast an item becomes likely around the middle."""
    middle: float = 3.0
    """The score at which an item is half as likely as it can be."""

    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        logits = logsigmoid(self.steepness * (scores - self.middle)).masked_fill(~allowed, -float("inf"))
        total = logsumexp(logits, dim=1, keepdim=True)
        return (logits - total.masked_fill(total.isinf(), 0.0)).masked_fill(~allowed, -float("inf"))

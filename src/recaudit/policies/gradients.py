"""Log-probabilities of policies as tensors of torch, with gradients: for searches by gradient ascent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recaudit.errors import NotSupportedError
from recaudit.policies.selection import Policy, Power, Softmax, check_finite
from recaudit.ties import TieKeys
from recaudit.torch_extra import require_torch

if TYPE_CHECKING:
    from torch import Tensor


def tensor_log_probabilities(policy: Policy, scores: Tensor, allowed: Tensor, ties: TieKeys | None = None) -> Tensor:
    """Compute `Policy.log_probabilities` of tensors, differentiable in the scores.

    Args:
        policy: Softmax, Power, or a policy whose probabilities follow from the top item alone, which have no gradient.
        scores: Double precision, shape (rows, items).
        allowed: Items that may be recommended, shape (rows, items).
        ties: Tie keys, for policies that need them.

    Returns:
        Shape (rows, items); -inf where an item is not allowed.

    Raises:
        NotSupportedError: The policy has no gradient here, or torch is not installed.
    """
    torch = require_torch("gradients of policies")
    values, mask = scores.detach().numpy(), allowed.numpy()
    check_finite(values, mask)
    if isinstance(policy, Softmax):
        # At most 0, so that scores of any size stay safe.
        best = scores.masked_fill(~allowed, -torch.inf).amax(dim=1, keepdim=True)
        return _log_normalized(policy.fixed_beta * torch.where(allowed, scores - best, 0.0), allowed)
    if isinstance(policy, Power):
        positive = scores.masked_fill(~allowed, 0.0).clamp(min=0)
        largest = positive.amax(dim=1, keepdim=True)
        # Dividing by the largest keeps the ratio in [0, 1], so that no power overflows.
        logs = policy.power * torch.log(positive / torch.where(largest > 0, largest, 1.0))
        return _log_normalized(torch.where(largest > 0, logs, 0.0), allowed)
    if policy.singles_out_top:
        constants: Tensor = torch.from_numpy(policy.log_probabilities(values, mask, ties))
        return constants
    raise NotSupportedError(
        f"policy: received {policy!r}, whose gradient is not known; expected Softmax or Power for gradient ascent. Use "
        "one of these, or another solver."
    )


def _log_normalized(logits: Tensor, allowed: Tensor) -> Tensor:
    """Return the log-softmax over the allowed entries; a row without any is -inf throughout."""
    infinity = float("inf")
    masked = logits.masked_fill(~allowed, -infinity)
    total = masked.logsumexp(dim=1, keepdim=True)
    return (masked - total.masked_fill(total.isinf(), 0.0)).masked_fill(~allowed, -infinity)

"""When two scores count as equal: by a rule, not by rounding.

The same score, computed in another block of users or on another processor, differs in its last bits, and a list must
not. So scores are tied where no gap wider than a tolerance lies between them, and of tied items the first in the
catalogue goes first: in lists, ranks, top-1 and greedy calibration alike.

The tolerance of a row is `TIE` times its largest absolute score: far above rounding (about 1e-15 for a score, 1e-13
after training) and far below any difference that means something. Tied is whatever is linked by small gaps, so that two
items with the same vectors are tied whatever stands between them. What no rule can exclude is a gap as wide as the
tolerance, to rounding: with n items whose scores spread over their own size, about 2 n rounding / 1 for each
neighbouring pair, one in 10^9 for a list of ten out of thousands.
"""

from __future__ import annotations

import torch

TIE = 1e-10
"""Relative to the largest absolute score of the row."""


def tie_gaps(scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """(rows, 1): the widest gap that still ties two neighbouring scores of a row (rows, items) of allowed items."""
    return TIE * torch.where(allowed, scores, 0.0).abs().amax(dim=1, keepdim=True)

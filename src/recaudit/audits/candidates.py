"""What the policy chooses from, and what its choice is compared with."""

from __future__ import annotations

from typing import Literal

import numpy as np

from recaudit.arrays import BoolArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError

Candidates = Literal["unseen", "all"]
"""The items that are neither seen nor acted on (films), or all but the acted on (music, news)."""
Baseline = Literal["scores", "predicted", "factual"]
"""At the model's scores, or after the acted-on items were rated as predicted, or as they are in the log."""


def candidate_items(data: Interactions, users: IntArray, acted: IntArray, candidates: Candidates) -> BoolArray:
    """(users, items): True at each user's candidates; `acted` (users, actions) are positions, -1 for none."""
    if candidates not in ("unseen", "all"):
        raise InputError("candidates", received=candidates, expected="'unseen' or 'all'")
    allowed = ~data.seen(users) if candidates == "unseen" else np.ones((len(users), data.n_items), dtype=bool)
    row, column = np.nonzero(acted >= 0)
    allowed[row, acted[row, column]] = False
    return allowed

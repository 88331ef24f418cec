"""Intervals of numbers that are made of means over users, by a jackknife over blocks of users."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from recaudit.plugins import FloatArray, IntArray, assign_blocks, estimate_statistic


@final
class UserMeans:
    """Means over users by name, and the same without each block of users, for whatever is made of them."""

    def __init__(self, users: int) -> None:
        self.users = users
        self._sums: dict[Any, tuple[FloatArray, FloatArray]] = {}

    def add(self, name: Any, users: IntArray, totals: FloatArray, weights: FloatArray) -> None:
        """Add to a mean what users (n,) contribute: totals and weights (n,), nothing where the weight is 0."""
        held = self._sums.setdefault(name, (np.zeros(self.users), np.zeros(self.users)))
        for sums, values in zip(held, (np.where(weights > 0, totals, 0.0), weights), strict=True):
            np.add.at(sums, users, values)

    def leave_blocks_out(self) -> dict[Any, FloatArray]:
        """By name, the mean over all users, and then without each block of them, shape (1 + blocks,)."""
        totals, weights = (np.column_stack(parts) for parts in zip(*self._sums.values(), strict=True))
        is_known = weights.any(axis=1)
        totals, weights = totals[is_known], weights[is_known]
        blocks = assign_blocks(len(totals))
        is_in_block = np.eye(int(blocks.max()) + 1)[blocks]
        kept = np.vstack([np.ones(len(totals)), 1 - is_in_block.T])
        with np.errstate(invalid="ignore"):
            means: FloatArray = (kept @ totals) / (kept @ weights)
        return dict(zip(self._sums, means.T, strict=True))

    def counts(self, name: Any) -> int:
        """Number of users that a mean stands on."""
        return int((self._sums[name][1] > 0).sum())


def interval(values: FloatArray, users: int) -> dict[str, float | None]:
    """The columns of a number and its interval.

    Args:
        values: The number over all users, and without each block of them, shape (1 + blocks,).
        users: Number of users.
    """
    estimate = estimate_statistic(float(values[0]), values[1:], users)
    ends = {"lower": estimate.lower, "upper": estimate.upper}
    return {"value": estimate.value} | {
        name: None if end is None or not np.isfinite(end) else end for name, end in ends.items()
    }

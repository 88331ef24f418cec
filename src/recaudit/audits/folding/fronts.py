"""Two things to keep low at once: which points are worth a look, and where more of one costs most of the other."""

from __future__ import annotations

import numpy as np

from recaudit.arrays import BoolArray, FloatArray


def on_front(first: FloatArray, second: FloatArray) -> BoolArray:
    """(points,): True where no other point is as low in both and lower in one; `first` and `second` are (points,)."""
    no_higher = (first[:, None] <= first) & (second[:, None] <= second)
    lower = (first[:, None] < first) | (second[:, None] < second)
    return np.asarray(~(no_higher & lower).any(axis=0))


def knee(first: FloatArray, second: FloatArray) -> int | None:
    """The position of the front's knee among the points (points,) each.

    Both are scaled so that they go from 0 to 1 along the front; the knee is the point farthest below the chord between
    its ends, on the side where both are low. None where no point lies below it: every gain is paid for in full.
    """
    front = np.flatnonzero(on_front(first, second))
    x, y = _scaled(first[front]), _scaled(second[front])
    below = 1 - x - y  # sqrt(2) times the distance to the chord from (0, 1) to (1, 0)
    best = int(np.argmax(below))
    return int(front[best]) if below[best] > _ROUNDING else None


_ROUNDING = 1e-9
"""The ends lie on the chord, to within this."""


def _scaled(values: FloatArray) -> FloatArray:
    """From 0 at the lowest to 1 at the highest; of a front of one point, which is both, 1."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)

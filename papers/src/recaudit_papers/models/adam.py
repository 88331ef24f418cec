"""Adam (Kingma and Ba 2015, Algorithm 1, with its constants), as compiled loops take a step of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from recaudit_papers.models.numerics import IN_ORDER, Singles
from recaudit_papers.models.vectors import zeros


class AdamStep(NamedTuple):
    """One step for all weights."""

    size: np.float32
    """The step size, made up for running averages that began at 0."""
    correction: np.float32
    """What the root of the running average of squares is made up by."""

    @classmethod
    def of(cls, rate: float, steps: int) -> AdamStep:
        """The step of that number, from 1."""
        with np.errstate(over="ignore"):  # a step too long for single precision diverges, which is told at the end
            return cls(np.float32(rate / (1 - 0.9**steps)), np.float32(1 / np.sqrt(1 - 0.999**steps)))


def running_averages(weights: Singles) -> Singles:
    """(..., 2, n) for weights (..., n): of slopes and of their squares, before the first step."""
    *shape, length = weights.shape
    return zeros(*shape, 2, length)


# numpy's way with a division by zero, which is none here: the test for it would keep the loop from using vectors.
@njit(fastmath=IN_ORDER, error_model="numpy", cache=True)
def descend(values: Singles, slopes: Singles, averages: Singles, pull: np.float32, step: AdamStep) -> None:
    """Move `values` down `slopes + pull * values`, (n,) both.

    `averages` (2, n) are the running averages of slopes and of their squares.
    """
    means, squares = averages[0], averages[1]
    new, new_square, tiny = np.float32(0.1), np.float32(0.001), np.float32(1e-8)
    for k in range(len(values)):
        slope = slopes[k] + pull * values[k]
        means[k] += new * (slope - means[k])
        squares[k] += new_square * (slope * slope - squares[k])
        values[k] -= step.size * means[k] / (step.correction * np.sqrt(squares[k]) + tiny)

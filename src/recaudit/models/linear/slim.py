"""SLIM: sparse weights by coordinate descent, one lasso an item, all of them on one Gram matrix."""

from __future__ import annotations

import warnings
from typing import NamedTuple, final

import numpy as np
from numba import njit, prange
from pydantic import Field

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.models.base import Recommender
from recaudit.models.checks import check_data
from recaudit.models.linear.model import Center, HeldWeights, LinearModel, centred, check_square, item_offset
from recaudit.models.neighbour.similarity import gram

_BLOCK = 128
"""Items between two reports of progress; no number depends on it."""
_SHARE = 0.5
"""Coordinates whose gain is at least this share of the largest become active."""


@final
class SLIM(Recommender):
    """Sparse weights: column i of W minimises `|x_i - X w|^2 / 2 + l2 |w|^2 / 2 + l1 |w|_1` with `w_i = 0`.

    Ning and Karypis (2011); coordinate descent, one item at a time. Items squared in memory.
    """

    l1: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    """The weight of the absolute weights: higher, fewer weights differ from 0."""
    l2: float = Field(default=100.0, ge=0, allow_inf_nan=False)
    """The weight of the squared weights."""
    nonnegative: bool = True
    """Whether weights must be 0 or more."""
    center: Center = "none"
    """As for EASE."""
    max_iter: int = Field(default=1000, ge=1)
    """Most rounds over the coordinates of one item; a warning says how many items would have needed more."""
    tolerance: float = Field(default=1e-4, gt=0, allow_inf_nan=False)
    """Where to stop: no weight, moved alone, would move by more than this."""

    def fit(self, data: Interactions, rng: int = 0) -> LinearModel:
        """Solve a lasso for each item. Nothing is drawn: `rng` has no effect."""
        check_data(data)
        check_square(data.n_items, 2, "SLIM")
        offset = item_offset(data, self.center)
        products, penalty = gram(centred(data.csr, offset)), Penalty(self.l1, self.l2, self.nonnegative)
        weights, unfinished = np.empty_like(products), 0
        for start in track(range(0, data.n_items, _BLOCK), "SLIM", -(-data.n_items // _BLOCK)):
            targets = np.arange(start, min(start + _BLOCK, data.n_items))
            columns, converged = _descend(targets, products, penalty, self.max_iter, self.tolerance)
            weights[:, targets] = columns.T
            unfinished += int((~converged).sum())
        if unfinished:
            warnings.warn(
                f"SLIM: the weights of {unfinished:,} of {data.n_items:,} items did not settle in "
                f"max_iter={self.max_iter} rounds. Raise max_iter, tolerance, l1 or l2.",
                RuntimeWarning,
                stacklevel=2,
            )
        return LinearModel(data, HeldWeights(weights), offset, predicts_ratings=self.center == "item")


class Penalty(NamedTuple):
    """What the squared error is weighed against."""

    l1: float
    l2: float
    nonnegative: bool


@parallel_njit()
def _descend(
    targets: IntArray, gram: FloatArray, penalty: Penalty, max_iter: int, tolerance: float
) -> tuple[FloatArray, BoolArray]:
    """(targets, items) the weights of each target, and (targets,) whether they converged; `gram` is X^T X.

    Coordinates are descended on in rounds over an active set, so that a round costs the square of its size.
    The set starts empty; each time it has settled, it lets go of the weights at 0 and takes in the
    coordinates that would lower the objective the most. At the end none, inside or outside, would move.
    """
    count = len(gram)
    found = np.zeros((len(targets), count))
    converged = np.zeros(len(targets), dtype=np.bool_)
    for at in prange(len(targets)):
        target, weights = targets[at], found[at]
        # What of each item's product with the target is not yet explained: X^T (x_i - X w).
        left = gram[target].copy()
        gains = np.zeros(count)
        rounds = 0
        while True:
            furthest = 0.0
            for j in range(count):
                size = gram[j, j]
                move = 0.0 if j == target else abs(_minimum(left[j], weights[j], size, penalty) - weights[j])
                furthest = max(furthest, move)
                # The objective falls by half the square of this.
                gains[j] = move * np.sqrt(size + penalty.l2)
            if furthest <= tolerance:
                converged[at] = True
                break
            if rounds >= max_iter:
                break
            active = np.flatnonzero((weights != 0) | (gains >= _SHARE * gains.max()))
            rounds += _settle(active, gram, left, weights, penalty, max_iter - rounds, tolerance)
            left[:] = gram[target]
            for other in active:
                if weights[other] != 0:
                    left -= weights[other] * gram[other]
    return found, converged


@njit(cache=True)
def _settle(
    active: IntArray,
    gram: FloatArray,
    left: FloatArray,
    weights: FloatArray,
    penalty: Penalty,
    max_iter: int,
    tolerance: float,
) -> int:
    """Rounds over the active coordinates until none moves by more than `tolerance`; returns how many."""
    count = len(active)
    products = np.empty((count, count))
    for a in range(count):
        for b in range(count):
            products[a, b] = gram[active[a], active[b]]
    active_left, active_weights = left[active], weights[active]
    rounds, furthest = 0, np.inf
    while rounds < max_iter and furthest > tolerance:
        rounds, furthest = rounds + 1, 0.0
        for a in range(count):
            new = _minimum(active_left[a], active_weights[a], products[a, a], penalty)
            move = new - active_weights[a]
            if move != 0:
                active_weights[a] = new
                active_left -= move * products[a]
                furthest = max(furthest, abs(move))
    weights[active] = active_weights
    return rounds


@njit(cache=True)
def _minimum(left: float, weight: float, size: float, penalty: Penalty) -> float:
    """The weight that minimises the objective with every other one held: soft thresholding."""
    if size <= 0:
        return 0.0
    pull = left + size * weight
    if pull > penalty.l1:
        return (pull - penalty.l1) / (size + penalty.l2)
    if pull < -penalty.l1 and not penalty.nonnegative:
        return (pull + penalty.l1) / (size + penalty.l2)
    return 0.0

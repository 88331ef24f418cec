"""The term that all targets of a problem share: g(u) = log sum_j exp(S u + t)_j over the box [-1, 1]^K.

Affine scores are scaled first: beta is 1, the box is [-1, 1]^K, and one item scores 0. What all scores share moves no
probability, but its rounding would: 1e9 added to every score costs seven digits of each difference. So the item that
leads at the middle of the box, the leader, is subtracted from every item first, its intercept and its slopes. A
difference of two doubles is exact to half a unit in its own last place, and what is computed from then on is as large
as the differences between items, not as the scores.

How far rounding moves a score. Inputs are exact, u is the unit roundoff, terms in u^2 are dropped, and for item j
A_j = beta (|c_j - c_leader| + |b_j - b_leader|.(|middle| + half)), its `size`.

- b_j - b_leader and c_j - c_leader, the product with the middle of the box, its sum and the factor beta: (K + 4) u A_j.
- The slopes in units of half the box, beta half (b_j - b_leader): 3 u A_j.
- middle -+ half miss the ends of the box by 2 u (|middle| + half), and an action computed from a point of [-1, 1]^K, or
  a point from an action, is off by as much again, twice with the step back into the box: 6 u A_j.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.softmax.curvature import Curvature, diagonal
from recaudit.solvers.softmax.moments import first_moments

# Below this spread of g over the box, exp(S u + t - g(0)) neither overflows nor loses the sum to underflow.
_SAFE_SPREAD = 500.0
# How many weights are held at once: 3 MB, which the cache of a core or two keeps.
_BLOCK = 400_000
_DOUBLE = 8
_UNIT = float(np.finfo(np.float64).eps)
# An item that is this far below another one on the whole box adds nothing to a sum: exp(-50) is 2e-22.
_FAR_BELOW = 50.0


class Scaled(NamedTuple):
    """Scores S u + t of several problems, u in [-1, 1]^K."""

    slopes: FloatArray  # (problems, items, K)
    offsets: FloatArray  # (problems, items): -inf for padding
    sizes: FloatArray  # (problems, items): A >= |S|_1, A >= |t|; rounding moved a score by (K + 13) u A at most

    @classmethod
    def of(cls, slope: FloatArray, intercept: FloatArray, beta: float, middle: FloatArray, half: FloatArray) -> Scaled:
        """Scale `slope`, shape (problems, items, K), and `intercept`, shape (problems, items), -inf for padding.

        The boxes go from `middle - half` to `middle + half`, both of shape (problems, K).
        """
        padding = np.isneginf(intercept)
        at_middle = intercept + (slope @ middle[:, :, None])[:, :, 0]
        row, leader = np.arange(len(slope)), np.where(padding, -np.inf, at_middle).argmax(axis=1)
        slopes = slope - slope[row, leader][:, None]
        if padding.any():
            slopes[padding] = 0.0
        ahead = intercept - intercept[row, leader][:, None]
        offsets = beta * (ahead + (slopes @ middle[:, :, None])[:, :, 0])
        moved = (np.abs(slopes) @ (np.abs(middle) + half)[:, :, None])[:, :, 0]
        sizes = beta * np.where(padding, 0.0, np.abs(ahead) + moved)
        slopes *= (beta * half)[:, None]
        return cls(slopes, offsets, sizes)


def tolerance_beside(tol: float, rounding: FloatArray) -> FloatArray:
    """Return the gap to reach, shape (rows,), so that bounds widened by `rounding` are at most `tol` apart.

    They are widened on either side, and once more for their sums. A gap below the rounding cannot be told: such a
    target stays bounded.
    """
    return np.maximum(tol - 3 * rounding, rounding)


def log_sum_exp(values: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exp(`values`) over the last axis; at least one value of a sum is finite."""
    largest = values.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(values - largest).sum(axis=-1)) + largest[..., 0])


@final
class Ragged:
    """Rows sorted by the problem they belong to, and the padded block (problems, width, ...) that they fill."""

    def __init__(self, owner: IntArray, problems: int) -> None:
        """Take in the problem of each row, `owner`, shape (rows,), ascending."""
        self.problems, self.owner = problems, owner
        counts = np.bincount(owner, minlength=problems)
        self.starts = counts.cumsum() - counts
        self.slot = np.arange(len(owner)) - self.starts[owner]
        self.width = int(counts.max())

    def pad(self, rows: FloatArray, fill: float = 0.0) -> FloatArray:
        """Return `rows`, shape (rows, ...), as (problems, width, ...), with `fill` where a problem has fewer rows."""
        if self.problems == 1:
            return rows[None]
        block = np.full((self.problems, self.width, *rows.shape[1:]), fill)
        block[self.owner, self.slot] = rows
        return block

    def unpad(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return a block, shape (problems, width, ...), as rows, shape (rows, ...)."""
        rows: NDArray[Any] = block[0] if self.problems == 1 else block[self.owner, self.slot]
        return rows


class Evaluation(NamedTuple):
    """g and its derivatives at some points."""

    value: FloatArray  # (rows,)
    gradient: FloatArray  # (rows, K)
    hessian: FloatArray  # (rows, K, K), or (0, K, K) where it was not requested
    doubt: FloatArray  # (rows, K), or (0, K): the exact Hessian is at least this one less `doubt` on its diagonal


@final
class LogSumExp:
    """g and its derivatives for a batch of problems.

    Offsets are lowered by g(0), kept as `level`, shape (problems,), so that g(0) = 0: a constant added to every score
    changes no probability. `work_bytes` is what the evaluations may hold next to their input and output; `block` the
    numbers that one intermediate array should have at most.

    What a bound on a log-probability must leave for rounding is `rounding`, shape (problems,), plus `own_rounding`,
    shape (problems, items), of the target: from the scores as they were given to g, g(u) - b_i.u, and the gap of a
    tangent there.
    """

    def __init__(self, scores: Scaled, work_bytes: int) -> None:
        self._scores, self._work_bytes = scores, work_bytes
        slopes = self.slopes = scores.slopes
        self.problems, self.items, self.actions = slopes.shape
        self.level = log_sum_exp(scores.offsets)
        self.offsets = scores.offsets - self.level[:, None]
        # A finite stand-in for -inf keeps the matrix product free of inf - inf; its exponential is 0 all the same.
        self._finite_offsets = np.maximum(self.offsets, -1e200)
        self._first = np.concatenate([np.ones((self.problems, 1, self.items)), slopes.mT], axis=1)
        chances = np.exp(self.offsets)
        chances /= chances.sum(axis=1, keepdims=True)
        self._mean = (chances[:, None] @ slopes)[:, 0]  # the gradient at 0
        self._largest = np.abs(slopes).max(axis=1)
        self._products: FloatArray | None = None
        self._pair_rows, self._pair_columns = np.triu_indices(self.actions)
        position = np.empty((self.actions, self.actions), dtype=np.int64)
        position[self._pair_rows, self._pair_columns] = np.arange(len(self._pair_rows))
        position[self._pair_columns, self._pair_rows] = np.arange(len(self._pair_rows))
        self._pair_position = position.ravel()
        self.block = min(work_bytes // (4 * _DOUBLE), _BLOCK)
        self._rows_at_once = max(1, self.block // (self.problems * self.items))
        self._items_at_once = max(1, work_bytes // (4 * _DOUBLE * self.problems * len(self._pair_rows)))
        self.curvature = Curvature(slopes, ~np.isinf(scores.offsets))
        reach = np.abs(slopes).sum(axis=2)
        self.spread = self._spread(reach)
        self.rounding, self.own_rounding = self._rounding(reach)

    @cached_property
    def _logits(self) -> FloatArray:
        return np.concatenate([self.slopes, self._finite_offsets[:, :, None]], axis=2)

    @cached_property
    def _buffer(self) -> FloatArray:
        return np.empty(self.problems * self.items * self._rows_at_once)

    def cooled(self, factor: float) -> LogSumExp:
        """Return the same problems with every score multiplied by `factor`: a smaller beta."""
        return LogSumExp(Scaled(*(part * factor for part in self._scores)), self._work_bytes)

    def evaluate(self, points: FloatArray, owner: IntArray | None = None, *, hessian: bool) -> Evaluation:
        """Return g, its gradient and, on request, its Hessian at `points`, shape (rows, K).

        `owner`, shape (rows,), is the problem of each row, by default the first. With p the softmax: gradient S^T p,
        Hessian S^T diag(p) S - (S^T p)(S^T p)^T, one matrix product each.
        """
        if owner is None:
            owner = np.zeros(len(points), dtype=np.int64)
        peak: FloatArray | float = 0.0
        if self.spread <= _SAFE_SPREAD and not (hessian and self.problems > 1):
            moments, second = self._in_one_pass(points, owner, hessian)
        else:
            moments, second, peak = self._in_passes(points, owner, hessian)
        total = moments[:, :1]
        gradient, value = moments[:, 1:] / total, np.log(total[:, 0]) + peak
        if not hessian:
            none = gradient[:0]
            return Evaluation(value, gradient, np.empty((0, self.actions, self.actions)), none)
        raw = np.take(second / total, self._pair_position, axis=1).reshape(-1, self.actions, self.actions)
        doubt, off_mean = self._doubt(diagonal(raw), owner), gradient - self._mean[owner]
        raw -= off_mean[:, :, None] * off_mean[:, None, :]
        return Evaluation(value, gradient, raw, doubt)

    def _doubt(self, moments: FloatArray, owner: IntArray) -> FloatArray:
        """Return by how much rounding moves a Hessian at most, as a diagonal matrix, shape (rows, K).

        An entry (k, l) is a sum of N products, off by N u sqrt(m_k m_l) with the second `moments` m, shape (rows, K);
        the rounding of the scores moves all weights; and the gradients that are subtracted are off by
        2 N u max_j |S_jk|.
        """
        terms = _UNIT * self.actions * (self.items + self.actions + 16)
        of_slopes: FloatArray = 4 * terms * np.square(self._largest[owner])
        of_moments: FloatArray = moments * (terms + 8 * self.rounding[owner, None])
        return of_moments + of_slopes

    def _in_one_pass(self, points: FloatArray, owner: IntArray, hessian: bool) -> tuple[FloatArray, FloatArray]:
        """Return the first moments, shape (rows, 1 + K), and the second ones of a single problem.

        The second ones have the shape (rows, K (K + 1) / 2), or (0, K (K + 1) / 2) if they were not requested.
        """
        moments, points = np.empty((len(points), 1 + self.actions)), np.ascontiguousarray(points)
        slopes, offsets = self._first[:, 1:], self._finite_offsets
        if not hessian:
            first_moments(slopes, offsets, points, owner, moments, np.empty((0, self.items)))
            return moments, np.empty((0, len(self._pair_rows)))
        second, height = np.empty((len(points), len(self._pair_rows))), self._rows_at_once
        weights = self._buffer[: height * self.items].reshape(height, self.items)
        for start in range(0, len(points), height):
            part = slice(start, min(start + height, len(points)))
            some = weights[: part.stop - start]
            first_moments(slopes, offsets, points[part], owner[part], moments[part], some)
            second[part] = self._second_moments(some.T[None])[0].T
        return moments, second

    def _in_passes(
        self, points: FloatArray, owner: IntArray, hessian: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return what `_in_one_pass` does, for any number of problems and any spread.

        Also the exponents, shape (rows,), that were taken out.
        """
        rows = Ragged(owner, self.problems)
        block = rows.pad(np.concatenate([points, np.ones((len(points), 1))], axis=1)).mT
        first = np.empty((self.problems, 1 + self.actions, rows.width))
        second = np.empty((self.problems, len(self._pair_rows) if hessian else 0, rows.width))
        peak = np.zeros((self.problems, 1, rows.width))
        for start in range(0, rows.width, self._rows_at_once):
            part = slice(start, min(start + self._rows_at_once, rows.width))
            weights = self._weights(block[:, :, part], peak[:, :, part])
            first[:, :, part] = self._first @ weights
            if hessian:
                second[:, :, part] = self._second_moments(weights)
        moments, squares, exponent = (np.ascontiguousarray(rows.unpad(part.mT)) for part in (first, second, peak))
        return moments, squares, exponent[:, 0]

    def _weights(self, block: FloatArray, peak: FloatArray) -> FloatArray:
        """Return exp(S u + t), shape (problems, items, rows), less the row's largest exponent where it could overflow.

        Items come first: sums over them are the fastest matrix products. The system takes longer to hand out pages
        than to fill them: the buffer is kept.
        """
        shape = (self.problems, self.items, block.shape[2])
        weights = self._buffer[: math.prod(shape)].reshape(shape)
        np.matmul(self._logits, block, out=weights)
        if self.spread > _SAFE_SPREAD:
            peak[:] = weights.max(axis=1, keepdims=True)
            weights -= peak
            # Denormal numbers are many times slower, and e^-600 of the largest adds nothing to a sum.
            np.maximum(weights, -600.0, out=weights)
        return np.exp(weights, out=weights)

    def _rounding(self, reach: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how far rounding moves a log-probability or the gap of its tangent: (problems,), (problems, items).

        In a few lines, with N items, C_j = A_j + |t_j| from the sizes A and the offsets t, and R_j = |S_j|_1, `reach`,
        shape (problems, items). Inputs being exact, rounding moves the score of item j by at most d_j = (2 K + 16) u
        C_j: (K + 13) u A_j before, u |t_j| by the level, (K + 2) u (R_j + |t_j|) in the product.

        - g: the weights are those of scores moved by d_j, so that log-sum-exp moves by max d_j at most. The
          exponentials, their sum in any order and the logarithm add (N + 16) u + 4 u |g|, where |g| <= max C_j + log N.
        - The tangent: whatever the weights q are, g(v) >= q.(S v + t) + entropy(q) for all v (Gibbs). With the weights
          of moved scores the right side is the tangent at u, lower by max d_j: the slopes do not multiply the error.
          The sums over items and over actions in the gap add 2 (N + K + 8) u max R_j.
        - The target's own score: d_i, and 4 (K + 4) u C_i in b_i.u, its part of the gap and the sums of the bounds.

        Each maximum is over the items that can have any weight somewhere in the box. The unit below is 2 u.
        """
        K = self.actions
        sizes = self._scores.sizes + np.where(np.isinf(self.offsets), 0.0, np.abs(self.offsets))
        shared = _UNIT * ((K + 16) * sizes + (self.items + K + 8) * reach)
        nowhere = self.offsets + reach + shared + _FAR_BELOW <= (self.offsets - reach - shared).max(axis=1)[:, None]
        widest = np.where(nowhere, 0.0, shared).max(axis=1)
        return widest + _UNIT * (self.items + 32), _UNIT * (3 * K + 16) * sizes

    def _second_moments(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sums of (S_jk - m_k) (S_jl - m_l) over the items j: (problems, K (K + 1) / 2, rows).

        k <= l, and m is the gradient at 0: second moments are then about as large as the Hessian, and so is their
        rounding.
        """
        if self._items_at_once >= self.items:
            if self._products is None:
                self._products = self._pairwise(slice(None))
            return self._products @ weights
        total = np.zeros((self.problems, len(self._pair_rows), weights.shape[2]))
        for start in range(0, self.items, self._items_at_once):
            part = slice(start, start + self._items_at_once)
            total += self._pairwise(part) @ weights[:, part]
        return total

    def _pairwise(self, items: slice) -> FloatArray:
        slopes = self._first[:, 1:, items] - self._mean[:, :, None]
        return slopes[:, self._pair_rows] * slopes[:, self._pair_columns]

    def _spread(self, reach: FloatArray) -> float:
        """Return an upper bound of max g - min g over the box, the largest of all problems; `reach` is |S_j|_1.

        g <= log sum_j exp(t_j + |S_j|_1); g >= g(0) - |grad g(0)|_1 by convexity; g(0) = 0.
        """
        top = log_sum_exp(self.offsets + reach)
        bottom = -np.abs(self._mean).sum(axis=1)
        return float((top - bottom).max())

"""The term that all targets of a problem share: g(u) = log sum_j exp(S u + t)_j over the box [-1, 1]^K.

A batch holds several problems, padded to the same number of items. Points are kept as flat rows, sorted by the
problem they belong to, because after a few Newton steps the problems have different numbers of open targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch

Tensor = torch.Tensor

# Below this spread of g over the box, exp(S u + t - g(0)) neither overflows nor loses the sum to underflow.
_SAFE_SPREAD = 500.0
# How many weights a CPU holds at once: 3 MB, which the cache of a core or two keeps.
_CPU_BLOCK = 400_000
_DOUBLE = 8


@final
class Ragged:
    """Rows that belong to problems, and the padded block (problems, width, ...) that they fill."""

    def __init__(self, owner: Tensor, problems: int) -> None:
        """`owner` (rows,): the problem of each row, ascending."""
        self.problems = problems
        self.owner = owner
        counts = torch.bincount(owner, minlength=problems)
        self.starts = counts.cumsum(0) - counts
        self.slot = torch.arange(len(owner), device=owner.device) - self.starts[owner]
        self.width = int(counts.max())

    def pad(self, rows: Tensor, fill: float = 0.0) -> Tensor:
        """(rows, ...) as (problems, width, ...), with `fill` where a problem has fewer rows."""
        if self.problems == 1:
            return rows[None]
        block = rows.new_full((self.problems, self.width, *rows.shape[1:]), fill)
        block[self.owner, self.slot] = rows
        return block

    def unpad(self, block: Tensor) -> Tensor:
        """(problems, width, ...) back as (rows, ...)."""
        return block[0] if self.problems == 1 else block[self.owner, self.slot]


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """g and its derivatives at some points."""

    value: Tensor
    """(rows,)"""
    gradient: Tensor
    """(rows, K)"""
    hessian: Tensor
    """(rows, K, K), or (0, K, K) where it was not asked for."""


@final
class LogSumExp:
    """g and its derivatives for a batch of problems.

    `slopes` (problems, items, K) and `offsets` (problems, items), -inf for padding. Offsets are lowered by g(0),
    kept as `level` (problems,), so that g(0) = 0: a constant added to every score changes no probability.
    `work_bytes` is what the evaluations may hold beside their input and output; `block` the numbers that one
    intermediate array should have at most.
    """

    def __init__(self, slopes: Tensor, offsets: Tensor, work_bytes: int) -> None:
        self.problems, self.items, self.actions = slopes.shape
        self._work_bytes = work_bytes
        self.slopes = slopes
        self.level = torch.logsumexp(offsets, dim=1)
        self.offsets = offsets - self.level[:, None]
        # A finite stand-in for -inf keeps the matrix product free of inf - inf; its exponential is 0 all the same.
        self._logits = torch.cat([slopes, self.offsets.clamp(min=-1e200).unsqueeze(2)], dim=2)
        self._first = torch.cat([torch.ones_like(self.offsets).unsqueeze(1), slopes.mT], dim=1)
        self._products: Tensor | None = None
        pairs = torch.triu_indices(self.actions, self.actions, device=slopes.device)
        self._pair_rows, self._pair_columns = pairs[0], pairs[1]
        position = torch.empty(self.actions, self.actions, dtype=torch.long, device=slopes.device)
        position[pairs[0], pairs[1]] = position[pairs[1], pairs[0]] = torch.arange(pairs.shape[1], device=slopes.device)
        self._pair_position = position.reshape(-1)
        self.block = work_bytes // (4 * _DOUBLE)
        if slopes.device.type == "cpu":
            self.block = min(self.block, _CPU_BLOCK)
        self._rows_at_once = max(1, self.block // (self.problems * self.items))
        self._items_at_once = max(1, work_bytes // (4 * _DOUBLE * self.problems * len(self._pair_rows)))
        self._buffer = slopes.new_empty(self.problems * self.items * self._rows_at_once)
        self.spread = self._spread()
        self.rounding = self._rounding()

    def cooled(self, factor: float) -> LogSumExp:
        """The same problems with every score multiplied by `factor`: a smaller beta."""
        return LogSumExp(self.slopes * factor, self.offsets * factor, self._work_bytes)

    def evaluate(self, points: Tensor, owner: Tensor, *, hessian: bool) -> Evaluation:
        """g, its gradient and, on request, its Hessian at `points` (rows, K) of the problems `owner` (rows,).

        With p the softmax: gradient S^T p, Hessian S^T diag(p) S - (S^T p)(S^T p)^T. Both are one matrix product
        for all rows: p times the slopes and times the products of slope columns.
        """
        rows = Ragged(owner, self.problems)
        block = rows.pad(torch.cat([points, points.new_ones(len(points), 1)], dim=1)).mT
        first = block.new_empty(self.problems, 1 + self.actions, rows.width)
        second = block.new_empty(self.problems, len(self._pair_rows) if hessian else 0, rows.width)
        peak = block.new_zeros(self.problems, 1, rows.width)
        for start in range(0, rows.width, self._rows_at_once):
            part = slice(start, min(start + self._rows_at_once, rows.width))
            weights = self._weights(block[:, :, part], peak[:, :, part])
            first[:, :, part] = torch.bmm(self._first, weights)
            if hessian:
                second[:, :, part] = self._second_moments(weights)
        moments = rows.unpad(first.mT.contiguous())
        total = moments[:, :1]
        gradient = moments[:, 1:] / total
        curvature = gradient.new_empty(0, self.actions, self.actions)
        if hessian:
            raw = (rows.unpad(second.mT.contiguous()) / total).index_select(1, self._pair_position)
            outer = gradient[:, :, None] * gradient[:, None, :]
            curvature = raw.view(len(points), self.actions, self.actions).sub_(outer)
        return Evaluation(total[:, 0].log() + rows.unpad(peak.mT)[:, 0], gradient, curvature)

    def _weights(self, block: Tensor, peak: Tensor) -> Tensor:
        """(problems, items, rows): exp(S u + t), less the row's largest exponent where it could overflow.

        Items come first because the sums over them are then the fastest matrix products; the buffer is kept because
        the system takes longer to hand out new pages than to fill them.
        """
        shape = (self.problems, self.items, block.shape[2])
        weights = self._buffer[: math.prod(shape)].view(shape)
        torch.bmm(self._logits, block, out=weights)
        if self.spread > _SAFE_SPREAD:
            peak.copy_(weights.amax(dim=1, keepdim=True))
            weights -= peak
            # Denormal numbers are many times slower, and e^-600 of the largest adds nothing to a sum.
            weights.clamp_(min=-600.0)
        return weights.exp_()

    def _rounding(self) -> Tensor:
        """(problems,): how far rounding can move g or a target's own score, to first order in the unit roundoff."""
        sizes = self.slopes.abs().sum(dim=2) + torch.where(self.offsets.isinf(), 0.0, self.offsets.abs())
        unit = torch.finfo(sizes.dtype).eps
        return unit * (self.items + (self.actions + 2) * sizes.amax(dim=1))

    def _second_moments(self, weights: Tensor) -> Tensor:
        """(problems, K (K + 1) / 2, rows): the weighted sums of S_jk S_jl over the items j, k <= l."""
        if self._items_at_once >= self.items:
            if self._products is None:
                self._products = self._pairwise(slice(None))
            return torch.bmm(self._products, weights)
        total = weights.new_zeros(self.problems, len(self._pair_rows), weights.shape[2])
        for start in range(0, self.items, self._items_at_once):
            part = slice(start, start + self._items_at_once)
            total.baddbmm_(self._pairwise(part), weights[:, part])
        return total

    def _pairwise(self, items: slice) -> Tensor:
        slopes = self._first[:, 1:, items]
        return slopes[:, self._pair_rows] * slopes[:, self._pair_columns]

    def _spread(self) -> float:
        """An upper bound of max g - min g over the box, the largest of all problems.

        g <= log sum_j exp(t_j + |S_j|_1); g >= g(0) - |grad g(0)|_1 by convexity; g(0) = 0.
        """
        top = torch.logsumexp(self.offsets + self.slopes.abs().sum(dim=2), dim=1)
        at_centre = torch.softmax(self.offsets, dim=1).unsqueeze(1)
        bottom = -torch.bmm(at_centre, self.slopes).abs().sum(dim=2).squeeze(1)
        return float((top - bottom).max())

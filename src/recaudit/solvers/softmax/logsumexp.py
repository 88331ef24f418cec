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
from typing import NamedTuple, final

import torch
from torch import Tensor

from recaudit.solvers.softmax.curvature import Curvature
from recaudit.solvers.softmax.moments import first_moments

# Below this spread of g over the box, exp(S u + t - g(0)) neither overflows nor loses the sum to underflow.
_SAFE_SPREAD = 500.0
# How many weights a CPU holds at once: 3 MB, which the cache of a core or two keeps.
_CPU_BLOCK = 400_000
_DOUBLE = 8
# An item that is this far below another one on the whole box adds nothing to a sum: exp(-50) is 2e-22.
_FAR_BELOW = 50.0


class Scaled(NamedTuple):
    """Scores S u + t of several problems, u in [-1, 1]^K."""

    slopes: Tensor  # (problems, items, K)
    offsets: Tensor  # (problems, items): -inf for padding
    sizes: Tensor  # (problems, items): A >= |S|_1, A >= |t|; rounding moved a score by (K + 13) u A at most

    @classmethod
    def of(cls, slope: Tensor, intercept: Tensor, beta: float, middle: Tensor, half: Tensor) -> Scaled:
        """From `slope` (problems, items, K), `intercept` (problems, items), -inf for padding, and boxes (problems, K)
        from `middle - half` to `middle + half`."""
        padding = intercept.isneginf()
        at_middle = (intercept + torch.bmm(slope, middle.unsqueeze(2)).squeeze(2)).masked_fill(padding, -torch.inf)
        row, leader = torch.arange(len(slope), device=slope.device), at_middle.argmax(dim=1)
        slopes = slope - slope[row, leader].unsqueeze(1)
        slopes.masked_fill_(padding.unsqueeze(2), 0.0)
        ahead = intercept - intercept[row, leader].unsqueeze(1)
        offsets = beta * (ahead + torch.bmm(slopes, middle.unsqueeze(2)).squeeze(2))
        moved = torch.bmm(slopes.abs(), (middle.abs() + half).unsqueeze(2)).squeeze(2)
        sizes = beta * (ahead.abs() + moved).masked_fill(padding, 0.0)
        return cls(slopes.mul_((beta * half).unsqueeze(1)), offsets, sizes)


def tolerance_beside(tol: float, rounding: Tensor) -> Tensor:
    """(rows,): the gap to reach, so that bounds widened by `rounding` (rows,) on either side, and once more for their
    sums, are at most `tol` apart. A gap below the rounding cannot be told: such a target stays bounded."""
    return torch.maximum(tol - 3 * rounding, rounding)


@final
class Ragged:
    """Rows sorted by the problem they belong to, and the padded block (problems, width, ...) that they fill."""

    def __init__(self, owner: Tensor, problems: int) -> None:
        """`owner` (rows,): the problem of each row, ascending."""
        self.problems, self.owner = problems, owner
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


class Evaluation(NamedTuple):
    """g and its derivatives at some points."""

    value: Tensor  # (rows,)
    gradient: Tensor  # (rows, K)
    hessian: Tensor  # (rows, K, K), or (0, K, K) where it was not asked for
    doubt: Tensor  # (rows, K), or (0, K): the exact Hessian is at least this one less `doubt` on its diagonal


@final
class LogSumExp:
    """g and its derivatives for a batch of problems.

    Offsets are lowered by g(0), kept as `level` (problems,), so that g(0) = 0: a constant added to every score changes
    no probability. `work_bytes` is what the evaluations may hold beside their input and output; `block` the numbers
    that one intermediate array should have at most.

    What a bound on a log-probability must leave for rounding is `rounding` (problems,), plus `own_rounding` (problems,
    items) of the target: from the scores as they were given to g, g(u) - b_i.u, and the gap of a tangent there.
    """

    def __init__(self, scores: Scaled, work_bytes: int) -> None:
        self._scores, self._work_bytes = scores, work_bytes
        slopes = self.slopes = scores.slopes
        self.problems, self.items, self.actions = slopes.shape
        self.level = torch.logsumexp(scores.offsets, dim=1)
        self.offsets = scores.offsets - self.level[:, None]
        # A finite stand-in for -inf keeps the matrix product free of inf - inf; its exponential is 0 all the same.
        self._finite_offsets = self.offsets.clamp(min=-1e200)
        self._logits = torch.cat([slopes, self._finite_offsets.unsqueeze(2)], dim=2)
        self._first = torch.cat([torch.ones_like(self.offsets).unsqueeze(1), slopes.mT], dim=1)
        self._mean = torch.bmm(torch.softmax(self.offsets, dim=1).unsqueeze(1), slopes).squeeze(1)  # the gradient at 0
        self._largest = slopes.abs().amax(dim=1)
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
        self.curvature = Curvature(slopes, ~scores.offsets.isinf())
        reach = slopes.abs().sum(dim=2)
        self.spread = self._spread(reach)
        self.rounding, self.own_rounding = self._rounding(reach)

    def cooled(self, factor: float) -> LogSumExp:
        """The same problems with every score multiplied by `factor`: a smaller beta."""
        return LogSumExp(Scaled(*(part * factor for part in self._scores)), self._work_bytes)

    def evaluate(self, points: Tensor, owner: Tensor | None = None, *, hessian: bool) -> Evaluation:
        """g, its gradient and, on request, its Hessian at `points` (rows, K) of the problems `owner` (rows,), or the
        first. With p the softmax: gradient S^T p, Hessian S^T diag(p) S - (S^T p)(S^T p)^T, one matrix product each."""
        if owner is None:
            owner = torch.zeros(len(points), dtype=torch.long, device=points.device)
        one_pass = points.device.type == "cpu" and self.spread <= _SAFE_SPREAD and not (hessian and self.problems > 1)
        how = self._in_one_pass if one_pass else self._in_passes
        moments, second, peak = how(points, owner, hessian)
        total = moments[:, :1]
        gradient, value = moments[:, 1:] / total, total[:, 0].log() + peak
        if not hessian:
            none = gradient[:0]
            return Evaluation(value, gradient, none[:, :, None].expand(-1, -1, self.actions), none)
        raw = (second / total).index_select(1, self._pair_position).view(-1, self.actions, self.actions)
        doubt, off_mean = self._doubt(raw.diagonal(dim1=1, dim2=2), owner), gradient - self._mean[owner]
        return Evaluation(value, gradient, raw.addcmul_(off_mean[:, :, None], off_mean[:, None, :], value=-1), doubt)

    def _doubt(self, moments: Tensor, owner: Tensor) -> Tensor:
        """(rows, K): by how much rounding moves a Hessian at most, as a diagonal matrix. An entry (k, l) is a sum of
        N products, off by N u sqrt(m_k m_l) with the second `moments` m (rows, K); the rounding of the scores moves all
        weights; and the gradients that are subtracted are off by 2 N u max_j |S_jk|."""
        terms = torch.finfo(moments.dtype).eps * self.actions * (self.items + self.actions + 16)
        return moments * (terms + 8 * self.rounding[owner, None]) + 4 * terms * self._largest[owner].square()

    def _in_one_pass(self, points: Tensor, owner: Tensor, hessian: bool) -> tuple[Tensor, Tensor, float]:
        """On a CPU, the first moments (rows, 1 + K), the second ones (rows, K (K + 1) / 2) of a single problem, and the
        exponent that was taken out of them: none."""
        moments, second = points.new_empty(len(points), 1 + self.actions), points.new_empty(0)
        slopes, offsets, at, of = (
            part.numpy() for part in (self._first[:, 1:], self._finite_offsets, points.contiguous(), owner)
        )
        if not hessian:
            first_moments(slopes, offsets, at, of, moments.numpy(), second.view(0, self.items).numpy())
            return moments, second, 0.0
        second, height = points.new_empty(len(points), len(self._pair_rows)), self._rows_at_once
        weights = self._buffer[: height * self.items].view(height, self.items)
        for start in range(0, len(points), height):
            part = slice(start, min(start + height, len(points)))
            some = weights[: part.stop - start]
            first_moments(slopes, offsets, at[part], of[part], moments[part].numpy(), some.numpy())
            second[part] = self._second_moments(some.T[None])[0].T
        return moments, second, 0.0

    def _in_passes(self, points: Tensor, owner: Tensor, hessian: bool) -> tuple[Tensor, Tensor, Tensor]:
        """As `_in_one_pass`, on any device, for any number of problems and any spread."""
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
        moments, squares, exponent = (rows.unpad(part.mT.contiguous()) for part in (first, second, peak))
        return moments, squares, exponent[:, 0]

    def _weights(self, block: Tensor, peak: Tensor) -> Tensor:
        """(problems, items, rows): exp(S u + t), less the row's largest exponent where it could overflow. Items come
        first: sums over them are the fastest matrix products. The system takes longer to hand out pages than to fill
        them: the buffer is kept."""
        shape = (self.problems, self.items, block.shape[2])
        weights = self._buffer[: math.prod(shape)].view(shape)
        torch.bmm(self._logits, block, out=weights)
        if self.spread > _SAFE_SPREAD:
            peak.copy_(weights.amax(dim=1, keepdim=True))
            weights -= peak
            # Denormal numbers are many times slower, and e^-600 of the largest adds nothing to a sum.
            weights.clamp_(min=-600.0)
        return weights.exp_()

    def _rounding(self, reach: Tensor) -> tuple[Tensor, Tensor]:
        """(problems,) and (problems, items): how far rounding moves a log-probability or the gap of its tangent.

        In a few lines, with N items, C_j = A_j + |t_j| from the sizes A and the offsets t, and R_j = |S_j|_1, `reach`
        (problems, items). Inputs being exact, rounding moves the score of item j by at most d_j = (2 K + 16) u C_j:
        (K + 13) u A_j before, u |t_j| by the level, (K + 2) u (R_j + |t_j|) in the product.

        - g: the weights are those of scores moved by d_j, so that log-sum-exp moves by max d_j at most. The
          exponentials, their sum in any order and the logarithm add (N + 16) u + 4 u |g|, where |g| <= max C_j + log N.
        - The tangent: whatever the weights q are, g(v) >= q.(S v + t) + entropy(q) for all v (Gibbs). With the weights
          of moved scores the right side is the tangent at u, lower by max d_j: the slopes do not multiply the error.
          The sums over items and over actions in the gap add 2 (N + K + 8) u max R_j.
        - The target's own score: d_i, and 4 (K + 4) u C_i in b_i.u, its part of the gap and the sums of the bounds.

        Each maximum is over the items that can have any weight somewhere in the box. The unit below is 2 u.
        """
        unit, K = torch.finfo(reach.dtype).eps, self.actions
        sizes = self._scores.sizes + torch.where(self.offsets.isinf(), 0.0, self.offsets.abs())
        shared = unit * ((K + 16) * sizes + (self.items + K + 8) * reach)
        nowhere = self.offsets + reach + shared + _FAR_BELOW <= (self.offsets - reach - shared).amax(dim=1)[:, None]
        widest = shared.masked_fill(nowhere, 0.0).amax(dim=1)
        return widest + unit * (self.items + 32), unit * (3 * K + 16) * sizes

    def _second_moments(self, weights: Tensor) -> Tensor:
        """(problems, K (K + 1) / 2, rows): the weighted sums of (S_jk - m_k) (S_jl - m_l) over the items j, k <= l,
        with m the gradient at 0: second moments are then about as large as the Hessian, and so is their rounding."""
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
        slopes = self._first[:, 1:, items] - self._mean.unsqueeze(2)
        return slopes[:, self._pair_rows] * slopes[:, self._pair_columns]

    def _spread(self, reach: Tensor) -> float:
        """An upper bound of max g - min g over the box, the largest of all problems; `reach` is |S_j|_1:
        g <= log sum_j exp(t_j + |S_j|_1); g >= g(0) - |grad g(0)|_1 by convexity; g(0) = 0."""
        top = torch.logsumexp(self.offsets + reach, dim=1)
        bottom = -self._mean.abs().sum(dim=1)
        return float((top - bottom).max())

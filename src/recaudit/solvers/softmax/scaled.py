"""Affine scores over a box in the units of the solvers: beta is 1, the box is [-1, 1]^K, and one item scores 0.

What all scores share moves no probability, but its rounding would: 1e9 added to every score costs seven digits of
each difference. So the item that leads at the middle of the box, the leader, is subtracted from every item first, its
intercept and its slopes. A difference of two doubles is exact to half a unit in its own last place, and what is
computed from then on is as large as the differences between items, not as the scores.

How far rounding moves a score. Inputs are exact, u is the unit roundoff, terms in u^2 are dropped, and for item j
A_j = beta (|c_j - c_leader| + |b_j - b_leader|.(|middle| + half)), its `size`.

- b_j - b_leader and c_j - c_leader, the product with the middle of the box, its sum and the factor beta: (K + 4) u A_j.
- The slopes in units of half the box, beta half (b_j - b_leader): 3 u A_j.
- middle -+ half miss the ends of the box by 2 u (|middle| + half), and an action computed from a point of [-1, 1]^K, or
  a point from an action, is off by as much again, twice with the step back into the box: 6 u A_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Scaled:
    """Scores S u + t of several problems, u in [-1, 1]^K."""

    slopes: Tensor
    """(problems, items, K)"""
    offsets: Tensor
    """(problems, items): -inf for padding."""
    sizes: Tensor
    """(problems, items): A, at least |S|_1 and at least |t|; rounding moved a score by (K + 13) u A at most."""

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

    def times(self, factor: float) -> Scaled:
        """Every score multiplied by `factor`: a smaller beta."""
        return Scaled(self.slopes * factor, self.offsets * factor, self.sizes * factor)


def tolerance_beside(tol: float, rounding: Tensor) -> Tensor:
    """(rows,): the gap to reach, so that bounds widened by `rounding` (rows,) on either side are at most `tol` apart.

    A third `rounding` is for the sums of the bounds themselves. A gap below the rounding itself cannot be told: where
    that leaves no room for `tol`, the bounds stay apart and the target is bounded.
    """
    return torch.maximum(tol - 3 * rounding, rounding)

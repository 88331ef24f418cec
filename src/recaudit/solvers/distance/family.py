"""The distributions that actions lead to, beside the baseline they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recaudit.solvers.distance.distances import Distance, distance_between

# Probabilities computed at once: 8 MB for each array of them.
_BLOCK = 1 << 20


@final
@dataclass(frozen=True, eq=False)
class Family:
    """q(a) = softmax(slope @ a + offset), beta included, and its distance from the baseline p."""

    slope: Tensor
    """(items, K)"""
    offset: Tensor
    """(items,)"""
    before: Tensor
    """(items,): log p."""
    distance: Distance
    rounding: float = 0.0
    """How far a log q, or a tangent of a log-sum-exp, may be from that of the scores as they were given."""
    error: float = 0.0
    """How far, therefore, a distance may be."""

    def scores(self, actions: Tensor) -> Tensor:
        """(..., items): z at the actions (..., K)."""
        return torch.nn.functional.linear(actions, self.slope, self.offset)

    def distances(self, actions: Tensor) -> Tensor:
        """(...,): D(p, q(a)) at the actions (..., K); differentiable."""
        return distance_between(self.distance, self.before, self.scores(actions).log_softmax(dim=-1))

    def farthest(self, actions: Tensor) -> tuple[float, Tensor]:
        """The largest distance over a list of actions (n, K), and the first action (K,) that reaches it."""
        rows = max(1, _BLOCK // len(self.offset))
        firsts = range(0, len(actions), rows)
        distances = torch.cat([self.distances(actions[first : first + rows]) for first in firsts])
        best = int(distances.argmax())
        return float(distances[best]), actions[best]

    def moves_straight(self) -> bool:
        """Whether each action, alone, moves q on a straight line of the simplex: then a vertex of a box is farthest.

        Along one coordinate, q is a mixture of its restrictions to the items with equal slopes. With two different
        slopes there are two of them, their weights add up to 1, and that is a line; an action that moves one item
        only is the case of paper 001, Proposition 5.2. All four distances, or their squares, are convex in q, hence
        convex along the line, hence quasi-convex in the coordinate: moving it to one of its ends loses nothing.
        With three slopes the line bends, and the maximum may be inside.
        """
        low, high = self.slope.amin(dim=0), self.slope.amax(dim=0)
        return bool(((self.slope == low) | (self.slope == high)).all())


def corners(lower: Tensor, upper: Tensor) -> Tensor:
    """(..., 2^K, K): the vertices of the boxes from `lower` to `upper` (..., K)."""
    columns = lower.shape[-1]
    high = (torch.arange(1 << columns)[:, None] >> torch.arange(columns)) & 1
    return torch.where(high.bool(), upper.unsqueeze(-2), lower.unsqueeze(-2))

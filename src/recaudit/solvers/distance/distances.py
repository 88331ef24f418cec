"""How far apart two distributions are, and the distributions that actions lead to beside their baseline."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, cast, final

import torch
from torch import Tensor

from recaudit.errors import did_you_mean
from recaudit.solvers.checks import require

Distance = Literal["hellinger", "tv", "l2", "kl"]
"""Hellinger `sqrt(1 - sum sqrt(p q))` and total variation `sum |p - q| / 2`, both from 0 to 1; L2
`sqrt(sum (p - q)^2)`, from 0 to sqrt(2); Kullback-Leibler `sum q log(q / p)`, p before and q after, from 0 on."""

LARGEST: dict[Distance, float] = {"hellinger": 1.0, "tv": 1.0, "l2": 2**0.5, "kl": float("inf")}
"""What no two distributions exceed."""

# Probabilities computed at once: 8 MB for each array of them.
_BLOCK = 1 << 20


def largest_distance(name: Distance) -> float | None:
    """Largest value of a distance, None without one."""
    return LARGEST[name] if isfinite(LARGEST[name]) else None


def check_distance(name: str) -> Distance:
    """The name of a distance."""
    require(name in LARGEST, "distance", name, f"one of {list(LARGEST)}", did_you_mean(name, LARGEST))
    return cast("Distance", name)


def distance_between(name: Distance, before: Tensor, after: Tensor) -> Tensor:
    """(...,): the distance of two distributions given as log-probabilities (..., items); differentiable in `after`.
    An item of probability 0 (-inf) on both sides does not count."""
    p, q = before.exp(), after.exp()
    if name == "hellinger":
        # 1 - sum sqrt(p q) = sum (sqrt p - sqrt q)^2 / 2, without the cancellation.
        return ((before / 2).exp() - (after / 2).exp()).square().sum(dim=-1).div(2).clamp(min=0).sqrt()
    if name == "tv":
        return (p - q).abs().sum(dim=-1) / 2
    if name == "l2":
        return (p - q).square().sum(dim=-1).sqrt()
    ratio = torch.where(q > 0, after - before, 0.0)
    return (q * ratio).sum(dim=-1).clamp(min=0)


@final
@dataclass(frozen=True, eq=False)
class Family:
    """q(a) = softmax(slope @ a + offset), beta included, and its distance from the baseline p."""

    slope: Tensor  # (items, K)
    offset: Tensor  # (items,)
    before: Tensor  # (items,): log p
    distance: Distance
    rounding: float = 0.0
    """How far a log q, or a tangent of a log-sum-exp, may be from that of the scores as they were given."""
    error: float = 0.0  # How far, therefore, a distance may be

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
        return highest(torch.cat([self.distances(actions[first : first + rows]) for first in firsts]), actions)

    def moves_straight(self) -> bool:
        """Whether each action, alone, moves q on a straight line of the simplex: then a vertex of a box is farthest, as
        in `own_item`. Along one coordinate, q is a mixture of its restrictions to the items with equal slopes: with two
        different slopes that is a line; with three it bends, and the maximum may be inside."""
        low, high = self.slope.amin(dim=0), self.slope.amax(dim=0)
        return bool(((self.slope == low) | (self.slope == high)).all())


def highest(distances: Tensor, actions: Tensor) -> tuple[float, Tensor]:
    """The largest of `distances` (n,), and the first of the actions (n, K) that reaches it."""
    best = int(distances.argmax())
    return float(distances[best]), actions[best]


def corners(lower: Tensor, upper: Tensor) -> Tensor:
    """(..., 2^K, K): the vertices of the boxes from `lower` to `upper` (..., K)."""
    columns = lower.shape[-1]
    high = (torch.arange(1 << columns)[:, None] >> torch.arange(columns)) & 1
    return torch.where(high.bool(), upper.unsqueeze(-2), lower.unsqueeze(-2))

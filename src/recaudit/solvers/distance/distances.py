"""Distances between two probability distributions."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal, cast

from recaudit.errors import did_you_mean
from recaudit.solvers.checks import require

if TYPE_CHECKING:
    from torch import Tensor

Distance = Literal["hellinger", "tv", "l2", "kl"]
"""Hellinger `sqrt(1 - sum sqrt(p q))` and total variation `sum |p - q| / 2`, both from 0 to 1; L2
`sqrt(sum (p - q)^2)`, from 0 to sqrt(2); Kullback-Leibler `sum q log(q / p)`, p before and q after, from 0 on."""

LARGEST: dict[Distance, float] = {"hellinger": 1.0, "tv": 1.0, "l2": 2**0.5, "kl": float("inf")}
"""What no two distributions exceed."""


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
    import torch  # noqa: PLC0415  distances of tensors only need it

    ratio = torch.where(q > 0, after - before, 0.0)
    return (q * ratio).sum(dim=-1).clamp(min=0)

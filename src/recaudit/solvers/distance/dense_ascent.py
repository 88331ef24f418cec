"""Farther actions near given ones: projected gradient ascent, a lower bound and no more."""

from __future__ import annotations

import torch
from torch import Tensor

from recaudit.solvers.distance.family import Family

# Steps that are tried along a gradient, as parts of the box, and how many gradients are followed.
_STEPS = 0.25 ** torch.arange(8, dtype=torch.float64)
_MOST_GRADIENTS = 40


def ascend(family: Family, starts: Tensor, lower: Tensor, upper: Tensor, tol: float) -> tuple[float, Tensor]:
    """The farthest distance found from `starts` (n, K) in the box `lower`, `upper` (K,), and its action (K,).

    Every start follows its own gradient to the best of a few steps, until no step of any start gains `tol`.
    """
    points, width = starts, upper - lower
    distances = family.distances(points)
    for _ in range(_MOST_GRADIENTS):
        # In units of the box, without what leads out of it, and as long as the box is wide.
        direction = _gradient(family, points) * width
        out = ((direction > 0) & (points >= upper)) | ((direction < 0) & (points <= lower))
        direction = direction.masked_fill(out, 0.0)
        direction = direction / direction.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        tried = points[:, None] + _STEPS[:, None] * (direction * width)[:, None]
        tried = torch.minimum(torch.maximum(tried, lower), upper)
        found, step = family.distances(tried).max(dim=1)
        better = found > distances
        gain = float((found - distances).max())
        points = torch.where(better[:, None], tried[torch.arange(len(tried)), step], points)
        distances = torch.maximum(distances, found)
        if gain <= tol:
            break
    best = int(distances.argmax())
    return float(distances[best]), points[best]


def _gradient(family: Family, points: Tensor) -> Tensor:
    """(n, K): of the distance; 0 where there is none, at q = p."""
    with torch.enable_grad():
        variable = points.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(family.distances(variable).sum(), variable)
    return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)

"""Vertices of a convex hull: which points are no mixture of the others (paper 000, Definition 2)?

The largest t with w.(x_i - x_j) >= t for all j != i, over directions w in [-1, 1]^K, is the distance of x_i, in the
sum of absolute differences, from the hull of the other points. It is the margin of a top-1 problem whose scores
have no intercept, and the point is a vertex iff it is above 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arrays import FloatArray
from recaudit.solvers.checks import Array, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.top1 import top1_margin
from recaudit.status import Status

# The softmax over points of size 1 at this beta is nearly the maximum: its best direction separates most vertices.
_BETA = 500.0


@final
@dataclass(frozen=True, eq=False)
class HullVertices:
    """Which targets are vertices, in the order the targets were given in."""

    target: NDArray[np.int64]
    """(targets,)"""
    vertex: NDArray[np.bool_]
    """(targets,)"""
    directions: FloatArray
    """(targets, K): where `vertex`, the target is farther in this direction than every other point."""
    status: NDArray[np.str_]
    """(targets,): solved where `vertex` is settled; bounded or failed where the linear program neither separated
    the point nor showed that nothing does."""


def hull_vertices(points: Array, targets: Array, tol: float = 1e-9) -> HullVertices:
    """Which of the `targets` (targets,), positions, are vertices of the hull of all `points` (points, K).

    A point is a vertex when it is farther than `tol`, relative to the largest coordinate of the centred points,
    from the hull of the others. Of points that coincide none is a vertex.
    """
    X = as_double("points", points, 2, "(points, K)")
    check_scores(X, X.new_zeros(len(X)))
    check_finite("points", X)
    tol = check_positive("tol", tol)
    positions = as_positions("targets", targets, len(X)).cpu()
    centred = X.cpu() - X.cpu().mean(dim=0)
    size = float(centred.abs().max())
    unit, level = (centred / size if size > 0 else centred), torch.zeros(len(X), dtype=torch.float64)

    found = maximize_softmax(unit, level, positions, _BETA, -1.0, 1.0, tol=1e-2)
    assert found.actions is not None
    directions = found.actions
    ahead = [
        _ahead(unit.numpy(), target, direction)
        for target, direction in zip(positions.tolist(), directions, strict=True)
    ]
    vertex = np.array(ahead, dtype=np.float64) > tol
    status = np.full(len(positions), Status.SOLVED.value, dtype="<U14")
    rest = np.flatnonzero(~vertex)
    if len(rest):
        best = top1_margin(unit, level, positions[rest], -1.0, 1.0, tol)
        vertex[rest], directions[rest] = best.margin > tol, best.actions
        # A margin is known to `tol`: an upper bound of twice that is as near to 0 as it can be shown to be.
        status[rest] = np.where((best.margin > tol) | (best.upper <= 2 * tol), Status.SOLVED.value, best.status)
    return HullVertices(positions.numpy(), vertex, directions, status)


def _ahead(points: FloatArray, target: int, direction: FloatArray) -> float:
    """How much farther the target is in the direction than the farthest other point."""
    lengths = points @ direction
    own = float(lengths[target])
    lengths[target] = -np.inf
    return own - float(lengths.max())

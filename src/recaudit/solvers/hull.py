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

from recaudit.solvers.checks import Array, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.solvers.top1 import top1_margin
from recaudit.status import Status

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class HullVertices:
    """How far each target is from the hull of the other points, in the order the targets were given in."""

    target: NDArray[np.int64]
    """(targets,)"""
    distance: FloatArray
    """(targets,): the distance that a separating direction certifies; +inf where there is no other point."""
    vertex: NDArray[np.bool_]
    """(targets,)"""
    status: NDArray[np.str_]
    """(targets,): solved where `vertex` is settled; bounded where the linear program stopped short of it, and no
    separating direction was found; failed where it had no answer."""


def hull_vertices(points: Array, targets: Array, tol: float = 1e-9) -> HullVertices:
    """Which of the `targets` (targets,), positions, are vertices of the hull of all `points` (points, K).

    A point is a vertex when it is farther than `tol`, relative to the largest coordinate of the centred points,
    from the hull of the others. Of points that coincide none is a vertex.
    """
    X = as_double("points", points, 2, "(points, K)")
    check_scores(X, X[:, 0] if X.shape[1] else X.new_empty(len(X)))
    check_finite("points", X)
    tol = check_positive("tol", tol)
    positions = as_positions("targets", targets, len(X))
    centred = X - X.mean(dim=0)
    size = float(centred.abs().max())
    unit = centred / size if size > 0 else centred
    found = top1_margin(unit, torch.zeros(len(X)), positions, -1.0, 1.0, tol)
    vertex = found.margin > tol
    settled = vertex | (found.upper <= 2 * tol)
    status = np.where(settled, Status.SOLVED.value, found.status)
    return HullVertices(found.target, found.margin * (size if size > 0 else 1.0), vertex, status)

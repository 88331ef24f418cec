"""What is known of a target's objective at a point, as plain arrays for compiled code."""

from __future__ import annotations

from typing import NamedTuple

from recaudit.arrays import FloatArray
from recaudit.solvers.discrete.grid import Rows


class Model(NamedTuple):
    """The objective of a target around a point."""

    point: FloatArray
    """x (K,)"""
    value: float
    """f(x), less what rounding may have added to it or to the tangent there"""
    gradient: FloatArray
    """(K,)"""
    hessian: FloatArray
    """(K, K)"""
    width: FloatArray
    """(K,): how far apart a unit of each coordinate moves the scores of two items, at most."""
    rounding: float
    """The relative rounding error of the Hessian's second moments."""


class Models(NamedTuple):
    """Many of them: the first four fields have a row each."""

    point: FloatArray
    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray
    width: FloatArray
    rounding: float

    def take(self, rows: Rows) -> Models:
        """The models of these rows."""
        point, value, gradient, hessian, width, rounding = self
        return Models(point[rows], value[rows], gradient[rows], hessian[rows], width, rounding)

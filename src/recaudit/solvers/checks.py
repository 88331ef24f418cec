"""Checks of what solvers are given: affine scores that are finite numbers, and a box that is not empty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError

Array = ArrayLike


def require(holds: bool | np.bool_, name: str, received: object, expected: str, remedy: str = "") -> None:
    """Raise an InputError about the argument `name` unless `holds`."""
    if not holds:
        raise InputError(name, received=received, expected=expected, remedy=remedy)


@dataclass(frozen=True, eq=False)
class AffineScores:
    """The scores s(a) = slope @ a + intercept of all candidate items, over the box lower <= a <= upper."""

    slope: FloatArray  # (items, K)
    intercept: FloatArray  # (items,)
    lower: FloatArray  # (K,)
    upper: FloatArray  # (K,)

    @cached_property
    def sizes(self) -> FloatArray:
        """Limits of the scores and of all their parts anywhere in the box, shape (items,)."""
        with np.errstate(over="ignore"):
            farthest = np.maximum(np.abs(self.lower), np.abs(self.upper))
            return np.asarray(np.abs(self.slope) @ farthest + np.abs(self.intercept))

    def at(self, action: FloatArray) -> FloatArray:
        """Return the scores at `action`, shape (K,), as an array of shape (items,)."""
        return np.asarray(self.slope @ action + self.intercept)


def as_affine_scores(
    slope: Array, intercept: Array, lower: Array, upper: Array
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the fields of `AffineScores`; `lower` and `upper` are numbers or have the shape (K,)."""
    slopes, intercepts = as_scores(slope, intercept)
    return slopes, intercepts, *as_box(lower, upper, slopes.shape[1:])


def as_scores(slope: Array, intercept: Array, *, batch: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return `slope`, shape (items, K), and `intercept`, shape (items,), as doubles that are finite and fit together.

    Of a `batch` the shapes are (problems, items, K) and (problems, items), with -inf where an item is no candidate.
    """
    shapes = ("(problems, items, K)", "(problems, items)") if batch else ("(items, K)", "(items,)")
    slopes = as_double("slope", slope, 2 + batch, shapes[0])
    intercepts = as_double("intercept", intercept, 1 + batch, shapes[1], finite=not batch)
    received = f"shape {intercepts.shape} with a slope of shape {slopes.shape}"
    require(
        slopes.shape[:-1] == intercepts.shape, "intercept", received, f"shape {slopes.shape[:-1]}, one number an item"
    )
    require(0 not in slopes.shape[-2:], "slope", f"shape {slopes.shape}", "at least one item and one action")
    proper = not (np.isnan(intercepts) | np.isposinf(intercepts)).any()
    require(proper, "intercept", "NaN or +inf", "finite numbers, or -inf where an item is no candidate")
    return slopes, intercepts


def as_double(name: str, values: Array, dimensions: int, shape: str, *, finite: bool = True) -> FloatArray:
    """Return the values as contiguous doubles with so many dimensions, without NaN and infinities if `finite`."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64) if dimensions else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(name, received=type(values).__name__, expected=f"numbers, {shape}") from error
    require(np.ndim(values) == dimensions, name, f"an array of shape {np.shape(values)}", shape)
    if finite:
        check_finite(name, array)
    return array


def check_finite(name: str, values: Array) -> None:
    """Raise an InputError if any value is NaN or infinite."""
    remedy = "Check the model that the scores come from: it may have diverged."
    require(np.isfinite(values).all(), name, "NaN or infinite numbers", "finite numbers", remedy)


def check_positive(name: str, value: float) -> float:
    """Return a finite number above 0; raise an InputError for any other."""
    require(math.isfinite(value) and value > 0, name, value, "a finite number above 0")
    return float(value)


def as_box(lower: Array, upper: Array, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the box, broadcast to `shape`; finite and in order."""
    ends = []
    for name, values in (("lower", lower), ("upper", upper)):
        raw = np.asarray(values, dtype=np.float64)
        try:
            end = np.broadcast_to(raw, shape)
        except ValueError as error:
            raise InputError(
                name,
                received=f"an array of shape {raw.shape}",
                expected=f"one number, or an array that broadcasts to {shape}, one number an action",
            ) from error
        check_finite(name, end)
        ends.append(end)
    expected = "lower <= upper for every action: a box not empty"
    require((ends[0] <= ends[1]).all(), "lower", "a bound above `upper`", expected)
    return ends[0], ends[1]


def as_positions(name: str, values: Array, items: int) -> IntArray:
    """Return positions of items, shape (targets,), each from 0 to items - 1."""
    raw = np.atleast_1d(np.asarray(values))
    if raw.size == 0:
        return np.empty(0, dtype=np.int64)
    received = f"an array of shape {raw.shape} and type {raw.dtype}"
    whole = np.issubdtype(raw.dtype, np.integer)
    require(raw.ndim == 1 and whole, name, received, "a list of item positions, whole numbers")
    positions = raw.astype(np.int64)
    least, most = int(positions.min()), int(positions.max())
    expected = f"positions from 0 to {items - 1}: there are {items} items"
    require(least >= 0 and most < items, name, f"positions from {least} to {most}", expected)
    return positions

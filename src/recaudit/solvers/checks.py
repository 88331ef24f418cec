"""What the solvers accept: affine scores that are finite numbers, and a box that is not empty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray
from recaudit.errors import InputError

Array = ArrayLike | Tensor


def require(holds: bool | np.bool_, name: str, received: object, expected: str, remedy: str = "") -> None:
    """An InputError about the argument `name` unless `holds`."""
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
        """(items,): no score, and none of its parts, is larger anywhere in the box."""
        with np.errstate(over="ignore"):
            farthest = np.maximum(np.abs(self.lower), np.abs(self.upper))
            return np.asarray(np.abs(self.slope) @ farthest + np.abs(self.intercept))

    def at(self, action: FloatArray) -> FloatArray:
        """(items,): the scores at `action` (K,)."""
        return np.asarray(self.slope @ action + self.intercept)


def as_affine_scores(
    slope: Array, intercept: Array, lower: Array, upper: Array
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The fields of `AffineScores`; `lower` and `upper` are numbers or (K,)."""
    slopes, intercepts = as_scores(slope, intercept)
    low, high = as_box(lower, upper, slopes.shape[1:], slopes.device)
    return slopes.cpu().numpy(), intercepts.cpu().numpy(), low.cpu().numpy(), high.cpu().numpy()


def as_scores(slope: Array, intercept: Array, *, batch: bool = False) -> tuple[Tensor, Tensor]:
    """`slope` (items, K) and `intercept` (items,): double, finite, fitting together and on one device.

    Of a `batch`, (problems, items, K) and (problems, items), -inf where an item is no candidate.
    """
    shapes = ("(problems, items, K)", "(problems, items)") if batch else ("(items, K)", "(items,)")
    slopes = as_double("slope", slope, 2 + batch, shapes[0])
    intercepts = as_double("intercept", intercept, 1 + batch, shapes[1], finite=not batch).to(slopes.device)
    received = f"shape {tuple(intercepts.shape)} beside a slope of shape {tuple(slopes.shape)}"
    expected = f"shape {tuple(slopes.shape[:-1])}, one number an item"
    require(slopes.shape[:-1] == intercepts.shape, "intercept", received, expected)
    require(0 not in slopes.shape[-2:], "slope", f"shape {tuple(slopes.shape)}", "at least one item and one action")
    proper = not bool((intercepts.isnan() | intercepts.isposinf()).any())
    require(proper, "intercept", "NaN or +inf", "finite numbers, or -inf where an item is no candidate")
    return slopes, intercepts


def as_double(name: str, values: Array, dimensions: int, shape: str, *, finite: bool = True) -> Tensor:
    """The values as a double tensor of the given number of dimensions, without NaN and infinities unless allowed."""
    try:
        tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values, dtype=np.float64))
        tensor = tensor.detach().double()
    except (TypeError, ValueError) as error:
        raise InputError(name, received=type(values).__name__, expected=f"numbers, {shape}") from error
    require(tensor.dim() == dimensions, name, f"an array of shape {tuple(tensor.shape)}", shape)
    if finite:
        check_finite(name, tensor)
    return aligned(tensor)


def check_finite(name: str, values: Tensor) -> None:
    """No NaN, no infinity."""
    remedy = "Check the model that the scores come from: it may have diverged."
    require(bool(torch.isfinite(values).all()), name, "NaN or infinite numbers", "finite numbers", remedy)


def check_positive(name: str, value: float) -> float:
    """A finite number above 0."""
    require(math.isfinite(value) and value > 0, name, value, "a finite number above 0")
    return float(value)


def as_box(lower: Array, upper: Array, shape: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Both ends of the box on `device`, broadcast to `shape`; finite and in order."""
    ends = []
    for name, values in (("lower", lower), ("upper", upper)):
        raw = values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values, dtype=np.float64))
        try:
            end = raw.detach().double().to(device).broadcast_to(shape)
        except RuntimeError as error:
            raise InputError(
                name,
                received=f"an array of shape {tuple(raw.shape)}",
                expected=f"one number, or an array that broadcasts to {shape}, one number an action",
            ) from error
        check_finite(name, end)
        ends.append(end)
    expected = "lower <= upper for every action: a box not empty"
    require(bool((ends[0] <= ends[1]).all()), "lower", "a bound above `upper`", expected)
    return ends[0], ends[1]


def as_positions(name: str, values: Array, items: int) -> Tensor:
    """Positions of items (targets,), each from 0 to items - 1."""
    raw = values if isinstance(values, Tensor) else torch.from_numpy(np.atleast_1d(np.asarray(values)))
    if raw.numel() == 0:
        return torch.empty(0, dtype=torch.long)
    whole = not (raw.is_floating_point() or raw.is_complex() or raw.dtype == torch.bool)
    received = f"an array of shape {tuple(raw.shape)} and type {raw.dtype}"
    require(raw.dim() == 1 and whole, name, received, "a list of item positions, whole numbers")
    positions = raw.long()
    least, most = int(positions.min()), int(positions.max())
    expected = f"positions from 0 to {items - 1}: there are {items} items"
    require(least >= 0 and most < items, name, f"positions from {least} to {most}", expected)
    return positions

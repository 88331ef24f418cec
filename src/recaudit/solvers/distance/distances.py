"""Distances between two probability distributions."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.errors import did_you_mean
from recaudit.solvers.checks import require
from recaudit.torch_extra import require_torch

if TYPE_CHECKING:
    from torch import Tensor

Array = TypeVar("Array", FloatArray, "Tensor")

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


def distance_between(name: Distance, before: Array, after: Array) -> Array:
    """Compute the distance of two distributions.

    Tensors of torch are accepted too, for searches by gradients: the result is differentiable in `after`.

    Args:
        name: Name of the distance.
        before: Log-probabilities, shape (..., items).
        after: Log-probabilities, shape (..., items). An item of probability 0 (-inf) on both sides does not count.

    Returns:
        Distances, shape (...,).
    """
    arrays = _module_of(after)
    p, q = arrays.exp(before), arrays.exp(after)
    distance: Array
    if name == "hellinger":
        # 1 - sum sqrt(p q) = sum (sqrt p - sqrt q)^2 / 2, without the cancellation.
        distance = arrays.sqrt(arrays.square(arrays.exp(before / 2) - arrays.exp(after / 2)).sum(-1) / 2)
    elif name == "tv":
        distance = arrays.abs(p - q).sum(-1) / 2
    elif name == "l2":
        distance = arrays.sqrt(arrays.square(p - q).sum(-1))
    else:
        with np.errstate(invalid="ignore"):  # two infinities
            ratio = arrays.where(q > 0, after - before, 0.0)
        distance = (q * ratio).sum(-1).clip(0)
    return distance


def _module_of(array: object) -> Any:
    """Return the module that computes with this array: numpy, or torch for tensors."""
    return np if isinstance(array, np.ndarray) else require_torch("distances of tensors")

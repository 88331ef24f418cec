"""Where a search may go: a box, or a grid of values in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.errors import InputError


@final
@dataclass(frozen=True, eq=False)
class Box:
    """`lower <= x <= upper`, or, with `values`, only the points whose every coordinate is one of them."""

    lower: FloatArray
    """(K,)"""
    upper: FloatArray
    """(K,)"""
    values: FloatArray | None = None
    """(values,), ascending: the grid, the same for each coordinate."""

    def __post_init__(self) -> None:
        shapes = self.lower.ndim == 1 and self.lower.shape == self.upper.shape and len(self.lower) > 0
        if not (shapes and np.isfinite([self.lower, self.upper]).all() and (self.lower <= self.upper).all()):
            raise InputError(
                "lower, upper",
                received=(self.lower.tolist(), self.upper.tolist()),
                expected="as many finite lower as upper bounds, one or more, none above its upper one",
            )

    @classmethod
    def grid(cls, values: FloatArray, coordinates: int) -> Box:
        """The points whose every coordinate is one of `values` (values,), ascending."""
        return cls(np.full(coordinates, values[0]), np.full(coordinates, values[-1]), values)

    @property
    def coordinates(self) -> int:
        """K."""
        return len(self.lower)

    @property
    def width(self) -> FloatArray:
        """(K,)"""
        return self.upper - self.lower

    @property
    def centre(self) -> FloatArray:
        """(K,): the point in the middle; on the grid, the one next to it."""
        return self.inside((self.lower + self.upper) / 2)

    @property
    def size(self) -> float:
        """How many points there are: a grid's, or infinitely many."""
        return np.inf if self.values is None else float(len(self.values)) ** self.coordinates

    def inside(self, points: FloatArray) -> FloatArray:
        """The nearest allowed points to `points` (..., K)."""
        if self.values is None:
            return np.clip(points, self.lower, self.upper)
        between = (self.values[1:] + self.values[:-1]) / 2
        rounded: FloatArray = self.values[np.searchsorted(between, points)]
        return rounded

    def random(self, count: int, draw: np.random.Generator) -> FloatArray:
        """(count, K): allowed points, uniformly."""
        if self.values is None:
            return draw.uniform(self.lower, self.upper, (count, self.coordinates))
        return draw.choice(self.values, (count, self.coordinates))

    def everything(self) -> FloatArray:
        """(values^K, K): every point of the grid."""
        assert self.values is not None
        return _product([self.values] * self.coordinates)

    def vertices(self) -> FloatArray:
        """(2^K, K)"""
        return _product(list(np.stack([self.lower, self.upper], axis=1)))

    def moves(self) -> FloatArray:
        """(moves, K): where one coordinate alone may be sent: each value of the grid, or both bounds."""
        if self.values is None:
            return np.stack([self.lower, self.upper])
        return np.tile(self.values[:, None], (1, self.coordinates))


def _product(choices: list[FloatArray]) -> FloatArray:
    return np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(choices))

"""The actions that are allowed: a few ratings for each coordinate, and a limit on how much may be changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_double

Choices = NDArray[np.int16]
"""Positions among the options of each coordinate."""

# One less than fits into the type of `Choices`: a start may come on top.
_MOST_RATINGS = np.iinfo(np.int16).max - 1
# Sums of costs are compared with the budget to this part of all costs: 0.1 + 0.2 is within 0.3.
_SLACK = 1e-12


class Lattice(NamedTuple):
    """What the search needs to know of the grid, as plain arrays; actions are scaled to the box [-1, 1]^K."""

    options: FloatArray  # (K, options): ascending; a coordinate with fewer has +inf at the end
    start: IntArray  # (K,): the option that costs nothing; -1 where there is no limit, and so no start
    cost: FloatArray  # (K,): the cost of any other option
    budget: float  # how much the costs may add up to


@final
@dataclass(frozen=True, eq=False)
class ActionGrid:
    """Every allowed action is a choice of one option a coordinate whose costs add up to the budget or less."""

    options: FloatArray  # (K, options): as in `Lattice`, but not scaled
    counts: IntArray  # (K,): how many options each coordinate has
    lower: FloatArray  # (K,): the lowest option of each coordinate
    upper: FloatArray  # (K,): the highest one
    space: Lattice

    @classmethod
    def checked(
        cls, values: Array, columns: int, start: Array | None, changes: float | None, cost: Array | None
    ) -> ActionGrid:
        """From arguments as they come: `values` (R,), `start` (columns,), `cost` (columns,)."""
        ratings = as_double("values", values, 1, "(ratings,)").cpu().numpy()
        if not 0 < len(ratings) <= _MOST_RATINGS or (np.diff(ratings) <= 0).any():
            raise InputError(
                "values",
                received=f"{len(ratings)} numbers, {ratings[:8]}" + " ..." * (len(ratings) > 8),
                expected=f"1 to {_MOST_RATINGS} numbers, ascending",
            )
        if changes is None:
            if start is not None or cost is not None:
                raise InputError(
                    "changes",
                    received="None beside a start or a cost",
                    expected="how much may be changed: start, cost and changes make one limit",
                )
            options, free, prices, budget = [ratings] * columns, np.full(columns, -1), np.zeros(columns), 0.0
        else:
            if start is None:
                raise InputError("start", received="None beside a limit on changes", expected="what is changed: (K,)")
            before = _numbers("start", start, columns)
            prices = np.ones(columns) if cost is None else _numbers("cost", cost, columns)
            if not (math.isfinite(changes) and changes >= 0):
                raise InputError("changes", received=changes, expected="a finite number of 0 or more")
            if (prices < 0).any():
                raise InputError("cost", received="a negative cost", expected="costs of 0 or more")
            options = [np.union1d(ratings, value) for value in before]
            free = np.array([np.searchsorted(own, value) for own, value in zip(options, before, strict=True)])
            budget = changes + _SLACK * float(prices.sum())
            if prices.sum() <= budget:
                prices = np.zeros(columns)
        counts = np.array([len(own) for own in options])
        table = np.full((columns, counts.max()), np.inf)
        for own, row in zip(options, table, strict=True):
            row[: len(own)] = own
        low, high = table[:, 0], table[np.arange(columns), counts - 1]
        scaled = to_unit_box(table.T, low, high).T.copy()
        return cls(table, counts, low, high, Lattice(scaled, free, prices, budget))

    def enumerated(self, limit: int) -> Choices | None:
        """(n, K): every allowed action, or None where there are more than `limit`.

        Coordinate by coordinate: whatever is affordable so far can be completed at no cost, so that the list of
        beginnings is never longer than the list of actions.
        """
        choices, left = np.empty((1, 0), dtype=np.int16), np.array([self.space.budget])
        for start, cost, count in zip(self.space.start, self.space.cost, self.counts, strict=True):
            remaining = left[:, None] - np.where(np.arange(count) == start, 0.0, cost)
            row, option = np.nonzero(remaining >= 0)
            if len(row) > limit:
                return None
            choices = np.column_stack([choices[row], option.astype(np.int16)])
            left = remaining[row, option]
        return choices


def picked(options: FloatArray, choices: Choices) -> FloatArray:
    """(n, K): the values among `options` (K, options) that `choices` (n, K) name."""
    return np.asarray(options[np.arange(len(options)), choices])


def to_unit_box(actions: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """(n, K): -1 at `lower`, 1 at `upper`; 0 for a coordinate that cannot move."""
    half = (upper - lower) / 2
    return (actions - (lower + half)) / np.where(half > 0, half, 1.0)


def _numbers(name: str, values: Array, columns: int) -> FloatArray:
    numbers = as_double(name, values, 1, f"({columns},), one number an action")
    if len(numbers) != columns:
        raise InputError(name, received=f"{len(numbers)} numbers", expected=f"{columns}, one an action")
    return np.asarray(numbers.cpu().numpy())

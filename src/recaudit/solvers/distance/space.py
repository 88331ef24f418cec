"""The actions that are allowed: all of a box, or those of a grid in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_double, check_finite


@final
@dataclass(frozen=True, eq=False)
class Space:
    """A box, and on it a grid or none."""

    lower: Tensor
    """(K,)"""
    upper: Tensor
    """(K,)"""
    options: tuple[Tensor, ...] | None
    """The values of each action, ascending, from its `lower` to its `upper`; None where all between are allowed."""

    @classmethod
    def checked(cls, lower: Tensor, upper: Tensor, values: Array | None) -> Space:
        """From a box that is checked and `values` (ratings,) as they come: those inside the box are allowed."""
        if values is None:
            return cls(lower, upper, None)
        ratings = as_double("values", values, 1, "(ratings,)").cpu()
        check_finite("values", ratings)
        if bool((ratings.diff() <= 0).any()):
            raise InputError("values", received=ratings.tolist(), expected="numbers, ascending")
        options = tuple(ratings[(low <= ratings) & (ratings <= high)] for low, high in zip(lower, upper, strict=True))
        if not all(len(own) for own in options):
            raise InputError(
                "values",
                received=ratings.tolist(),
                expected="at least one number from `lower` to `upper`, every action",
            )
        return cls(torch.stack([own[0] for own in options]), torch.stack([own[-1] for own in options]), options)

    def among(self, columns: Tensor) -> Space:
        """The same for some of the actions: `columns` (K,), booleans."""
        chosen = columns.nonzero()[:, 0].tolist()
        options = None if self.options is None else tuple(self.options[k] for k in chosen)
        return Space(self.lower[columns], self.upper[columns], options)

    def listed(self, limit: int) -> Tensor | None:
        """(n, K): every allowed action, or None where there are more than `limit`."""
        if self.options is None:
            return None
        if math.prod(len(own) for own in self.options) > limit:
            return None
        return torch.stack(torch.meshgrid(*self.options, indexing="ij"), dim=-1).flatten(0, -2)

    def divisible(self, lower: Tensor, upper: Tensor) -> Tensor:
        """(boxes, K): whether there are allowed values between the ends; where not, the vertices are all there is."""
        if self.options is None:
            return lower < upper
        ends = zip(self.options, lower.T.contiguous(), upper.T.contiguous(), strict=True)
        steps = [torch.searchsorted(own, high) - torch.searchsorted(own, low) for own, low, high in ends]
        return torch.stack(steps, dim=1) > 1

    def cut(self, lower: Tensor, upper: Tensor, axis: Tensor) -> tuple[Tensor, Tensor]:
        """(2 boxes, K): the ends of the halves, two in turn, of the boxes cut across `axis` (boxes,)."""
        left_upper, right_lower = upper.clone(), lower.clone()
        for box, k in enumerate(axis.tolist()):
            middle = (lower[box, k] + upper[box, k]) / 2
            if self.options is None:
                left_upper[box, k] = right_lower[box, k] = middle
            else:
                after = int(torch.searchsorted(self.options[k], middle, right=True))
                left_upper[box, k], right_lower[box, k] = self.options[k][after - 1], self.options[k][after]
        low = torch.stack([lower, right_lower], dim=1).flatten(0, 1)
        return low, torch.stack([left_upper, upper], dim=1).flatten(0, 1)

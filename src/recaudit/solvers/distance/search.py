"""Best-first branch and bound over boxes of actions, for the action that moves a distribution farthest."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor

from recaudit.errors import InputError
from recaudit.seeding import generator
from recaudit.solvers.checks import Array, as_double, check_finite
from recaudit.solvers.distance.bounds import bound_boxes
from recaudit.solvers.distance.distances import Family, highest

# Probabilities at the vertices of the boxes that are bounded at once: what a core's cache holds, or a box if more.
_BLOCK = 1 << 17
_MOST_BOXES_AT_ONCE = 64
# Starts of the ascent that has the last word where the boxes run out.
_STARTS = 8
# Steps that are tried along a gradient, as parts of the box, and how many gradients are followed.
_STEPS = 0.25 ** torch.arange(8, dtype=torch.float64)
_MOST_GRADIENTS = 40


@final
@dataclass(frozen=True, eq=False)
class ActionSpace:
    """A box, and on it a grid or none."""

    lower: Tensor
    """(K,)"""
    upper: Tensor
    """(K,)"""
    options: tuple[Tensor, ...] | None
    """The values of each action, ascending, from its `lower` to its `upper`; None where all between are allowed."""

    @classmethod
    def checked(cls, lower: Tensor, upper: Tensor, values: Array | None) -> ActionSpace:
        """From a box that is checked and `values` (ratings,) as they come: those inside the box are allowed."""
        if values is None:
            return cls(lower, upper, None)
        ratings = as_double("values", values, 1, "(ratings,)").cpu()
        check_finite("values", ratings)
        if bool((ratings.diff() <= 0).any()):
            raise InputError("values", received=ratings.tolist(), expected="numbers, ascending")
        options = tuple(ratings[(low <= ratings) & (ratings <= high)] for low, high in zip(lower, upper, strict=True))
        if not all(len(own) for own in options):
            expected = "at least one number from `lower` to `upper`, every action"
            raise InputError("values", received=ratings.tolist(), expected=expected)
        return cls(torch.stack([own[0] for own in options]), torch.stack([own[-1] for own in options]), options)

    def among(self, columns: Tensor) -> ActionSpace:
        """The same for some of the actions: `columns` (K,), booleans."""
        options = None if self.options is None else tuple(self.options[k] for k in columns.nonzero()[:, 0].tolist())
        return ActionSpace(self.lower[columns], self.upper[columns], options)

    def listed(self, limit: int) -> Tensor | None:
        """(n, K): every allowed action, or None where there are more than `limit`."""
        if self.options is None or math.prod(len(own) for own in self.options) > limit:
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


class _OpenBox(NamedTuple):
    """A box that may still hold something farther, in the order in which boxes are cut: highest bound, then oldest."""

    minus_bound: float
    number: int
    lower: Tensor
    upper: Tensor
    axis: Tensor


@final
class DistanceSearch:
    """The farthest action so far, the boxes still open, and the highest bound of the others, within `tol` of it."""

    def __init__(self, family: Family, space: ActionSpace, tol: float, max_boxes: int) -> None:
        self.value, self.action = -torch.inf, space.lower
        self.boxes = 0
        self._family, self._space, self._tol, self._max_boxes = family, space, tol, max_boxes
        self._continuous = space.options is None
        self._open: list[_OpenBox] = []
        self._closed = -torch.inf

    @property
    def bound(self) -> float:
        """What no action exceeds, up to rounding."""
        return max([self.value, self._closed, *(-box.minus_bound for box in self._open[:1])])

    @property
    def solved(self) -> bool:
        """Whether value and bound are within the tolerance."""
        return self.bound <= self.value + self._tol

    def run(self, rng: int) -> None:
        """Halve the boxes of the highest bounds until bound and value meet or the boxes run out; `rng` for ascents."""
        low, high = self._space.lower[None], self._space.upper[None]
        self._add(low, high, torch.full((1,), torch.inf, dtype=torch.float64))
        if self._continuous and not self.solved:
            self._climb_from(torch.cat([self.action[None], (low + high) / 2]))
        vertices = len(self._family.offset) << low.shape[1]
        at_once = min(max(1, _BLOCK // (2 * vertices)), _MOST_BOXES_AT_ONCE)
        while not self.solved and self.boxes + 2 <= self._max_boxes:
            count = min(at_once, (self._max_boxes - self.boxes) // 2, len(self._open))
            boxes = [heapq.heappop(self._open) for _ in range(count)]
            lower, upper, axis = (torch.stack(part) for part in list(zip(*boxes, strict=True))[2:])
            bounds = torch.tensor([-box.minus_bound for box in boxes], dtype=torch.float64)
            self._add(*self._space.cut(lower, upper, axis), bounds.repeat_interleave(2))
        if self._continuous and not self.solved:
            draws = torch.from_numpy(generator(rng, "dense_distance").random((_STARTS, low.shape[1])))
            self._climb_from(low + draws * (high - low))

    def _add(self, lower: Tensor, upper: Tensor, parents: Tensor) -> None:
        """Bound the boxes (boxes, K), whose parents' bounds are `parents` (boxes,), and keep what stays open."""
        found = bound_boxes(self._family, lower, upper)
        self._offer(*highest(found.best, found.vertex))
        if self._continuous:
            centre = (lower + upper) / 2
            distance, action = highest(self._family.distances(centre), centre)
            if distance > self.value + self._tol:
                self._climb_from(action[None])
        divisible = self._space.divisible(lower, upper)
        # Between neighbouring values of a grid there is nothing but the vertices.
        bounds = torch.where(divisible.any(dim=1), torch.minimum(found.upper, parents), found.best)
        axes = found.spread.masked_fill(~divisible, -1.0).argmax(dim=1)
        for row, bound in enumerate(bounds.tolist()):
            self.boxes += 1
            if bound <= self.value + self._tol:
                self._closed = max(self._closed, bound)
            else:
                heapq.heappush(self._open, _OpenBox(-bound, self.boxes, lower[row], upper[row], axes[row]))

    def _climb_from(self, starts: Tensor) -> None:
        self._offer(*ascend(self._family, starts, self._space.lower, self._space.upper, self._tol / 10))

    def _offer(self, distance: float, action: Tensor) -> None:
        if distance > self.value:
            self.value, self.action = distance, action


def ascend(family: Family, starts: Tensor, lower: Tensor, upper: Tensor, tol: float) -> tuple[float, Tensor]:
    """The farthest distance found from `starts` (n, K) in the box `lower`, `upper` (K,), and its action (K,).

    Every start follows its own gradient to the best of a few steps, until no step of any start gains `tol`.
    """
    points, width = starts, upper - lower
    distances = family.distances(points)
    for _ in range(_MOST_GRADIENTS):
        with torch.enable_grad():
            variable = points.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(family.distances(variable).sum(), variable)
        # In units of the box, without what leads out of it, and as long as the box is wide; 0 at q = p.
        direction = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) * width
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
    return highest(distances, points)

"""Best-first branch and bound over boxes of actions."""

from __future__ import annotations

import heapq
from typing import NamedTuple, final

import torch
from torch import Tensor

from recaudit.seeding import generator
from recaudit.solvers.distance.bounds import bound_boxes
from recaudit.solvers.distance.dense_ascent import ascend
from recaudit.solvers.distance.family import Family
from recaudit.solvers.distance.space import Space

# Probabilities at the vertices of the boxes that are bounded at once: what a core's cache holds, or a box if more.
_BLOCK = 1 << 17
_MOST_BOXES_AT_ONCE = 64
# Starts of the ascent that has the last word where the boxes run out.
_STARTS = 8


class _Open(NamedTuple):
    """A box that may still hold something farther, in the order in which boxes are cut: highest bound, then oldest."""

    minus_bound: float
    number: int
    lower: Tensor
    upper: Tensor
    axis: Tensor


@final
class Search:
    """The farthest action found so far, the boxes still open, and the highest bound of those that are closed.

    Closed is a box whose bound is within `tol` of the farthest action. What no action exceeds is the highest of all
    bounds, open and closed.
    """

    def __init__(self, family: Family, space: Space, tol: float, max_boxes: int) -> None:
        self.value, self.action = -torch.inf, space.lower
        self.boxes = 0
        self._family, self._space, self._tol, self._max_boxes = family, space, tol, max_boxes
        self._continuous = space.options is None
        self._open: list[_Open] = []
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
        """Cut boxes until the bound meets the value or the boxes run out; `rng` for starts of the last ascent."""
        low, high = self._space.lower[None], self._space.upper[None]
        self._add(low, high, torch.full((1,), torch.inf, dtype=torch.float64))
        if self._continuous and not self.solved:
            self._climb_from(torch.cat([self.action[None], (low + high) / 2]))
        vertices = len(self._family.offset) << low.shape[1]
        at_once = min(max(1, _BLOCK // (2 * vertices)), _MOST_BOXES_AT_ONCE)
        while not self.solved and self.boxes + 2 <= self._max_boxes:
            self._cut(min(at_once, (self._max_boxes - self.boxes) // 2, len(self._open)))
        if self._continuous and not self.solved:
            draws = torch.from_numpy(generator(rng, "dense_distance").random((_STARTS, low.shape[1])))
            self._climb_from(low + draws * (high - low))

    def _cut(self, count: int) -> None:
        """Replace the `count` boxes of the highest bounds by their halves."""
        boxes = [heapq.heappop(self._open) for _ in range(count)]
        low, high, axis = (torch.stack(part) for part in list(zip(*boxes, strict=True))[2:])
        bounds = torch.tensor([-box.minus_bound for box in boxes], dtype=torch.float64)
        self._add(*self._space.cut(low, high, axis), bounds.repeat_interleave(2))

    def _add(self, lower: Tensor, upper: Tensor, parents: Tensor) -> None:
        """Bound the boxes (boxes, K), whose parents' bounds are `parents` (boxes,), and keep what stays open."""
        found = bound_boxes(self._family, lower, upper)
        self._offer(*_highest(found.best, found.vertex))
        if self._continuous:
            centre = (lower + upper) / 2
            distance, action = _highest(self._family.distances(centre), centre)
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
                heapq.heappush(self._open, _Open(-bound, self.boxes, lower[row], upper[row], axes[row]))

    def _climb_from(self, starts: Tensor) -> None:
        self._offer(*ascend(self._family, starts, self._space.lower, self._space.upper, self._tol / 10))

    def _offer(self, distance: float, action: Tensor) -> None:
        if distance > self.value:
            self.value, self.action = distance, action


def _highest(distances: Tensor, actions: Tensor) -> tuple[float, Tensor]:
    best = int(distances.argmax())
    return float(distances[best]), actions[best]

"""The largest distance between a viewer's recommendations before and after another's ratings (paper 001, section 4).

Scores are affine in the ratings, z(a) = beta (slope @ a + intercept), and one rating may move the scores of many
items. Paper 001's Proposition 5.2 is right for ratings that move their own item only; here the farthest action need
not be a vertex of the box, and trying the vertices proves nothing. The answer is an action with its distance, and a
bound that no action exceeds: sub-boxes are bounded one by one (`bounds`), best first, and cut until the two meet.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arguments import check_count
from recaudit.arithmetic import one_thread
from recaudit.seeding import generator
from recaudit.solvers.checks import Array, as_box, as_double, as_scores, check_finite, check_positive, require
from recaudit.solvers.distance.bounds import bound_boxes
from recaudit.solvers.distance.distances import LARGEST, Distance, Family, check_distance, corners, highest
from recaudit.solvers.solution import Solution, status_of

# A box of more free actions has too many vertices to look at them all.
_MOST_ACTIONS = 10
# Actions of a grid that are listed rather than searched.
_LISTED = 4096
_UNIT = float(torch.finfo(torch.float64).eps)
# The part of the tolerance that the search has to meet; the rest is for rounding.
_SEARCHED = 0.9
# Probabilities at the vertices of the boxes that are bounded at once: what a core's cache holds, or a box if more.
_BLOCK = 1 << 17
_MOST_BOXES_AT_ONCE = 64
# Starts of the ascent that has the last word where the boxes run out.
_STARTS = 8
# Steps that are tried along a gradient, as parts of the box, and how many gradients are followed.
_STEPS = 0.25 ** torch.arange(8, dtype=torch.float64)
_MOST_GRADIENTS = 40
# How far the baseline's probabilities may be from adding up to 1.
_NORMALISED = 1e-6


def maximize_distance(
    slope: Array,
    intercept: Array,
    before: Array,
    beta: float,
    lower: Array,
    upper: Array,
    distance: str,
    *,
    tol: float = 1e-6,
    values: Array | None = None,
    max_boxes: int = 2000,
    rng: int = 0,
) -> Solution:
    """The largest distance of softmax(beta (slope @ a + intercept)) from a baseline, over lower <= a <= upper.

    `slope` (items, K) and `intercept` (items,): the scores of all candidate items; `before` (items,): the baseline's
    log-probabilities; `beta` > 0; `lower`, `upper`: numbers or (K,); `distance`: one of `distances.Distance`. With
    `values` (ratings,), ascending, each rating is one of those from its `lower` to its `upper`.

    Solved when the bounds, rounding included, are at most `tol` apart, in units of the distance; bounded when that
    takes more than `max_boxes` boxes, with a few random starts from `rng` for a better value, or rounding is wider. At
    most 10 ratings may be free. One core is used: solve several problems side by side. `evaluations` are the boxes that
    were bounded; 0 where every action, or every vertex, was tried and that is proof enough.
    """
    name, beta, tol = check_distance(distance), check_positive("beta", beta), check_positive("tol", tol)
    check_count("max_boxes", max_boxes)
    slopes, intercepts = (part.cpu() for part in as_scores(slope, intercept))
    space = _ActionSpace.checked(*as_box(lower, upper, (slopes.shape[1],), slopes.device), values)
    log_p = _as_baseline(before, len(intercepts))
    # Actions that change nothing stay at their lowest.
    free = (space.lower < space.upper) & (slopes.amin(dim=0) < slopes.amax(dim=0))
    moving, expected = int(free.sum()), f"at most {_MOST_ACTIONS}: a box has 2^K vertices"
    remedy = "Free fewer ratings: give the others equal bounds."
    require(moving <= _MOST_ACTIONS, "slope", f"{moving} actions that move scores", expected, remedy)
    family, actions = _family(slopes, intercepts, log_p, beta, space, free, name), space.lower.clone()
    space, error, boxes = space.among(free), family.error, 0
    everything = corners(space.lower, space.upper) if family.moves_straight() else space.listed(_LISTED)
    if everything is not None:
        value, actions[free] = family.farthest(everything)
        bound = value + error
    else:
        search = _DistanceSearch(family, space, _SEARCHED * tol, max_boxes)
        with one_thread():  # a search is many short steps, and cores would wait for each other between them
            search.run(rng)
        value, actions[free], boxes = float(family.distances(search.action)), search.action, search.boxes
        # Where a square was bounded, it is the square that has the rounding.
        squared = name in {"hellinger", "l2"}
        bound = math.sqrt(search.bound**2 + 8 * family.rounding) if squared else search.bound + 4 * error
    least, most = np.array([max(value - error, 0.0)]), np.array([max(value, min(bound, LARGEST[name]))])
    status = status_of(least, most, tol)
    return Solution(np.array([value]), least, most, status, actions.numpy()[None], np.array([boxes]))


def _family(
    slopes: Tensor, intercepts: Tensor, log_p: Tensor, beta: float, space: _ActionSpace, free: Tensor, name: Distance
) -> Family:
    """The distributions that the `free` actions (K,) lead to, the others at their lowest."""
    # What all scores have in common moves no probability, and is gone before it can round: all are relative to the
    # item that leads at the middle of the box.
    leader = int((intercepts + slopes @ ((space.lower + space.upper) / 2)).argmax())
    slopes, ahead = slopes - slopes[leader], intercepts - intercepts[leader]
    farthest = torch.maximum(space.lower.abs(), space.upper.abs())
    largest = beta * (ahead.abs() + slopes.abs() @ farthest).max()
    check_finite("beta * scores", largest)
    offset = beta * (ahead + slopes[:, ~free] @ space.lower[~free])
    # No score, no log-probability of the baseline, and none of the parts that they are computed from is larger.
    size = float(largest + log_p.abs().max())
    scaled = beta * slopes[:, free]
    reach = float((scaled.abs() @ (space.upper - space.lower)[free]).max())
    # How far rounding moves a log-probability, or the tangent of a log-sum-exp. With u the unit roundoff, a score is a
    # sum of K + 1 products, rounded before and after: (2 K + 8) u size. Log-sum-exp moves by no more, and by (N + 16) u
    # of its own sum; a log-probability by both. A tangent is exact for the weights it has (Gibbs: see `logsumexp`), but
    # for the sum over the items in its gradient: 2 N u reach, where `reach` is the farthest that a score moves over the
    # box. The unit below is 2 u.
    rounding = 2 * _UNIT * ((len(free) + 8) * size + len(slopes) * (1 + reach) + 16)
    # The other distances are norms of differences of probabilities, or of their roots, and move no farther than log q.
    # KL weighs the differences with logarithms of up to twice `size`.
    error = rounding * (1 + 2 * size if name == "kl" else 1)
    return Family(scaled, offset, log_p, name, rounding, error)


def _as_baseline(before: Array, items: int) -> Tensor:
    """(items,): log-probabilities that are finite and add up to 1, to the last digit."""
    log_p = as_double("before", before, 1, "(items,)").cpu()
    require(len(log_p) == items, "before", f"{len(log_p)} numbers", f"{items}, one an item")
    total = log_p.logsumexp(dim=0)
    received = f"log-probabilities whose log-sum-exp is {float(total):.6g}"
    remedy = "Give logarithms, of all candidate items and no others."
    require(abs(float(total)) <= _NORMALISED, "before", received, "0, the logarithm of a total of 1", remedy)
    return log_p - total


class _ActionSpace(NamedTuple):
    """A box, and on it a grid or none."""

    lower: Tensor  # (K,)
    upper: Tensor  # (K,)
    options: tuple[Tensor, ...] | None
    """The values of each action, ascending, from its `lower` to its `upper`; None where all between are allowed."""

    @classmethod
    def checked(cls, lower: Tensor, upper: Tensor, values: Array | None) -> _ActionSpace:
        """From a box that is checked and `values` (ratings,) as they come: those inside the box are allowed."""
        if values is None:
            return cls(lower, upper, None)
        ratings = as_double("values", values, 1, "(ratings,)").cpu()
        require(bool((ratings.diff() > 0).all()), "values", ratings.tolist(), "numbers, ascending")
        options = tuple(ratings[(low <= ratings) & (ratings <= high)] for low, high in zip(lower, upper, strict=True))
        expected = "at least one number from `lower` to `upper`, every action"
        require(all(len(own) for own in options), "values", ratings.tolist(), expected)
        return cls(torch.stack([own[0] for own in options]), torch.stack([own[-1] for own in options]), options)

    def among(self, columns: Tensor) -> _ActionSpace:
        """The same for some of the actions: `columns` (K,), booleans."""
        options = None if self.options is None else tuple(self.options[k] for k in columns.nonzero()[:, 0].tolist())
        return _ActionSpace(self.lower[columns], self.upper[columns], options)

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
class _DistanceSearch:
    """The farthest action so far, the boxes still open, and the highest bound of the others, within `tol` of it."""

    def __init__(self, family: Family, space: _ActionSpace, tol: float, max_boxes: int) -> None:
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
        self._offer(*_ascend(self._family, starts, self._space.lower, self._space.upper, self._tol / 10))

    def _offer(self, distance: float, action: Tensor) -> None:
        if distance > self.value:
            self.value, self.action = distance, action


def _ascend(family: Family, starts: Tensor, lower: Tensor, upper: Tensor, tol: float) -> tuple[float, Tensor]:
    """The farthest distance found from `starts` (n, K) in the box `lower`, `upper` (K,), and its action (K,): every
    start follows its own gradient to the best of a few steps, until no step of any start gains `tol`."""
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

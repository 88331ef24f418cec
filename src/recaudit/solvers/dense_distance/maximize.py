"""The largest distance between a viewer's recommendations before and after another's ratings (paper 001, section 4).

Scores are affine in the ratings, z(a) = beta (slope @ a + intercept), and one rating may move the scores of many
items. Paper 001's Proposition 5.2 is right for ratings that move their own item only; here the farthest action need
not be a vertex of the box, and trying the vertices proves nothing. The answer is an action with its distance, and a
bound that no action exceeds: sub-boxes are bounded one by one (`bounds`) and cut until the two meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arithmetic import one_thread
from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_box, as_double, check_finite, check_positive, check_scores
from recaudit.solvers.dense_distance.family import Family, corners
from recaudit.solvers.dense_distance.search import Search
from recaudit.solvers.dense_distance.space import Space
from recaudit.solvers.distances import LARGEST, check_distance
from recaudit.status import Status

Tensor = torch.Tensor
FloatArray = NDArray[np.float64]

# A box of more free actions has too many vertices to look at them all.
_MOST_ACTIONS = 10
# Actions of a grid that are listed rather than searched.
_LISTED = 4096
# Rounding of a log-sum-exp, relative to the size of the scores.
_ROUNDING = 16 * float(torch.finfo(torch.float64).eps)
# How far the baseline's probabilities may be from adding up to 1.
_NORMALISED = 1e-6


@final
@dataclass(frozen=True, eq=False)
class DistanceSolution:
    """How far from the baseline the distribution can be moved: at least `value`, at most `upper`."""

    value: float
    """The distance that `action` reaches."""
    upper: float
    """No allowed action reaches more, whatever the status."""
    action: FloatArray
    """(K,)"""
    status: Status
    """Solved where the bounds meet, to the tolerance and rounding; bounded where the boxes ran out first."""
    boxes: int
    """How many boxes were bounded; 0 where every action, or every vertex, was tried and that is proof enough."""


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
) -> DistanceSolution:
    """The largest distance of softmax(beta (slope @ a + intercept)) from a baseline, over lower <= a <= upper.

    `slope` (items, K) and `intercept` (items,): the scores of all candidate items; `before` (items,): the baseline's
    log-probabilities; `beta` > 0; `lower`, `upper`: numbers or (K,); `distance`: one of `distances.Distance`. With
    `values` (ratings,), ascending, each rating is one of those from its `lower` to its `upper`.

    Solved when value and upper bound are `tol` apart, in units of the distance; bounded when that takes more than
    `max_boxes` boxes, with a few random starts from `rng` for a better value. At most 10 ratings may be free. One
    core is used: solve several problems side by side.
    """
    problem = _Problem.checked(slope, intercept, before, beta, lower, upper, distance, values)
    tol = check_positive("tol", tol)
    if max_boxes < 1:
        raise InputError("max_boxes", received=max_boxes, expected="a whole number of 1 or more")
    if problem.family.moves_straight():
        return problem.farthest_of(corners(problem.space.lower, problem.space.upper))
    listed = problem.space.listed(_LISTED)
    if listed is not None:
        return problem.farthest_of(listed)
    search = Search(problem.family, problem.space, tol, max_boxes)
    with one_thread():  # a search is many short steps, and cores would wait for each other between them
        search.run(rng)
    return problem.answer(search)


def vertex_maximum(
    slope: Array, intercept: Array, before: Array, beta: float, lower: Array, upper: Array, distance: str
) -> tuple[float, FloatArray]:
    """The largest distance at the vertices of the box, and the vertex (K,): in general only a lower bound.

    Arguments as for `maximize_distance`.
    """
    problem = _Problem.checked(slope, intercept, before, beta, lower, upper, distance, None)
    found = problem.farthest_of(corners(problem.space.lower, problem.space.upper))
    return found.value, found.action


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """Arguments that are checked, without the actions that change nothing."""

    family: Family
    space: Space
    free: Tensor
    """(K,): which of all actions the family and the space have."""
    start: Tensor
    """(K,): all actions at their lowest; where those that are not free stay."""

    @classmethod
    def checked(
        cls,
        slope: Array,
        intercept: Array,
        before: Array,
        beta: float,
        lower: Array,
        upper: Array,
        distance: str,
        values: Array | None,
    ) -> _Problem:
        """From arguments as they come."""
        name, beta = check_distance(distance), check_positive("beta", beta)
        slopes = as_double("slope", slope, 2, "(items, K)").cpu()
        intercepts = as_double("intercept", intercept, 1, "(items,)").cpu()
        check_scores(slopes, intercepts)
        check_finite("slope", slopes)
        check_finite("intercept", intercepts)
        space = Space.checked(*as_box(lower, upper, (slopes.shape[1],), slopes.device), values)
        log_p = _as_baseline(before, len(intercepts))

        free = (space.lower < space.upper) & (slopes.amin(dim=0) < slopes.amax(dim=0))
        if int(free.sum()) > _MOST_ACTIONS:
            raise InputError(
                "slope",
                received=f"{int(free.sum())} actions that move scores",
                expected=f"at most {_MOST_ACTIONS}: a box has 2^K vertices",
                remedy="Free fewer ratings: give the others equal bounds.",
            )
        fixed = intercepts + slopes[:, ~free] @ space.lower[~free]
        # What all scores have in common moves no probability.
        scaled = beta * (slopes[:, free] - slopes[:, free].mean(dim=0))
        family = Family(scaled, beta * (fixed - fixed.max()), log_p, name)
        problem = cls(family, space.among(free), free, space.lower)
        check_finite("beta * scores", problem.size)
        return problem

    @property
    def size(self) -> Tensor:
        """(): no score, and none of its parts, is larger."""
        farthest = torch.maximum(self.space.lower.abs(), self.space.upper.abs())
        return (self.family.slope.abs() @ farthest + self.family.offset.abs()).max()

    def farthest_of(self, actions: Tensor) -> DistanceSolution:
        """The farthest of `actions` (n, K), where no other action can be farther."""
        value, action = self.family.farthest(actions)
        return DistanceSolution(value, value, self._all_actions(action), Status.SOLVED, boxes=0)

    def answer(self, search: Search) -> DistanceSolution:
        """What the search found, with a bound that leaves room for rounding."""
        value = float(self.family.distances(search.action))
        size, name = float(self.size), self.family.distance
        rounding = _ROUNDING * (1 + size)
        if name == "kl":
            rounding *= 1 + size + float(self.family.before.abs().max())
        # Where a square was bounded, it is the square that has the rounding.
        bound = math.sqrt(search.bound**2 + rounding) if name in {"hellinger", "l2"} else search.bound + rounding
        return DistanceSolution(
            value=value,
            upper=max(value, min(bound, LARGEST[name])),
            action=self._all_actions(search.action),
            status=Status.SOLVED if search.solved else Status.BOUNDED,
            boxes=search.boxes,
        )

    def _all_actions(self, free: Tensor) -> FloatArray:
        """(K,): the free actions among those that stay at their lowest."""
        actions = self.start.clone()
        actions[self.free] = free
        return actions.numpy()


def _as_baseline(before: Array, items: int) -> Tensor:
    """(items,): log-probabilities that are finite and add up to 1, to the last digit."""
    log_p = as_double("before", before, 1, "(items,)").cpu()
    if len(log_p) != items:
        raise InputError("before", received=f"{len(log_p)} numbers", expected=f"{items}, one an item")
    check_finite("before", log_p)
    total = log_p.logsumexp(dim=0)
    if abs(float(total)) > _NORMALISED:
        raise InputError(
            "before",
            received=f"log-probabilities whose log-sum-exp is {float(total):.6g}",
            expected="0, the logarithm of a total of 1",
            remedy="Give logarithms, of all candidate items and no others.",
        )
    return log_p - total

"""The largest distance between a viewer's recommendations before and after another's ratings (paper 001, section 4).

Scores are affine in the ratings, z(a) = beta (slope @ a + intercept), and one rating may move the scores of many
items. Paper 001's Proposition 5.2 is right for ratings that move their own item only; here the farthest action need
not be a vertex of the box, and trying the vertices proves nothing. The answer is an action with its distance, and a
bound that no action exceeds: sub-boxes are bounded one by one (`bounds`) and cut until the two meet.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from recaudit.arguments import check_count
from recaudit.arithmetic import one_thread
from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_box, as_double, check_finite, check_positive, check_scores
from recaudit.solvers.distance.distances import LARGEST, Distance, Family, check_distance, corners
from recaudit.solvers.distance.search import ActionSpace, DistanceSearch
from recaudit.solvers.solution import Solution
from recaudit.status import Status

# A box of more free actions has too many vertices to look at them all.
_MOST_ACTIONS = 10
# Actions of a grid that are listed rather than searched.
_LISTED = 4096
_UNIT = float(torch.finfo(torch.float64).eps)
# The part of the tolerance that the search has to meet; the rest is for rounding.
_SEARCHED = 0.9
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
    slopes = as_double("slope", slope, 2, "(items, K)").cpu()
    intercepts = as_double("intercept", intercept, 1, "(items,)").cpu()
    check_scores(slopes, intercepts)
    check_finite("slope", slopes)
    check_finite("intercept", intercepts)
    space = ActionSpace.checked(*as_box(lower, upper, (slopes.shape[1],), slopes.device), values)
    log_p = _as_baseline(before, len(intercepts))
    # Actions that change nothing stay at their lowest.
    free = (space.lower < space.upper) & (slopes.amin(dim=0) < slopes.amax(dim=0))
    if int(free.sum()) > _MOST_ACTIONS:
        raise InputError(
            "slope",
            received=f"{int(free.sum())} actions that move scores",
            expected=f"at most {_MOST_ACTIONS}: a box has 2^K vertices",
            remedy="Free fewer ratings: give the others equal bounds.",
        )
    family, actions = _family(slopes, intercepts, log_p, beta, space, free, name), space.lower.clone()
    space, error, boxes = space.among(free), family.error, 0
    everything = corners(space.lower, space.upper) if family.moves_straight() else space.listed(_LISTED)
    if everything is not None:
        value, actions[free] = family.farthest(everything)
        bound = value + error
    else:
        search = DistanceSearch(family, space, _SEARCHED * tol, max_boxes)
        with one_thread():  # a search is many short steps, and cores would wait for each other between them
            search.run(rng)
        value, actions[free], boxes = float(family.distances(search.action)), search.action, search.boxes
        # Where a square was bounded, it is the square that has the rounding.
        squared = name in {"hellinger", "l2"}
        bound = math.sqrt(search.bound**2 + 8 * family.rounding) if squared else search.bound + 4 * error
    least, most = np.array([max(value - error, 0.0)]), np.array([max(value, min(bound, LARGEST[name]))])
    status = np.where(most - least <= tol, Status.SOLVED.value, Status.BOUNDED.value)
    return Solution(np.array([value]), least, most, status, actions.numpy()[None], np.array([boxes]))


def _family(
    slopes: Tensor, intercepts: Tensor, log_p: Tensor, beta: float, space: ActionSpace, free: Tensor, name: Distance
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

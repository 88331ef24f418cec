"""How likely an item can be made to be in a slate of n drawn without replacement (Plackett-Luce): two bounds.

Drawing without replacement in proportion to exp(z) is a race: item j arrives after an exponential time of rate
exp(z_j), and the slate is the first n to arrive.

- At any action, an item that is the first of all but n - 1 others is in the slate, whichever those others are. So the
  largest softmax probability with the n - 1 strongest rivals taken out is a lower bound; and so is 1 - (1 - rho*)^n,
  since each draw that has not brought the item yet only makes it likelier in the next.
- An item in the slate is before at least N - n others. By Markov's inequality that is at most as likely as the expected
  number of others after it, sum_j sigma(z_i - z_j), over N - n; over the box each sigma is largest at a corner.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray
from recaudit.solvers.checks import Array, as_box, as_positions, as_scores, require
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.solution import Solution, status_of

_UNIT = float(np.finfo(np.float64).eps)
# Below this a probability has no digits left as a double.
_SMALLEST = -700.0


def bound_slate(
    slope: Array, intercept: Array, targets: Array, beta: float, n: int, lower: Array, upper: Array, tol: float = 1e-6
) -> Solution:
    """Bounds on the largest probability that each target is among n draws; arguments as for `maximize_softmax`.
    `n` is the length of the slate. The value is the lower bound itself: what the actions reach at least."""
    slopes, intercepts = as_scores(slope, intercept)
    require(1 <= n <= len(intercepts), "n", n, f"a slate of 1 to {len(intercepts)} items")
    positions = as_positions("targets", targets, len(intercepts))
    low, high = as_box(lower, upper, (slopes.shape[1],), slopes.device)
    single = maximize_softmax(slopes, intercepts, positions, beta, low, high, tol)
    best, actions, evaluations = np.maximum(single.lower, _drawn(single.lower, n)), single.actions, single.evaluations

    centre = slopes @ ((low + high) / 2) + intercepts
    strongest = centre.argsort(descending=True, stable=True)[:n]
    inside = torch.isin(positions, strongest)
    groups = [(~inside).nonzero()[:, 0], *inside.nonzero()]
    for places in filter(len, groups):
        out = strongest[~torch.isin(strongest, positions[places])][: n - 1]
        rest = torch.ones(len(intercepts), dtype=torch.bool)
        rest[out] = False
        among = (rest.cumsum(0) - 1)[positions[places]]
        alone = maximize_softmax(slopes[rest], intercepts[rest], among, beta, low, high, tol)
        rows = places.numpy()
        evaluations[rows] += alone.evaluations
        better = alone.lower > best[rows]
        best[rows[better]], actions[rows[better]] = alone.lower[better], alone.actions[better]
    most = np.maximum(best, _markov(slopes, intercepts, positions, beta, n, low, high))
    return Solution(best, best, most, status_of(best, most, tol), actions, evaluations)


def _drawn(log_chance: FloatArray, n: int) -> FloatArray:
    """(targets,): the logarithm of 1 - (1 - p)^n, rounded down; it is no less exact, relatively, than p itself."""
    chance = np.minimum(np.exp(np.maximum(log_chance, _SMALLEST)), 1 - _UNIT)
    logs = np.log(-np.expm1(n * np.log1p(-chance)))
    return np.where(log_chance < _SMALLEST, log_chance, logs - _UNIT * (8 + 2 * np.abs(log_chance)))


def _markov(
    slope: Tensor, intercept: Tensor, targets: Tensor, beta: float, n: int, low: Tensor, high: Tensor
) -> FloatArray:
    """(targets,): the logarithm of min(1, sum over the others of sigma(largest z_i - z_j) / (N - n)), rounded up.

    A lead is a sum of 2 K + 1 terms, each a rounded difference times a bound of the box: it is off by at most (2 K + 4)
    roundings of the terms' sizes, and a logarithm of sigma by no more than its argument.
    """
    count, columns = slope.shape
    if n == count:
        return np.zeros(len(targets))
    far = torch.maximum(low.abs(), high.abs())
    logs = np.empty(len(targets))
    for place, target in enumerate(targets):
        difference, ahead = slope[target] - slope, intercept[target] - intercept
        lead = difference.clamp(min=0) @ high + difference.clamp(max=0) @ low + ahead
        lead += _UNIT * (columns + 4) * (difference.abs() @ far + ahead.abs())
        chances = torch.nn.functional.logsigmoid(beta * lead)
        chances[target] = -torch.inf  # the item itself
        logs[place] = float(chances.logsumexp(dim=0))
    with np.errstate(invalid="ignore"):
        bound: FloatArray = logs - np.log(count - n) + _UNIT * (count + 8 + 2 * np.abs(logs))
    # Scores that double precision does not hold bound nothing.
    return np.minimum(np.where(np.isnan(bound), 0.0, bound), 0.0)

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

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_box, as_double, as_positions
from recaudit.solvers.softmax import maximize_softmax

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class SlateBounds:
    """Bounds on the largest probability of being in the slate, on the logarithm, in the order of the targets."""

    log_lower: FloatArray
    """(targets,): some action reaches at least this."""
    log_upper: FloatArray
    """(targets,): no action reaches more."""
    actions: FloatArray
    """(targets, K): the actions that reach the lower bound."""


def bound_slate(
    slope: Array, intercept: Array, targets: Array, beta: float, n: int, lower: Array, upper: Array, tol: float = 1e-6
) -> SlateBounds:
    """Bounds on the largest probability that each target is among n draws, over the actions in the box.

    Arguments as for `maximize_softmax`; `n` is the length of the slate, at most the number of items.
    """
    slopes, intercepts = as_double("slope", slope, 2, "(items, K)"), as_double("intercept", intercept, 1, "(items,)")
    if not 1 <= n <= len(intercepts):
        raise InputError("n", received=n, expected=f"a slate of 1 to {len(intercepts)} items")
    positions = as_positions("targets", targets, len(intercepts))
    low, high = as_box(lower, upper, (slopes.shape[1],), slopes.device)
    single = maximize_softmax(slopes, intercepts, positions, beta, low, high, tol)
    drawn = np.log(-np.expm1(n * np.log1p(-np.minimum(np.exp(single.log_lower), 1 - 1e-16))))
    best, actions = np.maximum(single.log_lower, drawn), single.actions.copy()

    centre = slopes @ ((low + high) / 2) + intercepts
    strongest = centre.argsort(descending=True, stable=True)[:n]
    inside = torch.isin(positions, strongest)
    groups = [(~inside).nonzero()[:, 0], *(place[None] for place in inside.nonzero()[:, 0])]
    for places in groups:
        if not len(places):
            continue
        out = strongest[~torch.isin(strongest, positions[places])][: n - 1]
        rest = torch.ones(len(intercepts), dtype=torch.bool)
        rest[out] = False
        among = (rest.cumsum(0) - 1)[positions[places]]
        alone = maximize_softmax(slopes[rest], intercepts[rest], among, beta, low, high, tol)
        rows = places.numpy()
        better = alone.log_lower > best[rows]
        best[rows[better]], actions[rows[better]] = alone.log_lower[better], alone.actions[better]
    return SlateBounds(best, np.maximum(best, _markov(slopes, intercepts, positions, beta, n, low, high)), actions)


def _markov(
    slope: torch.Tensor,
    intercept: torch.Tensor,
    targets: torch.Tensor,
    beta: float,
    n: int,
    low: torch.Tensor,
    high: torch.Tensor,
) -> FloatArray:
    """(targets,): the logarithm of min(1, sum over the others of sigma(largest z_i - z_j) / (N - n))."""
    count = len(intercept)
    if n == count:
        return np.zeros(len(targets))
    expected = np.empty(len(targets))
    for place, target in enumerate(targets):
        difference = slope[target] - slope
        lead = difference.clamp(min=0) @ high + difference.clamp(max=0) @ low + intercept[target] - intercept
        expected[place] = float(torch.sigmoid(beta * lead).sum()) - 0.5  # without the item itself
    return np.log(np.minimum(1.0, expected / (count - n)))

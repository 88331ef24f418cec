"""The beta at which a softmax policy lets a user get an item most often (paper 000, section 4.1).

With y = beta a, log of the softmax probability is F(y, beta) = b_i.y + beta c_i - log sum_j exp(b_j.y + beta c_j),
concave in (y, beta) together, over the cone beta lower <= y <= beta upper. Its maximum over y is therefore concave
in beta alone, and the gradient of F at any action gives a straight line above log rho*, at every beta: two lines,
one rising and one falling, enclose the best beta and certify the largest probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp

from recaudit.solvers.checks import Array, as_box, as_double, as_positions, check_positive
from recaudit.solvers.softmax import maximize_softmax
from recaudit.solvers.top1 import top1_margin
from recaudit.status import Status

FloatArray = NDArray[np.float64]

LARGEST_BETA = 1e4
"""The largest finite beta that is looked at, and that a softmax policy takes."""

# Relative width at which the search for beta stops; log rho* is flat there.
_RESOLUTION = 1e-4
# Margins are known to this many units of the scores: a smaller one is a tie.
_TIE = 1e-7


@final
@dataclass(frozen=True)
class BestBeta:
    """The best beta for one pair, and the probability that the user can reach with it."""

    beta: float
    """inf where the item can be made the top one: the more deterministic the policy, the better. 0 where no action
    lifts it above the mean score: the item is best served by chance alone."""
    value: float
    """The largest probability over all betas and actions; the limit where beta is inf or 0."""
    lower: float
    """A certified lower bound of it."""
    upper: float
    """A certified upper bound of it."""
    bracket: tuple[float, float]
    """Where the best beta lies."""
    reachable: bool
    """Whether some action makes the item a highest-scoring one."""
    status: Status
    """Solved where the bounds on log-probability are within the tolerance, else bounded."""


def best_beta(slope: Array, intercept: Array, target: int, lower: Array, upper: Array, tol: float = 1e-6) -> BestBeta:
    """The beta > 0 that maximises the target's largest probability over the actions a, lower <= a <= upper.

    `slope` (items, K) and `intercept` (items,): the scores s = slope @ a + intercept of all candidate items;
    `target`: a position; `lower`, `upper`: numbers or (K,). An item that ties for the top at best, to 1e-7, is
    reachable with a limit of at most 1/2: its value is the one at a beta of 10^4.
    """
    tol = check_positive("tol", tol)
    top = top1_margin(slope, intercept, [target], lower, upper, _TIE)
    margin, most = float(top.margin[0]), float(top.upper[0])
    if margin > _TIE:
        return BestBeta(math.inf, 1.0, 1.0, 1.0, (math.inf, math.inf), True, Status.SOLVED)
    problem = _Problem.checked(slope, intercept, target, lower, upper)
    if margin >= -_TIE:
        # Whatever the action, some other item scores as much, to within what is known of the margin.
        bound = math.log(0.5) if most <= 2 * _TIE else 0.0
        line = problem.line(LARGEST_BETA)
        return _answer(math.inf, line.value, bound, (math.inf, math.inf), tol, reachable=True)
    # Where the linear program left it open whether the item is reachable, no margin is known but that it may be 0.
    return problem.search(most if most < 0 else 0.0, tol)


@final
@dataclass(frozen=True)
class _Line:
    """log rho*(b) <= height + rise * (b - beta) for every b >= 0, touched to within the solver's gap at `beta`."""

    beta: float
    height: float
    rise: float
    value: float
    """The log-probability that was reached at `beta`."""

    def crossing(self, other: _Line) -> float:
        """The height at which a rising and a falling line meet: no beta gives more than that."""
        at = (other.height - other.rise * other.beta - self.height + self.rise * self.beta) / (self.rise - other.rise)
        return self.height + self.rise * (at - self.beta)


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    slope: FloatArray
    intercept: FloatArray
    target: int
    lower: FloatArray
    upper: FloatArray
    tol: float = 1e-8

    @classmethod
    def checked(cls, slope: Array, intercept: Array, target: int, lower: Array, upper: Array) -> _Problem:
        """From arguments as they come."""
        B = as_double("slope", slope, 2, "(items, K)")
        c = as_double("intercept", intercept, 1, "(items,)")
        position = int(as_positions("target", [target], len(c))[0])
        box = as_box(lower, upper, (B.shape[1],), torch.device("cpu"))
        return cls(B.cpu().numpy(), c.cpu().numpy(), position, box[0].numpy(), box[1].numpy())

    def line(self, beta: float) -> _Line:
        """The line above log rho* that the best action at `beta` gives."""
        found = maximize_softmax(self.slope, self.intercept, [self.target], beta, self.lower, self.upper, self.tol)
        assert found.actions is not None
        action = found.actions[0]
        logits = beta * (self.slope @ action + self.intercept)
        total = logsumexp(logits)
        chances = np.exp(logits - total)
        by_action = self.slope[self.target] - chances @ self.slope
        by_beta = float(self.intercept[self.target] - chances @ self.intercept)
        most = float(np.maximum(by_action * self.lower, by_action * self.upper).sum())
        value = float(logits[self.target] - total)
        return _Line(beta, value + beta * (most - float(by_action @ action)), by_beta + most, value)

    def chance(self) -> _Line:
        """The line at beta = 0, where every item is equally likely: its rise is the most above the mean score."""
        count = len(self.intercept)
        by_action = self.slope[self.target] - self.slope.mean(axis=0)
        most = float(np.maximum(by_action * self.lower, by_action * self.upper).sum())
        rise = float(self.intercept[self.target] - self.intercept.mean()) + most
        return _Line(0.0, -math.log(count), rise, -math.log(count))

    def search(self, margin: float, tol: float) -> BestBeta:
        """Bisection between a rising and a falling line, for an item whose margin is at most `margin` <= 0."""
        rising = self.chance()
        if rising.rise <= 0:
            return _answer(0.0, rising.value, rising.height, (0.0, 0.0), tol)
        # Some rival is ahead by -margin at every action: log rho* <= beta * margin, below chance from `end` on.
        falling = _Line(0.0, 0.0, margin, -math.inf)
        end = rising.value / margin if margin < 0 else math.inf
        low, high, best = 0.0, end, rising
        if end > LARGEST_BETA:
            last = self.line(LARGEST_BETA)
            if last.rise > 0:
                return _answer(LARGEST_BETA, last.value, last.crossing(falling), (LARGEST_BETA, end), tol)
            falling, high, best = last, LARGEST_BETA, max(best, last, key=lambda line: line.value)
        # Below `high` no beta gains more on chance than rise * high: as good as 0 once that is nothing.
        while high - low > _RESOLUTION * high and (low > 0 or rising.rise * high > tol / 1000):
            beta = math.sqrt(low * high) if low > 0 else high / 16
            line = self.line(beta)
            best = max(best, line, key=lambda line: line.value)
            if line.rise > 0:
                rising, low = line, beta
            else:
                falling, high = line, beta
        return _answer(best.beta, best.value, rising.crossing(falling), (low, high), tol)


def _answer(
    beta: float,
    log_value: float,
    log_upper: float,
    bracket: tuple[float, float],
    tol: float,
    *,
    reachable: bool = False,
) -> BestBeta:
    bound = min(0.0, max(log_value, log_upper))
    status = Status.SOLVED if bound - log_value <= tol else Status.BOUNDED
    value = math.exp(log_value)
    return BestBeta(beta, value, value, math.exp(bound), bracket, reachable, status)

"""The beta at which a softmax policy lets a user get an item most often (paper 000, section 4.1).

With y = beta a, log of the softmax probability is F(y, beta) = b_i.y + beta c_i - log sum_j exp(b_j.y + beta c_j),
concave in (y, beta) together, over the cone beta lower <= y <= beta upper. Its maximum over y is therefore concave
in beta alone, and the gradient of F at any action gives a straight line above log rho*, at every beta: two lines,
one rising and one falling, enclose the best beta and certify the largest probability.

The line holds for any weights q of the items, not only those of an action: log sum exp z >= q.z + entropy(q), so that
log rho*(beta) <= -entropy(q) + beta max over a of q.(s_i(a) - s(a)). What rounding does to the weights costs nothing;
what it does to the entropy and to the sum is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from scipy.special import entr, softmax

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_box, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.top1 import top1_margin
from recaudit.status import Status

LARGEST_BETA = 1e4
"""The largest finite beta that is looked at, and that a softmax policy takes."""

# Relative width at which the search for beta stops; log rho* is flat there.
_RESOLUTION = 1e-4
# Margins are known to this many units of the scores: a smaller one is a tie.
_TIE = 1e-7
# Scores farther apart than this give no gradients that double precision holds.
_FARTHEST = 1e140
_UNIT = float(np.finfo(np.float64).eps)


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
    problem = _Problem.checked(slope, intercept, target, lower, upper)
    top = top1_margin(problem.slope, problem.intercept, [problem.target], problem.lower, problem.upper, _TIE)
    margin, most = float(top.margin[0]), float(top.upper[0]) + problem.error
    if margin > _TIE and problem.surely_ahead(top.actions[0]):
        return BestBeta(math.inf, 1.0, 1.0, 1.0, (math.inf, math.inf), True, Status.SOLVED)
    if margin >= -_TIE:
        # Whatever the action, some other item scores as much, to within what is known of the margin.
        bound = math.log(0.5) if most <= 2 * _TIE else 0.0
        line = problem.line(LARGEST_BETA)
        return _answer(math.inf, line, bound, (math.inf, math.inf), tol, reachable=True)
    # Where the linear program left it open whether the item is reachable, no margin is known but that it may be 0.
    return problem.search(min(most + _TIE, 0.0), tol)


@final
@dataclass(frozen=True)
class _Line:
    """log rho*(b) <= start + rise * b for every b >= 0, touched to within the solver's gap at `beta`."""

    beta: float
    start: float
    rise: float
    value: float
    """The log-probability that was reached at `beta`."""
    lower: float
    """Less what rounding may have added."""

    def crossing(self, other: _Line) -> float:
        """The height at which a rising and a falling line meet: no beta gives more than that."""
        climb = self.rise * ((other.start - self.start) / (self.rise - other.rise))
        return self.start + climb + 4 * _UNIT * (abs(self.start) + abs(other.start) + abs(climb))


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """Scores less the target's: a constant added to all of them, however large, is gone before it can round."""

    slope: FloatArray
    intercept: FloatArray
    target: int
    lower: FloatArray
    upper: FloatArray
    sizes: FloatArray
    """(items,): no score, and none of its parts, is larger."""
    given: tuple[FloatArray, FloatArray]
    """Slope and intercept as they were given."""
    tol: float = 1e-8

    @classmethod
    def checked(cls, slope: Array, intercept: Array, target: int, lower: Array, upper: Array) -> _Problem:
        """From arguments as they come."""
        B = as_double("slope", slope, 2, "(items, K)").cpu()
        c = as_double("intercept", intercept, 1, "(items,)").cpu()
        check_scores(B, c)
        check_finite("slope", B)
        check_finite("intercept", c)
        position = int(as_positions("target", [target], len(c))[0])
        low, high = as_box(lower, upper, (B.shape[1],), torch.device("cpu"))
        given = B.numpy(), c.numpy()
        B, c = B - B[position], c - c[position]
        sizes = (B.abs() @ torch.maximum(low.abs(), high.abs()) + c.abs()).numpy()
        if not sizes.max() <= _FARTHEST:
            raise InputError(
                "slope, intercept",
                received=f"scores that differ from the target's by up to {sizes.max():.3g}",
                expected=f"differences of at most {_FARTHEST:g}, which double precision holds at every beta",
            )
        return cls(B.numpy(), c.numpy(), position, low.numpy(), high.numpy(), sizes, given)

    @property
    def error(self) -> float:
        """How far rounding moves the difference of two scores at most."""
        return _UNIT * (len(self.lower) + 4) * float(self.sizes.max())

    def surely_ahead(self, action: FloatArray) -> bool:
        """Whether the target scores higher than every other item at `action` (K,), whatever was rounded."""
        behind = -(self.slope @ action + self.intercept) - _UNIT * (len(action) + 4) * self.sizes
        return bool((np.delete(behind, self.target) > 0).all())

    def line(self, beta: float) -> _Line:
        """The line above log rho* that the best action at `beta` gives."""
        found = maximize_softmax(*self.given, [self.target], beta, self.lower, self.upper, self.tol)
        chances = softmax(beta * (self.slope @ found.actions[0] + self.intercept))
        return self._line_of(chances, beta, float(found.log_value[0]), float(found.log_lower[0]))

    def chance(self) -> _Line:
        """The line at beta = 0, where every item is equally likely: its rise is the most above the mean score."""
        count = len(self.intercept)
        value = -math.log(count)
        return self._line_of(np.full(count, 1 / count), 0.0, value, value - _UNIT * abs(value))

    def _line_of(self, chances: FloatArray, beta: float, value: float, lower: float) -> _Line:
        """The line that the weights `chances` (items,) give."""
        by_action = -chances @ self.slope
        most = float(np.maximum(by_action * self.lower, by_action * self.upper).sum())
        unit = _UNIT * (len(chances) + len(self.lower) + 8)
        rise = most - float(chances @ self.intercept) + unit * float(chances @ self.sizes)
        entropy = float(entr(chances).sum())
        return _Line(beta, -entropy + unit * (1 + entropy), rise, value, lower)

    def search(self, margin: float, tol: float) -> BestBeta:
        """Bisection between a rising and a falling line, for an item whose margin is at most `margin` <= 0."""
        rising = self.chance()
        if rising.rise <= 0:
            return _answer(0.0, rising, rising.start, (0.0, 0.0), tol)
        # Some rival is ahead by -margin at every action: log rho* <= beta * margin, below chance from `end` on.
        falling = _Line(0.0, 0.0, margin, -math.inf, -math.inf)
        end = rising.value / margin if margin < 0 else math.inf
        low, high, best = 0.0, end, rising
        if end > LARGEST_BETA:
            last = self.line(LARGEST_BETA)
            if last.rise > 0:
                return _answer(LARGEST_BETA, last, last.crossing(falling), (LARGEST_BETA, end), tol)
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
        return _answer(best.beta, best, rising.crossing(falling), (low, high), tol)


def _answer(
    beta: float, best: _Line, log_upper: float, bracket: tuple[float, float], tol: float, *, reachable: bool = False
) -> BestBeta:
    bound = min(0.0, max(best.value, log_upper))
    status = Status.SOLVED if bound - best.lower <= tol else Status.BOUNDED
    return BestBeta(beta, math.exp(best.value), math.exp(best.lower), math.exp(bound), bracket, reachable, status)

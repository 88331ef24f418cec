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
from typing import NamedTuple, final

import numpy as np
from scipy.special import entr, softmax

from recaudit.arrays import BoolArray, FloatArray
from recaudit.solvers.checks import AffineScores, Array, as_affine_scores, as_positions, check_positive, require
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.solution import Solution, status_of
from recaudit.solvers.top1 import top1_margin

LARGEST_BETA = 1e4
"""The largest finite beta that is looked at, and that a softmax policy takes."""

# Relative width at which the search for beta stops; log rho* is flat there.
_RESOLUTION = 1e-4
# Margins are known to this many units of the scores: a smaller one is a tie.
_TIE = 1e-7
# How well log rho* is solved at each beta: the lines touch it to within the root of this.
_LINE_TOL = 1e-14
# Scores farther apart than this give no gradients that double precision holds.
_FARTHEST = 1e140
_UNIT = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, eq=False)
class BestBeta(Solution):
    """The largest log-probability of one pair over all betas and actions, the limit where beta is inf or 0;
    `evaluations` counts the betas at which it was solved."""

    beta: FloatArray
    """(n,): inf where the item can be made the top one: the more deterministic the policy, the better. 0 where no
    action lifts it above the mean score: the item is best served by chance alone."""
    bracket: FloatArray  # (n, 2): the best beta lies between these
    reachable: BoolArray  # (n,): whether some action makes the item a highest-scoring one


def best_beta(slope: Array, intercept: Array, target: int, lower: Array, upper: Array, tol: float = 1e-6) -> BestBeta:
    """The beta > 0 that maximises the target's largest probability over the actions a, lower <= a <= upper.

    `target`: a position; the others as for `maximize_softmax`. An item that ties for the top at best, to 1e-7, is
    reachable with a limit of at most 1/2: its value is the one at a beta of 10^4.
    """
    tol = check_positive("tol", tol)
    given = AffineScores(*as_affine_scores(slope, intercept, lower, upper))
    target = int(as_positions("target", [target], len(given.intercept))[0])
    ahead = given.slope - given.slope[target], given.intercept - given.intercept[target]
    problem = _BetaProblem(*ahead, given.lower, given.upper, target, given)
    received = f"scores that differ from the target's by up to {problem.sizes.max():.3g}"
    expected = f"differences of at most {_FARTHEST:g}, which double precision holds at every beta"
    require(problem.sizes.max() <= _FARTHEST, "slope, intercept", received, expected)
    return problem.solve(tol)


class _Line(NamedTuple):
    """log rho*(b) <= start + rise * b for every b >= 0, touched to within the solver's gap at `beta`."""

    beta: float
    start: float
    rise: float
    value: float  # the log-probability that `action` (K,) reaches at `beta`
    lower: float  # less what rounding may have added
    action: FloatArray

    def crossing(self, other: _Line) -> float:
        """The height at which a rising and a falling line meet: no beta gives more than that."""
        climb = self.rise * ((other.start - self.start) / (self.rise - other.rise))
        return self.start + climb + 4 * _UNIT * (abs(self.start) + abs(other.start) + abs(climb))

    def answer(
        self, beta: float, upper: float, low: float, high: float, tol: float, solves: int, *, reachable: bool = False
    ) -> BestBeta:
        """This line's action as the answer for `beta`, which is from `low` to `high`."""
        value, least = np.array([self.value]), np.array([self.lower])
        most = np.array([min(0.0, max(self.value, upper))])
        found = (value, least, most, status_of(least, most, tol), self.action[None], np.array([solves]))
        return BestBeta(*found, np.array([beta]), np.array([[low, high]]), np.array([reachable]))


@final
@dataclass(frozen=True, eq=False)
class _BetaProblem(AffineScores):
    """Scores less the target's: a constant added to all of them, however large, is gone before it can round."""

    target: int
    given: AffineScores  # before the target's were subtracted

    def solve(self, tol: float) -> BestBeta:
        """At beta = inf where the target can be on top, else by bisection."""
        top = top1_margin(self.slope, self.intercept, [self.target], self.lower, self.upper, _TIE)
        rounding = _UNIT * (len(self.lower) + 4) * self.sizes
        margin, most = float(top.value[0]), float(top.upper[0] + rounding.max())
        others = np.delete(self.at(top.actions[0]) + rounding, self.target)
        if margin > _TIE and (others < 0).all():
            certain = _Line(math.inf, 0.0, 0.0, 0.0, 0.0, top.actions[0])
            return certain.answer(math.inf, 0.0, math.inf, math.inf, tol, 0, reachable=True)
        if margin >= -_TIE:
            # Whatever the action, some other item scores as much, to within what is known of the margin.
            bound = math.log(0.5) if most <= 2 * _TIE else 0.0
            return self._line(LARGEST_BETA).answer(math.inf, bound, math.inf, math.inf, tol, 1, reachable=True)
        # Where the linear program left it open whether the item is reachable, no margin is known but that it may be 0.
        return self._search(min(most + _TIE, 0.0), tol)

    def _line(self, beta: float) -> _Line:
        """The line above log rho* that the best action at `beta` gives."""
        slope, intercept = self.given.slope, self.given.intercept
        found = maximize_softmax(slope, intercept, [self.target], beta, self.lower, self.upper, _LINE_TOL)
        chances = softmax(beta * self.at(found.actions[0]))
        return self._line_of(chances, beta, float(found.value[0]), float(found.lower[0]), found.actions[0])

    def _line_of(self, chances: FloatArray, beta: float, value: float, lower: float, action: FloatArray) -> _Line:
        """The line that the weights `chances` (items,) give."""
        by_action = -chances @ self.slope
        most = float(np.maximum(by_action * self.lower, by_action * self.upper).sum())
        unit = _UNIT * (len(chances) + len(self.lower) + 8)
        rise = most - float(chances @ self.intercept) + unit * float(chances @ self.sizes)
        entropy = float(entr(chances).sum())
        return _Line(beta, -entropy + unit * (1 + entropy), rise, value, lower, action)

    def _search(self, margin: float, tol: float) -> BestBeta:
        """Bisection between a rising and a falling line, for an item whose margin is at most `margin` <= 0."""
        # At beta = 0 every item is equally likely: the line's rise is the most above the mean score.
        count, centre = len(self.intercept), (self.lower + self.upper) / 2
        even = -math.log(count)
        rising = best = self._line_of(np.full(count, 1 / count), 0.0, even, even - _UNIT * abs(even), centre)
        if rising.rise <= 0:
            return rising.answer(0.0, rising.start, 0.0, 0.0, tol, 0)
        # Some rival is ahead by -margin at every action: log rho* <= beta * margin, below chance from `end` on.
        falling = _Line(0.0, 0.0, margin, -math.inf, -math.inf, centre)
        end = even / margin if margin < 0 else math.inf
        low, high, solves = 0.0, end, 0
        if end > LARGEST_BETA:
            last, solves = self._line(LARGEST_BETA), 1
            if last.rise > 0:
                return last.answer(LARGEST_BETA, last.crossing(falling), LARGEST_BETA, end, tol, solves)
            falling, high, best = last, LARGEST_BETA, max(best, last, key=lambda line: line.value)
        # Below `high` no beta gains more on chance than rise * high: as good as 0 once that is nothing.
        while high - low > _RESOLUTION * high and (low > 0 or rising.rise * high > tol / 1000):
            beta = math.sqrt(low * high) if low > 0 else high / 16
            line, solves = self._line(beta), solves + 1
            best = max(best, line, key=lambda line: line.value)
            if line.rise > 0:
                rising, low = line, beta
            else:
                falling, high = line, beta
        return best.answer(best.beta, rising.crossing(falling), low, high, tol, solves)

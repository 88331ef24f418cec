"""Search over a box when the objective can only be asked, and every question counts (paper 001, section 5.2).

Simultaneous perturbation: two points on either side, `x + eps z` and `x - eps z` with a random sign for each variable,
give one directional slope, `(F(x + eps z) - F(x - eps z)) / 2 eps`, and the gradient's estimate is that slope times z.
The paper prints the slope's absolute value without the z, which points nowhere (docs/errata.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.errors import BudgetSpentError, InputError
from recaudit.seeding import generator
from recaudit.solvers.search.box import Box
from recaudit.solvers.solution import Solution, lower_bounded

_PERTURBATION = 0.1
"""The most that a pair of questions moves a variable either way, as a share of the box."""
_SMALLEST_STEP = 0.005
"""Where a path ends, as a share of the box: the questions left are better asked elsewhere."""


@final
@dataclass(frozen=True, eq=False)
class BlackBoxSolution(Solution):
    """The best point that was asked about, of one problem: a lower bound of the maximum, without any claim beyond.

    `evaluations` counts the queries, never more than the budget; the same question twice is asked once.
    """

    history: FloatArray
    """(queries,): the best value after each query."""


def maximize_black_box(
    objective: Callable[[FloatArray], float],
    box: Box,
    budget: int,
    *,
    start: FloatArray | None = None,
    rng: int = 0,
) -> BlackBoxSolution:
    """The highest value found by asking `objective` ((K,) to a finite number) at most `budget` times.

    From `start` (K,), or the centre, then from the centre, then from random points, until the budget is spent: pairs
    of questions correct an estimate of the gradient, and a step along it is taken where it leads up, and cut where it
    does not. Points are moved into the box before they are asked, and the pair's true displacement is used. A path
    ends with moves of single variables, to their bounds, from the best point so far. In a box with a grid only points
    of the grid are asked; all of them, where the budget allows it. An `objective` that raises a BudgetSpentError ends
    the search before: it stands if anything was answered.
    """
    if budget < 1:
        raise InputError("budget", received=budget, expected="a whole number of questions, 1 or more")
    draw = generator(rng, "zeroth order")
    asked = _AskedPoints(objective, budget)
    try:
        if box.size <= budget:
            for point in box.everything():
                asked.value(point)
            return asked.solution()
        starts = [box.centre] if start is None else [box.inside(start), box.centre]
        for path in range(budget):
            _climb(asked, box, starts[path] if path < len(starts) else box.random(1, draw)[0], draw)
            _move_single_variables(asked, box, draw)
    except BudgetSpentError:
        if not asked.history:
            raise
    return asked.solution()


class _AskedPoints:
    """The answers so far, and the best of them."""

    def __init__(self, objective: Callable[[FloatArray], float], budget: int) -> None:
        self.objective, self.budget = objective, budget
        self.answers: dict[bytes, float] = {}
        self.history: list[float] = []
        self.point = np.empty(0)

    def value(self, point: FloatArray) -> float:
        """The objective at `point` (K,): from memory, where it was asked before."""
        key = (point + 0.0).tobytes()  # 0.0 and -0.0 are the same point
        if key in self.answers:
            return self.answers[key]
        if len(self.history) == self.budget:
            raise BudgetSpentError(f"The budget of {self.budget:,} questions is spent.")
        answer = float(self.objective(point))
        if not np.isfinite(answer):
            raise InputError("objective", received=f"{answer} at {point.tolist()}", expected="finite numbers")
        best = self.history[-1] if self.history else -np.inf
        if answer > best:
            self.point = point.copy()
        self.answers[key] = answer
        self.history.append(max(best, answer))
        return answer

    def solution(self) -> BlackBoxSolution:
        history = np.array(self.history)
        found = lower_bounded(history[-1:], self.point[None], np.array([len(history)]))
        return BlackBoxSolution(**vars(found), history=history)


def _climb(asked: _AskedPoints, box: Box, start: FloatArray, draw: np.random.Generator) -> None:
    """One path uphill; lengths and the gradient are in shares of the box."""
    width = np.where(box.width > 0, box.width, 1.0)
    spacing = 0.0 if box.values is None else float(np.diff(box.values).max() / width.max())
    x, value = start, asked.value(start)
    gradient = np.zeros(box.coordinates)
    step = 1.0
    while step > max(_SMALLEST_STEP, spacing / 2):
        signs = draw.choice([-1.0, 1.0], box.coordinates)
        reach = max(min(_PERTURBATION, step / 2), spacing) * width * signs
        plus, minus = box.inside(x + reach), box.inside(x - reach)
        apart = (plus - minus) / width
        difference = asked.value(plus) - asked.value(minus)
        # The signed slope along the pair, less what the estimate already says of it, times the pair's direction:
        # from an estimate of 0 this is simultaneous perturbation itself, and the pairs that follow add to it.
        gradient += (difference - gradient @ apart) * apart / max(float(apart @ apart), 1e-300)
        steepest = np.abs(gradient).max()
        if steepest == 0:
            return  # flat as far as can be seen
        ahead = box.inside(x + step * gradient / steepest * width)
        options = [(asked.value(point), point) for point in (ahead, plus, minus)]
        best_value, best = max(options, key=lambda option: option[0])
        if best_value > value:
            step = min(1.0, 1.5 * step) if best is ahead else step
            x, value = best, best_value
        else:
            step /= 2


def _move_single_variables(asked: _AskedPoints, box: Box, draw: np.random.Generator) -> None:
    """Send one variable of the best point somewhere else, as long as that helps."""
    moves = box.moves()
    improved = True
    while improved:
        before = asked.history[-1]
        for variable in draw.permutation(box.coordinates):
            for goal in moves[:, variable]:
                point = asked.point.copy()
                point[variable] = goal
                asked.value(point)
        improved = asked.history[-1] > before

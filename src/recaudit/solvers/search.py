"""Search over a box where there is no exact solver: by gradients, or by queries alone.

What comes back was evaluated, so it is a lower bound of the maximum, and nothing more is claimed: an objective that is
not concave can have a higher point elsewhere.

Where the objective can only be asked, and every query counts (paper 001, section 5.2), simultaneous perturbation: two
points on either side, `x + eps z` and `x - eps z` with a random sign for each variable, give one directional slope,
`(F(x + eps z) - F(x - eps z)) / 2 eps`, and the gradient's estimate is that slope times z. The paper prints the slope's
absolute value without the z, which points nowhere (docs/papers/errata.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import BudgetSpentError
from recaudit.seeding import generator
from recaudit.solvers.checks import require
from recaudit.solvers.solution import Solution, lower_bounded

if TYPE_CHECKING:
    from torch import Tensor

    Objective = Callable[[Tensor], Tensor]
    """(points, K) to (points, problems), double precision: several objectives of the same variables; gradients flow."""

EXHAUSTIVE = 4096
"""So many grid points are simply all evaluated."""
_ALL_VERTICES = 6
"""Up to so many variables every vertex of the box is evaluated: 64 points."""
_ROWS = 256
"""Points evaluated together: their scores of a few thousand items stay small."""
_SUFFICIENT = 1e-4
"""The share of the gain promised by the gradient that a step must really give (Armijo's condition)."""
_PERTURBATION = 0.1
"""The most that a pair of questions moves a variable either way, as a share of the box."""
_SMALLEST_STEP = 0.005
"""Where a path ends, as a share of the box: the questions left are better asked elsewhere."""


@final
@dataclass(frozen=True, eq=False)
class Box:
    """`lower <= x <= upper`, or, with `values`, only the points whose every coordinate is one of them."""

    lower: FloatArray  # (K,)
    upper: FloatArray  # (K,)
    values: FloatArray | None = None  # (values,), ascending: the grid, the same for each coordinate

    def __post_init__(self) -> None:
        shapes = self.lower.ndim == 1 and self.lower.shape == self.upper.shape and len(self.lower) > 0
        proper = shapes and np.isfinite([self.lower, self.upper]).all() and (self.lower <= self.upper).all()
        expected = "as many finite lower as upper bounds, one or more, none above its upper one"
        require(proper, "lower, upper", (self.lower.tolist(), self.upper.tolist()), expected)

    @classmethod
    def grid(cls, values: FloatArray, coordinates: int) -> Box:
        """The points whose every coordinate is one of `values` (values,), ascending."""
        return cls(np.full(coordinates, values[0]), np.full(coordinates, values[-1]), values)

    @property
    def coordinates(self) -> int:
        """K."""
        return len(self.lower)

    @property
    def width(self) -> FloatArray:
        """(K,)"""
        return self.upper - self.lower

    @property
    def centre(self) -> FloatArray:
        """(K,): the point in the middle; on the grid, the one next to it."""
        return self.inside((self.lower + self.upper) / 2)

    @property
    def size(self) -> float:
        """How many points there are: a grid's, or infinitely many."""
        return np.inf if self.values is None else float(len(self.values)) ** self.coordinates

    def inside(self, points: FloatArray) -> FloatArray:
        """The nearest allowed points to `points` (..., K)."""
        if self.values is None:
            return np.clip(points, self.lower, self.upper)
        between = (self.values[1:] + self.values[:-1]) / 2
        rounded: FloatArray = self.values[np.searchsorted(between, points)]
        return rounded

    def random(self, count: int, draw: np.random.Generator) -> FloatArray:
        """(count, K): allowed points, uniformly."""
        if self.values is None:
            return draw.uniform(self.lower, self.upper, (count, self.coordinates))
        return draw.choice(self.values, (count, self.coordinates))

    def everything(self) -> FloatArray:
        """(values^K, K): every point of the grid."""
        assert self.values is not None
        return _product([self.values] * self.coordinates)

    def moves(self) -> FloatArray:
        """(moves, K): where one coordinate alone may be sent: each value of the grid, or both bounds."""
        if self.values is None:
            return np.stack([self.lower, self.upper])
        return np.tile(self.values[:, None], (1, self.coordinates))


def _product(choices: list[FloatArray]) -> FloatArray:
    return np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(choices))


def ascend(
    objective: Objective,
    box: Box,
    *,
    starts: FloatArray | None = None,
    restarts: int = 3,
    steps: int = 200,
    tolerance: float = 1e-6,
    polish: bool = True,
    rng: int = 0,
) -> Solution:
    """The highest points found in the box, one for each problem of the objective; `evaluations` counts the points.

    Spectral projected gradient (Birgin, Martinez and Raydan 2000): steps of Barzilai and Borwein, cut until they give a
    share of what the gradient promises. Paths start from `starts` (starts, K), moved into the box, and from `restarts`
    points more, the centre and then random ones, and end after `steps` evaluations, or where the gradient promises no
    more than `tolerance`. `polish` adds the vertices (for 6 variables or fewer) and moves of single variables to their
    bounds. In a box with a grid only its points count: all of 4,096 or fewer, else the ends of the paths, rounded, and
    moves of single variables from there.
    """
    begin = np.concatenate([box.centre[None], box.random(max(0, restarts - 1), generator(rng, "ascent"))])[:restarts]
    if starts is not None:
        begin = np.concatenate([np.clip(starts, box.lower, box.upper), begin])
    require(len(begin) > 0, "starts, restarts", "no start at all", "a point to start from, or restarts")
    found = _BestPoints(objective, box)
    if box.size <= EXHAUSTIVE:
        found.try_all(box.everything())
        return found.solution()
    shared = [box.inside(begin)]
    if polish and box.coordinates <= _ALL_VERTICES:
        shared.append(_product([*np.stack([box.lower, box.upper], axis=1)]))
    found.try_all(np.concatenate(shared))
    problem = np.repeat(np.arange(len(found.value)), len(begin))
    ends = _climb(found, np.tile(begin, (len(found.value), 1)), problem, steps, tolerance)
    found.try_own(box.inside(ends), problem)
    if polish or box.values is not None:
        _polish(found)
    return found.solution()


class _BestPoints:
    """The best point of each problem so far, among all that were tried."""

    def __init__(self, objective: Objective, box: Box) -> None:
        self.objective, self.box = objective, box
        self.value, self.points = np.empty(0), np.empty((0, box.coordinates))
        self.evaluations = 0

    def solution(self) -> Solution:
        return lower_bounded(self.value, self.points, np.full(len(self.value), self.evaluations))

    def try_all(self, points: FloatArray) -> None:
        """Evaluate every problem at `points` (points, K): the first that are tried."""
        self.evaluations += len(points)
        import torch  # noqa: PLC0415  only objectives with gradients need it

        with torch.no_grad():
            parts = [self.objective(aligned(points[s : s + _ROWS])) for s in range(0, len(points), _ROWS)]
        values = np.nan_to_num(torch.cat(parts).numpy(), nan=-np.inf)
        best = values.argmax(axis=0)
        self.value, self.points = values[best, np.arange(values.shape[1])], points[best]

    def try_own(self, points: FloatArray, problem: IntArray) -> None:
        """Evaluate each of `points` (points, K) for its own problem (points,)."""
        for point, of, value in zip(points, problem, self.evaluate(points, problem, slopes=False)[0], strict=True):
            if value > self.value[of]:
                self.value[of], self.points[of] = value, point

    def evaluate(self, points: FloatArray, problem: IntArray, *, slopes: bool) -> tuple[FloatArray, FloatArray]:
        """Values (points,) and, on request, gradients (points, K) of each point's own problem; 0 for none."""
        import torch  # noqa: PLC0415

        self.evaluations += len(points)
        values, gradients = np.empty(len(points)), np.zeros(points.shape)
        for start in range(0, len(points), _ROWS):
            rows = slice(start, start + _ROWS)
            leaf = torch.from_numpy(points[rows]).clone().requires_grad_(slopes)
            with torch.set_grad_enabled(slopes):
                own = self.objective(leaf).gather(1, torch.from_numpy(problem[rows])[:, None])[:, 0]
            values[rows] = own.detach().numpy()
            if own.requires_grad:
                gradients[rows] = torch.autograd.grad(own.sum(), leaf)[0].numpy()
        # A distance has no gradient where it is 0.
        return np.nan_to_num(values, nan=-np.inf), np.where(np.isfinite(gradients), gradients, 0.0)


def _climb(found: _BestPoints, points: FloatArray, problem: IntArray, steps: int, tolerance: float) -> FloatArray:
    """(paths, K): where paths from `points` (paths, K) end, each uphill on its own problem (paths,)."""
    box = found.box
    x = points.copy()
    value, slope = found.evaluate(x, problem, slopes=True)
    # The first step crosses half the box in the steepest variable.
    step = box.width.max() / 2 / np.maximum(np.abs(slope).max(axis=1), 1e-12)
    going = np.arange(len(x))
    for _ in range(steps):
        promised = np.maximum(slope[going] * (box.upper - x[going]), slope[going] * (box.lower - x[going])).sum(axis=1)
        reach = step[going] * np.abs(slope[going]).max(axis=1)
        going = going[(promised > tolerance) & (reach > 1e-9 * box.width.max())]
        if not len(going):
            break
        tried = np.clip(x[going] + step[going, None] * slope[going], box.lower, box.upper)
        moved = tried - x[going]
        new_value, new_slope = found.evaluate(tried, problem[going], slopes=True)
        good = new_value >= value[going] + _SUFFICIENT * (slope[going] * moved).sum(axis=1)
        # The curvature along the step gives the next one: |s|^2 / s.(g - g+); none of it, a longer one.
        bend = (moved * (slope[going] - new_slope)).sum(axis=1)
        flat = bend <= 1e-12 * (moved**2).sum(axis=1)
        longer = np.where(flat, 4 * step[going], (moved**2).sum(axis=1) / np.where(flat, 1.0, bend))
        step[going] = np.where(good, longer, step[going] / 4)
        up = going[good]
        x[up], value[up], slope[up] = tried[good], new_value[good], new_slope[good]
    return x


def _polish(found: _BestPoints) -> None:
    """Send one variable of each best point somewhere else, as long as that helps."""
    moves = found.box.moves()
    count, coordinates = moves.shape
    open_problems = np.arange(len(found.value))
    for _ in range(4 * coordinates):
        before = found.value[open_problems].copy()
        neighbours = np.repeat(found.points[open_problems], count * coordinates, axis=0)
        neighbours = neighbours.reshape(len(open_problems), count, coordinates, coordinates)
        for k in range(coordinates):
            neighbours[:, :, k, k] = moves[:, k]
        found.try_own(neighbours.reshape(-1, coordinates), np.repeat(open_problems, count * coordinates))
        gained = found.value[open_problems] > before + 1e-12 * np.abs(before)
        open_problems = open_problems[gained]
        if not len(open_problems):
            break


@final
@dataclass(frozen=True, eq=False)
class BlackBoxSolution(Solution):
    """The best point that was asked about, of one problem: a lower bound of the maximum, without any claim beyond.
    `evaluations` counts the queries; the same question twice is asked once."""

    history: FloatArray  # (queries,): the best value after each query


def maximize_black_box(
    objective: Callable[[FloatArray], float], box: Box, budget: int, *, start: FloatArray | None = None, rng: int = 0
) -> BlackBoxSolution:
    """The highest value found by asking `objective` ((K,) to a finite number) at most `budget` times.

    From `start` (K,), or the centre, then from the centre, then from random points, until the budget is spent: pairs of
    questions correct an estimate of the gradient, and a step along it is taken where it leads up, and cut where it does
    not. A path ends with moves of single variables, to their bounds, from the best point so far. In a box with a grid
    only points of the grid are asked; all of them, where the budget allows it. An `objective` that raises a
    BudgetSpentError ends the search before: it stands if anything was answered.
    """
    require(budget >= 1, "budget", budget, "a whole number of questions, 1 or more")
    draw = generator(rng, "zeroth order")
    asked = _AskedPoints(objective, budget)
    try:
        if box.size <= budget:
            for point in box.everything():
                asked.value(point)
            return asked.solution()
        starts = [box.centre] if start is None else [box.inside(start), box.centre]
        for path in range(budget):
            _climb_by_pairs(asked, box, starts[path] if path < len(starts) else box.random(1, draw)[0], draw)
            _ask_neighbours(asked, box, draw)
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
        require(np.isfinite(answer), "objective", f"{answer} at {point.tolist()}", "finite numbers")
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


def _climb_by_pairs(asked: _AskedPoints, box: Box, start: FloatArray, draw: np.random.Generator) -> None:
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


def _ask_neighbours(asked: _AskedPoints, box: Box, draw: np.random.Generator) -> None:
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

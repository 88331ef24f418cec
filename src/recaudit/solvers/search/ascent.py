"""Gradient ascent over a box, for objectives that can be differentiated and have no structure to exploit.

What comes back was evaluated, so it is a lower bound of the maximum, and nothing more is claimed: an objective that is
not concave can have a higher point elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.seeding import generator
from recaudit.solvers.search.box import Box
from recaudit.solvers.solution import Solution, lower_bounded

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

    Spectral projected gradient (Birgin, Martinez and Raydan 2000): steps of Barzilai and Borwein, cut until they give
    a share of what the gradient promises. Paths start from `starts` (starts, K), moved into the box, and from
    `restarts` points more, the centre and then random ones. A path ends after `steps` evaluations, or where the
    gradient promises no more than `tolerance` anywhere in the box. `polish` adds the vertices (all of them, for 6
    variables or fewer) and moves of single variables to their bounds.

    In a box with a grid only points of the grid count: all of them where there are 4,096 or fewer, else the ends of
    the paths, rounded, and moves of single variables from there.
    """
    begin = _starts(box, starts, restarts, rng)
    found = _BestPoints(objective, box)
    if box.size <= EXHAUSTIVE:
        found.try_all(box.everything())
        return found.solution()
    shared = [box.inside(begin)]
    if polish and box.coordinates <= _ALL_VERTICES:
        shared.append(box.vertices())
    found.try_all(np.concatenate(shared))
    problem = np.repeat(np.arange(len(found.value)), len(begin))
    ends = _climb(found, np.tile(begin, (len(found.value), 1)), problem, steps, tolerance)
    found.try_own(box.inside(ends), problem)
    if polish or box.values is not None:
        _move_single_variables(found)
    return found.solution()


def _starts(box: Box, given: FloatArray | None, restarts: int, rng: int) -> FloatArray:
    """(starts, K): those given, the centre, and random ones."""
    more = np.concatenate([box.centre[None], box.random(max(0, restarts - 1), generator(rng, "ascent"))])[:restarts]
    starts = more if given is None else np.concatenate([np.clip(given, box.lower, box.upper), more])
    if not len(starts):
        raise InputError("starts, restarts", received="no start at all", expected="a point to start from, or restarts")
    return starts


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


def _move_single_variables(found: _BestPoints) -> None:
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

"""The largest softmax probability of an item after k ratings of what a top-1 recommender shows, exactly.

Cell by cell (see `cells`): on one cell the log-probability is concave. All cells are first looked at from their
vertices, for all targets at once, which gives a value and an upper bound for each pair of a cell and a target; only
pairs whose bound is above the best value found anywhere are solved further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.models.rollouts import RollOut
from recaudit.solvers.checks import check_positive
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled, tolerance_beside
from recaudit.solvers.trajectories.cells import Cell, enumerate_cells
from recaudit.solvers.trajectories.descent import Hull, Start, minimize
from recaudit.solvers.trajectories.solution import TrajectorySolution, judged

# What the evaluations of one cell may hold, in bytes.
_WORK_BYTES = 1 << 26
_ROUNDS = 100


def maximize_after_top1(
    start: RollOut,
    shown: BoolArray,
    candidates: BoolArray,
    targets: IntArray,
    beta: float,
    steps: int,
    low: float,
    high: float,
    tol: float = 1e-6,
    *,
    max_cells: int = 2000,
) -> TrajectorySolution:
    """The largest softmax probability of each target over the ratings of the next `steps` top items.

    `shown` (items,): what may be shown on the way, each once; `candidates` (items,): what the last recommendation is
    drawn from, less what was rated on the way, more than `steps` of them; `targets` (targets,): positions; ratings
    from `low` to `high`, low < high. Solved when the bounds on log-probability are `tol` apart. More than `max_cells`
    sequences at a step are not followed: what is found then is bounded by 1 alone.
    """
    beta, tol = check_positive("beta", beta), check_positive("tol", tol)
    if not low < high:
        raise InputError("low, high", received=(low, high), expected="low < high: one single rating is a star")
    found = enumerate_cells(start, shown, steps, low, high, max_cells)
    scale = _Scale(beta, low, high, np.flatnonzero(candidates), targets)
    best = _Best.nothing(len(targets), steps)
    bounds = np.empty((len(found.cells), len(targets)))
    for place, cell in enumerate(found.cells):
        bounds[place] = _Problem.of(cell, scale).look(best)
    # The cells that promise most to most targets first: what they reach settles many others.
    promising = np.bincount(bounds.argmax(axis=0), minlength=len(bounds)) if bounds.size else np.zeros(len(bounds))
    for place in np.argsort(-promising, kind="stable"):
        rows = np.flatnonzero(bounds[place] > best.log_lower + tol)
        if len(rows):
            bounds[place, rows] = _Problem.of(found.cells[place], scale).solve(rows, best, tol)
    log_upper = np.minimum(bounds.max(axis=0, initial=-np.inf), 0.0) if found.complete else np.zeros(len(targets))
    applicable = np.isfinite(best.log_value)
    return TrajectorySolution(
        target=targets,
        log_value=np.where(applicable, best.log_value, np.nan),
        log_lower=best.log_lower,
        log_upper=log_upper,
        status=judged(best.log_lower, log_upper, tol, applicable, found.complete),
        items=best.items,
        ratings=best.ratings,
        sequences=len(found.cells),
    )


@final
@dataclass(frozen=True, eq=False)
class _Scale:
    """What all cells share: ratings are `middle + half u` with u in [-1, 1]^K, and beta is 1."""

    beta: float
    low: float
    high: float
    candidates: IntArray
    targets: IntArray

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


@final
@dataclass(eq=False)
class _Best:
    """The best found so far for each target, in any cell."""

    log_value: FloatArray
    log_lower: FloatArray
    """Less what rounding may have added."""
    items: IntArray
    ratings: FloatArray

    @classmethod
    def nothing(cls, targets: int, steps: int) -> _Best:
        none, empty = np.full(targets, -np.inf), np.full((targets, steps), np.nan)
        return cls(none, none.copy(), np.full((targets, steps), -1), empty)

    def offer(
        self,
        rows: IntArray,
        log_value: FloatArray,
        log_lower: FloatArray,
        items: tuple[int, ...],
        ratings: FloatArray,
    ) -> None:
        """`log_value` (rows,), at least `log_lower`, reached by `ratings` (rows, steps) of the same items."""
        better = log_lower > self.log_lower[rows]
        rows = rows[better]
        self.log_value[rows], self.log_lower[rows], self.ratings[rows] = (
            part[better] for part in (log_value, log_lower, ratings)
        )
        self.items[rows] = np.array(items)


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    """One cell: which targets are left to be recommended at its end, and how likely each is."""

    items: tuple[int, ...]
    scale: _Scale
    family: LogSumExp
    hull: Hull
    rows: IntArray
    """Positions, among all targets, of those not rated on the way."""
    slopes: torch.Tensor
    """(rows, K): of the targets' scaled scores."""
    constant: FloatArray
    """(rows,): a log-probability is this minus the objective."""
    rounding: FloatArray
    """(rows,): what a bound on a log-probability leaves for rounding."""

    @classmethod
    def of(cls, cell: Cell, scale: _Scale) -> _Problem:
        slope, intercept = cell.state.affine()
        left = scale.candidates[~np.isin(scale.candidates, cell.state.items)]
        rows = np.flatnonzero(~np.isin(scale.targets, cell.state.items))
        own = torch.from_numpy(np.searchsorted(left, scale.targets[rows]))
        middle, half = (torch.full((1, slope.shape[1]), end, dtype=torch.double) for end in (scale.middle, scale.half))
        slopes, intercepts = (aligned(part[left])[None] for part in (slope, intercept))
        scores = Scaled.of(slopes, intercepts, scale.beta, middle, half)
        family = LogSumExp(scores, _WORK_BYTES)
        vertices = aligned((cell.ratings.vertices - scale.middle) / scale.half)
        return cls(
            cell.state.items,
            scale,
            family,
            Hull.of(family, vertices),
            rows,
            scores.slopes[0, own],
            family.offsets[0, own].numpy(),
            (family.rounding + family.own_rounding[0, own]).numpy(),
        )

    def look(self, best: _Best) -> FloatArray:
        """(all targets,): what the vertices say no target exceeds in this cell; -inf for those rated on the way."""
        bounds = np.full(len(self.scale.targets), -np.inf)
        start = self.hull.start(self.slopes)
        self._offer(best, np.arange(len(self.rows)), start.objective, self.hull.points[start.place])
        bounds[self.rows] = self.constant - start.floor.numpy() + self.rounding
        return bounds

    def solve(self, rows: IntArray, best: _Best, tol: float) -> FloatArray:
        """(rows,): what these targets do not exceed in this cell, within `tol` of the best value of each anywhere."""
        own = np.searchsorted(self.rows, rows)
        slopes, constant, rounding = self.slopes[torch.from_numpy(own)], self.constant[own], self.rounding[own]
        start: Start = self.hull.start(slopes)
        aim = tolerance_beside(tol / 2, torch.from_numpy(rounding))
        enough = torch.from_numpy(constant + rounding - best.log_lower[rows]) - tol
        found = minimize(self.family, self.hull, slopes, start, enough, aim, _ROUNDS)
        self._offer(best, own, found.objective, found.points)
        return np.asarray(constant - found.floor.numpy() + rounding)

    def _offer(self, best: _Best, own: IntArray, objective: torch.Tensor, points: torch.Tensor) -> None:
        """What was found for the targets at the places `own` (n,) among the rows."""
        ratings = self.scale.middle + self.scale.half * points.numpy()
        value = np.minimum(self.constant[own] - objective.numpy(), 0.0)
        ratings = np.clip(ratings, self.scale.low, self.scale.high)
        best.offer(self.rows[own], value, value - self.rounding[own], self.items, ratings)

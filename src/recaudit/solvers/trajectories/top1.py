"""Targets after k ratings of what a top-1 recommender shows, exactly.

Ratings from an interval, cell by cell (see `polytope`). Softmax: on one cell the log-probability is concave. All cells
are first looked at from their vertices, for all targets at once, which gives a value and an upper bound for each pair
of a cell and a target; only pairs whose bound is above the best value found anywhere are solved further.
Epsilon-greedy: the target is on top at the end on the cells of one step more whose last item it is.

Stars: the tree is finite, and every sequence is rolled out, those that lead to the same items together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, Power, Softmax, top_items
from recaudit.solvers.checks import check_positive
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled, tolerance_beside
from recaudit.solvers.trajectories.descent import Hull, minimize
from recaudit.solvers.trajectories.polytope import RatingCell, enumerate_cells, top_regions
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem, TrajectorySolution, without

# What the evaluations of one cell may hold, in bytes.
_WORK_BYTES = 1 << 26
_ROUNDS = 100
# Scores held at once: 32 MB.
_BLOCK = 1 << 22
_UNIT = float(np.finfo(np.float64).eps)
# An item so far below another one, in units of beta, adds nothing to a sum.
_FAR_BELOW = 50.0


def maximize_after_top1(
    problem: RollOutProblem, beta: float, tol: float = 1e-6, *, max_cells: int = 2000
) -> TrajectorySolution:
    """The largest softmax probability of each target over the ratings of the next top items, low < high.

    Solved when the bounds on log-probability are `tol` apart. More than `max_cells` sequences at a step are not
    followed: what is found then is bounded by 1 alone.
    """
    beta, tol = check_positive("beta", beta), check_positive("tol", tol)
    cells, complete = enumerate_cells(problem, max_cells)
    best = BestRollOuts(problem)
    bounds = np.empty((len(cells), len(problem.targets)))
    for place, cell in enumerate(cells):
        bounds[place] = _CellObjective(cell, problem, beta).bound_from_vertices(best)
    # The cells that promise most to most targets first: what they reach settles many others.
    promising = np.bincount(bounds.argmax(axis=0), minlength=len(bounds)) if bounds.size else np.zeros(len(bounds))
    for place in np.argsort(-promising, kind="stable"):
        rows = np.flatnonzero(bounds[place] > best.lower + tol)
        if len(rows):
            bounds[place, rows] = _CellObjective(cells[place], problem, beta).solve(rows, best, tol)
    upper = np.minimum(bounds.max(axis=0, initial=-np.inf), 0.0) if complete else np.zeros(len(problem.targets))
    return best.solution(upper, tol, len(cells), complete=complete)


def reach_top_after_top1(problem: RollOutProblem, epsilon: float, *, max_cells: int = 2000) -> TrajectorySolution:
    """The largest probability of each target where the top item is recommended with 1 - epsilon, others equally."""
    cells, complete = enumerate_cells(problem, max_cells)
    others = int(problem.candidates.sum()) - problem.steps - 1
    with np.errstate(divide="ignore"):
        often, seldom = np.log(1.0 if others == 0 else 1 - epsilon), np.log(epsilon / max(1, others))
    best, top = BestRollOuts(problem), np.zeros(len(problem.targets), dtype=bool)
    for cell in cells:
        left = np.flatnonzero(~best.found & ~np.isin(problem.targets, cell.state.items))
        best.put(left, seldom, seldom, cell.state.items, cell.ratings.vertices.mean(axis=0))
        regions, followed = top_regions(cell, problem.candidates)
        complete &= followed
        for item, region in regions:
            own = np.flatnonzero((problem.targets == item) & ~top)
            best.put(own, often, often, cell.state.items, region.vertices.mean(axis=0))
            top[own] = True
    # With an epsilon near 1 the top item is the least likely one, and not being it may be better.
    upper = np.where(top | ~np.bool_(complete), max(often, seldom), seldom)
    return best.solution(upper, 0.0, len(cells), complete=complete)


@final
class _CellObjective:
    """The targets' log-probabilities on one cell; ratings are `middle + half u` with u in [-1, 1]^K, and beta is 1."""

    def __init__(self, cell: RatingCell, problem: RollOutProblem, beta: float) -> None:
        self.cell, self.problem = cell, problem
        self.middle, self.half = (problem.low + problem.high) / 2, (problem.high - problem.low) / 2
        # Positions, among all targets, of those not rated on the way.
        self.rows = np.flatnonzero(~np.isin(problem.targets, cell.state.items))
        left = np.flatnonzero(without(problem.candidates, cell.state.items))
        own = torch.from_numpy(np.searchsorted(left, problem.targets[self.rows]))
        slope, intercept = (aligned(part[left])[None] for part in cell.state.affine())
        box = (torch.full((1, slope.shape[2]), end, dtype=torch.double) for end in (self.middle, self.half))
        scores = Scaled.of(slope, intercept, beta, *box)
        self.family = LogSumExp(scores, _WORK_BYTES)
        self.hull = Hull(self.family, aligned((cell.ratings.vertices - self.middle) / self.half))
        # (rows, K) and (rows,): a target's log-probability is `constant` minus the objective g(u) - b.u.
        self.slopes, self.constant = scores.slopes[0, own], self.family.offsets[0, own].numpy()
        self.rounding = (self.family.rounding + self.family.own_rounding[0, own]).numpy()

    def bound_from_vertices(self, best: BestRollOuts) -> FloatArray:
        """(all targets,): no target exceeds this in the cell, from its vertices; -inf for those rated on the way."""
        bounds = np.full(len(self.problem.targets), -np.inf)
        place, objective, floor = self.hull.start(self.slopes)
        self._offer(best, np.arange(len(self.rows)), objective, self.hull.points[place])
        bounds[self.rows] = self.constant - floor.numpy() + self.rounding
        return bounds

    def solve(self, rows: IntArray, best: BestRollOuts, tol: float) -> FloatArray:
        """(rows,): these targets do not exceed this in the cell, within `tol` of the best value of each anywhere."""
        own = np.searchsorted(self.rows, rows)
        slopes, constant, rounding = self.slopes[torch.from_numpy(own)], self.constant[own], self.rounding[own]
        aim = tolerance_beside(tol / 2, torch.from_numpy(rounding))
        enough = torch.from_numpy(constant + rounding - best.lower[rows]) - tol
        points, objective, floor = minimize(self.family, self.hull, slopes, enough, aim, _ROUNDS)
        self._offer(best, own, objective, points)
        return np.asarray(constant - floor.numpy() + rounding)

    def _offer(self, best: BestRollOuts, own: IntArray, objective: Tensor, points: Tensor) -> None:
        """Take over what is better than before, of the targets at the places `own` (n,) among the rows."""
        ratings = np.clip(self.middle + self.half * points.numpy(), self.problem.low, self.problem.high)
        value = np.minimum(self.constant[own] - objective.numpy(), 0.0)
        lower, rows = value - self.rounding[own], self.rows[own]
        better = lower > best.lower[rows]
        best.put(rows[better], value[better], lower[better], self.cell.state.items, ratings[better])


class _Branch(NamedTuple):
    """Sequences of stars that lead to the same items."""

    state: RollOut
    ratings: FloatArray  # (sequences, steps so far)

    def parts(self) -> Iterator[FloatArray]:
        """The ratings (sequences, steps), as many at a time as there is room for their scores."""
        height = max(1, _BLOCK // len(self.state.affine()[1]))
        for first in range(0, len(self.ratings), height):
            yield self.ratings[first : first + height]

    def extended(self, shown: BoolArray, values: FloatArray) -> Iterator[_Branch]:
        """The same sequences, each with its next item and every star for it."""
        free = torch.from_numpy(without(shown, self.state.items))
        slope, intercept = (aligned(array) for array in self.state.affine())
        scores = (aligned(part) @ slope.T + intercept for part in self.parts())
        tops = np.concatenate([top_items(part, free.expand(part.shape), 1)[:, 0] for part in scores])
        for item in np.unique(tops[tops >= 0]):
            own = self.ratings[tops == item]
            stars = np.tile(values, len(own))
            yield _Branch(self.state.then(int(item)), np.column_stack([np.repeat(own, len(values), axis=0), stars]))


def maximize_after_stars(
    problem: RollOutProblem, policy: Policy, values: FloatArray, tol: float = 1e-6, *, max_sequences: int = 10_000
) -> TrajectorySolution:
    """The largest probability of each target under `policy`, over every way to rate the next top items.

    `values` (ratings,), ascending, take the place of `low` and `high`. Where there are more than `max_sequences`
    sequences of stars, the steps beyond take the lowest, the middle and the highest star alone, then just the middle
    one, and what is found is bounded by 1. Solved where the bounds on log-probability are `tol` apart.
    """
    choices = _stars_by_step(values, problem.steps, max_sequences)
    complete = all(len(own) == len(values) for own in choices)
    branches = [_Branch(problem.start, np.zeros((1, 0)))]
    for own in choices:
        branches = [after for branch in branches for after in branch.extended(problem.shown, own)]
    targets, best = problem.targets, BestRollOuts(problem)
    upper = np.full(len(targets), -np.inf) if complete else np.zeros(len(targets))
    for branch in branches:
        allowed = without(problem.candidates, branch.state.items)
        slope, intercept = (aligned(array) for array in branch.state.affine())
        for part in branch.parts():
            bounds = _log_probabilities(policy, aligned(part), slope, intercept, torch.from_numpy(allowed))
            logs, least, most = (array.numpy()[:, targets] for array in bounds)
            place = logs.argmax(axis=0)
            reached = logs[place, np.arange(len(targets))]
            rows = np.flatnonzero(allowed[targets] & ((reached > best.value) | ~best.found))
            best.put(rows, reached[rows], least[place[rows], rows], branch.state.items, part[place[rows]])
            upper = np.maximum(upper, most.max(axis=0))
    return best.solution(upper, tol, len(branches), complete=complete)


def _log_probabilities(
    policy: Policy, ratings: Tensor, slope: Tensor, intercept: Tensor, allowed: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(sequences, items) each: log-probabilities at `ratings` (sequences, steps), and what rounding leaves of them.

    A score is a sum of K + 1 products, off by (K + 2) roundings of its size at most. For a softmax that is the error of
    its logarithm: once for the item's own score, once for the sum. For powers every score is taken at its worst.
    """
    if isinstance(policy, Softmax):
        # What all scores share moves no probability: it goes before it can round.
        leader = int((slope @ ratings[0] + intercept).masked_fill(~allowed, -torch.inf).argmax())
        slope, intercept = slope - slope[leader], intercept - intercept[leader]
    scores = torch.addmm(intercept, ratings, slope.T)
    mask = allowed.expand(scores.shape)
    value = policy.log_probabilities(scores, mask)
    errors = _UNIT * (ratings.shape[1] + 3) * torch.addmm(intercept.abs(), ratings.abs(), slope.abs().T)
    slack = _UNIT * (len(intercept) + 16 + 4 * value.abs().nan_to_num(posinf=0.0))
    if isinstance(policy, Softmax):
        surely = (scores - errors).masked_fill(~mask, -torch.inf).amax(dim=1, keepdim=True)
        nowhere = ~mask | (policy.beta * (scores + errors - surely) < -_FAR_BELOW)
        slack = slack + policy.beta * (errors + errors.masked_fill(nowhere, 0.0).amax(dim=1, keepdim=True))
        return value, value - slack, (value + slack).clamp(max=0.0).masked_fill(~mask, -torch.inf)
    if isinstance(policy, Power):
        low, high = (scores - errors).clamp(min=0.0), (scores + errors).clamp(min=0.0)
        at_low, at_high = (policy.log_probabilities(part, mask) for part in (low, high))
        room = policy.power * torch.where(low > 0, (high / low).log(), torch.inf) + 4 * policy.power * _UNIT + slack
        even = ~((high > 0) & mask).any(dim=1, keepdim=True)
        perhaps_even = ~((low > 0) & mask).any(dim=1, keepdim=True)
        # An item that is surely 0 or less is shown by an even chance or not at all.
        never = (high == 0) & ~perhaps_even
        most = (torch.where(low > 0, at_low, 0.0) + room).clamp(max=0.0).masked_fill(never | ~mask, -torch.inf)
        return value, torch.where(even, value - slack, at_high - room), torch.where(even, value + slack, most)
    return value, value, value


def _stars_by_step(values: FloatArray, steps: int, most: int) -> list[FloatArray]:
    """The stars of each step: all the values at first, fewer once there would be too many sequences."""
    fewer = [values, values[[0, len(values) // 2, -1]], values[[len(values) // 2]]]
    chosen, count = [], 1
    for _ in range(steps):
        own = next((some for some in fewer if count * len(some) <= most), fewer[-1])
        chosen.append(np.unique(own))
        count *= len(chosen[-1])
    return chosen

"""Targets after k ratings of what a top-1 recommender shows, exactly.

Ratings from an interval, cell by cell (see `polytope`). Softmax: on one cell the log-probability is concave (see
`cells`). All cells are first surveyed for all targets at once, which gives an upper bound for each pair of a cell and a
target, and about what the target reaches there: by a stand-in for the catalogue (see `screening`), or, for few targets,
by the second derivatives in the cell's centre. Where a cell may be a target's best, the stand-in is climbed, which
gives a closer bound and a better guess. Then each target is solved in the cell where it seems to do best, and elsewhere
only where the bounds leave room above the best value found anywhere (see `climbing`). Where there are too many cells,
what is found by trying some ratings is bounded by what no continuation of the first steps exceeds (see `relaxation`).
Epsilon-greedy: the target is on top at the end on the cells of one step more whose last item it is.

Stars: the tree is finite, and every sequence is rolled out, those that lead to the same items together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1, top_items
from recaudit.solvers.checks import check_positive
from recaudit.solvers.trajectories.cells import CellObjective
from recaudit.solvers.trajectories.polytope import RatingCell, enumerate_cells, top_regions
from recaudit.solvers.trajectories.problem import (
    BestRollOuts,
    RollOutProblem,
    TrajectorySolution,
    log_probabilities,
    without,
)
from recaudit.solvers.trajectories.relaxation import bound_beyond
from recaudit.solvers.trajectories.screening import Survey
from recaudit.ties import TieKeys

# What the bounds of cells and targets may hold, in bytes.
_BOUND_BYTES = 1 << 28
# Scores held at once: 32 MB.
_BLOCK = 1 << 22
_UNIT = float(np.finfo(np.float64).eps)
# An item so far below another one, in units of beta, adds nothing to a sum.
_FAR_BELOW = 50.0


def maximize_after_top1(
    problem: RollOutProblem, beta: float, tol: float = 1e-6, *, sequences: int = 10_000
) -> TrajectorySolution:
    """The largest softmax probability of each target over the ratings of the next top items, low < high.

    Solved when the bounds on log-probability are `tol` apart. Where there are more than so many `sequences` at a step,
    a quarter as many roll-outs with few different ratings say what can be reached, and `bound_beyond` what cannot.
    """
    beta, tol = check_positive("beta", beta), check_positive("tol", tol)
    cells, complete = enumerate_cells(problem, sequences)
    n = len(problem.targets)
    if not complete:
        upper = np.full(n, -np.inf)
        for cell in cells:
            open_ = np.flatnonzero(upper < 0)
            if not len(open_):
                break
            some = replace(problem, targets=problem.targets[open_])
            upper[open_] = np.maximum(upper[open_], bound_beyond(cell, some, beta))
        tried = _try_ratings(problem, Softmax(beta=beta), _few_ratings(problem, max(1, sequences // 4)))
        return tried.best.solution(upper, tol, tried.sequences, complete=False)
    best, upper = BestRollOuts(problem), np.full(n, -np.inf)
    width = max(1, _BOUND_BYTES // (4 * max(1, len(cells))))
    for start in range(0, n, width):
        rows = np.arange(start, min(n, start + width))
        upper[rows] = _solve_cells(cells, problem, beta, tol, rows, best)
    return best.solution(np.minimum(upper, 0.0), tol, len(cells), complete=True)


def _solve_cells(
    cells: list[RatingCell], problem: RollOutProblem, beta: float, tol: float, rows: IntArray, best: BestRollOuts
) -> FloatArray:
    """(rows,): no target of these rows exceeds this in any cell."""
    if not len(cells):
        return np.full(len(rows), -np.inf)
    survey, objectives = Survey(len(cells), len(rows)), list[CellObjective]()
    for place, cell in enumerate(cells):
        objectives.append(CellObjective(cell, problem, beta))
        objectives[-1].survey(rows, place, survey)
    # Cells where most targets do well come first, so that few targets are improved again and again.
    order = np.argsort(-survey.typical, kind="stable").tolist()
    for place in order:
        objectives[place].screen(rows, place, survey)
    # What each target can reach in the cell where it seems to do best settles most of the other cells.
    bounds, exact, enough = survey.bounds, np.full(len(rows), -np.inf), best.lower[rows] + tol
    for first in (True, False):
        for place in order:
            wanted = bounds[place] > enough
            own = np.flatnonzero(wanted & (survey.home == place) if first else wanted)
            if len(own):
                found = objectives[place].solve(rows[own], best, tol)
                exact[own], enough[own] = np.maximum(exact[own], found), best.lower[rows[own]] + tol
                bounds[place, own] = -np.inf
    # What was not solved further is not above what was reached, or within the tolerance of it.
    return np.asarray(np.maximum(exact, bounds.max(axis=0)))


def reach_top_after_top1(problem: RollOutProblem, epsilon: float, *, sequences: int = 10_000) -> TrajectorySolution:
    """The largest probability of each target where the top item is recommended with 1 - epsilon, others equally.

    With more than so many `sequences` at a step, as in `maximize_after_top1`, and bounded by the larger of the two.
    """
    cells, complete = enumerate_cells(problem, sequences)
    others = int(problem.candidates.sum()) - problem.steps - 1
    with np.errstate(divide="ignore"):
        often, seldom = np.log(1.0 if others == 0 else 1 - epsilon), np.log(epsilon / max(1, others))
    if not complete:
        few = _few_ratings(problem, max(1, sequences // 4))
        tried = _try_ratings(problem, EpsilonGreedy(epsilon=epsilon) if epsilon else Top1(), few)
        upper = np.full(len(problem.targets), max(often, seldom))
        return tried.best.solution(upper, 0.0, tried.sequences, complete=False)
    best, top = BestRollOuts(problem), np.zeros(len(problem.targets), dtype=bool)
    keys = problem.tie_keys().of_row()
    for cell in cells:
        left = np.flatnonzero(~best.found & ~np.isin(problem.targets, cell.state.items))
        best.put(left, seldom, seldom, cell.state.items, cell.ratings.vertices.mean(axis=0))
        regions, followed = top_regions(cell, problem.candidates, keys)
        complete &= followed
        for item, region in regions:
            own = np.flatnonzero((problem.targets == item) & ~top)
            best.put(own, often, often, cell.state.items, region.vertices.mean(axis=0))
            top[own] = True
    # With an epsilon near 1 the top item is the least likely one, and not being it may be better.
    upper = np.where(top | ~np.bool_(complete), max(often, seldom), seldom)
    return best.solution(upper, 0.0, len(cells), complete=complete)


class _Branch(NamedTuple):
    """Sequences of stars that lead to the same items."""

    state: RollOut
    ratings: FloatArray  # (sequences, steps so far)

    def parts(self) -> Iterator[FloatArray]:
        """The ratings (sequences, steps), as many at a time as there is room for their scores."""
        height = max(1, _BLOCK // len(self.state.affine()[1]))
        for first in range(0, len(self.ratings), height):
            yield self.ratings[first : first + height]

    def extended(self, problem: RollOutProblem, values: FloatArray) -> Iterator[_Branch]:
        """The same sequences, each with its next item and every star for it."""
        free = without(problem.shown, self.state.items)
        slope, intercept = self.state.affine()
        scores = (part @ slope.T + intercept for part in self.parts())
        tops = np.concatenate(
            [
                top_items(part, np.broadcast_to(free, part.shape), 1, problem.tie_keys(len(part)))[:, 0]
                for part in scores
            ]
        )
        for item in np.unique(tops[tops >= 0]):
            own = self.ratings[tops == item]
            stars = np.tile(values, len(own))
            yield _Branch(self.state.then(int(item)), np.column_stack([np.repeat(own, len(values), axis=0), stars]))


def maximize_after_stars(
    problem: RollOutProblem, policy: Policy, values: FloatArray, tol: float = 1e-6, *, sequences: int = 10_000
) -> TrajectorySolution:
    """The largest probability of each target under `policy`, over every way to rate the next top items.

    `values` (ratings,), ascending, take the place of `low` and `high`. Where there are more than so many `sequences`
    sequences of stars, the steps beyond take the lowest, the middle and the highest star alone, then just the middle
    one, and what is found is bounded by 1. Solved where the bounds on log-probability are `tol` apart.
    """
    choices = _stars_by_step(values, problem.steps, sequences)
    complete = all(len(own) == len(values) for own in choices)
    tried = _try_ratings(problem, policy, choices)
    upper = tried.most if complete else np.zeros(len(problem.targets))
    return tried.best.solution(upper, tol, tried.sequences, complete=complete)


class _Tried(NamedTuple):
    """What some roll-outs lead to."""

    best: BestRollOuts
    most: FloatArray  # (targets,): none of them exceeds this
    sequences: int  # of items that they are shown


def _try_ratings(problem: RollOutProblem, policy: Policy, choices: list[FloatArray]) -> _Tried:
    """Every roll-out in which each step is rated with one of its `choices`."""
    branches = [_Branch(problem.start, np.zeros((1, 0)))]
    for own in choices:
        branches = [after for branch in branches for after in branch.extended(problem, own)]
    targets, best = problem.targets, BestRollOuts(problem)
    upper = np.full(len(targets), -np.inf)
    for branch in branches:
        allowed = without(problem.candidates, branch.state.items)
        slope, intercept = branch.state.affine()
        for part in branch.parts():
            bounds = _bounded_logs(policy, part, slope, intercept, allowed, problem.tie_keys(len(part)))
            logs, least, most = (array[:, targets] for array in bounds)
            place = logs.argmax(axis=0)
            reached = logs[place, np.arange(len(targets))]
            rows = np.flatnonzero(allowed[targets] & ((reached > best.value) | ~best.found))
            best.put(rows, reached[rows], least[place[rows], rows], branch.state.items, part[place[rows]])
            upper = np.maximum(upper, most.max(axis=0))
    return _Tried(best, upper, len(branches))


def _few_ratings(problem: RollOutProblem, most: int) -> list[FloatArray]:
    """The ratings of each step: both ends, and the middle of as many of the last steps as `most` roll-outs allow; where
    not even the ends do, the middle alone at the first steps."""
    counts = [1] * problem.steps
    for more in (2, 3):
        for step in reversed(range(problem.steps)):
            if math.prod(counts) // counts[step] * more <= most:
                counts[step] = more
    ends = problem.low, problem.high
    return [np.linspace(*ends, count) if count > 1 else np.array([sum(ends) / 2]) for count in counts]


def _bounded_logs(
    policy: Policy, ratings: FloatArray, slope: FloatArray, intercept: FloatArray, allowed: BoolArray, ties: TieKeys
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-probabilities at `ratings`, (sequences, steps), and lower and upper bounds of what rounding leaves.

    All have the shape (sequences, items). A score is a sum of K + 1 products, off by (K + 2) roundings of its size at
    most. For a softmax that is the error of its logarithm: once for the item's own score, once for the sum. For powers
    every score is taken at its worst.
    """
    if isinstance(policy, Softmax):
        # What all scores share moves no probability: it goes before it can round.
        leader = int(np.where(allowed, slope @ ratings[0] + intercept, -np.inf).argmax())
        slope, intercept = slope - slope[leader], intercept - intercept[leader]
    scores = intercept + ratings @ slope.T
    mask = np.broadcast_to(allowed, scores.shape)
    value = log_probabilities(policy, scores, mask, ties)
    errors = _UNIT * (ratings.shape[1] + 3) * (np.abs(intercept) + np.abs(ratings) @ np.abs(slope).T)
    slack = _UNIT * (len(intercept) + 16 + 4 * np.where(np.isinf(value), 0.0, np.abs(value)))
    if isinstance(policy, Softmax):
        surely = np.where(mask, scores - errors, -np.inf).max(axis=1, keepdims=True)
        nowhere = ~mask | (policy.fixed_beta * (scores + errors - surely) < -_FAR_BELOW)
        slack = slack + policy.fixed_beta * (errors + np.where(nowhere, 0.0, errors).max(axis=1, keepdims=True))
        return value, value - slack, np.where(mask, np.minimum(value + slack, 0.0), -np.inf)
    if isinstance(policy, Power):
        low, high = np.maximum(scores - errors, 0.0), np.maximum(scores + errors, 0.0)
        at_low, at_high = (log_probabilities(policy, part, mask, ties) for part in (low, high))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(low > 0, np.log(high / low), np.inf)
        room = policy.power * ratio + 4 * policy.power * _UNIT + slack
        even = ~((high > 0) & mask).any(axis=1, keepdims=True)
        perhaps_even = ~((low > 0) & mask).any(axis=1, keepdims=True)
        # An item that is surely 0 or less is shown by an even chance or not at all.
        never = (high == 0) & ~perhaps_even
        most = np.where(never | ~mask, -np.inf, np.minimum(np.where(low > 0, at_low, 0.0) + room, 0.0))
        return value, np.where(even, value - slack, at_high - room), np.where(even, value + slack, most)
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

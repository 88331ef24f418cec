"""The largest probability of an item after k ratings of what a top-1 recommender shows, ratings being stars.

Then the tree is finite: every sequence of stars is rolled out, those that lead to the same items together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, Power, Softmax, top_items
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem, TrajectorySolution, without

# Scores held at once: 32 MB.
_BLOCK = 1 << 22
_UNIT = float(np.finfo(np.float64).eps)
# An item so far below another one, in units of beta, adds nothing to a sum.
_FAR_BELOW = 50.0


@final
@dataclass(frozen=True, eq=False)
class _Branch:
    """Sequences of stars that lead to the same items."""

    state: RollOut
    ratings: FloatArray
    """(sequences, steps so far)"""

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
    sequences of stars, the steps that go beyond take the lowest, the middle and the highest star alone, then just the
    middle one, and what is found is bounded by 1. Solved where the bounds on log-probability, rounding included, are
    `tol` apart. Which item is on top is settled by the rule for ties and has no rounding.
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

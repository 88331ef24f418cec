"""The largest probability of an item after k ratings of what a top-1 recommender shows, ratings being stars.

Then the tree is finite: every sequence of stars is rolled out, those that lead to the same items together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, top_items
from recaudit.solvers.trajectories.solution import BoolArray, FloatArray, IntArray, TrajectorySolution, judged

# Scores held at once: 32 MB.
_BLOCK = 1 << 22


@final
@dataclass(frozen=True, eq=False)
class _Branch:
    """Sequences of stars that lead to the same items."""

    state: RollOut
    ratings: FloatArray
    """(sequences, steps so far)"""


def maximize_after_stars(
    start: RollOut,
    shown: BoolArray,
    candidates: BoolArray,
    targets: IntArray,
    policy: Policy,
    steps: int,
    values: FloatArray,
    *,
    max_sequences: int = 10_000,
) -> TrajectorySolution:
    """The largest probability of each target under `policy`, over every way to rate the next `steps` top items.

    `shown`, `candidates` and `targets` as for `maximize_after_top1`; `values` (ratings,), ascending. Where there are
    more than `max_sequences` sequences of stars, the steps that go beyond take the lowest, the middle and the highest
    star alone, then just the middle one, and what is found is bounded by 1.
    """
    choices = _within(values, steps, max_sequences)
    complete = all(len(own) == len(values) for own in choices)
    level = [_Branch(start, np.zeros((1, 0)))]
    for own in choices:
        level = [after for branch in level for after in _next(branch, shown, own)]
    log_value, applicable = np.full(len(targets), -np.inf), np.zeros(len(targets), dtype=bool)
    items, ratings = np.full((len(targets), steps), -1), np.full((len(targets), steps), np.nan)
    for branch in level:
        allowed = candidates.copy()
        allowed[list(branch.state.items)] = False
        for part, scores in _scores(branch):
            logs = policy.log_probabilities(scores, torch.from_numpy(allowed).expand(scores.shape)).numpy()[:, targets]
            best = logs.argmax(axis=0)
            found = logs[best, np.arange(len(targets))]
            better = allowed[targets] & ((found > log_value) | ~applicable)
            applicable |= better
            log_value[better], items[better], ratings[better] = found[better], branch.state.items, part[best[better]]
    log_upper = log_value if complete else np.zeros_like(log_value)
    return TrajectorySolution(
        target=targets,
        log_value=np.where(applicable, log_value, np.nan),
        log_lower=log_value,
        log_upper=log_upper,
        status=judged(log_value, log_upper, 0.0, applicable, complete),
        items=items,
        ratings=ratings,
        sequences=len(level),
    )


def _within(values: FloatArray, steps: int, most: int) -> list[FloatArray]:
    """What each step may be rated: all the values at first, fewer once there would be too many sequences."""
    fewer = [values, values[[0, len(values) // 2, -1]], values[[len(values) // 2]]]
    chosen, count = [], 1
    for _ in range(steps):
        own = next((some for some in fewer if count * len(some) <= most), fewer[-1])
        chosen.append(np.unique(own))
        count *= len(chosen[-1])
    return chosen


def _next(branch: _Branch, shown: BoolArray, values: FloatArray) -> Iterator[_Branch]:
    """The same sequences, each with its next item and every star for it."""
    free = shown.copy()
    free[list(branch.state.items)] = False
    tops = np.concatenate(
        [top_items(scores, torch.from_numpy(free).expand(scores.shape), 1)[:, 0] for _, scores in _scores(branch)]
    )
    for item in np.unique(tops[tops >= 0]):
        own = branch.ratings[tops == item]
        stars = np.tile(values, len(own))
        yield _Branch(branch.state.then(int(item)), np.column_stack([np.repeat(own, len(values), axis=0), stars]))


def _scores(branch: _Branch) -> Iterator[tuple[FloatArray, torch.Tensor]]:
    """Some of the branch's ratings (sequences, steps) and the scores (sequences, items) that they lead to, in turn."""
    slope, intercept = (torch.from_numpy(array) for array in branch.state.affine())
    height = max(1, _BLOCK // len(intercept))
    for first in range(0, len(branch.ratings), height):
        part = branch.ratings[first : first + height]
        yield part, torch.from_numpy(part) @ slope.T + intercept

"""Roll-outs: a user rates what is shown next, one item after the other; the question, and what solvers give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy
from recaudit.solvers.solution import Solution
from recaudit.status import Status
from recaudit.ties import TieKeys


@final
@dataclass(frozen=True, eq=False)
class RollOutProblem:
    """Which targets can be recommended after ratings of the next `steps` items shown, from `low` to `high`."""

    start: RollOut
    shown: BoolArray  # (items,): what may be shown on the way, each once
    candidates: BoolArray
    """(items,): what the last recommendation is from, less what was rated on the way; more than `steps` of them."""
    targets: IntArray  # (targets,): positions, ascending
    steps: int
    low: float
    high: float
    ties: TieKeys | None = None
    """(1, items): which of tied items is shown; the first of them by default."""

    def tie_keys(self, rows: int = 1) -> TieKeys:
        """Return the tie keys of the user, for so many rows of scores."""
        return TieKeys.in_order(len(self.shown)) if self.ties is None else self.ties.repeated(rows)


@final
@dataclass(frozen=True)
class DrawSettings:
    """How much is computed before the answer is a bracket or an estimate."""

    first_items: int = 200
    """Where one item is drawn: how many of the most likely ones have their best rating solved for."""
    max_sequences: int = 5000  # Sequences of items whose expectation is computed in full
    samples: int = 256  # Trajectories drawn, beyond that, for each epoch and for the value
    confidence: float = 0.95  # Of the interval whose lower end is the lower bound then


@final
@dataclass(frozen=True)
class AscentSettings:
    """How Algorithm 2 is run; the paper leaves the numbers open."""

    epochs: int = 100
    learning_rate: float = 0.1  # Of Adam: the size of a probability's gradient says little about how far to go
    rng: int = 0


@final
@dataclass(frozen=True, eq=False)
class TrajectorySolution(Solution):
    """The largest log-probability of each target after a roll-out; `evaluations` counts the sequences of items.
    `actions` (targets, steps) are the ratings, NaN where there are none to report. Failed where no sequence was found
    that leaves the target to be recommended, not_applicable where there is none."""

    items: IntArray
    """(targets, steps): what is shown and rated on the way; -1 where no value was found, or where items are drawn."""


@final
class BestRollOuts:
    """The best roll-out found so far for each target of a problem."""

    def __init__(self, problem: RollOutProblem) -> None:
        shape = (len(problem.targets), problem.steps)
        self.value, self.lower = np.full(shape[0], -np.inf), np.full(shape[0], -np.inf)
        self.found = np.zeros(shape[0], dtype=bool)
        self.items, self.ratings = np.full(shape, -1), np.full(shape, np.nan)

    def put(
        self, rows: IntArray, value: ArrayLike, lower: ArrayLike, items: tuple[int, ...], ratings: FloatArray
    ) -> None:
        """`value` (rows,), certainly at least `lower`, is reached by `ratings` (rows, steps) of the same items."""
        self.value[rows], self.lower[rows], self.ratings[rows] = value, lower, ratings
        self.items[rows], self.found[rows] = np.array(items), True

    def solution(self, upper: FloatArray, tol: float, sequences: int, *, complete: bool) -> TrajectorySolution:
        """Solved where the bounds are `tol` apart; `complete` says that every sequence of items was followed."""
        status: StatusArray = np.where(upper <= self.lower + tol, Status.SOLVED.value, Status.BOUNDED.value)
        missing = Status.NOT_APPLICABLE.value if complete else Status.FAILED.value
        value, status = np.where(self.found, self.value, np.nan), np.where(self.found, status, missing)
        count = np.full(len(upper), sequences)
        return TrajectorySolution(value, self.lower, upper, status, self.ratings, count, self.items)


def log_probabilities(policy: Policy, scores: FloatArray, allowed: BoolArray, ties: TieKeys) -> FloatArray:
    """Return the log-probabilities of `scores` among `allowed` under a policy; all of shape (rows, items)."""
    return policy.log_probabilities(scores, allowed, ties)


def without(mask: BoolArray, items: tuple[int, ...]) -> BoolArray:
    """(all items,): the mask with these items left out."""
    left = mask.copy()
    left[list(items)] = False
    return left

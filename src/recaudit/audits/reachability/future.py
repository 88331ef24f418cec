"""Future-k reachability: what a user can get recommended by rating what the system shows next (paper 001, Def. 4.1).

At each step the system shows its top unseen item (or draws one), the user rates it, the model moves; after k ratings
the policy recommends. Where the top item is shown, the answer is exact: sequence by sequence, with bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal, final

import numpy as np
import polars as pl
import torch

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, IntArray
from recaudit.audits.candidates import candidate_items
from recaudit.audits.reachability.best_response import Answer
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, Interval, Stars
from recaudit.interventions.ratings import free_ratings
from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Softmax, Top1
from recaudit.ranking import rank_of, ranks
from recaudit.seeding import derive
from recaudit.solvers.batches import Batch
from recaudit.solvers.trajectories import (
    AscentSettings,
    DrawSettings,
    RollOutProblem,
    TrajectorySolution,
    ascend_after_draws,
    ascend_after_top1,
    maximize_after_stars,
    maximize_after_top1,
    maximize_one_draw,
    reach_top_after_top1,
)
from recaudit.solvers.workers import run_on_cores
from recaudit.status import Status

FutureSolver = Literal["exact", "gradient"]
"""Certified, sequence by sequence; or the paper's projected gradient, a lower bound, for comparison."""


@final
@dataclass(frozen=True, eq=False)
class Follow:
    """A block of users in, a row for each of their pairs out; pure and picklable.

    On the way unseen items are shown, whatever the inquiry's candidates are. The baseline is the probability at the
    model's scores, among the candidates before anything is rated; so is the rank from which the gain counts. A target
    that every sequence shows on the way has the status not_applicable. Where items are drawn on the way, no single
    sequence leads to the value: there is none to tell, and no rank.
    """

    inquiry: Inquiry
    future: Future
    solver: FutureSolver = "exact"
    max_sequences: int = 2000
    """Sequences of items that are followed at each step; what is left out makes an answer bounded."""
    max_star_sequences: int = 10_000
    """Sequences of stars that are tried, where ratings are stars."""
    ascent: AscentSettings = field(default_factory=AscentSettings)
    """How the gradient solver runs, and ascent where items are drawn; its seed is the inquiry's."""
    sampling: DrawSettings = field(default_factory=DrawSettings)
    """How much is computed in full where items are drawn."""

    def __post_init__(self) -> None:
        ask, ratings = self.inquiry, self._ratings
        if self.solver not in ("exact", "gradient"):
            raise InputError("solver", received=self.solver, expected="'exact' or 'gradient'")
        if ask.baseline != "scores":
            raise InputError(
                "baseline", received=ask.baseline, expected="'scores': the future has no other baseline yet"
            )
        if ask.slate > 1:
            raise NotSupportedError(f"Roll-outs end with one recommendation, not with a slate of {ask.slate}.")
        if isinstance(ratings, Stars) and (self.solver == "gradient" or not self._follows_top):
            raise NotSupportedError(
                f"{ratings!r}: stars have a solver where the top item is shown at each step, and no gradient. "
                "Say ratings=Interval(1, 5), or follows=Top1() with the exact solver."
            )
        exact = (Softmax, Top1, EpsilonGreedy) if self._follows_top else Softmax
        if self.solver == "exact" and not isinstance(ratings, Stars) and not isinstance(ask.policy, exact):
            raise NotSupportedError(
                f"{ask.policy!r} after roll-outs that follow {self.future.follows!r} has no exact solver. Softmax has "
                "one, and where the top item is followed Top1 and EpsilonGreedy as well."
            )

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""
        ask = self.inquiry
        shown = ~ask.log.seen(users)
        candidates = candidate_items(ask.log, users, np.empty((len(users), 0), dtype=np.int64), ask.candidates)
        asked = ask.asked(candidates)
        found: list[_User | None] = [None] * len(users)
        scores = ask.model.scores(users)
        before = ranks(scores, torch.from_numpy(candidates))

        def work(batch: Batch) -> None:
            row = batch.problems[0]
            targets = np.flatnonzero(asked[row] & candidates[row])
            start = ask.model.rollout(int(users[row]))
            solution = self._solve(int(users[row]), start, shown[row], candidates[row], targets)
            after = _ranks_after(start, candidates[row], targets, solution)
            found[row] = _User(solution, before[row, targets] - after)

        batches = [Batch((row,), slice(row, row + 1)) for row in range(len(users))]
        run_on_cores(work, batches)
        everybody = _User.joined([user for user in found if user is not None], self.future.k)
        solution = everybody.solution
        answered = solution.status != Status.NOT_APPLICABLE.value
        solvable = asked & candidates
        solvable[solvable] = answered
        answer = Answer(
            solution.value[answered],
            solution.lower[answered],
            solution.upper[answered],
            solution.status[answered],
            solution.actions[answered],
        )
        logs = ask.policy.log_probabilities(scores, torch.from_numpy(candidates)).numpy()
        gain = everybody.rank_gain[answered]
        choices = np.maximum(
            candidates.sum(axis=1) - self.future.k, 0
        )  # what is shown on the way is not recommended again
        frame = ask.frame(users, asked, solvable, logs, answer, gain, solution.items[answered], choices)
        told = np.zeros(len(frame), dtype=bool)
        told[solvable[asked]] = solution.items[answered, 0] >= 0
        return frame.with_columns(pl.when(pl.Series(told)).then(pl.col("rank_gain")).alias("rank_gain"))

    @property
    def _ratings(self) -> Interval | Stars:
        """A single rating is a star."""
        ratings = free_ratings(self.future.ratings, self.inquiry.log.scale)
        return Stars(ratings.low, ratings.high) if ratings.low == ratings.high else ratings

    @property
    def _follows_top(self) -> bool:
        return isinstance(self.future.follows, Top1)

    def _solve(
        self, user: int, start: RollOut, shown: BoolArray, candidates: BoolArray, targets: IntArray
    ) -> TrajectorySolution:
        k = self.future.k
        if shown.sum() < k or candidates.sum() <= k:
            return _nothing(targets, k)
        seed = derive(self.inquiry.rng, "future", self.inquiry.log.user_ids[user])
        ascent = replace(self.ascent, rng=seed)
        ask, ratings = self.inquiry, self._ratings
        problem = RollOutProblem(start, shown, candidates, targets, k, ratings.low, ratings.high)
        if self._follows_top:
            return self._after_top(problem, ascent)
        if k == 1 and isinstance(ask.policy, Softmax) and self.solver == "exact":
            return maximize_one_draw(problem, self.future.follows, ask.policy.beta, ask.tolerance, self.sampling)
        return ascend_after_draws(problem, self.future.follows, ask.policy, ascent, self.sampling)

    def _after_top(self, problem: RollOutProblem, ascent: AscentSettings) -> TrajectorySolution:
        policy, ratings, tol = self.inquiry.policy, self._ratings, self.inquiry.tolerance
        if isinstance(ratings, Stars):
            return maximize_after_stars(problem, policy, ratings.values, tol, max_sequences=self.max_star_sequences)
        if self.solver == "gradient":
            return ascend_after_top1(problem, policy, ascent)
        if isinstance(policy, Softmax):
            return maximize_after_top1(problem, policy.beta, tol, max_cells=self.max_sequences)
        epsilon = policy.epsilon if isinstance(policy, EpsilonGreedy) else 0.0
        return reach_top_after_top1(problem, epsilon, max_cells=self.max_sequences)


@final
@dataclass(frozen=True, eq=False)
class _User:
    """The answers for one user, or for several one after the other."""

    solution: TrajectorySolution
    rank_gain: IntArray

    @classmethod
    def joined(cls, parts: list[_User], k: int) -> _User:
        solutions = [_nothing(np.empty(0, dtype=np.int64), k), *(part.solution for part in parts)]
        gains = [np.empty(0, dtype=np.int64), *(part.rank_gain for part in parts)]
        names = [part.name for part in fields(TrajectorySolution)]
        joined = (np.concatenate([getattr(solution, name) for solution in solutions]) for name in names)
        return cls(TrajectorySolution(*joined), np.concatenate(gains))


_RANK_ROWS = 256
"""Targets ranked together: their scores of a few thousand items stay in the cache."""


def _ranks_after(start: RollOut, candidates: BoolArray, targets: IntArray, solution: TrajectorySolution) -> IntArray:
    """(targets,): each rank among what is left at the end, at the target's own best ratings; 0 where none is told."""
    after = np.zeros(len(targets), dtype=np.int64)
    sequences, member = np.unique(solution.items, axis=0, return_inverse=True)
    for place, items in enumerate(sequences):
        if items[0] < 0:
            continue
        state = start
        for item in items.tolist():
            state = state.then(item)
        slope, intercept = (aligned(array) for array in state.affine())
        left = np.setdiff1d(np.flatnonzero(candidates), items)
        columns, level = slope[left].T.contiguous(), intercept[left]
        rows = np.flatnonzero(member.ravel() == place)
        for first in range(0, len(rows), _RANK_ROWS):
            part = rows[first : first + _RANK_ROWS]
            own = torch.from_numpy(np.searchsorted(left, targets[part]))
            after[part] = rank_of(torch.addmm(level, aligned(solution.actions[part]), columns), own)
    return after


def _nothing(targets: IntArray, k: int) -> TrajectorySolution:
    """For a user who has seen too much to be shown k items more."""
    n = len(targets)
    none, status = np.full(n, -np.inf), np.full(n, Status.NOT_APPLICABLE.value)
    ratings, work = np.full((n, k), np.nan), np.zeros(n, dtype=np.int64)
    return TrajectorySolution(np.full(n, np.nan), none, none, status, ratings, work, np.full((n, k), -1))

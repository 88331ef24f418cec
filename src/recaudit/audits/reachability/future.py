"""Future-k reachability: what a user can get recommended by rating what the system shows next (paper 001, Def. 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import final

import numpy as np
import polars as pl
import torch

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.reachability.pairs import Method, ranks_at
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Interval, Stars
from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Softmax, Top1
from recaudit.seeding import derive
from recaudit.solvers.batches import Batch, run_on_cores
from recaudit.solvers.solution import Solution
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
from recaudit.status import Status


@final
@dataclass(frozen=True, eq=False)
class SolveFuture(Method):
    """Sequence by sequence and certified, or with the solver "gradient" by the paper's projected gradient.

    At each step the system shows its top unseen item (or draws one), whatever the audit's candidates are, the user
    rates it, and the model moves; after k ratings the policy recommends. The baseline is the probability at the
    model's scores, among the candidates before anything is rated; so is the rank from which the gain counts. A target
    that every sequence shows on the way has the status not_applicable. Where items are drawn on the way, no single
    sequence leads to the value: neither items nor a rank are reported.
    """

    max_sequences: int = 2000
    """Sequences of items that are followed at each step; what is left out makes an answer bounded."""
    max_star_sequences: int = 10_000
    """Sequences of stars that are tried, where ratings are stars."""
    ascent: AscentSettings = field(default_factory=AscentSettings)
    """How the gradient solver runs, and ascent where items are drawn; its seed follows from `rng`."""
    sampling: DrawSettings = field(default_factory=DrawSettings)
    """How much is computed in full where items are drawn."""

    def __post_init__(self) -> None:
        audit, ratings = self.audit, self._ratings
        if audit.resolved_baseline != "scores":
            raise InputError(
                "baseline", received=audit.baseline, expected="'scores': the future has no other baseline yet"
            )
        if audit.slate > 1:
            raise NotSupportedError(f"Roll-outs end with one recommendation, not with a slate of {audit.slate}.")
        if isinstance(ratings, Stars) and (audit.solver == "gradient" or not self._follows_top):
            raise NotSupportedError(
                f"{ratings!r}: stars have a solver where the top item is shown at each step, and no gradient. "
                "Say ratings=Interval(1, 5), or follows=Top1() with the exact solver."
            )
        exact = (Softmax, Top1, EpsilonGreedy) if self._follows_top else Softmax
        if audit.solver == "exact" and not isinstance(ratings, Stars) and not isinstance(audit.policy, exact):
            raise NotSupportedError(
                f"{audit.policy!r} after roll-outs that follow {self.future.follows!r} has no exact solver. Softmax "
                "has one, and where the top item is followed Top1 and EpsilonGreedy as well."
            )

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        k, scores = self.future.k, self.model.scores(users)
        shown, candidates, solvable = self.future_pairs(users)
        pairs = int(solvable.sum())
        value, lower, upper, rank = np.full((4, pairs), np.nan)
        status, evaluations = np.full(pairs, Status.NOT_APPLICABLE.value, dtype="<U14"), np.zeros(pairs, dtype=np.int64)
        items, ratings = np.full((pairs, k), -1, dtype=np.int64), np.full((pairs, k), np.nan)

        def work(batch: Batch) -> None:
            row, part = batch.problems[0], batch.pairs
            start = self.model.rollout(int(users[row]))
            found = self._solve(int(users[row]), start, shown[row], candidates[row], np.flatnonzero(solvable[row]))
            value[part], lower[part], upper[part], status[part] = found.value, found.lower, found.upper, found.status
            items[part], ratings[part], evaluations[part] = found.items, found.actions, found.evaluations
            rank[part] = _ranks_after(start, candidates[row], np.flatnonzero(solvable[row]), found)

        ends = np.cumsum(solvable.sum(axis=1)).tolist()
        runs = zip(range(len(users)), pairwise([0, *ends]), strict=True)
        run_on_cores(work, [Batch((row,), slice(*run)) for row, run in runs if run[1] > run[0]])
        answered = status != Status.NOT_APPLICABLE.value
        columns = (value, lower, upper, status, ratings, evaluations)
        answer = Solution(*(column[answered] for column in columns))
        solvable[solvable] = answered
        return self.frame(users, candidates, solvable, scores, answer, rank[answered], items[answered])

    @property
    def _ratings(self) -> Interval | Stars:
        """What a rating may be; low == high is a one-value grid."""
        ratings = self.ratings
        return Stars(ratings.low, ratings.high) if ratings.low == ratings.high else ratings

    @property
    def _follows_top(self) -> bool:
        return isinstance(self.future.follows, Top1)

    def _solve(
        self, user: int, start: RollOut, shown: BoolArray, candidates: BoolArray, targets: IntArray
    ) -> TrajectorySolution:
        audit, k, ratings, policy = self.audit, self.future.k, self._ratings, self.audit.policy
        problem = RollOutProblem(start, shown, candidates, targets, k, ratings.low, ratings.high)
        ascent = replace(self.ascent, rng=derive(self.rng, "future", self.log.user_ids[user]))
        if not self._follows_top:
            follows = self.future.follows
            if k == 1 and isinstance(policy, Softmax) and audit.solver == "exact":
                return maximize_one_draw(problem, follows, policy.beta, audit.tolerance, self.sampling)
            return ascend_after_draws(problem, follows, policy, ascent, self.sampling)
        if isinstance(ratings, Stars):
            values, most = ratings.values, self.max_star_sequences
            return maximize_after_stars(problem, policy, values, audit.tolerance, max_sequences=most)
        if audit.solver == "gradient":
            return ascend_after_top1(problem, policy, ascent)
        if isinstance(policy, Softmax):
            return maximize_after_top1(problem, policy.beta, audit.tolerance, max_cells=self.max_sequences)
        epsilon = policy.epsilon if isinstance(policy, EpsilonGreedy) else 0.0
        return reach_top_after_top1(problem, epsilon, max_cells=self.max_sequences)


def _ranks_after(start: RollOut, candidates: BoolArray, targets: IntArray, solution: TrajectorySolution) -> FloatArray:
    """(targets,): each rank among what is left at the end, at the target's best ratings; NaN where none is known."""
    after = np.full(len(targets), np.nan)
    sequences, member = np.unique(solution.items, axis=0, return_inverse=True)
    for place, items in enumerate(sequences):
        if items[0] < 0:
            continue
        state = start
        for item in items.tolist():
            state = state.then(item)
        slope, intercept = (aligned(array) for array in state.affine())
        left = np.setdiff1d(np.flatnonzero(candidates), items)
        scores = partial(torch.addmm, intercept[left], mat2=slope[left].T.contiguous())
        rows = member.ravel() == place
        own = torch.from_numpy(np.searchsorted(left, targets[rows]))
        after[rows] = ranks_at(scores, solution.actions[rows], own)
    return after

"""Reachability by the exact solvers: known action items, affine responses, certified bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import final

import numpy as np
import polars as pl

from recaudit import solvers
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.reachability.pairs import Method, ranks_at
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Interval, Stars
from recaudit.models.response import AffineResponses
from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1
from recaudit.ranking import affine_rank_of, rank_of
from recaudit.seeding import derive
from recaudit.solvers import trajectories
from recaudit.solvers.batches import run_on_cores
from recaudit.solvers.search import Box
from recaudit.solvers.softmax.maximize import maximize_softmax_batch
from recaudit.solvers.solution import Solution, concatenate, no_solutions, status_of
from recaudit.solvers.trajectories import AscentSettings, DrawSettings, RollOutProblem, TrajectorySolution
from recaudit.solvers.trajectories.problem import without
from recaudit.status import Status
from recaudit.ties import TieKeys
from recaudit.torch_extra import require_torch


@final
@dataclass(frozen=True, eq=False)
class SolveActions(Method):
    """By the exact solver of the policy, for ratings of known items."""

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        audit, model = self.audit, self.model
        items, candidates, solvable = self.action_pairs(users)
        response = model.own_responses(users, items)
        limited = users if self.actions.changes is not None else users[:0]
        question = Question(
            response.slope,
            np.where(candidates, response.intercept, -np.inf),
            solvable,
            self.ratings,
            self.actions.changes,
            self.actions.unchanged(model, limited, items[: len(limited)], self.log),
            audit.slate,
            audit.tolerance,
            self.ties(users),
        )
        answer = best_response(audit.policy, question)
        before, rank = self._baseline_scores(users, items, response), _ranks_after(question, answer.actions)
        acted = np.repeat(items, solvable.sum(axis=1), axis=0) if audit.best_actions else items[:0]
        return self.frame(users, candidates, solvable, before, answer, rank, acted)

    def _baseline_scores(self, users: IntArray, items: IntArray, response: AffineResponses) -> FloatArray:
        if self.audit.resolved_baseline == "scores":
            return self.model.scores(users)
        given = self.ratings_before(self.model, users, items)
        assert given is not None
        scores: FloatArray = (response.slope @ given[:, :, None])[:, :, 0] + response.intercept
        return scores


def _ranks_after(question: Question, best: FloatArray) -> IntArray:
    """(pairs,): the target's rank among the candidates at its own `best` action (pairs, actions)."""
    counts = question.targets.sum(axis=1)
    ends = np.cumsum(counts)
    starts = ends - counts

    def of_user(user: int) -> IntArray:
        points = best[starts[user] : ends[user]]
        slope, intercept, own = question.of_user(user)
        return affine_rank_of(slope, intercept, points, own, question.ties_of_user(user))

    found = run_on_cores(of_user, np.flatnonzero(counts).tolist())
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


@final
@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about a block of users; solutions are in the order of the True entries of `targets`, row by row."""

    slope: FloatArray  # (users, items, actions)
    intercept: FloatArray  # (users, items): -inf where an item is no candidate
    targets: BoolArray  # (users, items): True where an answer is wanted; targets are candidates
    ratings: Interval | Stars
    changes: int | None  # how many ratings may differ from `unchanged`; None for all
    unchanged: FloatArray  # (users, actions), or (0, actions) where there is no limit on changes
    slate: int  # how many items are shown: the probability is that of being among them
    tolerance: float
    ties: TieKeys  # of the users and items

    def of_user(self, user: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Slope (candidates, actions) and intercept (candidates,) of a user's candidates, and the targets' places."""
        candidates = np.flatnonzero(np.isfinite(self.intercept[user]))
        places = np.searchsorted(candidates, np.flatnonzero(self.targets[user]))
        return self.slope[user, candidates], self.intercept[user, candidates], places

    def ties_of_user(self, user: int) -> TieKeys:
        """One row: the tie keys of a user's candidates."""
        return self.ties.repeated(1, user).columns(np.isfinite(self.intercept[user]))


def best_response(policy: Policy, question: Question) -> Solution:
    """Return the largest log-probability of each target, with bounds and the actions that reach it."""
    if isinstance(policy, Softmax) and isinstance(question.ratings, Interval) and question.slate == 1:
        asked = (question.slope, question.intercept, question.targets, policy.fixed_beta)
        ends = (question.ratings.low, question.ratings.high)
        return maximize_softmax_batch(*asked, *ends, question.tolerance, actions=True)
    return _by_user(policy, question)


def _by_user(policy: Policy, question: Question) -> Solution:
    """Which solver answers for which policy and ratings, one user after the other."""
    match policy, question.ratings:
        case Softmax(), Interval() if question.slate > 1:
            return _user_by_user(partial(_slate, policy.fixed_beta), question)
        case _ if question.slate > 1:
            raise NotSupportedError(
                f"Slates of {question.slate} have bounds for Softmax and an Interval of ratings, not for {policy!r} "
                f"with {question.ratings!r}."
            )
        case Softmax(), Stars():
            return _user_by_user(partial(_softmax_stars, policy.fixed_beta), question, on_cores=True)
        case _ if question.changes is not None:
            raise NotSupportedError(
                f"{type(policy).__name__} has no reachability solver with a limit on changes. Softmax has one."
            )
        case Top1(), _:
            return _user_by_user(partial(_epsilon_greedy, 0.0), question)
        case EpsilonGreedy(), _:
            return _user_by_user(partial(_epsilon_greedy, policy.epsilon), question)
        case Power(), Interval():
            asked = policy.power, question.ratings.low, question.ratings.high, question.tolerance
            return _user_by_user(lambda own, user: solvers.maximize_power(*own.of_user(user), *asked), question)
    raise NotSupportedError(
        f"{policy!r} with {question.ratings!r} has no reachability solver. Policies that have one: Softmax, Top1 and "
        "EpsilonGreedy for any ratings, Power for an Interval."
    )


def _user_by_user(
    solve: Callable[[Question, int], Solution], question: Question, *, on_cores: bool = False
) -> Solution:
    """The solutions of every user who has a target, on request side by side on the cores of a CPU."""
    users = np.flatnonzero(question.targets.any(axis=1)).tolist()
    parts: Iterable[Solution] = map(partial(solve, question), users)
    if on_cores:
        parts = run_on_cores(partial(solve, question), users)
    return concatenate([no_solutions(question.slope.shape[2]), *parts])


def _softmax_stars(beta: float, question: Question, user: int) -> Solution:
    assert isinstance(question.ratings, Stars)
    slope, intercept, targets = question.of_user(user)
    values = question.ratings.values
    # A rating that moves no score (fills up for a user with fewer actions) would only multiply the choices.
    moving = (slope != 0).any(axis=0)
    if not moving.any():
        moving[0] = True
    unchanged = None if question.changes is None else question.unchanged[user]
    found = solvers.maximize_softmax_discrete(
        slope[:, moving],
        intercept,
        targets,
        beta,
        values,
        question.tolerance,
        start=None if unchanged is None else unchanged[moving],
        changes=question.changes,
    )
    actions = np.empty((len(targets), len(moving)))
    actions[:] = values[0] if unchanged is None else unchanged
    actions[:, moving] = found.actions
    return replace(found, actions=actions)


def _slate(beta: float, question: Question, user: int) -> Solution:
    slope, intercept, targets = question.of_user(user)
    ends, n = (question.ratings.low, question.ratings.high), min(question.slate, len(intercept))
    return solvers.bound_slate(slope, intercept, targets, beta, n, *ends, question.tolerance)


def _epsilon_greedy(epsilon: float, question: Question, user: int) -> Solution:
    """An item that can be made the top one is shown with 1 - epsilon, any other with epsilon / (n - 1)."""
    slope, intercept, targets = question.of_user(user)
    ties = question.ties_of_user(user)
    found = solvers.top1_margin(slope, intercept, targets, question.ratings.low, question.ratings.high, ties=ties)
    n = len(intercept)
    with np.errstate(divide="ignore"):
        worse, better = np.log([epsilon / max(1, n - 1), 1.0 if n == 1 else 1 - epsilon])
    actions, reachable = found.actions, found.reachable
    never = found.settled & ~found.reachable
    if isinstance(question.ratings, Stars):
        # No star reaches what the interval does not; what it does reach, the nearest stars may reach as well.
        actions = Box.grid(question.ratings.values, actions.shape[1]).inside(actions)
        reachable = rank_of(actions @ slope.T + intercept, targets, ties.repeated(len(actions))) == 1
    value = np.where(reachable, better, worse)
    # With epsilon above (n - 1) / n the top item is shown least: one that can be on top may do better elsewhere.
    settled = (reachable & (better >= worse)) | never
    upper = np.where(settled, value, max(better, worse))
    return Solution(value, value, upper, status_of(value, upper, 0.0), actions, found.evaluations)


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

    ascent: AscentSettings = field(default_factory=AscentSettings)  # its seed follows from `rng`
    sampling: DrawSettings = field(default_factory=DrawSettings)  # how much is computed in full where items are drawn

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

        def solve(row: int) -> tuple[TrajectorySolution, FloatArray]:
            """The answers of one user, and the ranks at them."""
            user, targets = int(users[row]), np.flatnonzero(solvable[row])
            start = self.model.rollout(user)
            found = self._solve(user, start, shown[row], candidates[row], targets)
            ties = self.ties(users[row : row + 1])
            return found, _ranks_after_rollouts(start, candidates[row], targets, found, ties)

        parts = run_on_cores(solve, np.flatnonzero(solvable.any(axis=1)).tolist())
        none = TrajectorySolution(**vars(no_solutions(k)), items=np.empty((0, k), dtype=np.int64))
        found = concatenate([none, *(answer for answer, _ in parts)])
        applies = found.status != Status.NOT_APPLICABLE.value
        solvable[solvable] = applies
        answer = TrajectorySolution(**{name: column[applies] for name, column in vars(found).items()})
        rank = np.concatenate([none.value, *(ranks for _, ranks in parts)])[applies]
        return self.frame(users, candidates, solvable, scores, answer, rank, answer.items)

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
        ties = self.ties(np.array([user]))
        problem = RollOutProblem(start, shown, candidates, targets, k, ratings.low, ratings.high, ties)
        ascent = replace(self.ascent, rng=derive(self.rng, "future", self.log.user_ids[user]))
        if not self._follows_top:
            follows, sampling = self.future.follows, replace(self.sampling, max_sequences=audit.sequences)
            if k == 1 and isinstance(policy, Softmax) and audit.solver == "exact":
                return trajectories.maximize_one_draw(problem, follows, policy.fixed_beta, audit.tolerance, sampling)
            lower_bounds: TrajectorySolution = ascent_solvers().ascend_after_draws(
                problem, follows, policy, ascent, sampling
            )
            return lower_bounds
        if isinstance(ratings, Stars):
            return trajectories.maximize_after_stars(
                problem, policy, ratings.values, audit.tolerance, sequences=audit.sequences
            )
        if audit.solver == "gradient":
            climbed: TrajectorySolution = ascent_solvers().ascend_after_top1(problem, policy, ascent)
            return climbed
        if isinstance(policy, Softmax):
            return trajectories.maximize_after_top1(
                problem, policy.fixed_beta, audit.tolerance, sequences=audit.sequences
            )
        epsilon = policy.epsilon if isinstance(policy, EpsilonGreedy) else 0.0
        return trajectories.reach_top_after_top1(problem, epsilon, sequences=audit.sequences)


def ascent_solvers() -> ModuleType:
    """Return the module of gradient ascent after roll-outs, which needs torch."""
    require_torch("gradient ascents after roll-outs")
    from recaudit.solvers.trajectories import ascent  # noqa: PLC0415  imports torch

    return ascent


def _ranks_after_rollouts(
    start: RollOut, candidates: BoolArray, targets: IntArray, solution: TrajectorySolution, ties: TieKeys
) -> FloatArray:
    """(targets,): each rank among what is left at the end, at the target's best ratings; NaN where none is known."""
    after = np.full(len(targets), np.nan)
    sequences, member = np.unique(solution.items, axis=0, return_inverse=True)
    for place, items in enumerate(sequences):
        if items[0] < 0:
            continue
        state = start
        for item in items.tolist():
            state = state.then(item)
        basis, left = state.basis(), np.flatnonzero(without(candidates, tuple(items.tolist())))
        level, columns = basis.of(left)
        rows = np.flatnonzero(member.ravel() == place)
        own = np.searchsorted(left, targets[rows])
        points = solution.actions[rows] @ basis.matrix.T + basis.constant
        after[rows] = ranks_at(partial(_combined, level, columns), points, own, ties.columns(left))
    return after


def _combined(level: FloatArray, columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the scores `level + weights @ columns` of a `Basis`, shape (points, items)."""
    scores: FloatArray = weights @ columns
    scores += level
    return scores

"""The best that a user can do against a policy: which solver answers, for which policy and which ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arithmetic import product
from recaudit.arrays import FloatArray
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Interval, Stars
from recaudit.models.checks import check_device as check_present
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1
from recaudit.ranking import rank_of
from recaudit.solvers import bound_slate, maximize_power, maximize_softmax_batch, top1_margin
from recaudit.solvers.batches import Batch
from recaudit.solvers.discrete import maximize_softmax_discrete
from recaudit.solvers.workers import run_on_cores
from recaudit.status import Status


@final
@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about a block of users: the best probability of each target over the ratings allowed."""

    slope: torch.Tensor
    """(users, items, actions)"""
    intercept: torch.Tensor
    """(users, items): -inf where an item is no candidate."""
    targets: torch.Tensor
    """(users, items): True where an answer is wanted; targets are candidates."""
    ratings: Interval | Stars
    changes: int | None
    """How many ratings may differ from `unchanged`; None for all."""
    unchanged: FloatArray
    """(users, actions), or (0, actions) where there is no limit on changes."""
    slate: int
    """How many items are shown: the probability is that of being among them."""
    tolerance: float
    device: str


@final
@dataclass(frozen=True, eq=False)
class Answer:
    """In the order of the True entries of the targets, row by row; values and bounds are log-probabilities."""

    log_value: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    status: NDArray[np.str_]
    actions: FloatArray
    """(pairs, actions): the ratings that reach the value."""


def best_response(policy: Policy, question: Question) -> Answer:
    """The largest log-probability of each target, with bounds."""
    if question.slate > 1:
        if not (isinstance(policy, Softmax) and isinstance(question.ratings, Interval)):
            raise NotSupportedError(
                f"Slates of {question.slate} have bounds for Softmax and an Interval of ratings, not for {policy!r} "
                f"with {question.ratings!r}."
            )
        return _one_by_one(partial(_slate_user, policy.beta, question), question)
    if isinstance(policy, Softmax):
        return _SOFTMAX[type(question.ratings)](policy.beta, question)
    if question.changes is not None:
        raise NotSupportedError(
            f"{type(policy).__name__} has no reachability solver with a limit on changes. Softmax has one."
        )
    if isinstance(policy, Top1):
        return _greedy(0.0, question)
    if isinstance(policy, EpsilonGreedy):
        return _greedy(policy.epsilon, question)
    if isinstance(policy, Power) and isinstance(question.ratings, Interval):
        return _one_by_one(partial(_power_user, policy.power, question), question)
    raise NotSupportedError(
        f"{policy!r} with {question.ratings!r} has no reachability solver. Policies that have one: Softmax, Top1 and "
        "EpsilonGreedy for any ratings, Power for an Interval."
    )


def _softmax(beta: float, question: Question) -> Answer:
    found = maximize_softmax_batch(
        question.slope,
        question.intercept,
        question.targets,
        beta,
        question.ratings.low,
        question.ratings.high,
        question.tolerance,
        device=question.device,
        actions=True,
    )
    return Answer(found.log_value, found.log_lower, found.log_upper, found.status, found.actions)


def _softmax_stars(beta: float, question: Question) -> Answer:
    """Users one by one, side by side on the cores of a CPU."""
    assert isinstance(question.ratings, Stars)
    values = question.ratings.values
    parts = [_no_answer(question)] * len(question.slope)

    def work(batch: Batch) -> None:
        user = batch.problems[0]
        parts[user] = _softmax_stars_user(beta, question, values, user)

    ends = question.targets.sum(dim=1).cumsum(0).tolist()
    batches = [Batch((user,), slice(*run)) for user, run in enumerate(pairwise([0, *ends])) if run[1] > run[0]]
    run_on_cores(work, batches, None if question.device == "cpu" else 1)
    return _joined(parts)


def _softmax_stars_user(beta: float, question: Question, values: FloatArray, user: int) -> Answer:
    candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
    targets = question.targets[user].nonzero()[:, 0]
    slope = question.slope[user, candidates]
    # A rating that moves no score (fills up for a user with fewer actions) would only multiply the choices.
    moving = (slope != 0).any(dim=0).numpy()
    if not moving.any():
        moving[0] = True
    unchanged = None if question.changes is None else question.unchanged[user]
    found = maximize_softmax_discrete(
        slope[:, torch.from_numpy(moving)],
        question.intercept[user, candidates],
        torch.searchsorted(candidates, targets),
        beta,
        values,
        question.tolerance,
        start=None if unchanged is None else unchanged[moving],
        changes=question.changes,
        device=question.device,
    )
    actions = np.empty((len(targets), len(moving)))
    actions[:] = values[0] if unchanged is None else unchanged
    actions[:, moving] = found.actions
    return Answer(found.log_value, found.log_lower, found.log_upper, found.status, actions)


_SOFTMAX: dict[type[Interval | Stars], Callable[[float, Question], Answer]] = {
    Interval: _softmax,
    Stars: _softmax_stars,
}
"""The solvers that work on the question's device; all others are for the CPU."""


def check_device(device: str, policy: Policy, actions: object, slate: int, exact: bool) -> None:
    """Refuse a device that this machine has not, or that would stand idle.

    `exact` says whether `best_response` answers, and not a search or a roll-out.
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise InputError("device", received=device, expected="'cpu', 'cuda' or 'cuda:0', ...") from None
    if kind == "cpu":
        return
    if not (exact and slate == 1 and isinstance(policy, Softmax)):
        kinds = " or ".join(ratings.__name__ for ratings in _SOFTMAX)
        raise NotSupportedError(
            f"device={device!r} is used by the exact solver of Softmax, for {kinds} ratings and one recommended "
            f"item. {policy!r} with {actions!r} and slate={slate} is worked out on the CPU: leave device out."
        )
    check_present(device)


def _slate_user(beta: float, question: Question, user: int) -> Answer:
    candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
    targets = question.targets[user].nonzero()[:, 0]
    found = bound_slate(
        question.slope[user, candidates],
        question.intercept[user, candidates],
        torch.searchsorted(candidates, targets),
        beta,
        min(question.slate, len(candidates)),
        question.ratings.low,
        question.ratings.high,
        question.tolerance,
    )
    met = found.log_upper - found.log_lower <= question.tolerance
    status = np.where(met, Status.SOLVED.value, Status.BOUNDED.value)
    return Answer(found.log_lower, found.log_lower, found.log_upper, status, found.actions)


def _power_user(power: float, question: Question, user: int) -> Answer:
    candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
    found = maximize_power(
        question.slope[user, candidates],
        question.intercept[user, candidates],
        torch.searchsorted(candidates, question.targets[user].nonzero()[:, 0]),
        power,
        question.ratings.low,
        question.ratings.high,
        question.tolerance,
    )
    return Answer(found.log_value, found.log_lower, found.log_upper, found.status, found.actions)


def _greedy(epsilon: float, question: Question) -> Answer:
    """An item that can be made the top one is shown with 1 - epsilon, any other with epsilon / (n - 1)."""
    return _one_by_one(partial(_greedy_user, epsilon, question), question)


def _greedy_user(epsilon: float, question: Question, user: int) -> Answer:
    candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
    targets = question.targets[user].nonzero()[:, 0]
    found = top1_margin(
        question.slope[user, candidates],
        question.intercept[user, candidates],
        torch.searchsorted(candidates, targets),
        question.ratings.low,
        question.ratings.high,
    )
    others = max(1, len(candidates) - 1)
    chances = np.array([epsilon / others, 1.0 if len(candidates) == 1 else 1 - epsilon])
    with np.errstate(divide="ignore"):
        worse, better = np.log(chances)
    actions, reachable = found.actions, found.reachable
    never = found.settled & ~found.reachable
    if isinstance(question.ratings, Stars):
        # No star reaches what the interval does not; what it does reach, the nearest stars may reach as well.
        actions = _nearest(question.ratings.values, actions)
        scores = product(actions, question.slope[user, candidates]) + question.intercept[user, candidates]
        reachable = rank_of(scores, torch.searchsorted(candidates, targets)) == 1
    value = np.where(reachable, better, worse)
    settled = (reachable & (better >= worse)) | never
    status = np.where(settled, Status.SOLVED.value, Status.BOUNDED.value)
    # With epsilon above (n - 1) / n the top item is shown least: one that can be on top may do better elsewhere.
    return Answer(value, value, np.where(settled, value, max(better, worse)), status, actions)


def _nearest(values: FloatArray, actions: FloatArray) -> FloatArray:
    """The nearest of `values` (ratings,), ascending, to each number."""
    between = (values[1:] + values[:-1]) / 2
    nearest: FloatArray = values[np.searchsorted(between, actions)]
    return nearest


def _one_by_one(solve: Callable[[int], Answer], question: Question) -> Answer:
    """The answers of every user who has a target."""
    users = question.targets.any(dim=1).nonzero()[:, 0].tolist()
    return _joined([_no_answer(question), *map(solve, users)])


def _no_answer(question: Question) -> Answer:
    none = np.empty(0)
    return Answer(none, none, none, none.astype("<U14"), np.empty((0, question.slope.shape[2])))


def _joined(parts: Sequence[Answer]) -> Answer:
    return Answer(*(np.concatenate([getattr(part, name) for part in parts]) for name in Answer.__dataclass_fields__))

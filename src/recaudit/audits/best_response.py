"""The best that a user can do against a policy: which solver answers, for which policy and which ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.errors import NotSupportedError
from recaudit.policies import EpsilonGreedy, Policy, Softmax, Top1
from recaudit.solvers import maximize_softmax_batch, top1_margin
from recaudit.status import Status

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about a block of users: the best probability of each target over a box of ratings."""

    slope: torch.Tensor
    """(users, items, actions)"""
    intercept: torch.Tensor
    """(users, items): -inf where an item is no candidate."""
    targets: torch.Tensor
    """(users, items): True where an answer is wanted; targets are candidates."""
    lower: float
    upper: float
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
    if isinstance(policy, Softmax):
        return _softmax(policy.beta, question)
    if isinstance(policy, Top1):
        return _greedy(0.0, question)
    if isinstance(policy, EpsilonGreedy):
        return _greedy(policy.epsilon, question)
    raise NotSupportedError(
        f"{type(policy).__name__} has no reachability solver. Policies that have one: Softmax, Top1, EpsilonGreedy."
    )


def _softmax(beta: float, question: Question) -> Answer:
    found = maximize_softmax_batch(
        question.slope,
        question.intercept,
        question.targets,
        beta,
        question.lower,
        question.upper,
        question.tolerance,
        device=question.device,
        actions=True,
    )
    return Answer(found.log_value, found.log_lower, found.log_upper, found.status, found.actions)


def _greedy(epsilon: float, question: Question) -> Answer:
    """An item that can be made the top one is shown with 1 - epsilon, any other with epsilon / (n - 1)."""
    parts = [_greedy_user(epsilon, question, user) for user in range(len(question.slope))]
    return Answer(*(np.concatenate([getattr(part, name) for part in parts]) for name in Answer.__dataclass_fields__))


def _greedy_user(epsilon: float, question: Question, user: int) -> Answer:
    candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
    targets = question.targets[user].nonzero()[:, 0]
    found = top1_margin(
        question.slope[user, candidates],
        question.intercept[user, candidates],
        torch.searchsorted(candidates, targets),
        question.lower,
        question.upper,
    )
    others = max(1, len(candidates) - 1)
    chances = np.array([epsilon / others, 1.0 if len(candidates) == 1 else 1 - epsilon])
    with np.errstate(divide="ignore"):
        worse, better = np.log(chances)
    value = np.where(found.reachable, better, worse)
    # Being on top or not is settled where the margin was found, or no action can make it 0.
    settled = found.reachable | (found.upper < 0)
    status = np.where(settled, Status.SOLVED.value, Status.BOUNDED.value)
    return Answer(value, value, np.where(settled, value, better), status, found.actions)

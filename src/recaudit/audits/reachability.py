"""Reachability: the highest probability with which a user can get an item recommended by changing ratings.

Paper 000, Equation 1: `rho*(u, i) = max over the allowed actions a of P(item i is shown to u after a)`, where scores
after the action are `slope @ a + intercept` (the model's response). Every pair is solved, not a sample, and every
value has certified bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.audits.best_response import Answer, Question, best_response
from recaudit.audits.candidates import Candidates, candidate_items
from recaudit.audits.inquiry import Baseline, Inquiry, ranks
from recaudit.audits.lists import check_length
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability_result import Reachability
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.interventions import Actions, Interval, NextK, Past
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponses
from recaudit.policies import Policy, Softmax

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_USERS = 16
"""Users solved together on a CPU: their responses fit in the cache's neighbourhood, and progress is visible."""


def reachability(
    model: FittedModel,
    data: Interactions | None = None,
    *,
    actions: Actions | None = None,
    policy: Policy | None = None,
    users: Iterable[object] | None = None,
    targets: Iterable[object] | None = None,
    candidates: Candidates = "unseen",
    baseline: Baseline | None = None,
    slate: int = 1,
    tolerance: float = 1e-6,
    best_actions: bool = False,
    rng: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
) -> Reachability:
    """The largest probability of every target item for every user, with certified bounds.

    `actions` says which ratings are free (default: the next 10 items that the system would show) and within which
    bounds; `policy` how scores become a recommendation (default: softmax with beta = 1). `candidates` are what the
    policy chooses from: the items that are neither seen nor acted on (films), or all but the acted on (music, news).
    `users` and `targets` are ids; all users, and all candidates, where none are named. `baseline` is the probability
    without strategy: at the model's "scores" (the paper's text, and the default), after the acted-on items were rated
    as "predicted" (the authors' code), or as they are in the log ("factual", the default for `Past`). `data`, if given,
    must be the log that the model was fitted to; for `Past(k)` also one that has the last k ratings besides, which the
    model has not seen.

    With a `slate` of n items, drawn without replacement, the probability is that of being among them: for softmax, a
    value that is surely reached below one that is surely not exceeded; the baseline is then 1 - (1 - rho)^n, which
    the true one is not below.

    A user without a single action, and a target that is no candidate, have the status not_applicable. A pair is
    solved when its bounds on log-probability are `tolerance` apart or less.
    """
    actions, policy = actions or NextK(10), policy or Softmax()
    log = observed_log(model, data, actions)
    baseline = baseline or ("factual" if isinstance(actions, Past) else "scores")
    if baseline not in ("scores", "predicted", "factual"):
        raise InputError("baseline", received=baseline, expected="'scores', 'predicted' or 'factual'")
    check_length(slate, "slate")
    everybody = np.arange(log.n_users)
    positions = everybody if users is None else np.unique(log.users_at(users))
    wanted = None if targets is None else log.items_at(targets)
    inquiry = Inquiry(
        model, log, actions, policy, wanted, candidates, baseline, slate, tolerance, best_actions, rng, device
    )
    work = _Solve(inquiry, actions)
    size = _USERS if device == "cpu" else 16 * _USERS
    parts = list((engine or Serial()).map(work, blocks(positions, size), "reachability"))
    settings = {
        "actions": repr(actions),
        "policy": repr(policy),
        "candidates": candidates,
        "baseline": baseline,
        "slate": slate,
        "tolerance": tolerance,
        "rng": rng,
    }
    return Reachability(log, settings, pl.concat(parts, rechunk=False), positions)


@final
@dataclass(frozen=True, eq=False)
class _Solve:
    """A block of users in, a row for each of their pairs out, by the exact solvers; pure and picklable."""

    inquiry: Inquiry
    actions: Actions

    def __call__(self, users: IntArray) -> pl.DataFrame:
        ask, model, log = self.inquiry, self.inquiry.model, self.inquiry.log
        items = self.actions.items(model, users, ask.rng, log)
        can_act: BoolArray = np.any(items >= 0, axis=1)
        candidates = candidate_items(log, users, items, ask.candidates)
        asked = ask.asked(candidates)
        solvable = asked & candidates & can_act[:, None]

        response = model.own_responses(users, items)
        allowed = torch.from_numpy(candidates)
        before = self._baseline_scores(users, items, response)
        limited = users if self.actions.changes is not None else users[:0]
        question = Question(
            response.slope,
            response.intercept.masked_fill(~allowed, -torch.inf),
            torch.from_numpy(solvable),
            self.actions.ratings or Interval(*log.scale),
            self.actions.changes,
            self.actions.unchanged(model, limited, items[: len(limited)], log),
            ask.slate,
            ask.tolerance,
            ask.device,
        )
        answer = best_response(ask.policy, question)
        logs = ask.policy.log_probabilities(before, allowed).numpy()
        if ask.slate > 1:
            with np.errstate(divide="ignore"):
                logs = np.log(-np.expm1(ask.slate * np.log1p(-np.minimum(np.exp(logs), 1 - 1e-16))))
        gain = ranks(before, allowed)[torch.from_numpy(solvable)].numpy() - _ranks_after(question, answer)
        return ask.frame(users, asked, solvable, logs, answer, gain, np.repeat(items, solvable.sum(axis=1), axis=0))

    def _baseline_scores(self, users: IntArray, items: IntArray, response: AffineResponses) -> torch.Tensor:
        ask = self.inquiry
        scores = ask.model.scores(users)
        if ask.baseline == "scores":
            return scores
        if ask.baseline == "factual":
            given = torch.from_numpy(self.actions.unchanged(ask.model, users, items, ask.log))
        else:
            given = torch.gather(scores, 1, torch.from_numpy(np.maximum(items, 0))).clamp(*ask.log.scale)
        return torch.einsum("uik,uk->ui", response.slope, given) + response.intercept


_RANK_ROWS = 256
"""Pairs ranked together: their scores of a few thousand items stay in the cache."""


def _ranks_after(question: Question, answer: Answer) -> IntArray:
    """(pairs,): the target's rank among the candidates at its own best action."""
    ranks = []
    start = 0
    for user in range(len(question.slope)):
        targets = question.targets[user].nonzero()[:, 0]
        actions = torch.from_numpy(answer.actions[start : start + len(targets)])
        start += len(targets)
        slope, intercept = question.slope[user].T.contiguous(), question.intercept[user]
        for first in range(0, len(targets), _RANK_ROWS):
            part = slice(first, first + _RANK_ROWS)
            scores = torch.addmm(intercept, actions[part], slope)
            own = scores.gather(1, targets[part, None])
            # A gap below rounding is no gap: the same score, computed twice, must share a rank.
            above = scores > own + 1e-12 * own.abs()
            ranks.append(np.count_nonzero(above.numpy(), axis=1) + 1)
    return np.concatenate(ranks) if ranks else np.zeros(0, dtype=np.int64)

"""Reachability by the exact solvers: fixed action items, affine responses, certified bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, IntArray
from recaudit.audits.candidates import candidate_items
from recaudit.audits.reachability.best_response import Question, best_response
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.interventions import Actions
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.models.response import AffineResponses
from recaudit.ranking import rank_of, ranks
from recaudit.solvers.solution import Solution


@final
@dataclass(frozen=True, eq=False)
class Solve:
    """A block of users in, a row for each of their pairs out, by the exact solvers; pure and picklable."""

    inquiry: Inquiry
    actions: Actions

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""
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
            free_ratings(self.actions.ratings, log.scale),
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
        gain = ranks(before, allowed)[solvable] - _ranks_after(question, answer)
        acted, choices = np.repeat(items, solvable.sum(axis=1), axis=0), candidates.sum(axis=1)
        return ask.frame(users, asked, solvable, logs, answer, gain, acted, choices)

    def _baseline_scores(self, users: IntArray, items: IntArray, response: AffineResponses) -> torch.Tensor:
        ask = self.inquiry
        scores = ask.model.scores(users)
        if ask.baseline == "scores":
            return scores
        if ask.baseline == "factual":
            given = aligned(self.actions.unchanged(ask.model, users, items, ask.log))
        else:
            given = torch.gather(scores, 1, torch.from_numpy(np.maximum(items, 0))).clamp(*rating_range(ask.log.scale))
        return torch.einsum("uik,uk->ui", response.slope, given) + response.intercept


_RANK_ROWS = 256
"""Pairs ranked together: their scores of a few thousand items stay in the cache."""


def _ranks_after(question: Question, answer: Solution) -> IntArray:
    """(pairs,): the target's rank among the candidates at its own best action."""
    found = []
    start = 0
    for user in range(len(question.slope)):
        slope, intercept, targets = question.of_user(user)
        actions = aligned(answer.actions[start : start + len(targets)])
        start += len(targets)
        columns = slope.T.contiguous()
        for first in range(0, len(targets), _RANK_ROWS):
            part = slice(first, first + _RANK_ROWS)
            found.append(rank_of(torch.addmm(intercept, actions[part], columns), targets[part]))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

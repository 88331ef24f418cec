"""Reachability by the exact solvers: known action items, affine responses, certified bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch

from recaudit.arithmetic import aligned
from recaudit.arrays import IntArray
from recaudit.audits.reachability.best_response import Answer, Question, best_response
from recaudit.audits.reachability.pairs import Method
from recaudit.interventions.ratings import rating_range
from recaudit.models.response import AffineResponses
from recaudit.ranking import rank_of, ranks


@final
@dataclass(frozen=True, eq=False)
class SolveActions(Method):
    """By the exact solver of the policy, for ratings of known items."""

    device: str = "cpu"

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        audit, model = self.audit, self.model
        items = self.actions.items(model, users, self.rng, self.log)
        candidates = self.candidates(users, items)
        asked = self.asked(candidates)
        solvable = asked & candidates & np.any(items >= 0, axis=1)[:, None]

        response = model.own_responses(users, items)
        allowed = torch.from_numpy(candidates)
        before = self._baseline_scores(users, items, response)
        limited = users if self.actions.changes is not None else users[:0]
        question = Question(
            response.slope,
            response.intercept.masked_fill(~allowed, -torch.inf),
            torch.from_numpy(solvable),
            self.ratings,
            self.actions.changes,
            self.actions.unchanged(model, limited, items[: len(limited)], self.log),
            audit.slate,
            audit.tolerance,
            self.device,
        )
        answer = best_response(audit.policy, question)
        logs = audit.policy.log_probabilities(before, allowed).numpy()
        if audit.slate > 1:
            with np.errstate(divide="ignore"):
                logs = np.log(-np.expm1(audit.slate * np.log1p(-np.minimum(np.exp(logs), 1 - 1e-16))))
        gain = ranks(before, allowed)[solvable] - _ranks_after(question, answer)
        acted, choices = np.repeat(items, solvable.sum(axis=1), axis=0), candidates.sum(axis=1)
        return self.frame(users, asked, solvable, logs, answer, gain, acted, choices)

    def _baseline_scores(self, users: IntArray, items: IntArray, response: AffineResponses) -> torch.Tensor:
        scores = self.model.scores(users)
        if self.audit.resolved_baseline == "scores":
            return scores
        if self.audit.resolved_baseline == "factual":
            given = aligned(self.actions.unchanged(self.model, users, items, self.log))
        else:
            given = torch.gather(scores, 1, torch.from_numpy(np.maximum(items, 0))).clamp(*rating_range(self.log.scale))
        return torch.einsum("uik,uk->ui", response.slope, given) + response.intercept


_RANK_ROWS = 256
"""Pairs ranked together: their scores of a few thousand items stay in the cache."""


def _ranks_after(question: Question, answer: Answer) -> IntArray:
    """(pairs,): the target's rank among the candidates at its own best action."""
    found = [np.zeros(0, dtype=np.int64)]
    start = 0
    for user in range(len(question.slope)):
        targets = question.targets[user].nonzero()[:, 0]
        actions = aligned(answer.actions[start : start + len(targets)])
        start += len(targets)
        candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
        slope, intercept = question.slope[user, candidates].T.contiguous(), question.intercept[user, candidates]
        own = torch.searchsorted(candidates, targets)
        for first in range(0, len(targets), _RANK_ROWS):
            part = slice(first, first + _RANK_ROWS)
            found.append(rank_of(torch.addmm(intercept, actions[part], slope), own[part]))
    return np.concatenate(found)

"""Reachability by the exact solvers: known action items, affine responses, certified bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import polars as pl
import torch

from recaudit.arithmetic import aligned
from recaudit.arrays import IntArray
from recaudit.audits.reachability.best_response import Question, best_response
from recaudit.audits.reachability.pairs import Method, ranks_at
from recaudit.interventions.ratings import rating_range
from recaudit.models.response import AffineResponses
from recaudit.solvers.solution import Solution


@final
@dataclass(frozen=True, eq=False)
class SolveActions(Method):
    """By the exact solver of the policy, for ratings of known items."""

    device: str = "cpu"

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        audit, model = self.audit, self.model
        items, candidates, solvable = self.action_pairs(users)
        response = model.own_responses(users, items)
        limited = users if self.actions.changes is not None else users[:0]
        question = Question(
            response.slope,
            response.intercept.masked_fill(torch.from_numpy(~candidates), -torch.inf),
            torch.from_numpy(solvable),
            self.ratings,
            self.actions.changes,
            self.actions.unchanged(model, limited, items[: len(limited)], self.log),
            audit.slate,
            audit.tolerance,
            self.device,
        )
        answer = best_response(audit.policy, question)
        before, rank = self._baseline_scores(users, items, response), _ranks_after(question, answer)
        acted = np.repeat(items, solvable.sum(axis=1), axis=0)
        return self.frame(users, candidates, solvable, before, answer, rank, acted)

    def _baseline_scores(self, users: IntArray, items: IntArray, response: AffineResponses) -> torch.Tensor:
        scores = self.model.scores(users)
        if self.audit.resolved_baseline == "scores":
            return scores
        if self.audit.resolved_baseline == "factual":
            given = aligned(self.actions.unchanged(self.model, users, items, self.log))
        else:
            given = torch.gather(scores, 1, torch.from_numpy(np.maximum(items, 0))).clamp(*rating_range(self.log.scale))
        return torch.einsum("uik,uk->ui", response.slope, given) + response.intercept


def _ranks_after(question: Question, answer: Solution) -> IntArray:
    """(pairs,): the target's rank among the candidates at its own best action."""
    found, start = [np.zeros(0, dtype=np.int64)], 0
    for user in range(len(question.slope)):
        targets = question.targets[user].nonzero()[:, 0]
        points = answer.actions[start : start + len(targets)]
        start += len(targets)
        candidates = torch.isfinite(question.intercept[user]).nonzero()[:, 0]
        slope, intercept = question.slope[user, candidates].T.contiguous(), question.intercept[user, candidates]
        own = torch.searchsorted(candidates, targets)
        found.append(ranks_at(partial(torch.addmm, intercept, mat2=slope), points, own))
    return np.concatenate(found)

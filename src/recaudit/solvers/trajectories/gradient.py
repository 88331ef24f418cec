"""The paper's own method: projected gradient ascent on a rating for every step and item (paper 001, Algorithm 2).

Beside the exact solver, for comparison. The choice of the items has no gradient (appendix G.3): an epoch improves the
ratings of the items that it was shown, and a step across the border of a cell is a jump that it does not see coming.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, top_items
from recaudit.seeding import generator
from recaudit.solvers.trajectories.problem import BestRollOuts, RollOutProblem, TrajectorySolution, without

ScoresAfter = Callable[[tuple[int, ...]], tuple[Tensor, Tensor]]
"""Slope (all items, steps) and intercept (all items,) of the scores after rating these items in this order."""

_REMEMBERED = 2000
"""Roll-outs of a user that are kept; with a few thousand items, 300 MB."""


@final
@dataclass(frozen=True)
class AscentSettings:
    """How Algorithm 2 is run; the paper leaves the numbers open."""

    epochs: int = 100
    learning_rate: float = 0.1
    """Of Adam: the size of a probability's gradient says little about how far to go."""
    rng: int = 0


def remembered_scores(start: RollOut) -> ScoresAfter:
    """The scores after any roll-out of a user, remembered: targets and epochs meet the same sequences again."""

    @lru_cache(_REMEMBERED)
    def rolled_out(items: tuple[int, ...]) -> tuple[RollOut, Tensor, Tensor]:
        state = rolled_out(items[:-1])[0].then(items[-1]) if items else start
        slope, intercept = state.affine()
        return state, aligned(slope), aligned(intercept)

    return lambda items: rolled_out(items)[1:]


def ascend(
    objective: Callable[[Tensor], Tensor | None],
    problem: RollOutProblem,
    draw: np.random.Generator,
    ascent: AscentSettings,
) -> Tensor:
    """(steps, items): ratings from a random start, after the epochs or where there is no objective any more."""
    ratings = aligned(draw.uniform(problem.low, problem.high, (problem.steps, len(problem.shown)))).requires_grad_()
    optimizer = torch.optim.Adam([ratings], lr=ascent.learning_rate, maximize=True)
    for _ in range(ascent.epochs):
        value = objective(ratings)
        if value is None:
            break
        optimizer.zero_grad()
        torch.autograd.backward(value)
        optimizer.step()
        with torch.no_grad():
            ratings.clamp_(problem.low, problem.high)
    return ratings.detach()


def ascend_after_top1(problem: RollOutProblem, policy: Policy, ascent: AscentSettings) -> TrajectorySolution:
    """The best probability that Algorithm 2 finds, target by target: a lower bound of the largest one."""
    best, scores = BestRollOuts(problem), remembered_scores(problem.start)
    if problem.shown.sum() >= problem.steps:
        for row, target in enumerate(problem.targets.tolist()):
            objective = partial(_probability, problem=problem, policy=policy, scores=scores, row=row, best=best)
            ascend(objective, problem, generator(ascent.rng, "future gradient", target), ascent)
    sequences = len(np.unique(best.items[best.found], axis=0))
    never_solved = -np.inf
    return best.solution(np.zeros(len(problem.targets)), never_solved, sequences, complete=False)


def _probability(
    ratings: Tensor, problem: RollOutProblem, policy: Policy, scores: ScoresAfter, row: int, best: BestRollOuts
) -> Tensor | None:
    """The probability of a target at the end for a user who rates item i at step t with `ratings[t, i]`.

    Without one where the target itself is shown: no rating of it makes it a candidate again.
    """
    items: tuple[int, ...] = ()
    for step in range(problem.steps + 1):
        slope, intercept = scores(items)
        given = ratings[torch.arange(step), torch.tensor(items, dtype=torch.long)]
        after = (slope @ given + intercept)[None]
        if step < problem.steps:
            free = torch.from_numpy(without(problem.shown, items))
            items = (*items, int(top_items(after.detach(), free[None], 1)[0, 0]))
    target, allowed = int(problem.targets[row]), torch.from_numpy(without(problem.candidates, items))
    if not allowed[target]:
        return None
    log_probability = policy.log_probabilities(after, allowed[None])[0, target]
    if log_probability.item() > best.value[row]:
        reached = np.array([log_probability.item()])
        best.put(np.array([row]), reached, reached, items, given.detach().numpy())
    return log_probability.exp()

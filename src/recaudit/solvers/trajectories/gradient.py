"""The paper's own method: projected gradient ascent on a rating for every step and item (paper 001, Algorithm 2).

Beside the exact solver, for comparison. The choice of the items has no gradient (appendix G.3): an epoch improves the
ratings of the items that it was shown, and a step across the border of a cell is a jump that it does not see coming.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, top_items
from recaudit.seeding import generator
from recaudit.solvers.trajectories.solution import TrajectorySolution
from recaudit.status import Status

_REMEMBERED = 2000
"""Roll-outs of a user that are kept; with a few thousand items, 300 MB."""


@final
@dataclass(frozen=True, eq=False)
class Paths:
    """Every roll-out of a user that was asked for, by its items: targets and epochs come by the same ones again."""

    start: RollOut
    known: dict[tuple[int, ...], tuple[RollOut, Tensor, Tensor]] = field(default_factory=dict)

    def scores(self, items: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Slope (all items, steps) and intercept (all items,) after rating `items` in this order."""
        _, slope, intercept = self._at(items)
        return slope, intercept

    def _at(self, items: tuple[int, ...]) -> tuple[RollOut, Tensor, Tensor]:
        if items not in self.known:
            if len(self.known) >= _REMEMBERED:
                self.known.clear()
            state = self._at(items[:-1])[0].then(items[-1]) if items else self.start
            slope, intercept = state.affine()
            self.known[items] = state, aligned(slope), aligned(intercept)
        return self.known[items]


@final
@dataclass(frozen=True)
class Ascent:
    """How Algorithm 2 is run; the paper leaves the numbers open."""

    epochs: int = 100
    learning_rate: float = 0.1
    """Of Adam: the size of a probability's gradient says little about how far to go."""
    rng: int = 0


def ascend_after_top1(
    paths: Paths,
    shown: BoolArray,
    candidates: BoolArray,
    targets: IntArray,
    policy: Policy,
    steps: int,
    low: float,
    high: float,
    ascent: Ascent,
) -> TrajectorySolution:
    """The best probability that Algorithm 2 comes by, target by target: a lower bound of the largest one.

    `shown`, `candidates` and `targets` as for `maximize_after_top1`.
    """
    log_value = np.full(len(targets), -np.inf)
    items, ratings = np.full((len(targets), steps), -1), np.full((len(targets), steps), np.nan)
    if shown.sum() >= steps:
        for row, target in enumerate(targets):
            best = _ascend(paths, shown, candidates, int(target), policy, steps, low, high, ascent)
            log_value[row], items[row], ratings[row] = best
    found = np.isfinite(log_value)
    return TrajectorySolution(
        target=targets,
        log_value=np.where(found, log_value, np.nan),
        log_lower=log_value,
        log_upper=np.zeros(len(targets)),
        status=np.where(found, Status.BOUNDED.value, Status.FAILED.value),
        items=items,
        ratings=ratings,
        sequences=len({tuple(row) for row in items[found].tolist()}),
    )


def _ascend(
    paths: Paths,
    shown: BoolArray,
    candidates: BoolArray,
    target: int,
    policy: Policy,
    steps: int,
    low: float,
    high: float,
    ascent: Ascent,
) -> tuple[float, IntArray, FloatArray]:
    """Log-probability, items and ratings of the best epoch."""
    draw = generator(ascent.rng, "future gradient", target)
    R = aligned(draw.uniform(low, high, (steps, len(shown)))).requires_grad_()
    optimizer = torch.optim.Adam([R], lr=ascent.learning_rate, maximize=True)
    best: tuple[float, IntArray, FloatArray] = (-np.inf, np.full(steps, -1), np.full(steps, np.nan))
    for _ in range(ascent.epochs):
        with torch.no_grad():
            R.clamp_(low, high)
        followed = follow_top1(paths, R.detach(), shown)
        given = R[torch.arange(steps), torch.tensor(followed)]
        slope, intercept = paths.scores(followed)
        allowed = torch.from_numpy(candidates.copy())
        allowed[list(followed)] = False
        if not allowed[target]:
            return best  # the target itself was shown: no rating of it makes it a candidate again
        log_probability = policy.log_probabilities((slope @ given + intercept)[None], allowed[None])[0, target]
        if log_probability.item() > best[0]:
            best = log_probability.item(), np.array(followed), given.detach().numpy().copy()
        optimizer.zero_grad()
        torch.autograd.backward(log_probability.exp())
        optimizer.step()
    return best


def follow_top1(paths: Paths, ratings: Tensor, shown: BoolArray) -> tuple[int, ...]:
    """The items that are shown to a user who rates item i at step t with `ratings[t, i]` (steps, items)."""
    items: tuple[int, ...] = ()
    free = torch.from_numpy(shown.copy())
    for _ in range(len(ratings)):
        slope, intercept = paths.scores(items)
        given = ratings[torch.arange(len(items)), torch.tensor(items, dtype=torch.long)]
        top = int(top_items((slope @ given + intercept)[None], free[None], 1)[0, 0])
        items, free[top] = (*items, top), False
    return items

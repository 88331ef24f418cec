"""Gradient ascent on the expected probability of an item after roll-outs: lower bounds.

What is free is a rating for every step and item, f (steps, items), and the objective is the expectation, over the items
drawn on the way, of the probability at the end (paper 001, Definition 4.1).

- A small tree of sequences: the expectation is computed in full, and ascended with gradients through the probabilities
  of what is shown as well (appendix G.1).
- Beyond: trajectories drawn with common random numbers; the gradient has the score of the drawn items besides. The
  value is the mean over fresh draws, and `lower` the lower end of its confidence interval.

For comparison with the exact solvers, the paper's own method for a top-1 recommender: projected gradient ascent on f
(Algorithm 2). The choice of the items has no gradient (appendix G.3): an epoch improves the ratings of the items that
it was shown, and a step across the border of a cell is a jump that it does not see coming.

This module needs torch, for the gradients; the other solvers of roll-outs do without.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, final

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, Power, Softmax, top_items
from recaudit.policies.gradients import tensor_log_probabilities
from recaudit.seeding import generator
from recaudit.solvers.trajectories.draws import drawn_solution, shown_first
from recaudit.solvers.trajectories.problem import (
    AscentSettings,
    BestRollOuts,
    DrawSettings,
    RollOutProblem,
    TrajectorySolution,
    without,
)

ScoresAfter = Callable[[tuple[int, ...]], tuple[Tensor, Tensor]]
"""Slope (all items, steps) and intercept (all items,) of the scores after rating these items in this order."""

# Roll-outs of a user that are kept; with a few thousand items, 300 MB.
_REMEMBERED = 2000
_UNIT = float(np.finfo(np.float64).eps)


def ascend_after_draws(
    problem: RollOutProblem, follows: Policy, policy: Policy, ascent: AscentSettings, sampling: DrawSettings
) -> TrajectorySolution:
    """The best expected probability of each target that ascent finds: lower bounds.
    `follows` draws the items on the way, `policy` the last recommendation."""
    system = _DrawingSystem(problem, follows, policy, remembered_scores(problem.start))
    sequences = math.perm(int(problem.shown.sum()), problem.steps)
    tree = _Tree(system) if sequences <= sampling.max_sequences else None
    value, lower = np.empty(len(problem.targets)), np.empty(len(problem.targets))
    for row, target in enumerate(problem.targets.tolist()):
        start = generator(ascent.rng, "future draws", target)
        if tree is not None:
            f = ascend(partial(tree.expected, target=target), problem, start, ascent)
            value[row] = float(tree.expected(f, target))
            lower[row] = value[row] * math.exp(-tree.rounding(f))
        else:
            shape = (sampling.samples, problem.steps, len(problem.shown))
            streams = (generator(ascent.rng, "future draws", purpose, target) for purpose in ("ascent", "value"))
            seen, fresh = (_Draws(system, target, torch.from_numpy(draw.gumbel(size=shape))) for draw in streams)
            f = ascend(seen.surrogate, problem, start, ascent)
            value[row], lower[row] = fresh.estimate(f, sampling.confidence)
    often = shown_first(problem, follows)[1]
    others = np.array([np.logaddexp.reduce(np.delete(often, target), initial=-np.inf) for target in problem.targets])
    with np.errstate(divide="ignore"):
        logs = np.log(value), np.log(lower), np.minimum(others, 0.0)
    never_solved = -np.inf
    return drawn_solution(problem, *logs, never_solved, sequences if tree is not None else sampling.samples)


class _DrawingSystem(NamedTuple):
    """A recommender that draws what it shows by `follows`, and the last recommendation by `policy`."""

    problem: RollOutProblem
    follows: Policy
    policy: Policy
    scores: ScoresAfter


@final
class _Level:
    """Sequences of the same number of items, as tensors: the scores after each are affine in its ratings."""

    def __init__(self, system: _DrawingSystem, sequences: list[tuple[int, ...]]) -> None:
        last, problem = len(sequences[0]) == system.problem.steps, system.problem
        self.policy, among = (system.policy, problem.candidates) if last else (system.follows, problem.shown)
        self.items = torch.tensor(sequences, dtype=torch.long)
        scores = [system.scores(sequence) for sequence in sequences]
        # (sequences, all items, steps) and (sequences, all items).
        self.slope, self.intercept = (torch.stack(parts) for parts in zip(*scores, strict=True))
        self.allowed = torch.from_numpy(np.stack([without(among, sequence) for sequence in sequences]))
        self.ties = problem.tie_keys(len(sequences))
        if isinstance(self.policy, Softmax):  # what the allowed items share moves no probability
            shared = self.intercept.masked_fill(~self.allowed, -torch.inf).amax(dim=1, keepdim=True)
            self.intercept = self.intercept - shared

    def scores(self, f: Tensor) -> Tensor:
        """(sequences, all items): under the ratings f (steps, all items)."""
        return torch.einsum("sit,st->si", self.slope, self._given(f)) + self.intercept

    def logs(self, f: Tensor) -> Tensor:
        """(sequences, all items): log-probabilities of what comes next."""
        return tensor_log_probabilities(self.policy, self.scores(f), self.allowed, self.ties)

    def rounding(self, f: Tensor) -> float:
        """How far rounding moves one of these at most: what (steps + 3) roundings of a score's size do to it."""
        sizes = torch.einsum("sit,st->si", self.slope.abs(), self._given(f).abs()) + self.intercept.abs()
        errors = (_UNIT * (self.items.shape[1] + 3) * sizes)[self.allowed]
        moved = 0.0  # which item is on top is settled by the rule for ties
        if isinstance(self.policy, Softmax):
            moved = 2 * self.policy.fixed_beta * float(errors.max())
        elif isinstance(self.policy, Power):
            scores = self.scores(f)[self.allowed]
            least = (scores - errors).clamp(min=0.0)
            moved = 2 * self.policy.power * float(torch.where(scores + errors > 0, errors / least, 0.0).max())
        return moved + _UNIT * (self.allowed.shape[1] + 16)

    def _given(self, f: Tensor) -> Tensor:
        """(sequences, steps): the ratings of each sequence's items."""
        return f[torch.arange(self.items.shape[1]), self.items]


@final
class _Tree:
    """Every sequence of items, level by level; the last level's are the leaves."""

    def __init__(self, system: _DrawingSystem) -> None:
        sequences: list[tuple[int, ...]] = [()]
        self._levels = [_Level(system, sequences)]
        items = np.flatnonzero(system.problem.shown).tolist()
        for _ in range(system.problem.steps):
            sequences = [(*sequence, item) for sequence in sequences for item in items if item not in sequence]
            self._levels.append(_Level(system, sequences))

    def expected(self, f: Tensor, target: int) -> Tensor:
        """The expected probability of the target under the ratings f (steps, items)."""
        chances = f.new_ones(1)
        for level in self._levels[:-1]:
            # Children come in the order of their parents, and of the items that are left.
            chances = (chances[:, None] * level.logs(f).exp())[level.allowed]
        return (chances * self._levels[-1].logs(f)[:, target].exp()).sum()

    def rounding(self, f: Tensor) -> float:
        """How far rounding moves the logarithm of an expected probability at most."""
        return sum(level.rounding(f) for level in self._levels) + _UNIT * (len(self._levels[-1].items) + 8)


@final
@dataclass(frozen=True, eq=False)
class _Draws:
    """Trajectories of a fixed noise: the same draws for every f, so that two f can be compared."""

    system: _DrawingSystem
    target: int
    noise: Tensor  # (samples, steps, items): added to log-probabilities, the highest sum is a draw (Gumbel)

    def surrogate(self, f: Tensor) -> Tensor:
        """Its gradient estimates that of the expectation: grad P + P grad log P(what was drawn), less a baseline."""
        chances, drawn = self._rolled(f)
        centred = (chances - chances.mean()).detach()
        return (chances + centred * drawn).mean()

    def estimate(self, f: Tensor, confidence: float) -> tuple[float, float]:
        """The mean and its lower confidence limit."""
        chances = self._rolled(f)[0].numpy()
        spread = float(chances.std(ddof=1)) / math.sqrt(len(chances))
        quantile = float(stats.t.ppf((1 + confidence) / 2, len(chances) - 1))
        return float(chances.mean()), max(0.0, float(chances.mean()) - quantile * spread)

    def _rolled(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """(samples,): the target's probability at the end of each trajectory, and the log-probability of the latter."""
        sequences: list[tuple[int, ...]] = [()] * len(self.noise)
        drawn = f.new_zeros(len(self.noise))
        for noise in self.noise.unbind(dim=1):
            logs = _Level(self.system, sequences).logs(f)
            items = (logs.detach() + noise).argmax(dim=1)
            drawn = drawn + logs.gather(1, items[:, None])[:, 0]
            sequences = [(*sequence, item) for sequence, item in zip(sequences, items.tolist(), strict=True)]
        return _Level(self.system, sequences).logs(f)[:, self.target].exp(), drawn


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
    """The probability of a target at the end for a user who rates item i at step t with `ratings[t, i]`; None where
    the target itself is shown: no rating of it makes it a candidate again."""
    items: tuple[int, ...] = ()
    ties = problem.tie_keys()
    for step in range(problem.steps + 1):
        slope, intercept = scores(items)
        given = ratings[torch.arange(step), torch.tensor(items, dtype=torch.long)]
        after = (slope @ given + intercept)[None]
        if step < problem.steps:
            free = without(problem.shown, items)
            items = (*items, int(top_items(after.detach().numpy(), free[None], 1, ties)[0, 0]))
    target, allowed = int(problem.targets[row]), torch.from_numpy(without(problem.candidates, items))
    if not allowed[target]:
        return None
    log_probability = tensor_log_probabilities(policy, after, allowed[None], ties)[0, target]
    if log_probability.item() > best.value[row]:
        reached = np.array([log_probability.item()])
        best.put(np.array([row]), reached, reached, items, given.detach().numpy())
    return log_probability.exp()

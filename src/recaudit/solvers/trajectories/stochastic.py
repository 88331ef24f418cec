"""The largest expected probability of an item where what is shown on the way is drawn, not the top one.

What is free is a rating for every step and item, f (steps, items), and the objective is the expectation, over the items
drawn on the way, of the probability at the end (paper 001, Definition 4.1).

- One step: every first item has a rating of its own, and the expectation is a sum of one-dimensional problems that are
  solved exactly.
- A small tree of sequences: the expectation is computed in full, and ascended with gradients through the probabilities
  of what is shown as well (appendix G.1). A lower bound.
- Beyond: trajectories drawn with common random numbers; the gradient has the score of the drawn items besides. The
  value is the mean over fresh draws, and `log_lower` the lower end of its confidence interval.

No trajectory that shows the target first can end with it, so that 1 - P(target is shown first) is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.models.rollouts import RollOut
from recaudit.policies import Policy, Power, Softmax
from recaudit.seeding import generator
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.trajectories.gradient import Ascent, Paths
from recaudit.solvers.trajectories.solution import TrajectorySolution
from recaudit.status import Status

# Ratings at which a one-dimensional problem is bounded.
_RATINGS = 9
# What the evaluations of one such problem may hold, in bytes.
_WORK_BYTES = 1 << 26
_UNIT = float(np.finfo(np.float64).eps)
# Items that are shown first less often, as a logarithm, all together change nothing but the upper bound.
_SMALLEST = -745.0


@final
@dataclass(frozen=True)
class Sampling:
    """How much is computed before the answer is a bracket or an estimate."""

    first_items: int = 200
    """Where one item is drawn: how many of the most likely ones have their best rating solved for."""
    max_sequences: int = 5000
    """Sequences of items whose expectation is computed in full."""
    samples: int = 256
    """Trajectories drawn, beyond that, for each epoch and for the value."""
    confidence: float = 0.95
    """Of the interval whose lower end is the lower bound then."""


@final
@dataclass(frozen=True, eq=False)
class Drawn:
    """A system that draws what it shows: everything but the target."""

    start: RollOut
    shown: BoolArray
    """(items,): what may be shown on the way, each once."""
    candidates: BoolArray
    """(items,): what the last recommendation is drawn from, less what was rated on the way."""
    follows: Policy
    """Draws what is shown on the way."""
    policy: Policy
    """Draws the last recommendation."""
    low: float
    high: float

    def first(self) -> tuple[FloatArray, FloatArray]:
        """(items,) each: the log-probability of each item of being shown first, rounded down and rounded up."""
        scores = torch.from_numpy(self.start.affine()[1])[None]
        logs = self.follows.log_probabilities(scores, torch.from_numpy(self.shown)[None])[0].numpy()
        error = _UNIT * (len(logs) + 16 + 4 * np.abs(np.where(np.isfinite(logs), logs, 0.0)))
        return logs - error, np.minimum(logs + error, 0.0)

    def left(self, of: BoolArray, items: tuple[int, ...]) -> Tensor:
        """(items,): what is left of `of` after `items`."""
        free = torch.from_numpy(of.copy())
        free[list(items)] = False
        return free


def maximize_one_draw(
    system: Drawn, targets: IntArray, beta: float, tol: float, sampling: Sampling
) -> TrajectorySolution:
    """The largest expected softmax probability of each target after the rating of one drawn item.

    sum over a of P(a is shown) max over its rating of P(target | a, rating). For the most likely items a the maximum is
    solved for; for the others it is bounded from a few ratings and the tangents there. Solved where the bounds on the
    log-probability, rounding included, are `tol` apart.
    """
    seldom, often = system.first()
    log_lower = np.full(len(targets), -np.inf)
    order = np.argsort(-often, kind="stable")
    likely = order[often[order] > _SMALLEST]
    log_upper = np.full(len(targets), np.logaddexp.reduce(often[order[len(likely) :]], initial=-np.inf))
    for rank, item in enumerate(likely.tolist()):
        allowed = system.left(system.candidates, (item,)).numpy()
        rows = np.flatnonzero(allowed[targets])
        slope, intercept = (array[allowed] for array in system.start.then(item).affine())
        places = np.searchsorted(np.flatnonzero(allowed), targets[rows])
        if rank < sampling.first_items:
            found = maximize_softmax(slope, intercept, places, beta, system.low, system.high, tol / 2, actions=False)
            least, most = found.lower, found.upper
        else:
            least, most = _bracket(slope, intercept, places, beta, system.low, system.high)
        log_lower[rows] = np.logaddexp(log_lower[rows], seldom[item] + least)
        log_upper[rows] = np.logaddexp(log_upper[rows], often[item] + most)
    # Every sum of the loop rounds a logarithm.
    unit = _UNIT * (len(likely) + 1)
    log_lower -= unit * (8 + np.abs(np.nan_to_num(log_lower, neginf=0.0)))
    log_upper += unit * (8 + np.abs(np.nan_to_num(log_upper, neginf=0.0)))
    log_upper = np.minimum(log_upper, 0.0)
    solved = log_upper <= log_lower + tol
    status = np.where(solved, Status.SOLVED.value, Status.BOUNDED.value)
    return _by_chance(targets, log_lower, log_lower, log_upper, status, 1, len(likely))


def _bracket(
    slope: FloatArray, intercept: FloatArray, targets: IntArray, beta: float, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """(targets,) each: a log-probability that some rating reaches, and one that no rating exceeds.

    `slope` (items, 1) and `intercept` (items,) of the scores. A log-probability is concave: below each of its tangents.
    """
    half = (high - low) / 2
    box = (torch.full((1, 1), end, dtype=torch.double) for end in (low + half, half))
    scores = Scaled.of(aligned(slope)[None], aligned(intercept)[None], beta, *box)
    family, own = LogSumExp(scores, _WORK_BYTES), torch.from_numpy(targets)
    points = torch.linspace(-1, 1, _RATINGS, dtype=torch.double)[:, None]
    known = family.evaluate(points, torch.zeros(_RATINGS, dtype=torch.long), hessian=False)
    slopes = scores.slopes[0, own, 0]
    logs = family.offsets[0, own] + points * slopes - known.value[:, None]
    rise = slopes - known.gradient
    rounding = family.rounding + family.own_rounding[0, own]
    least, most = logs.amax(dim=0) - rounding, (logs + rise.abs() - rise * points).amin(dim=0) + rounding
    return least.numpy(), most.clamp(max=0.0).numpy()


def ascend_after_draws(
    system: Drawn, targets: IntArray, steps: int, ascent: Ascent, sampling: Sampling
) -> TrajectorySolution:
    """The best expected probability of each target that ascent comes by; see the notes on top of this file.

    `targets` (targets,), ascending, are candidates. The values are lower bounds: exact ones of what some f reaches
    where the tree is small, else lower ends of confidence intervals.
    """
    paths = Paths(system.start)
    sequences = math.perm(int(system.shown.sum()), steps)
    value, lower = np.empty(len(targets)), np.empty(len(targets))
    tree = _Tree(system, paths, steps) if sequences <= sampling.max_sequences else None
    for row, target in enumerate(targets.tolist()):
        if tree is not None:
            f = _ascended(partial(tree.expected, target=target), system, target, steps, ascent)
            value[row] = float(tree.expected(f, target))
            lower[row] = value[row] * math.exp(-tree.rounding(f))
        else:
            seen, fresh = (
                _Draws.of(system, paths, steps, target, sampling, ascent.rng, n) for n in ("ascent", "value")
            )
            f = _ascended(seen.surrogate, system, target, steps, ascent)
            value[row], lower[row] = fresh.estimate(f, sampling.confidence)
    often = system.first()[1]
    others = np.array([np.logaddexp.reduce(np.delete(often, target), initial=-np.inf) for target in targets])
    with np.errstate(divide="ignore"):
        logs = np.log(value), np.log(lower), np.minimum(others, 0.0)
    status = np.full(len(targets), Status.BOUNDED.value, dtype="<U14")
    return _by_chance(targets, *logs, status, steps, sequences if tree is not None else sampling.samples)


def _by_chance(
    targets: IntArray,
    log_value: FloatArray,
    log_lower: FloatArray,
    log_upper: FloatArray,
    status: np.ndarray[tuple[int, ...], np.dtype[np.str_]],
    steps: int,
    sequences: int,
) -> TrajectorySolution:
    """Without items and ratings: which are given is chance. A target that is surely shown first is no target."""
    status = np.where(np.isneginf(log_upper), Status.NOT_APPLICABLE.value, status)
    shape = (len(targets), steps)
    nothing = np.full(shape, -1), np.full(shape, np.nan)
    return TrajectorySolution(targets, log_value, log_lower, log_upper, status, *nothing, sequences)


def _ascended(objective: Callable[[Tensor], Tensor], system: Drawn, target: int, steps: int, ascent: Ascent) -> Tensor:
    """(steps, items): ratings from a random start, after the epochs."""
    draw = generator(ascent.rng, "future draws", target)
    f = aligned(draw.uniform(system.low, system.high, (steps, len(system.shown)))).requires_grad_()
    optimizer = torch.optim.Adam([f], lr=ascent.learning_rate, maximize=True)
    for _ in range(ascent.epochs):
        optimizer.zero_grad()
        torch.autograd.backward(objective(f))
        optimizer.step()
        with torch.no_grad():
            f.clamp_(system.low, system.high)
    return f.detach()


@final
@dataclass(frozen=True, eq=False)
class _Level:
    """Sequences of the same number of items, as tensors: the scores after each are affine in its ratings."""

    items: Tensor
    """(sequences, steps)"""
    slope: Tensor
    """(sequences, all items, steps)"""
    intercept: Tensor
    """(sequences, all items)"""
    allowed: Tensor
    """(sequences, all items): what can be recommended next."""

    @classmethod
    def of(cls, system: Drawn, paths: Paths, sequences: list[tuple[int, ...]], among: BoolArray) -> _Level:
        scores = [paths.scores(sequence) for sequence in sequences]
        slope, intercept = (torch.stack(parts) for parts in zip(*scores, strict=True))
        allowed = torch.stack([system.left(among, sequence) for sequence in sequences])
        return cls(torch.tensor(sequences, dtype=torch.long), slope, intercept, allowed)

    def logs(self, f: Tensor, policy: Policy) -> Tensor:
        """(sequences, all items): log-probabilities of what comes next, under the ratings f (steps, all items)."""
        return policy.log_probabilities(self._scores(f, self._base(policy)), self.allowed)

    def rounding(self, f: Tensor, policy: Policy) -> float:
        """How far rounding moves one of these at most: what (steps + 3) roundings of a score's size do to it."""
        base = self._base(policy)
        sizes = torch.einsum("sit,st->si", self.slope.abs(), self._given(f).abs()) + base.abs()
        errors = (_UNIT * (self.items.shape[1] + 3) * sizes)[self.allowed]
        moved = 0.0  # which item is on top is settled by the rule for ties
        if isinstance(policy, Softmax):
            moved = 2 * policy.beta * float(errors.max())
        elif isinstance(policy, Power):
            scores = self._scores(f, base)[self.allowed]
            least = (scores - errors).clamp(min=0.0)
            moved = 2 * policy.power * float(torch.where(scores + errors > 0, errors / least, 0.0).max())
        return moved + _UNIT * (self.allowed.shape[1] + 16)

    def _given(self, f: Tensor) -> Tensor:
        """(sequences, steps): the ratings of each sequence's items."""
        return f[torch.arange(self.items.shape[1]), self.items]

    def _scores(self, f: Tensor, base: Tensor) -> Tensor:
        return torch.einsum("sit,st->si", self.slope, self._given(f)) + base

    def _base(self, policy: Policy) -> Tensor:
        """(sequences, all items): the intercepts, for a softmax without what the allowed items share."""
        if not isinstance(policy, Softmax):
            return self.intercept
        return self.intercept - self.intercept.masked_fill(~self.allowed, -torch.inf).amax(dim=1, keepdim=True)


@final
class _Tree:
    """Every sequence of items, level by level."""

    def __init__(self, system: Drawn, paths: Paths, steps: int) -> None:
        self._system = system
        self._levels = []
        sequences: list[tuple[int, ...]] = [()]
        items = np.flatnonzero(system.shown).tolist()
        for _ in range(steps):
            self._levels.append(_Level.of(system, paths, sequences, system.shown))
            sequences = [(*sequence, item) for sequence in sequences for item in items if item not in sequence]
        self._leaves = _Level.of(system, paths, sequences, system.candidates)

    def expected(self, f: Tensor, target: int) -> Tensor:
        """The expected probability of the target under the ratings f (steps, items)."""
        chances = f.new_ones(1)
        for level in self._levels:
            # Children come in the order of their parents, and of the items that are left.
            chances = (chances[:, None] * level.logs(f, self._system.follows).exp())[level.allowed]
        return (chances * self._leaves.logs(f, self._system.policy)[:, target].exp()).sum()

    def rounding(self, f: Tensor) -> float:
        """How far rounding moves the logarithm of an expected probability at most."""
        levels = [*((level, self._system.follows) for level in self._levels), (self._leaves, self._system.policy)]
        return sum(level.rounding(f, policy) for level, policy in levels) + _UNIT * (len(self._leaves.items) + 8)


@final
@dataclass(frozen=True, eq=False)
class _Draws:
    """Trajectories of a fixed noise: the same draws for every f, so that two f can be compared."""

    system: Drawn
    paths: Paths
    target: int
    noise: Tensor
    """(samples, steps, items): added to log-probabilities, the highest sum is a draw (Gumbel)."""

    @classmethod
    def of(
        cls, system: Drawn, paths: Paths, steps: int, target: int, sampling: Sampling, rng: int, purpose: str
    ) -> _Draws:
        """Another `purpose`, other draws."""
        draw = generator(rng, "future draws", purpose, target)
        noise = torch.from_numpy(draw.gumbel(size=(sampling.samples, steps, len(system.shown))))
        return cls(system, paths, target, noise)

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
            logs = _Level.of(self.system, self.paths, sequences, self.system.shown).logs(f, self.system.follows)
            items = (logs.detach() + noise).argmax(dim=1)
            drawn = drawn + logs.gather(1, items[:, None])[:, 0]
            sequences = [(*sequence, item) for sequence, item in zip(sequences, items.tolist(), strict=True)]
        last = _Level.of(self.system, self.paths, sequences, self.system.candidates)
        return last.logs(f, self.system.policy)[:, self.target].exp(), drawn

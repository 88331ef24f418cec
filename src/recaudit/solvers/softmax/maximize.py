"""The largest softmax probability of an item over a box of actions (paper 000, section 3.2).

Scores are affine in the action, s = slope @ a + intercept, so that -log of the softmax probability of a target,
f(a) = log sum_j exp(beta s_j(a)) - beta s_i(a), is convex, and any point with its gradient bounds the minimum:
f(a) - f* <= sum_k max(g_k (a_k - lower_k), g_k (a_k - upper_k)). Every answer carries this certificate.

How likely an item can be made to be in a slate of n drawn without replacement (Plackett-Luce) has two bounds.
Drawing without replacement in proportion to exp(z) is a race: item j arrives after an exponential time of rate
exp(z_j), and the slate is the first n to arrive.

- At any action, an item that is the first of all but n - 1 others is in the slate, whichever those others are. So the
  largest softmax probability with the n - 1 strongest rivals taken out is a lower bound; and so is 1 - (1 - rho*)^n,
  since each draw that has not brought the item yet only makes it likelier in the next.
- An item in the slate is before at least N - n others. By Markov's inequality that is at most as likely as the expected
  number of others after it, sum_j sigma(z_i - z_j), over N - n; over the box each sigma is largest at a corner.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray
from recaudit.solvers.batches import CPU_MEMORY, Batch, plan_batches, run_on_cores
from recaudit.solvers.checks import Array, as_box, as_positions, as_scores, check_positive, require
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled, tolerance_beside
from recaudit.solvers.softmax.newton import minimize
from recaudit.solvers.solution import Solution, concatenate, no_solutions, status_of

_UNIT = float(np.finfo(np.float64).eps)
# Below this a probability has no digits left as a double.
_SMALLEST = -700.0
_first_use = threading.Lock()


def maximize_softmax(
    slope: Array,
    intercept: Array,
    targets: Array,
    beta: float,
    lower: Array,
    upper: Array,
    tol: float = 1e-6,
    *,
    device: str = "cpu",
    memory_limit: int | None = None,
    max_steps: int = 500,
    actions: bool = True,
) -> Solution:
    """The largest softmax probability of each target over the actions a with lower <= a <= upper.

    `slope` (items, K) and `intercept` (items,): the scores s = slope @ a + intercept of all candidate items;
    `targets` (targets,): positions of items; `beta` > 0; `lower`, `upper`: numbers or (K,).

    A target is solved when its bounds on the log-probability, rounding included, are at most `tol` apart, and bounded
    when that takes more than `max_steps` Newton steps or the rounding of its scores alone is as wide. `memory_limit` is
    in bytes for each core, beside the input and the answer; by default 512 MiB, or a quarter of a CUDA `device`.
    `actions=False` leaves the maximisers out.
    """
    slope, intercept = as_scores(slope, intercept)
    positions = as_positions("targets", targets, len(intercept)).to(slope.device)
    ends = as_box(lower, upper, (1, slope.shape[1]), slope.device)
    solver = _Solver(beta, tol, device, memory_limit, max_steps, actions)
    found, best = solver.solve(slope[None], intercept[None], torch.zeros_like(positions), positions, *ends)
    return replace(found, actions=best.cpu().numpy())


def maximize_softmax_batch(
    slope: Array,
    intercept: Array,
    targets: Array,
    beta: float,
    lower: Array,
    upper: Array,
    tol: float = 1e-6,
    *,
    device: str = "cpu",
    memory_limit: int | None = None,
    max_steps: int = 500,
    actions: bool = False,
) -> Solution:
    """`maximize_softmax` for many problems of the same number of actions.

    `slope` (problems, items, K); `intercept` (problems, items), -inf where an item is no candidate; `targets`
    (problems, items): True where an item is a target; `lower`, `upper`: numbers, (K,) or (problems, K). Answers come in
    the order of the True entries. The rest of the batch moves one by rounding only, or within its bounds.
    """
    asked = (slope, intercept, targets, beta, lower, upper, tol)
    found, best = maximize_softmax_there(
        *asked, device=device, memory_limit=memory_limit, max_steps=max_steps, actions=actions
    )
    return replace(found, actions=best.cpu().numpy())


def maximize_softmax_there(
    slope: Array,
    intercept: Array,
    targets: Array,
    beta: float,
    lower: Array,
    upper: Array,
    tol: float = 1e-6,
    *,
    device: str = "cpu",
    memory_limit: int | None = None,
    max_steps: int = 500,
    actions: bool = True,
) -> tuple[Solution, Tensor]:
    """`maximize_softmax_batch` with the maximisers (pairs, K) left on the device, apart from the solution."""
    slope, intercept = as_scores(slope, intercept, batch=True)
    mask = targets if isinstance(targets, Tensor) else torch.from_numpy(np.asarray(targets))
    received = f"an array of shape {tuple(mask.shape)} and type {mask.dtype}"
    expected = f"booleans of shape {tuple(intercept.shape)}, True where an item is a target"
    require(mask.dtype == torch.bool and mask.shape == intercept.shape, "targets", received, expected)
    owner, positions = mask.to(slope.device).nonzero().unbind(dim=1)
    candidates = not bool(intercept[owner, positions].isinf().any())
    require(candidates, "targets", "a target with the intercept -inf", "targets that are candidates")
    ends = as_box(lower, upper, (slope.shape[0], slope.shape[2]), slope.device)
    solver = _Solver(beta, tol, device, memory_limit, max_steps, actions)
    return solver.solve(slope, intercept, owner, positions, *ends)


@final
@dataclass(frozen=True)
class _Solver:
    """How to solve: everything but the numbers of the problems."""

    beta: float
    tol: float
    device: str
    memory_limit: int | None
    max_steps: int
    actions: bool

    def __post_init__(self) -> None:
        there = self._kind != "cuda" or torch.cuda.is_available()
        require(there, "device", self.device, "'cpu': torch finds no CUDA device here")
        if self._kind == "cuda":
            with _first_use:
                # Torch loads its linear algebra for a GPU at the first use, and fails if two threads do so at once.
                torch.linalg.cholesky(torch.eye(1, device=self.device))
        check_positive("beta", self.beta)
        check_positive("tol", self.tol)
        require(self.max_steps >= 1, "max_steps", self.max_steps, "a whole number of 1 or more")

    @property
    def _kind(self) -> str:
        return torch.device(self.device).type

    @property
    def _memory(self) -> int:
        """What is there, not what is free: batches, and so the last bits, must not depend on who else computes."""
        if self.memory_limit is not None:
            return self.memory_limit
        return torch.cuda.get_device_properties(self.device).total_memory // 4 if self._kind == "cuda" else CPU_MEMORY

    def solve(
        self, slope: Tensor, intercept: Tensor, owner: Tensor, positions: Tensor, lower: Tensor, upper: Tensor
    ) -> tuple[Solution, Tensor]:
        """The targets `positions` (pairs,) of the problems `owner` (pairs,), ascending; the maximisers apart."""

        def solve_batch(batch: Batch) -> tuple[Solution, Tensor]:
            rows, chosen = batch.pairs, torch.tensor(batch.problems, device=slope.device)
            local = torch.searchsorted(chosen, owner[rows])
            parts = (slope[chosen], intercept[chosen], local, positions[rows], lower[chosen], upper[chosen])
            return self._solve_batch(*(part.to(self.device) for part in parts))

        _, items, columns = slope.shape
        counts = torch.bincount(owner, minlength=len(slope)).tolist()
        batches = plan_batches(counts, items, columns, self._memory, on_cpu=self._kind == "cpu")
        solved = run_on_cores(solve_batch, batches) if self._kind == "cpu" else [solve_batch(one) for one in batches]
        actions = torch.cat([slope.new_empty(0, columns, device=self.device), *(best for _, best in solved)])
        return concatenate([no_solutions(columns), *(found for found, _ in solved)]), actions

    def _solve_batch(
        self, slope: Tensor, intercept: Tensor, owner: Tensor, positions: Tensor, lower: Tensor, upper: Tensor
    ) -> tuple[Solution, Tensor]:
        half = (upper - lower) / 2
        middle = lower + half
        slope, intercept, places = _without_gaps(slope, intercept, owner, positions)
        scores = Scaled.of(slope, intercept, self.beta, middle, half)
        family = LogSumExp(scores, self._memory // 2)
        allowance = family.rounding[owner] + family.own_rounding[owner, places]
        tol = tolerance_beside(self.tol, allowance)
        found = minimize(family, scores.slopes[owner, places], owner, tol, self.max_steps)
        reached = (family.offsets[owner, places] - found.value).clamp(max=0.0)
        # Scores beyond what double precision holds give no value: such a target has failed, with trivial bounds.
        known = reached.isfinite() & found.gap.isfinite() & allowance.isfinite()
        bounds = (
            torch.where(known, reached, torch.nan),
            torch.where(known, reached - allowance, -torch.inf),
            torch.where(known, (reached + found.gap + allowance).clamp(max=0.0), 0.0),
        )
        value, least, most = (part.cpu().numpy() for part in bounds)
        status = status_of(least, most, self.tol, failed=np.isnan(value))
        rows = owner if self.actions else owner[:0]
        actions = middle[rows] + half[rows] * found.points[: len(rows)]
        actions = torch.minimum(torch.maximum(actions, lower[rows]), upper[rows])
        evaluations = found.evaluations.cpu().numpy()
        return Solution(value, least, most, status, np.empty((0, actions.shape[1])), evaluations), actions


def _without_gaps(slope: Tensor, intercept: Tensor, owner: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The candidates alone, padded to the largest number of them, and the places of `positions` (pairs,) among them."""
    candidates = intercept > -torch.inf
    width = int(candidates.sum(dim=1).max())
    if width == candidates.shape[1]:
        return slope, intercept, positions
    order = candidates.byte().argsort(dim=1, descending=True, stable=True)[:, :width]
    places = candidates.cumsum(dim=1)[owner, positions] - 1
    return slope.gather(1, order.unsqueeze(2).expand(-1, -1, slope.shape[2])), intercept.gather(1, order), places


def bound_slate(
    slope: Array, intercept: Array, targets: Array, beta: float, n: int, lower: Array, upper: Array, tol: float = 1e-6
) -> Solution:
    """Bounds on the largest probability that each target is among n draws; arguments as for `maximize_softmax`.
    `n` is the length of the slate. The value is the lower bound itself: what the actions reach at least."""
    slopes, intercepts = as_scores(slope, intercept)
    require(1 <= n <= len(intercepts), "n", n, f"a slate of 1 to {len(intercepts)} items")
    positions = as_positions("targets", targets, len(intercepts))
    low, high = as_box(lower, upper, (slopes.shape[1],), slopes.device)
    single = maximize_softmax(slopes, intercepts, positions, beta, low, high, tol)
    best, actions, evaluations = np.maximum(single.lower, _drawn(single.lower, n)), single.actions, single.evaluations

    centre = slopes @ ((low + high) / 2) + intercepts
    strongest = centre.argsort(descending=True, stable=True)[:n]
    inside = torch.isin(positions, strongest)
    groups = [(~inside).nonzero()[:, 0], *inside.nonzero()]
    for places in filter(len, groups):
        out = strongest[~torch.isin(strongest, positions[places])][: n - 1]
        rest = torch.ones(len(intercepts), dtype=torch.bool)
        rest[out] = False
        among = (rest.cumsum(0) - 1)[positions[places]]
        alone = maximize_softmax(slopes[rest], intercepts[rest], among, beta, low, high, tol)
        rows = places.numpy()
        evaluations[rows] += alone.evaluations
        better = alone.lower > best[rows]
        best[rows[better]], actions[rows[better]] = alone.lower[better], alone.actions[better]
    most = np.maximum(best, _markov(slopes, intercepts, positions, beta, n, low, high))
    return Solution(best, best, most, status_of(best, most, tol), actions, evaluations)


def _drawn(log_chance: FloatArray, n: int) -> FloatArray:
    """(targets,): the logarithm of 1 - (1 - p)^n, rounded down; it is no less exact, relatively, than p itself."""
    chance = np.minimum(np.exp(np.maximum(log_chance, _SMALLEST)), 1 - _UNIT)
    logs = np.log(-np.expm1(n * np.log1p(-chance)))
    return np.where(log_chance < _SMALLEST, log_chance, logs - _UNIT * (8 + 2 * np.abs(log_chance)))


def _markov(
    slope: Tensor, intercept: Tensor, targets: Tensor, beta: float, n: int, low: Tensor, high: Tensor
) -> FloatArray:
    """(targets,): the logarithm of min(1, sum over the others of sigma(largest z_i - z_j) / (N - n)), rounded up.

    A lead is a sum of 2 K + 1 terms, each a rounded difference times a bound of the box: it is off by at most (2 K + 4)
    roundings of the terms' sizes, and a logarithm of sigma by no more than its argument.
    """
    count, columns = slope.shape
    if n == count:
        return np.zeros(len(targets))
    far = torch.maximum(low.abs(), high.abs())
    logs = np.empty(len(targets))
    for place, target in enumerate(targets):
        difference, ahead = slope[target] - slope, intercept[target] - intercept
        lead = difference.clamp(min=0) @ high + difference.clamp(max=0) @ low + ahead
        lead += _UNIT * (columns + 4) * (difference.abs() @ far + ahead.abs())
        chances = torch.nn.functional.logsigmoid(beta * lead)
        chances[target] = -torch.inf  # the item itself
        logs[place] = float(chances.logsumexp(dim=0))
    with np.errstate(invalid="ignore"):
        bound: FloatArray = logs - np.log(count - n) + _UNIT * (count + 8 + 2 * np.abs(logs))
    # Scores that double precision does not hold bound nothing.
    return np.minimum(np.where(np.isnan(bound), 0.0, bound), 0.0)

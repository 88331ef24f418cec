"""The largest softmax probability of an item over actions that take a few values: stars, not an interval."""

from __future__ import annotations

import numpy as np
import torch

from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_double, as_positions, check_finite, check_positive, check_scores
from recaudit.solvers.discrete.grid import Grid
from recaudit.solvers.discrete.incumbents import Incumbents
from recaudit.solvers.discrete.search import Bounds, Search
from recaudit.solvers.softmax.logsumexp import LogSumExp
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.softmax.scaled import Scaled, tolerance_beside
from recaudit.solvers.solution import SoftmaxSolution

# What the evaluations of one problem may hold, in bytes.
_WORK_BYTES = 1 << 28
# Actions that are listed rather than searched: a tree costs a target about as much as this many tries. An accelerator
# tries that many times more in the same time, and does not speed up a tree.
_ALWAYS_LISTED, _LISTED_A_TARGET = 2_000, 8
_FASTER = 16
# How well the relaxed problem is solved, where the search starts: what is missing, the first nodes make up for.
_ROOT_TOL = 1e-3


def maximize_softmax_discrete(
    slope: Array,
    intercept: Array,
    targets: Array,
    beta: float,
    values: Array,
    tol: float = 1e-6,
    *,
    start: Array | None = None,
    changes: float | None = None,
    cost: Array | None = None,
    node_limit: int = 1000,
    enumerate_up_to: int | None = None,
    device: str = "cpu",
) -> SoftmaxSolution:
    """The largest softmax probability of each target over the actions a whose every a_k is one of `values`.

    `slope` (items, K) and `intercept` (items,): the scores s = slope @ a + intercept of all candidate items;
    `targets` (targets,): positions of items; `beta` > 0; `values` (ratings,), ascending.

    With a limit on effort, a_k may also stay at `start` (K,), whether that is one of the values or not, and the
    `cost` (K,) of those that do not, 1 each by default, may add up to `changes`.

    A target is solved when its bounds on the log-probability, rounding included, are at most `tol` apart. Up to
    `enumerate_up_to` actions are all tried, for all targets at once (by default as many as pay, given the number of
    targets). Beyond, branch and bound evaluates at most `node_limit` nodes a target, and the few more that are
    evaluated together with the last one; what is open then is bounded. `evaluations` of the answer counts the nodes.
    """
    slopes, intercepts = as_double("slope", slope, 2, "(items, K)"), as_double("intercept", intercept, 1, "(items,)")
    check_scores(slopes, intercepts)
    check_finite("slope", slopes)
    check_finite("intercept", intercepts)
    beta, tol = check_positive("beta", beta), check_positive("tol", tol)
    if node_limit < 1:
        raise InputError("node_limit", received=node_limit, expected="a whole number of 1 or more")
    positions = as_positions("targets", targets, len(intercepts))
    grid = Grid.checked(values, slopes.shape[1], start, changes, cost)

    slopes, intercepts, positions, lower, upper = (
        tensor.to(device)
        for tensor in (slopes, intercepts, positions, torch.from_numpy(grid.lower), torch.from_numpy(grid.upper))
    )
    half = (upper - lower) / 2
    scores = Scaled.of(slopes[None], intercepts[None], beta, (lower + half)[None], half[None])
    check_finite("beta * scores", scores.sizes)
    family = LogSumExp(scores, _WORK_BYTES)
    constant = family.offsets[0, positions].cpu().numpy()
    allowance = family.rounding + family.own_rounding[0, positions]
    incumbents = Incumbents(grid, family, scores.slopes[0, positions])

    if enumerate_up_to is None:
        enumerate_up_to = _ALWAYS_LISTED + _LISTED_A_TARGET * len(positions)
        if slopes.device.type != "cpu":
            enumerate_up_to *= _FASTER
    every_action = grid.enumerated(enumerate_up_to)
    if every_action is not None:
        everybody = np.arange(len(positions))
        incumbents.try_all(every_action, everybody)
        found = Bounds(incumbents.value, np.zeros_like(everybody))
    else:
        root_tol = max(tol, _ROOT_TOL)
        relaxed = maximize_softmax(slopes, intercepts, positions, beta, lower, upper, root_tol, device=device)
        search = Search(grid, family, incumbents, tolerance_beside(tol, allowance).cpu().numpy(), node_limit)
        found = search.run(grid.scaled(relaxed.actions), constant - relaxed.log_upper)

    rounding = allowance.cpu().numpy()
    log_value = np.minimum(constant - incumbents.value, 0.0)
    log_lower = log_value - rounding
    log_upper = np.minimum(constant - found.floor + rounding, 0.0)
    return SoftmaxSolution(
        problem=np.zeros(len(positions), dtype=np.int64),
        target=positions.cpu().numpy(),
        log_value=log_value,
        log_lower=log_lower,
        log_upper=log_upper,
        solved=log_upper - log_lower <= tol,
        evaluations=found.nodes,
        actions=grid.actions(incumbents.choice),
    )

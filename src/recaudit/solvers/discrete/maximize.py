"""The largest softmax probability of an item over actions that take a few values: stars, not an interval."""

from __future__ import annotations

import numpy as np
import torch

from recaudit.solvers.checks import Array, as_positions, as_scores, check_count, check_finite, check_positive
from recaudit.solvers.discrete.grid import ActionGrid
from recaudit.solvers.discrete.search import BranchAndBound, Incumbents
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled, tolerance_beside
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.solution import Solution, status_of

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
) -> Solution:
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
    slopes, intercepts = as_scores(slope, intercept)
    beta, tol = check_positive("beta", beta), check_positive("tol", tol)
    check_count("node_limit", node_limit)
    positions = as_positions("targets", targets, len(intercepts))
    grid = ActionGrid.checked(values, slopes.shape[1], start, changes, cost)

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
        incumbents.try_all(every_action, np.arange(len(positions)))
        floor, nodes = incumbents.value, np.zeros(len(positions), dtype=np.int64)
    else:
        root_tol = max(tol, _ROOT_TOL)
        relaxed = maximize_softmax(slopes, intercepts, positions, beta, lower, upper, root_tol, device=device)
        search = BranchAndBound(incumbents, tolerance_beside(tol, allowance).cpu().numpy(), node_limit)
        search.run(grid.scaled(relaxed.actions), constant - relaxed.upper)
        floor, nodes = search.floor, search.nodes

    rounding = allowance.cpu().numpy()
    value = np.minimum(constant - incumbents.value, 0.0)
    least, most = value - rounding, np.minimum(constant - floor + rounding, 0.0)
    return Solution(value, least, most, status_of(least, most, tol), grid.actions(incumbents.choice), nodes)

"""Branch and bound on the log-probability, for many targets of one problem at once.

Each target has its own tree; what is shared is the work. Nodes of many targets are evaluated in one matrix product,
and every action that is tried, for whatever target, is tried for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.discrete.grid import ActionGrid, Choices
from recaudit.solvers.discrete.nodes import Taylors, branch, suggest
from recaudit.solvers.softmax.logsumexp import LogSumExp

# Targets whose trees are grown together, and nodes that are evaluated together.
_TOGETHER = 1024
# (target, action) pairs whose objectives are held at once: 2 MB on a CPU, which a core's cache keeps.
_CPU_BLOCK, _DEVICE_BLOCK = 1 << 18, 1 << 25


@final
class Incumbents:
    """For each target b of `slopes` (targets, K) the lowest g(u) - b.u over the actions tried.

    The costly part, g(u), is the same for all targets (mathematics, section 1).
    """

    def __init__(self, grid: ActionGrid, family: LogSumExp, slopes: Tensor) -> None:
        targets = len(slopes)
        self.value: FloatArray = np.full(targets, np.inf)
        self.choice: Choices = np.zeros((targets, len(grid.options)), dtype=np.int16)
        self.slopes, self.grid, self.family = slopes, grid, family
        block = _CPU_BLOCK if slopes.device.type == "cpu" else _DEVICE_BLOCK
        self._at_once = max(1, block // max(targets, family.items))
        # Kept, because the system takes longer to hand out new pages than to fill them.
        self._buffer = slopes.new_empty(targets * self._at_once)
        self._tried: set[bytes] = set()

    def try_new(self, choices: Choices, targets: IntArray) -> None:
        """Try those of `choices` (n, K) that were not tried before, for the `targets` given."""
        new = {choice.tobytes(): choice for choice in choices}
        untried = [choice for key, choice in new.items() if key not in self._tried]
        self._tried.update(new)
        if untried:
            self.try_all(np.stack(untried), targets)

    def try_all(self, choices: Choices, targets: IntArray) -> None:
        """Try `choices` (n, K) for the `targets` given."""
        slopes = self.slopes[torch.from_numpy(targets).to(self.slopes.device)]
        for first in range(0, len(choices), self._at_once):
            part = choices[first : first + self._at_once]
            points = aligned(self.grid.points(part)).to(slopes.device)
            owner = torch.zeros(len(points), dtype=torch.long, device=slopes.device)
            level = self.family.evaluate(points, owner, hessian=False).value
            objective = self._buffer[: len(targets) * len(part)].view(len(targets), len(part))
            torch.addmm(level[None], slopes, points.T, alpha=-1, out=objective)
            lowest, at = (found.cpu().numpy() for found in objective.min(dim=1))
            better = lowest < self.value[targets]
            self.value[targets[better]] = lowest[better]
            self.choice[targets[better]] = part[at[better]]


@final
@dataclass(frozen=True, eq=False)
class _Nodes:
    """Open nodes of some targets."""

    target: IntArray
    low: Choices
    """(nodes, K): the first option of each coordinate's range."""
    high: Choices
    """(nodes, K): the last one."""
    point: FloatArray
    """(nodes, K): where to evaluate the objective."""
    bound: FloatArray
    """(nodes,): no action of the node has a lower objective."""
    tries: IntArray
    """(nodes,): how often the node was evaluated before."""

    def take(self, index: IntArray | BoolArray) -> _Nodes:
        """The nodes at these positions."""
        return _Nodes(*(getattr(self, field.name)[index] for field in fields(self)))

    def joined(self, other: _Nodes) -> _Nodes:
        """These nodes and the others."""
        return _Nodes(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


@final
class BranchAndBound:
    """The trees of all targets: `floor` (targets,), below which no action's objective is, and `nodes` (targets,), how
    many were evaluated.

    `tol` (targets,): how much lower than the incumbent nothing may be, for a target to be done.
    """

    def __init__(self, incumbents: Incumbents, tol: FloatArray, node_limit: int) -> None:
        self.incumbents, self.tol, self.node_limit = incumbents, tol, node_limit
        self.floor: FloatArray = np.full(len(tol), -np.inf)
        self.nodes: IntArray = np.zeros(len(tol), dtype=np.int64)
        self._given_up: BoolArray = np.zeros(len(tol), dtype=bool)

    def run(self, points: FloatArray, floor: FloatArray) -> None:
        """`points` (targets, K): where each root is evaluated first; `floor` (targets,): what is known already."""
        targets = len(points)
        self.floor = floor.copy()
        for first in range(0, targets, _TOGETHER):
            rows = np.arange(first, min(first + _TOGETHER, targets))
            low = np.zeros((len(rows), points.shape[1]), dtype=np.int16)
            high = low + (self.incumbents.grid.counts - 1).astype(np.int16)
            roots = _Nodes(rows, low, high, points[rows], floor[rows], np.zeros_like(rows))
            self._grow(roots, np.arange(first, targets))
        ceiling = self._limit(np.arange(targets))
        self.floor = np.where(self._given_up, self.floor, np.maximum(self.floor, ceiling))

    def _grow(self, nodes: _Nodes, interested: IntArray) -> None:
        """Branch and bound from these roots; actions are tried for the targets that are `interested`."""
        while len(nodes.target):
            chosen = self._next(nodes)
            now, later = nodes.take(chosen), nodes.take(~chosen)
            np.add.at(self.nodes, now.target, 1)
            nodes = later.joined(self._expand(now, interested))
            nodes = nodes.take(nodes.bound < self._limit(nodes.target))
            spent = self.nodes[nodes.target] >= self.node_limit
            self._give_up(nodes.take(spent))
            nodes = nodes.take(~spent)

    def _limit(self, targets: IntArray) -> FloatArray:
        """(targets,): what cannot lead below this is of no interest."""
        return np.asarray(self.incumbents.value[targets] - self.tol[targets])

    def _next(self, nodes: _Nodes) -> BoolArray:
        """(nodes,): the most promising nodes of every target, as many of each as fit into one evaluation."""
        order = np.lexsort((nodes.bound, nodes.target))
        ordered = nodes.target[order]
        rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        chosen = np.empty(len(order), dtype=bool)
        chosen[order] = rank < max(1, _TOGETHER // len(np.unique(ordered)))
        return chosen

    def _expand(self, nodes: _Nodes, interested: IntArray) -> _Nodes:
        """Evaluate the nodes, try what they suggest, and return what has to be looked at next."""
        space, models, limit = self.incumbents.grid.space, self._models(nodes), self._limit(nodes.target)
        bound, choice = suggest(space, models, nodes.low, nodes.high, limit)
        bound = np.maximum(bound, nodes.bound)
        self.incumbents.try_new(choice[bound < limit], interested)

        limit = self._limit(nodes.target)
        rows = np.flatnonzero(bound < limit)
        nodes, bound, limit = nodes.take(rows), bound[rows], limit[rows]
        point, value, gradient, hessian = (part[rows] for part in models[:4])
        models = Taylors(point, value, gradient, hessian, models.width, models.rounding)
        parent, low, high, point, tries, listed = branch(
            space, models, nodes.low, nodes.high, nodes.tries, limit - bound, limit
        )
        self.incumbents.try_new(listed, interested)
        return _Nodes(nodes.target[parent], low, high, point, bound[parent], tries)

    def _models(self, nodes: _Nodes) -> Taylors:
        """The objectives around the nodes' points."""
        family = self.incumbents.family
        slopes, device = family.slopes[0], family.slopes.device
        owner = torch.zeros(len(nodes.target), dtype=torch.long, device=device)
        known = family.evaluate(aligned(nodes.point).to(device), owner, hessian=True)
        own = self.incumbents.slopes[torch.from_numpy(nodes.target).to(device)].cpu().numpy()
        width = (slopes.amax(dim=0) - slopes.amin(dim=0)).cpu().numpy()
        rounding = (family.items + 8) * float(np.finfo(np.float64).eps)
        value = known.value.cpu().numpy() - (own * nodes.point).sum(axis=1) - 2 * rounding * width.sum()
        gradient = known.gradient.cpu().numpy() - own
        return Taylors(nodes.point, value, gradient, known.hessian.cpu().numpy(), width, rounding)

    def _give_up(self, nodes: _Nodes) -> None:
        """The targets of these nodes stay bounded by the nodes."""
        lowest_open = np.full(len(self.floor), np.inf)
        np.minimum.at(lowest_open, nodes.target, nodes.bound)
        rows = np.unique(nodes.target)
        self._given_up[rows] = True
        self.floor[rows] = np.maximum(self.floor[rows], np.minimum(lowest_open[rows], self._limit(rows)))

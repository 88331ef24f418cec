"""Branch and bound on the log-probability, for many targets of one problem at once.

Each target has its own tree; what is shared is the work. Nodes of many targets are evaluated in one matrix product,
and every action that is tried, for whatever target, is tried for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray
from recaudit.solvers.discrete.grid import Choices, Grid, Rows
from recaudit.solvers.discrete.incumbents import Incumbents
from recaudit.solvers.discrete.model import Models
from recaudit.solvers.discrete.nodes import branch, suggest
from recaudit.solvers.softmax.logsumexp import LogSumExp

# Targets whose trees are grown together, and nodes that are evaluated together.
_TOGETHER = 1024


@final
@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of each target at the end."""

    floor: FloatArray
    """(targets,): no action has a lower objective."""
    nodes: Rows
    """(targets,): how many nodes were evaluated."""


@final
@dataclass(frozen=True, eq=False)
class _Nodes:
    """Open nodes of some targets."""

    target: Rows
    low: Choices
    """(nodes, K): the first option of each coordinate's range."""
    high: Choices
    """(nodes, K): the last one."""
    point: FloatArray
    """(nodes, K): where to evaluate the objective."""
    bound: FloatArray
    """(nodes,): no action of the node has a lower objective."""
    tries: Rows
    """(nodes,): how often the node was evaluated before."""

    def take(self, index: Rows | NDArray[np.bool_]) -> _Nodes:
        """The nodes at these positions."""
        return _Nodes(*(getattr(self, field.name)[index] for field in fields(self)))

    def joined(self, other: _Nodes) -> _Nodes:
        """These nodes and the others."""
        return _Nodes(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


@final
@dataclass(frozen=True, eq=False)
class Search:
    """Everything but the targets to search for."""

    grid: Grid
    family: LogSumExp
    incumbents: Incumbents
    tol: FloatArray
    """(targets,): how much lower than the incumbent nothing may be, for a target to be done."""
    node_limit: int

    def run(self, points: FloatArray, floor: FloatArray) -> Bounds:
        """Search the trees of all targets.

        `points` (targets, K): where each root is evaluated first; `floor` (targets,): what is known already.
        """
        targets = len(points)
        found = Bounds(floor.copy(), np.zeros(targets, dtype=np.int64))
        given_up = np.zeros(targets, dtype=bool)
        for first in range(0, targets, _TOGETHER):
            rows = np.arange(first, min(first + _TOGETHER, targets))
            low = np.zeros((len(rows), points.shape[1]), dtype=np.int16)
            high = low + (self.grid.counts - 1).astype(np.int16)
            roots = _Nodes(rows, low, high, points[rows], floor[rows], np.zeros_like(rows))
            self._grow(roots, np.arange(first, targets), found, given_up)
        ceiling = self._limit(np.arange(targets))
        found.floor[~given_up] = np.maximum(found.floor, ceiling)[~given_up]
        return found

    def _grow(self, nodes: _Nodes, interested: Rows, found: Bounds, given_up: NDArray[np.bool_]) -> None:
        """Branch and bound from these roots; actions are tried for the targets that are `interested`."""
        while len(nodes.target):
            chosen = self._next(nodes)
            now, later = nodes.take(chosen), nodes.take(~chosen)
            np.add.at(found.nodes, now.target, 1)
            nodes = later.joined(self._expand(now, interested))
            nodes = nodes.take(nodes.bound < self._limit(nodes.target))
            spent = found.nodes[nodes.target] >= self.node_limit
            given_up[nodes.target[spent]] = True
            self._give_up(nodes.take(spent), found)
            nodes = nodes.take(~spent)

    def _limit(self, targets: Rows) -> FloatArray:
        """(targets,): what cannot lead below this is of no interest."""
        limit: FloatArray = self.incumbents.value[targets] - self.tol[targets]
        return limit

    def _next(self, nodes: _Nodes) -> NDArray[np.bool_]:
        """(nodes,): the most promising nodes of every target, as many of each as fit into one evaluation."""
        order = np.lexsort((nodes.bound, nodes.target))
        ordered = nodes.target[order]
        rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        chosen = np.empty(len(order), dtype=bool)
        chosen[order] = rank < max(1, _TOGETHER // len(np.unique(ordered)))
        return chosen

    def _expand(self, nodes: _Nodes, interested: Rows) -> _Nodes:
        """Evaluate the nodes, try what they suggest, and return what has to be looked at next."""
        models = self._models(nodes)
        limit = self._limit(nodes.target)
        bound, choice = suggest(self.grid.space, models, nodes.low, nodes.high, limit)
        bound = np.maximum(bound, nodes.bound)
        self.incumbents.try_new(choice[bound < limit], interested)

        limit = self._limit(nodes.target)
        rows = np.flatnonzero(bound < limit)
        nodes, bound, limit = nodes.take(rows), bound[rows], limit[rows]
        parent, low, high, point, tries, listed = branch(
            self.grid.space, models.take(rows), nodes.low, nodes.high, nodes.tries, limit - bound, limit
        )
        self.incumbents.try_new(listed, interested)
        return _Nodes(nodes.target[parent], low, high, point, bound[parent], tries)

    def _models(self, nodes: _Nodes) -> Models:
        """The objectives around the nodes' points."""
        device = self.family.slopes.device
        owner = torch.zeros(len(nodes.target), dtype=torch.long, device=device)
        known = self.family.evaluate(aligned(nodes.point).to(device), owner, hessian=True)
        own = self.incumbents.slopes[torch.from_numpy(nodes.target).to(device)].cpu().numpy()
        value = known.value.cpu().numpy() - (own * nodes.point).sum(axis=1)
        slopes = self.family.slopes[0]
        width = (slopes.amax(dim=0) - slopes.amin(dim=0)).cpu().numpy()
        rounding = (self.family.items + 8) * float(np.finfo(np.float64).eps)
        return Models(
            nodes.point,
            value - 2 * rounding * width.sum(),
            known.gradient.cpu().numpy() - own,
            known.hessian.cpu().numpy(),
            width,
            rounding,
        )

    def _give_up(self, nodes: _Nodes, found: Bounds) -> None:
        """The targets of these nodes stay bounded by the nodes."""
        lowest_open = np.full(len(found.floor), np.inf)
        np.minimum.at(lowest_open, nodes.target, nodes.bound)
        rows = np.unique(nodes.target)
        found.floor[rows] = np.maximum(found.floor[rows], np.minimum(lowest_open[rows], self._limit(rows)))

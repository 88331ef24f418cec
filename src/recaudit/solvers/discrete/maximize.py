"""The largest softmax probability of an item over actions that take a few values: stars, not an interval.

Few actions are all tried. For more, branch and bound on the log-probability: each target has its own tree; what is
shared is the work. Nodes of many targets are evaluated in one matrix product, and every action that is tried, for
whatever target, is tried for all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.solvers.checks import Array, as_double, as_positions, as_scores, check_finite, check_positive, require
from recaudit.solvers.discrete.nodes import Choices, Lattice, Taylor, branch, suggest
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled, tolerance_beside
from recaudit.solvers.softmax.maximize import maximize_softmax
from recaudit.solvers.solution import Solution, status_of

# What the evaluations of one problem may hold, in bytes.
_WORK_BYTES = 1 << 28
# Actions that are listed rather than searched: a tree costs a target about as much as this many tries.
_ALWAYS_LISTED, _LISTED_A_TARGET = 2_000, 8
# How well the relaxed problem is solved, where the search starts: what is missing, the first nodes make up for.
_ROOT_TOL = 1e-3
# Targets whose trees are grown together, and nodes that are evaluated together.
_TOGETHER = 1024
# (target, action) pairs whose objectives are held at once: 2 MB, which a core's cache keeps.
_BLOCK = 1 << 18
# One less than fits into the type of `Choices`: a start may come on top.
_MOST_RATINGS = np.iinfo(np.int16).max - 1
# Sums of costs are compared with the budget to this part of all costs: 0.1 + 0.2 is within 0.3.
_SLACK = 1e-12


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
) -> Solution:
    """The largest softmax probability of each target over the actions a whose every a_k is one of `values`.

    Arguments as for `maximize_softmax`, solved as there; `values` (ratings,), ascending. With a limit on effort, a_k
    may also stay at `start` (K,), whether that is one of the values or not, and the `cost` (K,) of those that do not, 1
    each by default, may add up to `changes`.

    Up to `enumerate_up_to` actions are all tried, for all targets at once (by default as many as pay, given the number
    of targets). Beyond, branch and bound evaluates at most `node_limit` nodes a target, and the few more that are
    evaluated together with the last one; what is open then is bounded. `evaluations` of the answer counts the nodes.
    """
    slopes, intercepts = as_scores(slope, intercept)
    beta, tol = check_positive("beta", beta), check_positive("tol", tol)
    require(node_limit >= 1, "node_limit", node_limit, "a whole number of 1 or more")
    positions = as_positions("targets", targets, len(intercepts))
    grid = _ActionGrid.checked(values, slopes.shape[1], start, changes, cost)

    lower, upper = grid.lower, grid.upper
    half = (upper - lower) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        scores = Scaled.of(slopes[None], intercepts[None], beta, (lower + half)[None], half[None])
    check_finite("beta * scores", scores.sizes)
    family = LogSumExp(scores, _WORK_BYTES)
    constant = family.offsets[0, positions]
    allowance = family.rounding + family.own_rounding[0, positions]
    incumbents = _Incumbents(grid, family, scores.slopes[0, positions])

    if enumerate_up_to is None:
        enumerate_up_to = _ALWAYS_LISTED + _LISTED_A_TARGET * len(positions)
    every_action = grid.enumerated(enumerate_up_to)
    if every_action is not None:
        incumbents.try_all(every_action, np.arange(len(positions)))
        floor, nodes = incumbents.value, np.zeros(len(positions), dtype=np.int64)
    else:
        root_tol = max(tol, _ROOT_TOL)
        relaxed = maximize_softmax(slopes, intercepts, positions, beta, lower, upper, root_tol)
        tols = tolerance_beside(tol, allowance)
        search = _BranchAndBound(incumbents, tols, node_limit, floor=constant - relaxed.upper)
        search.run(_to_unit_box(relaxed.actions, grid.lower, grid.upper))
        floor, nodes = search.floor, search.nodes

    value = np.minimum(constant - incumbents.value, 0.0)
    least, most = value - allowance, np.minimum(constant - floor + allowance, 0.0)
    return Solution(value, least, most, status_of(least, most, tol), _picked(grid.options, incumbents.choice), nodes)


@final
class _Incumbents:
    """For each target b of `slopes` (targets, K) the lowest g(u) - b.u tried; g, the costly part, is shared."""

    def __init__(self, grid: _ActionGrid, family: LogSumExp, slopes: FloatArray) -> None:
        targets = len(slopes)
        self.value: FloatArray = np.full(targets, np.inf)
        self.choice: Choices = np.zeros((targets, len(grid.options)), dtype=np.int16)
        self.slopes, self.grid, self.family = slopes, grid, family
        self._at_once = max(1, _BLOCK // max(targets, family.items))
        # Kept, because the system takes longer to hand out new pages than to fill them.
        self._buffer = np.empty(targets * self._at_once)
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
        slopes = self.slopes[targets]
        for first in range(0, len(choices), self._at_once):
            part = choices[first : first + self._at_once]
            points = _picked(self.grid.space.options, part)
            level = self.family.evaluate(points, hessian=False).value
            objective = self._buffer[: len(targets) * len(part)].reshape(len(targets), len(part))
            np.matmul(slopes, points.T, out=objective)
            np.subtract(level, objective, out=objective)
            at = objective.argmin(axis=1)
            lowest = objective[np.arange(len(targets)), at]
            better = lowest < self.value[targets]
            self.value[targets[better]] = lowest[better]
            self.choice[targets[better]] = part[at[better]]


class _Nodes(NamedTuple):
    """Open nodes of some targets."""

    target: IntArray
    low: Choices  # (nodes, K): the first option of each coordinate's range
    high: Choices  # (nodes, K): the last one
    point: FloatArray  # (nodes, K): where to evaluate the objective
    bound: FloatArray  # (nodes,): no action of the node has a lower objective
    tries: IntArray  # (nodes,): how often the node was evaluated before

    def take(self, index: IntArray | BoolArray) -> _Nodes:
        """The nodes at these positions."""
        return _Nodes._make(column[index] for column in self)


@final
class _BranchAndBound:
    """The trees of all targets: `floor` (targets,), below which no action's objective is, starts as what is known;
    `nodes` (targets,) were evaluated. A target is done where nothing is lower than its incumbent by its `tol`."""

    def __init__(self, incumbents: _Incumbents, tol: FloatArray, node_limit: int, floor: FloatArray) -> None:
        self.incumbents, self.tol, self.node_limit, self.floor = incumbents, tol, node_limit, floor
        self.nodes: IntArray = np.zeros(len(tol), dtype=np.int64)
        self._given_up: BoolArray = np.zeros(len(tol), dtype=bool)

    def run(self, points: FloatArray) -> None:
        """`points` (targets, K): where each root is evaluated first."""
        targets = len(points)
        for first in range(0, targets, _TOGETHER):
            rows = np.arange(first, min(first + _TOGETHER, targets))
            low = np.zeros((len(rows), points.shape[1]), dtype=np.int16)
            high = low + (self.incumbents.grid.counts - 1).astype(np.int16)
            roots = _Nodes(rows, low, high, points[rows], self.floor[rows], np.zeros_like(rows))
            self._grow(roots, np.arange(first, targets))
        ceiling = self._limit(np.arange(targets))
        self.floor = np.where(self._given_up, self.floor, np.maximum(self.floor, ceiling))

    def _grow(self, nodes: _Nodes, interested: IntArray) -> None:
        """Branch and bound from these roots; actions are tried for the targets that are `interested`."""
        while len(nodes.target):
            chosen = self._next(nodes)
            now, later = nodes.take(chosen), nodes.take(~chosen)
            np.add.at(self.nodes, now.target, 1)
            parts = later, self._expand(now, interested)
            nodes = _Nodes._make(np.concatenate([getattr(part, name) for part in parts]) for name in _Nodes._fields)
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
        models = Taylor._make((*(part[rows] for part in models[:4]), *models[4:]))
        parent, low, high, point, tries, listed = branch(
            space, models, nodes.low, nodes.high, nodes.tries, limit - bound, limit
        )
        self.incumbents.try_new(listed, interested)
        return _Nodes(nodes.target[parent], low, high, point, bound[parent], tries)

    def _models(self, nodes: _Nodes) -> Taylor:
        """The objectives around the nodes' points."""
        family = self.incumbents.family
        slopes = family.slopes[0]
        known = family.evaluate(nodes.point, hessian=True)
        own = self.incumbents.slopes[nodes.target]
        width = slopes.max(axis=0) - slopes.min(axis=0)
        rounding = (family.items + 8) * float(np.finfo(np.float64).eps)
        value = known.value - (own * nodes.point).sum(axis=1) - 2 * rounding * width.sum()
        gradient = known.gradient - own
        return Taylor(nodes.point, value, gradient, known.hessian, width, rounding)

    def _give_up(self, nodes: _Nodes) -> None:
        """The targets of these nodes stay bounded by the nodes."""
        lowest_open = np.full(len(self.floor), np.inf)
        np.minimum.at(lowest_open, nodes.target, nodes.bound)
        rows = np.unique(nodes.target)
        self._given_up[rows] = True
        self.floor[rows] = np.maximum(self.floor[rows], np.minimum(lowest_open[rows], self._limit(rows)))


class _ActionGrid(NamedTuple):
    """Every allowed action is a choice of one option a coordinate whose costs add up to the budget or less."""

    options: FloatArray  # (K, options): as in `Lattice`, but not scaled
    counts: IntArray  # (K,): how many options each coordinate has
    lower: FloatArray  # (K,): the lowest option of each coordinate
    upper: FloatArray  # (K,): the highest one
    space: Lattice

    @classmethod
    def checked(
        cls, values: Array, columns: int, start: Array | None, changes: float | None, cost: Array | None
    ) -> _ActionGrid:
        """From arguments as they come: `values` (R,), `start` (columns,), `cost` (columns,)."""
        ratings = as_double("values", values, 1, "(ratings,)")
        proper = 0 < len(ratings) <= _MOST_RATINGS and bool((np.diff(ratings) > 0).all())
        received = f"{len(ratings)} numbers, {ratings[:8]}" + " ..." * (len(ratings) > 8)
        require(proper, "values", received, f"1 to {_MOST_RATINGS} numbers, ascending")
        if changes is None:
            expected = "how much may be changed: start, cost and changes make one limit"
            require(start is None and cost is None, "changes", "None beside a start or a cost", expected)
            options, free, prices, budget = [ratings] * columns, np.full(columns, -1), np.zeros(columns), 0.0
        else:
            if start is None:
                raise InputError("start", received="None beside a limit on changes", expected="what is changed: (K,)")
            before = _numbers("start", start, columns)
            prices = np.ones(columns) if cost is None else _numbers("cost", cost, columns)
            require(math.isfinite(changes) and changes >= 0, "changes", changes, "a finite number of 0 or more")
            require((prices >= 0).all(), "cost", "a negative cost", "costs of 0 or more")
            options = [np.union1d(ratings, value) for value in before]
            free = np.array([np.searchsorted(own, value) for own, value in zip(options, before, strict=True)])
            budget = changes + _SLACK * float(prices.sum())
            if prices.sum() <= budget:
                prices = np.zeros(columns)
        counts = np.array([len(own) for own in options])
        table = np.full((columns, counts.max()), np.inf)
        for own, row in zip(options, table, strict=True):
            row[: len(own)] = own
        low, high = table[:, 0], table[np.arange(columns), counts - 1]
        scaled = _to_unit_box(table.T, low, high).T.copy()
        return cls(table, counts, low, high, Lattice(scaled, free, prices, budget))

    def enumerated(self, limit: int) -> Choices | None:
        """(n, K): every allowed action, or None where there are more than `limit`."""
        # What is affordable so far can be completed at no cost: there are never more beginnings than actions.
        choices, left = np.empty((1, 0), dtype=np.int16), np.array([self.space.budget])
        for start, cost, count in zip(self.space.start, self.space.cost, self.counts, strict=True):
            remaining = left[:, None] - np.where(np.arange(count) == start, 0.0, cost)
            row, option = np.nonzero(remaining >= 0)
            if len(row) > limit:
                return None
            choices = np.column_stack([choices[row], option.astype(np.int16)])
            left = remaining[row, option]
        return choices


def _picked(options: FloatArray, choices: Choices) -> FloatArray:
    """(n, K): the values among `options` (K, options) that `choices` (n, K) name."""
    return np.asarray(options[np.arange(len(options)), choices])


def _to_unit_box(actions: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """(n, K): -1 at `lower`, 1 at `upper`; 0 for a coordinate that cannot move."""
    half = (upper - lower) / 2
    return (actions - (lower + half)) / np.where(half > 0, half, 1.0)


def _numbers(name: str, values: Array, columns: int) -> FloatArray:
    numbers = as_double(name, values, 1, f"({columns},), one number an action")
    require(len(numbers) == columns, name, f"{len(numbers)} numbers", f"{columns}, one an action")
    return numbers

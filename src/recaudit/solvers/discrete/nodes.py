"""One node of the search: a range of options for each coordinate, and what the objective says about it.

At a point x of the box the objective f of a target is known with its gradient r and Hessian H. Two bounds follow
for every action a of the node, with d = a - x:

- f(a) >= f(x) + r.d, by convexity. Its minimum over the node is at the ends of the ranges; with a limit on changes,
  those coordinates are changed that gain most for their cost (a fractional knapsack).
- f(a) >= f(x) + r.d + k(w) d^T H d, k(w) = (exp(-w) + w - 1) / w^2, where w bounds how far apart d moves the scores of
  two items. Along the segment the third derivative of log-sum-exp is a third central moment of scores that lie within
  w of each other, at most w times the second derivative, which therefore falls no faster than exp(-w t).

The second one needs no new exponentials, and settles most actions of a small node.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.softmax.box_qp import move_coordinate

Choices = NDArray[np.int16]
"""Positions among the options of each coordinate."""

# A node with at most so many actions is listed, if no more than `_LISTED` of them survive the bounds.
_SMALL, _LISTED = 1024, 8
# How often a node is solved again at a better point before it is split.
_TRIES = 3
# The relaxed problem of a node: sweeps of coordinate descent until none moves the objective by more than this; how
# well the price of a unit of budget is known, and the lowest price that matters. A poor point costs another node,
# never a wrong bound.
_SWEEPS, _STILL = 100, 1e-9
_PRICE_TOL, _LOWEST_PRICE = 0.01, 1e-9
_TINY = 1e-300


class Lattice(NamedTuple):
    """What the search needs to know of the grid, as plain arrays; actions are scaled to the box [-1, 1]^K."""

    options: FloatArray  # (K, options): ascending; a coordinate with fewer has +inf at the end
    start: IntArray  # (K,): the option that costs nothing; -1 where there is no limit, and so no start
    cost: FloatArray  # (K,): the cost of any other option
    budget: float  # how much the costs may add up to


class Taylor(NamedTuple):
    """A target's objective around a point, to second order; of many nodes, the first four fields have a row each."""

    point: FloatArray  # x (K,)
    value: Any  # f(x), less what rounding may have added to it or to the tangent there
    gradient: FloatArray  # (K,)
    hessian: FloatArray  # (K, K)
    width: FloatArray  # (K,): how far apart a unit of each coordinate moves the scores of two items, at most
    rounding: float  # the relative rounding error of the Hessian's second moments


@numba.njit(nogil=True, cache=True)
def _row(m: Taylor, row: int) -> Taylor:
    return Taylor(m.point[row], m.value[row], m.gradient[row], m.hessian[row], m.width, m.rounding)


@numba.njit(nogil=True, cache=True)
def _price_of(space: Lattice, k: int, option: int) -> float:
    """What an option takes out of the budget."""
    return 0.0 if option == space.start[k] else float(space.cost[k])


@numba.njit(nogil=True, cache=True)
def _left_of_budget(space: Lattice, low: Choices, high: Choices) -> float:
    """The budget less what the node has to change."""
    left = space.budget
    for k in range(len(low)):
        if not low[k] <= space.start[k] <= high[k]:
            left -= space.cost[k]
    return left


@numba.njit(nogil=True, cache=True)
def _lowest(space: Lattice, model: Taylor, low: Choices, high: Choices, left: float, skip: int) -> float:
    """The minimum of r.d over the node, all coordinates but `skip`, with `left` of the budget."""
    total, count = 0.0, 0
    gains, costs = np.empty(len(low)), np.empty(len(low))
    for k in range(len(low)):
        if k == skip:
            continue
        r, x = model.gradient[k], model.point[k]
        end = min(r * (space.options[k, low[k]] - x), r * (space.options[k, high[k]] - x))
        if space.cost[k] > 0.0 and low[k] <= space.start[k] <= high[k]:
            stay = r * (space.options[k, space.start[k]] - x)
            gains[count], costs[count] = stay - end, space.cost[k]
            total += stay
            count += 1
        else:
            total += end
    for _ in range(count):
        best = 0
        for i in range(1, count):
            if gains[i] * costs[best] > gains[best] * costs[i]:
                best = i
        part = min(1.0, left / costs[best])
        total -= part * gains[best]
        left -= part * costs[best]
        if left <= 0.0:
            break
        gains[best] = 0.0
    return total


@numba.njit(nogil=True, cache=True)
def _round_off(space: Lattice, model: Taylor, low: Choices, high: Choices, choice: Choices) -> None:
    """`choice` (K,): an action of the node near the lowest point of the quadratic model: the nearest options; changes
    taken back, the least regretted first, until affordable; then single coordinates moved as long as it falls."""
    size = len(low)
    y, r = model.point.copy(), model.gradient.copy()
    for k in range(size):
        nearest = low[k]
        for option in range(low[k], high[k] + 1):
            if abs(space.options[k, option] - y[k]) < abs(space.options[k, nearest] - y[k]):
                nearest = option
        choice[k] = nearest
        move_coordinate(model.hessian, 0.0, y, r, k, space.options[k, nearest])
    left = space.budget
    for k in range(size):
        left -= _price_of(space, k, choice[k])
    for _ in range(5 * size):
        best, best_k, best_option = np.inf if left < 0.0 else -1e-14, -1, 0
        for k in range(size):
            for option in range(low[k], high[k] + 1):
                d = space.options[k, option] - y[k]
                rise = r[k] * d + model.hessian[k, k] * d * d / 2
                saving = _price_of(space, k, choice[k]) - _price_of(space, k, option)
                if left < 0.0:
                    if saving <= 0.0:
                        continue
                    rise /= saving
                elif left + saving < 0.0:
                    continue
                if rise < best:
                    best, best_k, best_option = rise, k, option
        if best_k < 0:
            break
        left += _price_of(space, best_k, choice[best_k]) - _price_of(space, best_k, best_option)
        choice[best_k] = best_option
        move_coordinate(model.hessian, 0.0, y, r, best_k, space.options[best_k, best_option])


@numba.njit(nogil=True, cache=True)
def _narrow(space: Lattice, model: Taylor, low: Choices, high: Choices, limit: float) -> None:
    """Take options off the ends of the ranges that cannot lead below `limit`."""
    left = _left_of_budget(space, low, high)
    for k in range(len(low)):
        optional = low[k] <= space.start[k] <= high[k]
        stay = model.value + _lowest(space, model, low, high, left, k)
        change = stay
        if optional and space.cost[k] > 0.0:
            after = left - space.cost[k]
            change = model.value + _lowest(space, model, low, high, after, k) if after >= 0.0 else np.inf
        r, x = model.gradient[k], model.point[k]
        first, last = high[k], low[k]
        for option in range(low[k], high[k] + 1):
            base = stay if option == space.start[k] else change
            if base + r * (space.options[k, option] - x) < limit:
                first, last = min(first, option), max(last, option)
        low[k], high[k] = min(first, last), last


@numba.njit(nogil=True, cache=True)
def _list_actions(space: Lattice, model: Taylor, low: Choices, high: Choices, limit: float, listed: Choices) -> int:
    """`listed` (_LISTED, K): the actions of the node that may lead below `limit`. Their number, or -1 for too many."""
    size = len(low)
    if np.prod((high - low + 1).astype(np.float64)) > _SMALL:
        return -1
    rest = np.zeros(size + 1)
    for k in range(size - 1, -1, -1):
        r, x = model.gradient[k], model.point[k]
        rest[k] = rest[k + 1] + min(r * (space.options[k, low[k]] - x), r * (space.options[k, high[k]] - x))
    linear, left, d = np.empty(size + 1), np.empty(size + 1), np.empty(size)
    linear[0], left[0] = model.value, space.budget
    current = low.copy()
    current[0] -= 1
    k = count = 0
    while k >= 0:
        current[k] += 1
        if current[k] > high[k]:
            k -= 1
            continue
        d[k] = space.options[k, current[k]] - model.point[k]
        linear[k + 1] = linear[k] + model.gradient[k] * d[k]
        left[k + 1] = left[k] - _price_of(space, k, current[k])
        if left[k + 1] < 0.0 or linear[k + 1] + rest[k + 1] >= limit:
            continue
        if k < size - 1:
            k += 1
            current[k] = low[k] - 1
        elif linear[size] + _curvature(model, d) < limit:
            if count == len(listed):
                return -1
            copy_into(listed[count], current)
            count += 1
    return count


@numba.njit(nogil=True, cache=True)
def _curvature(model: Taylor, d: FloatArray) -> float:
    """k(w) d^T H d: how far the objective at x + d is above its tangent at least."""
    width, square = 0.0, 0.0
    for i in range(len(d)):
        if d[i] != 0.0:
            width += abs(d[i]) * model.width[i]
            row = model.hessian[i, i] * d[i]
            for j in range(i):
                row += 2.0 * model.hessian[i, j] * d[j]
            square += row * d[i]
    square -= model.rounding * width * width
    if square <= 0.0:
        return 0.0
    # The series has no cancellation; its next term is positive.
    factor = 0.5 - width / 6 if width < 1e-4 else (math.exp(-width) + width - 1.0) / (width * width)
    return factor * square


@numba.njit(nogil=True, cache=True)
def _relax(space: Lattice, model: Taylor, low: Choices, high: Choices, x: FloatArray) -> None:
    """`x` (K,): the lowest point of the quadratic model over the convex hull of the node, where a coordinate moved by a
    part of the way to the end of its range spends that part of its cost. A price for a unit of budget turns the limit
    into a kink at the start of each coordinate."""
    r = model.gradient.copy()
    copy_into(x, model.point)
    for k in range(len(low)):
        inside = min(max(x[k], space.options[k, low[k]]), space.options[k, high[k]])
        move_coordinate(model.hessian, 0.0, x, r, k, inside)
    left = _left_of_budget(space, low, high)
    _descend(space, model, low, high, 0.0, x, r)
    if left < 0.0 or _spent(space, low, high, x) <= left:
        return
    cheap, dear, price = 0.0, np.inf, 1e-3
    while dear == np.inf or (dear - cheap > _PRICE_TOL * dear and dear > _LOWEST_PRICE):
        _descend(space, model, low, high, price, x, r)
        if _spent(space, low, high, x) <= left:
            dear = price
        else:
            cheap = price
        price = 4.0 * price if dear == np.inf else (cheap + dear) / 2


@numba.njit(nogil=True, cache=True)
def _descend(
    space: Lattice, model: Taylor, low: Choices, high: Choices, price: float, x: FloatArray, r: FloatArray
) -> None:
    """Coordinate descent on the quadratic model plus the price of what is spent; `r` stays the model's gradient."""
    for _ in range(_SWEEPS):
        largest = 0.0
        for k in range(len(x)):
            # What is below the rounding of the second moments is no curvature, and may be negative.
            h = max(model.hessian[k, k], model.rounding * model.width[k] ** 2) + _TINY
            bottom, top = space.options[k, low[k]], space.options[k, high[k]]
            new = x[k] - r[k] / h
            if price > 0.0 and space.cost[k] > 0.0 and low[k] <= space.start[k] <= high[k]:
                start = space.options[k, space.start[k]]
                if new > start:
                    new = max(start, new - price * space.cost[k] / max(top - start, _TINY) / h)
                else:
                    new = min(start, new + price * space.cost[k] / max(start - bottom, _TINY) / h)
            new = min(max(new, bottom), top)
            d = new - x[k]
            largest = max(largest, d * d * h)
            move_coordinate(model.hessian, 0.0, x, r, k, new)
        if largest < _STILL:
            break


@numba.njit(nogil=True, cache=True)
def _spent(space: Lattice, low: Choices, high: Choices, x: FloatArray) -> float:
    """What the coordinates that may stay at their start spend at `x`."""
    total = 0.0
    for k in range(len(x)):
        if space.cost[k] > 0.0 and low[k] <= space.start[k] <= high[k]:
            start = space.options[k, space.start[k]]
            end = space.options[k, high[k] if x[k] > start else low[k]]
            if x[k] != start:
                total += space.cost[k] * (x[k] - start) / (end - start)
    return total


@numba.njit(nogil=True, cache=True)
def _where_to_split(space: Lattice, model: Taylor, low: Choices, high: Choices, x: FloatArray) -> tuple[int, int]:
    """The coordinate, and the last option of the lower half: between two options where x is far from both by the
    model's curvature, else in the middle of the widest range."""
    best, split_k, split_at = 1e-18, -1, 0
    for k in range(len(low)):
        below = low[k]
        while below + 1 < high[k] and space.options[k, below + 1] <= x[k]:
            below += 1
        if below < high[k]:
            down, up = x[k] - space.options[k, below], space.options[k, below + 1] - x[k]
            score = model.hessian[k, k] * max(down, 0.0) * max(up, 0.0)
            if score > best:
                best, split_k, split_at = score, k, below
    if split_k < 0:
        split_k = int(np.argmax(high - low))
        split_at = (low[split_k] + high[split_k]) // 2
    return split_k, split_at


@numba.njit(nogil=True, cache=True)
def suggest(
    space: Lattice, models: Taylor, lows: Choices, highs: Choices, limits: FloatArray
) -> tuple[FloatArray, Choices]:
    """(nodes,): a lower bound of each node; (nodes, K): a good action of it, where the bound is below the limit."""
    bound, choice = np.empty(len(lows)), np.zeros_like(lows)
    for row in range(len(lows)):
        model, low, high = _row(models, row), lows[row], highs[row]
        left = _left_of_budget(space, low, high)
        bound[row] = np.inf if left < 0.0 else model.value + _lowest(space, model, low, high, left, -1)
        if bound[row] < limits[row]:
            _round_off(space, model, low, high, choice[row])
    return bound, choice


@numba.njit(nogil=True, cache=True)
def branch(
    space: Lattice, models: Taylor, lows: Choices, highs: Choices, tries: IntArray, room: FloatArray, limit: FloatArray
) -> tuple[IntArray, Choices, Choices, FloatArray, IntArray, Choices]:
    """What follows from nodes with bounds below their limit by `room` (nodes,): parent, low, high, point and tries of
    the nodes to evaluate next, at most two for each; and actions to try, which settle the nodes that they come from."""
    rows, size = lows.shape
    parent, again = np.empty(2 * rows, np.int64), np.zeros(2 * rows, np.int64)
    low, high = np.empty((2 * rows, size), np.int16), np.empty((2 * rows, size), np.int16)
    point = np.empty((2 * rows, size))
    listed = np.empty((_LISTED * rows, size), np.int16)
    count = actions = 0
    for row in range(rows):
        model, first, last = _row(models, row), lows[row].copy(), highs[row].copy()
        gap = -_lowest(space, model, first, last, _left_of_budget(space, first, last), -1)
        _narrow(space, model, first, last, limit[row])
        survivors = _list_actions(space, model, first, last, limit[row], listed[actions : actions + _LISTED])
        if survivors >= 0:
            actions += survivors
            continue
        for child in (count, count + 1):
            parent[child] = row
            copy_into(low[child], first)
            copy_into(high[child], last)
        _relax(space, model, first, last, point[count])
        # Where the point was poor, a better one may close the node; otherwise its halves have to.
        if tries[row] < _TRIES and gap > room[row]:
            again[count] = tries[row] + 1
            count += 1
            continue
        k, at = _where_to_split(space, model, first, last, point[count])
        high[count, k], low[count + 1, k] = at, at + 1
        for child in (count, count + 1):
            _relax(space, model, low[child], high[child], point[child])
        count += 2
    return parent[:count], low[:count], high[:count], point[:count], again[:count], listed[:actions]

"""The sequences of items that a top-1 recommender can show, and the ratings that lead to each.

"This item is the top one at step t" are linear inequalities in the ratings given before, so that the ratings that
produce a sequence form a polytope, the sequence's cell (mathematics: future-k with a top-1 policy). Cells do not
depend on the target: one enumeration serves every target.

Cells are closed: on a border, where two items tie, both count as shown, and a value on it is the limit of values at
ratings inside. A tie on the whole cell is broken as everywhere (`recaudit.ties`); a cell without interior is none.

A polytope is held by its vertices. A vertex carries the facets that it lies on as bits of a number, so that two
vertices are known to share an edge without solving anything: no third vertex lies on all the facets that they share
(the double description method).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arithmetic import copy_into
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.models.rollouts import RollOut
from recaudit.solvers.checks import require
from recaudit.solvers.trajectories.problem import RollOutProblem, without
from recaudit.ties import TIE, Keys

Bits = NDArray[np.uint64]

_FACETS = 64
"""Facets that fit into the bits of one number."""
_FAR_TOO_MANY = 20
# Items whose scores are held at once: they stay in the fastest cache.
_ITEMS = 256


class Polytope(NamedTuple):
    """The convex hull of its vertices."""

    vertices: FloatArray  # (vertices, dimensions)
    facets: Bits  # (vertices,): bit f is set where the vertex lies on facet f


SINGLE_POINT = Polytope(np.zeros((1, 0)), np.zeros(1, dtype=np.uint64))
"""The polytope without dimensions: nothing is free yet."""


class RatingCell(NamedTuple):
    """A sequence of items and the ratings that lead to it."""

    state: RollOut  # The user after rating the items
    ratings: Polytope  # In as many dimensions as there are items


def enumerate_cells(problem: RollOutProblem, sequences: int) -> tuple[list[RatingCell], bool]:
    """Every cell after ratings of the top item at each step, and whether that are all the steps.

    Where a step has more than so many `sequences`, the cells are those of a step before: every sequence begins with one
    of them. There is no use in going on where the last step would have twenty times too many if they kept growing as
    they did in the step before.
    """
    low, high, keys = problem.low, problem.high, problem.tie_keys().of_row()
    require(low < high, "low, high", (low, high), "low < high: one single rating is a star")
    cells, before = [RatingCell(problem.start, SINGLE_POINT)], 1
    for left in range(problem.steps, 0, -1):
        if len(cells) * (len(cells) / before) ** left > _FAR_TOO_MANY * sequences:
            return cells, False
        found: list[RatingCell] = []
        for cell in cells:
            regions, followed = top_regions(cell, problem.shown, keys)
            for item, region in regions:
                ratings = with_interval(region, low, high)
                if ratings is None:
                    return cells, False
                found.append(RatingCell(cell.state.then(item), ratings))
            if not followed or len(found) > sequences:
                return cells, False
        cells, before = found, len(cells)
    return cells, True


def top_regions(cell: RatingCell, among: BoolArray, keys: Keys) -> tuple[list[tuple[int, Polytope]], bool]:
    """The items of `among` (items,) that can be the top one next, with the ratings that make them so.

    And whether all of them could be followed. Of items that are tied throughout, the one with the lowest of the tie
    `keys` (items,) is on top.
    """
    basis = cell.state.basis()
    level, columns, matrix, constant = basis.level, basis.columns, basis.matrix, basis.constant
    items = np.flatnonzero(without(among, cell.state.items))
    items = items[np.argsort(keys[items], kind="stable")]  # the first of tied ones is on top below
    worst, best = score_range(level, columns, cell.ratings.vertices @ matrix.T + constant)
    # An item whose best score in the cell is below another's worst is nowhere on top.
    bar = worst[items].max(initial=-np.inf)
    items = items[best[items] >= bar - TIE * abs(bar)]
    slope = columns[:, items].T @ matrix
    intercept = level[items] + constant @ columns[:, items]
    # Of hundreds that are left, a few are on top at some corner, and these alone leave no room to most of the others;
    # what they leave room to leaves none to most of the rest.
    corners = np.unique((slope @ cell.ratings.vertices.T + intercept[:, None]).argmax(axis=0))
    left = np.flatnonzero(leave_room(slope, intercept, corners, *cell.ratings))
    left = left[leave_room(slope[left], intercept[left], np.arange(len(left)), *cell.ratings)]
    found = []
    for place, own in enumerate(left.tolist()):
        vertices, facets, followed = region_of_top(slope[left], intercept[left], place, *cell.ratings)
        if followed and len(vertices):
            vertices, facets, followed = region_of_top(slope, intercept, own, vertices, facets)
        found.append((vertices, facets, followed))
    regions = [
        (int(item), Polytope(vertices, facets))
        for item, (vertices, facets, followed) in zip(items[left], found, strict=True)
        if followed and len(vertices)
    ]
    return regions, all(followed for _, _, followed in found)


def with_interval(base: Polytope, low: float, high: float) -> Polytope | None:
    """All (x, y) with x in the base and low <= y <= high, low < high; None where its facets do not fit."""
    vertices, facets = base
    used = int(np.bitwise_or.reduce(facets))
    free = [bit for bit in range(_FACETS) if not used >> bit & 1]
    if len(free) < 2:
        return None
    ends = [np.column_stack([vertices, np.full(len(vertices), end)]) for end in (low, high)]
    sides = [facets | np.uint64(1 << bit) for bit in free[:2]]
    return Polytope(np.concatenate(ends), np.concatenate(sides))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "nnan"}, error_model="numpy")
def score_range(level: FloatArray, columns: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(items,) twice: the lowest and the highest score `level + columns @ point` at any of the `points` (points, K)."""
    items = len(level)
    lowest, highest = np.full(items, np.inf), np.full(items, -np.inf)
    for start in range(0, items, _ITEMS):
        part = slice(start, min(start + _ITEMS, items))
        own, low, high = np.empty(part.stop - start), lowest[part], highest[part]
        for point in points:
            copy_into(own, level[part])
            for k in range(len(columns)):
                column, by = columns[k, part], point[k]
                for j in range(len(own)):
                    own[j] += by * column[j]
            for j in range(len(own)):
                low[j], high[j] = min(low[j], own[j]), max(high[j], own[j])
    return lowest, highest


@njit(nogil=True, cache=True)
def region_of_top(
    slope: FloatArray, intercept: FloatArray, own: int, vertices: FloatArray, facets: Bits
) -> tuple[FloatArray, Bits, bool]:
    """The part of a polytope on which item `own` scores highest, ties included, and whether it could be followed.

    `slope` (items, dimensions) and `intercept` (items,): the scores. No vertices where no such part has an interior; of
    items with equal scores throughout the first is highest. Not followed: its facets do not fit, it comes back larger.
    """
    items, dimensions = slope.shape
    # Scores closer than this part of their largest size are tied.
    size = np.abs(intercept).max()
    for d in range(dimensions):
        size += np.abs(slope[:, d]).max() * np.abs(vertices[:, d]).max()
    tol = TIE * size
    while True:
        margins, worst, lead = np.empty(len(vertices)), np.empty(len(vertices)), -tol
        cut = False
        for rival in range(items):
            if rival == own:
                continue
            least, most = np.inf, -np.inf
            for v in range(len(vertices)):
                margin = intercept[own] - intercept[rival]
                for d in range(dimensions):
                    margin += (slope[own, d] - slope[rival, d]) * vertices[v, d]
                margins[v] = margin
                least, most = min(least, margin), max(most, margin)
            if most <= tol and (least < -tol or rival < own):
                return vertices[:0], facets[:0], True
            if least < lead:
                lead, cut = least, True
                copy_into(worst, margins)
        if not cut:
            return vertices, facets, True
        vertices, facets, fits = _cut(vertices, facets, worst, tol)
        if not fits:
            return vertices, facets, False


@njit(nogil=True, cache=True)
def leave_room(
    slope: FloatArray, intercept: FloatArray, rivals: IntArray, vertices: FloatArray, facets: Bits
) -> BoolArray:
    """(items,): whether these rivals (positions) alone leave an item a part of the polytope on which it is highest."""
    room = np.ones(len(slope), dtype=np.bool_)
    scores, levels = np.empty((len(rivals) + 1, slope.shape[1])), np.empty(len(rivals) + 1)
    at_vertices, below = slope @ vertices.T + intercept.reshape(-1, 1), 0.0
    for own in range(len(slope)):
        below = max(below, TIE * np.abs(at_vertices[own]).max())
    for own in range(len(slope)):
        if _surely_below(at_vertices, own, rivals, below):
            room[own] = False
            continue
        place = len(rivals)
        for r in range(len(rivals)):
            copy_into(scores[r], slope[rivals[r]])
            levels[r] = intercept[rivals[r]]
            place = r if rivals[r] == own else place
        if place == len(rivals):
            # Among its rivals it keeps its place, which decides ties.
            place = 0
            for r in range(len(rivals)):
                place += rivals[r] < own
            for r in range(len(rivals), place, -1):
                copy_into(scores[r], scores[r - 1])
                levels[r] = levels[r - 1]
            copy_into(scores[place], slope[own])
            levels[place] = intercept[own]
            found = region_of_top(scores, levels, place, vertices, facets)
        else:
            found = region_of_top(scores[:-1], levels[:-1], place, vertices, facets)
        room[own] = len(found[0]) > 0
    return room


@njit(nogil=True, cache=True)
def _surely_below(scores: FloatArray, own: int, rivals: IntArray, tol: float) -> bool:
    """Whether a rival scores higher at every vertex; `scores` (items, vertices)."""
    for rival in rivals:
        higher = True
        for v in range(scores.shape[1]):
            if scores[rival, v] <= scores[own, v] + tol:
                higher = False
                break
        if higher:
            return True
    return False


@njit(nogil=True, cache=True)
def _cut(vertices: FloatArray, facets: Bits, margins: FloatArray, tol: float) -> tuple[FloatArray, Bits, bool]:
    """The part where an affine function, `margins` (vertices,) at the vertices, is 0 or more."""
    count, dimensions = vertices.shape
    used = np.uint64(0)
    for facet in facets:
        used |= facet
    new = ~used & (used + np.uint64(1))  # the lowest bit that is not used; 0 where all are
    if new == 0:
        return vertices, facets, False
    inside, outside = np.flatnonzero(margins > tol), np.flatnonzero(margins < -tol)
    kept = np.flatnonzero(margins >= -tol)
    room = len(kept) + len(inside) * len(outside)
    corners, sides = np.empty((room, dimensions)), np.empty(room, dtype=np.uint64)
    n = 0
    for v in kept:
        copy_into(corners[n], vertices[v])
        sides[n] = facets[v] | (new if margins[v] <= tol else np.uint64(0))
        n += 1
    for a in inside:
        for b in outside:
            shared = facets[a] & facets[b]
            if _count(shared) < dimensions - 1:
                continue
            edge = True
            for other in range(count):
                if other not in (a, b) and facets[other] & shared == shared:
                    edge = False
                    break
            if edge:
                part = margins[a] / (margins[a] - margins[b])
                for d in range(dimensions):
                    corners[n, d] = vertices[a, d] + part * (vertices[b, d] - vertices[a, d])
                sides[n] = shared | new
                n += 1
    return corners[:n].copy(), sides[:n].copy(), True


@njit(nogil=True, cache=True)
def _count(bits: np.uint64) -> int:
    """How many bits are set."""
    total = 0
    while bits:
        bits &= bits - np.uint64(1)
        total += 1
    return total

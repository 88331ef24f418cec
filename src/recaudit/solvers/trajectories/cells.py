"""The sequences of items that a top-1 recommender can show, and the ratings that lead to each.

"This item is the top one at step t" are linear inequalities in the ratings given before, so that the ratings that
produce a sequence form a polytope, the sequence's cell (mathematics: future-k with a top-1 policy). Cells do not
depend on what the user wants to reach: one enumeration serves every target.

Cells are closed: on a border, where two items tie, both count as shown, and a value on it is the limit of values at
ratings inside. A tie on the whole cell is broken as everywhere, by position; a cell without interior is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray
from recaudit.models.rollouts import RollOut
from recaudit.solvers.trajectories.polytope import Polytope, region_of_top, single_point, with_interval


@final
@dataclass(frozen=True, eq=False)
class Cell:
    """A sequence of items and the ratings that lead to it."""

    state: RollOut
    """The user after rating the items."""
    ratings: Polytope
    """In as many dimensions as there are items."""


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of the same number of steps."""

    cells: list[Cell]
    complete: bool
    """Whether these are all; False where the budget left some out."""


def enumerate_cells(
    start: RollOut, shown: BoolArray, steps: int, low: float, high: float, max_cells: int = 2000
) -> Cells:
    """Every cell after `steps` ratings from `low` to `high`, low < high, each of the top item then.

    `shown` (items,): what may be shown; an item is shown once. At every step the `max_cells` largest cells, by the box
    around them, are followed and the others left out.
    """
    level, complete = [Cell(start, single_point())], True
    for _ in range(steps):
        following = Cells([], True)
        for cell in level:
            following = _joined(following, _next_cells(cell, shown, low, high))
        level, complete = following.cells, complete and following.complete
        if len(level) > max_cells:
            sizes = [-_box_volume(cell.ratings) for cell in level]
            level, complete = [level[i] for i in np.sort(np.argsort(sizes, kind="stable")[:max_cells])], False
    return Cells(level, complete)


def top_regions(cell: Cell, shown: BoolArray) -> tuple[list[tuple[int, Polytope]], bool]:
    """The items of `shown` (items,) that can be the top one next, with the ratings that make them so.

    And whether all of them could be followed.
    """
    slope, intercept = cell.state.affine()
    free = shown.copy()
    free[list(cell.state.items)] = False
    items = np.flatnonzero(free)
    scores = slope[items] @ cell.ratings.vertices.T + intercept[items, None]
    # An item whose best score in the cell is below another's worst is nowhere on top.
    items = items[scores.max(axis=1) >= scores.min(axis=1).max(initial=-np.inf)]
    slope, intercept = np.ascontiguousarray(slope[items]), intercept[items]
    regions, complete = [], True
    for own, item in enumerate(items):
        region, followed = region_of_top(slope, intercept, own, cell.ratings)
        if followed and len(region.vertices):
            regions.append((int(item), region))
        complete &= followed
    return regions, complete


def _next_cells(cell: Cell, shown: BoolArray, low: float, high: float) -> Cells:
    """The cells into which one item more divides this one."""
    regions, complete = top_regions(cell, shown)
    extended = [(item, with_interval(region, low, high)) for item, region in regions]
    cells = [Cell(cell.state.then(item), ratings) for item, ratings in extended if ratings is not None]
    return Cells(cells, complete and len(cells) == len(regions))


def _joined(one: Cells, other: Cells) -> Cells:
    return Cells(one.cells + other.cells, one.complete and other.complete)


def _box_volume(polytope: Polytope) -> float:
    """The volume of the smallest box around it."""
    widths: FloatArray = np.ptp(polytope.vertices, axis=0)
    return float(np.prod(widths))

"""Whether an item can be made the top one after k ratings of what a top-1 recommender shows, exactly.

The item is on top at the end on the cells of one step more (see `cells`) whose last item it is.
"""

from __future__ import annotations

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.models.rollouts import RollOut
from recaudit.solvers.trajectories.cells import enumerate_cells, top_regions
from recaudit.solvers.trajectories.solution import TrajectorySolution, judged


def reach_top_after_top1(
    start: RollOut,
    shown: BoolArray,
    candidates: BoolArray,
    targets: IntArray,
    epsilon: float,
    steps: int,
    low: float,
    high: float,
    *,
    max_cells: int = 2000,
) -> TrajectorySolution:
    """The largest probability of each target where the top item is shown with 1 - epsilon, others equally seldom.

    The other arguments as for `maximize_after_top1`.
    """
    if not low < high:
        raise InputError("low, high", received=(low, high), expected="low < high: one single rating is a star")
    found = enumerate_cells(start, shown, steps, low, high, max_cells)
    items, ratings = np.full((len(targets), steps), -1), np.full((len(targets), steps), np.nan)
    top = np.zeros(len(targets), dtype=bool)
    complete = found.complete
    for cell in found.cells:
        left = (items[:, 0] < 0) & ~np.isin(targets, cell.state.items)
        items[left], ratings[left] = cell.state.items, cell.ratings.vertices.mean(axis=0)
        regions, followed = top_regions(cell, candidates)
        complete &= followed
        for item, region in regions:
            own = (targets == item) & ~top
            items[own], ratings[own] = cell.state.items, region.vertices.mean(axis=0)
            top |= own
    others = int(candidates.sum()) - steps - 1
    with np.errstate(divide="ignore"):
        often = float(np.log(1.0 if others == 0 else 1 - epsilon))
        seldom = float(np.log(epsilon / max(1, others)))
    log_value: FloatArray = np.where(top, often, seldom)
    # With an epsilon near 1 the top item is the least likely one, and not being it may be better.
    log_upper: FloatArray = np.where(top | ~np.bool_(complete), max(often, seldom), seldom)
    applicable = items[:, 0] >= 0
    return TrajectorySolution(
        target=targets,
        log_value=np.where(applicable, log_value, np.nan),
        log_lower=np.where(applicable, log_value, -np.inf),
        log_upper=log_upper,
        status=judged(log_value, log_upper, 0.0, applicable, complete),
        items=items,
        ratings=ratings,
        sequences=len(found.cells),
    )

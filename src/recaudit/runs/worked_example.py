"""One pair of a reachability audit worked out: which ratings its user would have to give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from recaudit.audits.result import Result

Solve = Callable[[object, object], pl.DataFrame]
"""(user, item) to the row of that pair, with the best action."""


def with_worked_example(result: Result, solve: Solve) -> Result:
    """The result, with the best action in the row of the pair that climbs most, and null in every other row.

    The columns `action_items` and `action_ratings` are lists; for all pairs they would be many times the size of
    everything else.
    """
    row = _telling_row(result.pairs)
    if row is None:
        return result
    worked = solve(result.pairs["user"][row], result.pairs["item"][row])
    after = len(result.pairs) - row - 1
    columns = (
        pl.concat([action.clear(row), action, action.clear(after)])
        for action in (worked["action_items"], worked["action_ratings"])
    )
    return replace(result, pairs=result.pairs.with_columns(*columns))


def _telling_row(pairs: pl.DataFrame) -> int | None:
    """The pair that climbs the most places, the larger best chance deciding among equals; None if none climbs.

    Chances that differ by rounding alone are equal, so that the same pair is taken on every machine.
    """
    climbing = pairs.lazy().with_row_index("row").filter(pl.col("rank_gain") > 0)
    rounded = pl.col("value").round_sig_figs(9)
    found = climbing.sort(pl.col("rank_gain"), rounded, "row", descending=[True, True, False]).head(1).collect()
    return None if found.is_empty() else int(found["row"][0])

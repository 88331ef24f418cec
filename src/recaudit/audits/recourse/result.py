"""What recourse gives back: a row a pair, the share within reach of each effort, and who must do how much."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self, cast, final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.result import Result, Table
from recaudit.data.interactions import Interactions
from recaudit.metrics.intervals import Ratio, aggregate, mean, standing
from recaudit.metrics.tables import SERIES_SCHEMA, item_table, user_table
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.recourse.audit import Recourse

_POINTS = 20
"""Of the curve, where effort is no count."""


@final
class RecourseResult(Result):
    """The least effort of every pair, and what it comes to, overall and by group.

    The columns of `pairs` after `user` and `item`: `value`, the least effort found, null where there is none, with
    `lower`, which no smaller effort does, and `status`; `changes`, `action_items`, `before_ratings` and
    `action_ratings`: how many ratings change, which, from what and to what; `nodes`, how much was searched. `series`
    has the share of outcomes within reach of each effort. The table "example" is a pair that takes some effort, with
    titles.
    """

    @classmethod
    def of(
        cls,
        audit: Recourse,
        log: Interactions,
        users: IntArray,
        pairs: pl.DataFrame,
        *,
        rng: int,
        facts: Mapping[str, Any] | None = None,
    ) -> Self:
        """From the rows of these users (positions in the log)."""
        aggregates = cache(partial(_aggregates, audit, log, users, pairs))
        tables: dict[str, Table] = {"pairs": pairs, "example": partial(_example, log, pairs)}
        for name in aggregates_names(pairs):
            tables[name] = partial(lambda name: aggregates()[name], name)
        found = cls(audit, tables, rng=rng, facts=facts)
        found.facts["statuses"] = found.counts()
        return found

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status."""
        found = dict(self.pairs["status"].value_counts().iter_rows())
        return {status.value: int(found.get(status.value, 0)) for status in Status}

    def summary(self) -> str:
        """How many outcomes were asked about, how they stand, and what they take."""
        counts = ", ".join(f"{count:,} {status}" for status, count in self.counts().items() if count)
        lines = [*super().summary().splitlines()]
        unit = cast("Recourse", self.audit).effort.unit
        return "\n".join([lines[0], f"  {len(self.pairs):,} outcomes: {counts}; effort in {unit}", *lines[1:]])


def aggregates_names(pairs: pl.DataFrame) -> list[str]:
    """The tables that are made when they are looked at."""
    names = ["summary", "groups", "terms", "people", "users", "series"]
    return [*names, "items"] if "item" in pairs.columns else names


def _example(log: Interactions, pairs: pl.DataFrame) -> pl.DataFrame:
    """A pair that takes the median effort of those that take some, of the proved ones if there are any; without columns
    where none does."""
    some = pairs.filter(pl.col("value") > 0).sort(pl.col("status") != Status.SOLVED, "value", maintain_order=True)
    proved = int((some["status"] == Status.SOLVED).sum())
    if some.is_empty():
        return pl.DataFrame()
    row = some[((proved or len(some)) - 1) // 2]
    titles: dict[str, Any] = {"action_titles": [log.item_labels(log.items_at(row["action_items"][0]))]}
    if "item" in row.columns:
        titles["title"] = log.item_labels(log.items_at(row["item"]))
    return row.with_columns(**{name: pl.Series(values) for name, values in titles.items()})


class _Sums:
    """What the pairs of each user come to, (users,) each; a pair counts by its weight."""

    def __init__(self, row: IntArray, users: int, weight: FloatArray, pairs: pl.DataFrame) -> None:
        def total(chosen: pl.Series, values: FloatArray | None = None) -> FloatArray:
            own = chosen.to_numpy() * weight * (1.0 if values is None else values)
            return np.asarray(np.bincount(row, own, users), dtype=np.float64)

        effort, status = pairs["value"], pairs["status"].cast(pl.String)
        self.asked = total(status.is_in([Status.SOLVED, Status.BOUNDED, Status.IMPOSSIBLE]))
        self.reached, self.there = total(effort.is_not_null()), total((effort == 0).fill_null(value=False))
        some = (effort > 0).fill_null(value=False)
        self.some, self.effort = total(some), total(some, effort.fill_null(0.0).to_numpy())
        self.open = total((status == Status.BOUNDED) & effort.is_null()) > 0
        self.above = total((status == Status.BOUNDED) & some) > 0
        self.failed = total(status == Status.FAILED) > 0

    def ratios(self, members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
        """Both metrics over these users."""
        asked = np.where(self.asked > 0, self.asked, np.nan)
        share, before = self.reached / asked, (self.there / asked)[members > 0]
        known = np.isfinite(before)
        statuses = standing(self.open, self.asked > 0, self.failed)
        baseline = float(before[known].mean()) if known.any() else None
        bounded = bool((self.above | self.open)[members > 0].any())
        return [
            mean("within_reach", share, members, by, group, baseline=baseline, statuses=statuses),
            Ratio(
                "effort",
                self.effort * members,
                self.some * members,
                int((members > 0).sum()),
                by=by,
                group=group,
                status=Status.BOUNDED if bounded else Status.SOLVED,
            ),
        ]


def _aggregates(audit: Recourse, log: Interactions, users: IntArray, pairs: pl.DataFrame) -> dict[str, Any]:
    row = np.searchsorted(users, log.users_at(pairs["user"]))
    everybody, one = np.ones(len(users)), np.ones(len(pairs))
    whole = _Sums(row, len(users), one, pairs)
    ratios = whole.ratios(everybody)
    about_items = "item" in pairs.columns
    items = log.items_at(pairs["item"]) if about_items else np.zeros(0, dtype=np.int64)
    for grouping in audit.groupings(log):
        for g, group in enumerate(grouping.names):
            if grouping.over == "users":
                ratios += whole.ratios(grouping.weights[users, g], grouping.by, group)
            else:
                own = _Sums(row, len(users), grouping.weights[items, g], pairs)
                ratios += own.ratios(everybody, grouping.by, group)
    asked = np.where(whole.asked > 0, whole.asked, np.nan)
    own_values = {
        "within_reach": whole.reached / asked,
        "effort": np.where(whole.some > 0, whole.effort, np.nan) / np.where(whole.some > 0, whole.some, 1.0),
    }
    tables = audit.aggregated(ratios, log, users) | {
        "users": user_table(log.user_ids.gather(users), own_values).with_columns(
            ratings=pl.Series(log.user_counts[users])
        ),
        "series": _curve(audit, pairs, row, whole),
    }
    if about_items:
        tables["items"] = _items(log, items, pairs)
    return tables


def _curve(audit: Recourse, pairs: pl.DataFrame, row: IntArray, whole: _Sums) -> pl.DataFrame:
    """The share of outcomes within reach of each effort."""
    efforts = pairs["value"].drop_nulls().to_numpy()
    most = float(efforts.max(initial=0.0))
    counted = bool((efforts == np.round(efforts)).all()) and most <= 10 * _POINTS
    points = np.arange(int(most) + 1.0) if counted else np.linspace(0, most, _POINTS + 1)
    effort, asked = pairs["value"].fill_null(np.inf).to_numpy(), np.where(whole.asked > 0, whole.asked, np.nan)
    frames = [pl.DataFrame(schema=SERIES_SCHEMA)]
    statuses = standing(whole.open | whole.above, whole.asked > 0, whole.failed)
    for at in points:
        share = np.bincount(row, effort <= at * (1 + 1e-9), len(asked)) / asked
        reached = mean("within_reach", share, np.ones(len(asked)), statuses=statuses)
        summary, _ = aggregate([reached], audit.metric_bounds, audit.confidence)
        frames.append(summary.select(pl.lit("effort").alias("over"), pl.lit(float(at)).alias("at"), pl.all()))
    return pl.concat(frames)


def _items(log: Interactions, items: IntArray, pairs: pl.DataFrame) -> pl.DataFrame:
    """One row an item: for how many users it was asked about, how many can have it, and what it takes."""
    sums = _Sums(items, log.n_items, np.ones(len(items)), pairs)
    share, effort = (
        np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)
        for above, below in ((sums.reached, sums.asked), (sums.effort, sums.some))
    )
    return item_table(log).with_columns(
        users=pl.Series(sums.asked.astype(np.int64)),
        within_reach=pl.Series(share).fill_nan(None),
        effort=pl.Series(effort).fill_nan(None),
    )

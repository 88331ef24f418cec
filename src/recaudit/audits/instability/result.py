"""What instability gives back: a row a pair where asked for, and what is known of every viewer and every editor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.instability.tally import BINS, Tally, bin_edges
from recaudit.audits.reachability.result import STATUS
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.metrics.groupings import Grouping, groupings
from recaudit.metrics.intervals import Bootstrap, Ratio, aggregate, mean, standing, weakest
from recaudit.metrics.tables import user_table
from recaudit.solvers.distance.distances import Distance
from recaudit.status import Status

if TYPE_CHECKING:
    import pandas as pd


PAIR_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "status": STATUS,
    "baseline": pl.Float64,
}
"""The columns after `viewer` and `editor`: the largest distance, its certified bounds, how it stands, and the distance
without edits, which is 0."""


def user_groupings(data: Interactions, by: Sequence[str] | None) -> list[Grouping]:
    """The named groupings, or all that this log offers; only of users, who are all that instability is about."""
    found = groupings(data, by)
    for grouping in found if by is not None else []:
        if grouping.over != "users":
            raise InputError("by", received=grouping.by, expected="groups of users", remedy="It groups items.")
    return [grouping for grouping in found if grouping.over == "users"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Instability:
    """How far every editor can move what every viewer is recommended."""

    data: Interactions
    settings: Mapping[str, object]
    distance: Distance
    frame: pl.DataFrame
    """One row a pair: viewer, editor, and the columns of PAIR_SCHEMA; with the edited items and the best ratings where
    they were asked for, and `queries`, `fresh` and `failure` where a system was asked. Without rows where pairs were
    not kept."""
    tally: Tally
    viewer_positions: IntArray
    editor_positions: IntArray
    failed: int = 0
    """How many pairs have no value because a system that was asked failed."""

    @property
    def bounded(self) -> int:
        """How many values are not known to be the largest distance itself, but are surely reached."""
        return int(self.tally.viewers.bounded.sum())

    @property
    def viewers(self) -> pl.DataFrame:
        """One row a viewer: over how many editors, the mean, the worst and by whom, the share above the threshold."""
        return self._table("viewer", "editors", "worst_editor")

    @property
    def editors(self) -> pl.DataFrame:
        """One row an editor: the same over the viewers."""
        return self._table("editor", "viewers", "worst_viewer")

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status, whether they were kept or not."""
        counts = dict.fromkeys((status.value for status in Status), 0)
        counts[Status.SOLVED] = int(self.tally.viewers.count.sum()) - self.bounded
        counts[Status.BOUNDED] = self.bounded
        counts[Status.FAILED] = self.failed
        counts[Status.NOT_APPLICABLE] = self.tally.absent - self.failed
        return counts

    def aggregate(
        self,
        *,
        by: Sequence[str] | None = None,
        confidence: float = 0.95,
        samples: int = 1000,
        rng: int = 0,
    ) -> Result:
        """Mean and worst instability and the share of unstable pairs, with bootstrap intervals over viewers.

        Overall, by groups of viewers, and by groups of editors: "editor history" beside "history". What stands on a
        bounded pair is bounded: not above the truth, with an interval that says how far it depends on who was asked.
        The settings say how many pairs there are of each status.
        """
        side, n = self.tally.viewers, len(self.viewer_positions)
        ratios = self._averages(np.ones(n))
        every = [(grouping.by, group) for grouping in user_groupings(self.data, None) for group in grouping.names]
        for grouping in user_groupings(self.data, by):
            for group, members in zip(grouping.names, grouping.weights[self.viewer_positions].T, strict=True):
                ratios += self._averages(members, grouping.by, group)
            for group in grouping.names:
                at = every.index((grouping.by, group))
                count = self.tally.group_count[:, at]
                own = self.tally.group_total[:, at] / np.where(count > 0, count, np.nan)
                named = (f"editor {grouping.by}", group)
                statuses = standing(self.tally.group_bounded[:, at] > 0, count > 0, np.zeros(n, dtype=bool))
                average = mean("instability", own, np.ones(n), *named, statuses=statuses)
                above = self.tally.group_above[:, at]
                ratios += [average, replace(average, metric="unstable_share", totals=above, weights=count)]
        frame, groups = aggregate(ratios, Bootstrap(confidence, samples, rng))
        own_values = {"instability": side.mean(), "max_instability": side.worst(), "unstable_share": side.share()}
        return Result(
            audit="instability",
            settings={**self.settings, "confidence": confidence, "samples": samples, "statuses": self.counts()},
            frame=frame,
            groups=groups,
            users=user_table(self.data.user_ids.gather(self.viewer_positions), own_values),
            items=pl.DataFrame(),
            pairs=self.frame,
        )

    def histogram(self, bins: int = 20) -> pl.DataFrame:
        """How many pairs have values in each of `bins` (a divisor of 1,000): lower, upper, pairs, share.

        Equal steps from 0 to the largest value that the distance can have; for KL, which has none, equal steps of
        1 - exp(-KL). A value on an edge belongs to the bin above it.
        """
        if bins < 1 or BINS % bins:
            raise InputError("bins", received=bins, expected=f"a divisor of {BINS:,}: 10, 20, 50, ...")
        counts = self.tally.bins.reshape(bins, -1).sum(axis=1)
        edges = bin_edges(self.distance, bins)
        return pl.DataFrame(
            {"lower": edges[:-1], "upper": edges[1:], "pairs": counts, "share": counts / max(1, counts.sum())}
        )

    def contrast(
        self,
        first: Iterable[object],
        second: Iterable[object],
        *,
        confidence: float = 0.95,
        samples: int = 1000,
        rng: int = 0,
    ) -> pl.DataFrame:
        """Two groups of editors (ids) on the same viewers: the mean instability of each, and the difference.

        Columns: group (first, second, first - second), value, lower and upper (a bootstrap interval over viewers),
        status, viewers, editors. A viewer counts who has pairs with editors of both groups. Where distances are lower
        bounds a group's mean is one too, and is called bounded; so is the difference, which may be off either way.
        """
        if self.frame.is_empty():
            raise InputError(
                "contrast",
                received="a result without pairs",
                expected="a row a pair",
                remedy="Pass pairs=True to instability, or only the editors of the two groups.",
            )
        means, sizes, found = [], [], []
        for name, ids in (("first", first), ("second", second)):
            members = self.data.user_ids.gather(np.unique(self.data.users_at(ids)))
            known = self.frame.filter(pl.col("editor").is_in(members.implode()), pl.col("value").is_not_null())
            means.append(known.group_by("viewer").agg(pl.col("value").mean().alias(name)))
            sizes.append(known["editor"].n_unique())
            found.append(known["status"].cast(pl.String).to_numpy())
        paired = means[0].join(means[1], on="viewer").sort("viewer")
        if paired.is_empty():
            raise InputError(
                "first, second",
                received="groups without a viewer in common",
                expected="editors of this result, each group with at least one",
            )
        one, two = paired["first"].to_numpy(), paired["second"].to_numpy()
        columns = np.column_stack([one, two, one - two])
        bootstrap = Bootstrap(confidence, samples, rng)
        replicates = np.concatenate([drawn @ columns / len(columns) for drawn in bootstrap.resamples(len(columns))])
        lower, upper = bootstrap.percentiles(replicates)
        return pl.DataFrame(
            {
                "group": ["first", "second", "first - second"],
                "value": columns.mean(axis=0),
                "lower": lower,
                "upper": upper,
                "status": [weakest(some).value for some in (*found, np.concatenate(found))],
                "viewers": [len(paired)] * 3,
                "editors": [*sizes, sum(sizes)],
            }
        )

    def summary(self) -> str:
        """How many pairs there are, how they stand, and how far they go."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        counts = self.counts()
        shown = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
        lines = [f"instability ({settings})", f"  {sum(counts.values()):,} pairs: {shown or 'none'}"]
        side = self.tally.viewers
        pairs = int(side.count.sum())
        if pairs:
            lines += [
                f"  mean {self.distance:11} {np.nanmean(side.mean()):.4f}",
                f"  worst editor, mean {np.nanmean(side.worst()):.4f}",
                f"  above {self.settings['threshold']:<10} {int(side.above.sum()) / pairs:.2%} of pairs",
            ]
        return "\n".join(lines)

    __repr__ = summary

    def _averages(self, members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
        side = self.tally.viewers
        average = mean("instability", side.mean(), members, by, group, statuses=side.statuses())
        above, count = side.above * members, side.count * members
        return [
            average,
            mean("max_instability", side.worst(), members, by, group, statuses=side.statuses()),
            replace(average, metric="unstable_share", totals=above, weights=count),
        ]

    def _table(self, one: str, others: str, worst: str) -> pl.DataFrame:
        sides = [(self.tally.viewers, self.viewer_positions), (self.tally.editors, self.editor_positions)]
        (side, own), (_, other) = sides if one == "viewer" else sides[::-1]
        partner = pl.Series(other[side.partner]).set(pl.Series(side.partner < 0), None)
        return pl.DataFrame(
            {
                one: self.data.user_ids.gather(own),
                others: side.count,
                "instability": pl.Series(side.mean()).fill_nan(None),
                "max_instability": pl.Series(side.worst()).fill_nan(None),
                worst: self.data.user_ids.gather(partner),
                "unstable_share": pl.Series(side.share()).fill_nan(None),
            }
        )

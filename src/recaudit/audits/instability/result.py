"""What instability gives back: what every viewer, editor and group comes to, and a row a pair where they are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.instability.pairs import BINS, PairTotals, PersonTotals
from recaudit.audits.result import Result
from recaudit.errors import InputError
from recaudit.metrics.groupings import Grouping
from recaudit.metrics.inference import estimate_difference, estimate_mean
from recaudit.metrics.intervals import Ratio, mean, standing, weakest
from recaudit.metrics.tables import means_by
from recaudit.solvers.distance.distances import LARGEST, Distance


@final
class InstabilityResult(Result):
    """How far editors can move what viewers are recommended.

    `users` are the viewers: over how many editors, the mean, the worst and by whom, the share above the threshold. A
    row of `pairs` has viewer, editor, value, its certified bounds lower and upper, status, and the baseline, which is
    0; with `best_ratings` the items whose ratings matter and those ratings; of a system that is asked `queries`,
    `fresh` and `failure`.
    """

    @property
    def editors(self) -> pl.DataFrame:
        """One row an editor, as `users` has one for each viewer."""
        return self.table("editors")

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status, whether they were kept or not."""
        return dict(self.facts["statuses"])

    def histogram(self, bins: int = 20) -> pl.DataFrame:
        """How many pairs have values in each of `bins` (a divisor of 1,000): lower, upper, pairs, share.

        Equal steps from 0 to the largest value that the distance can have; for KL, which has none, equal steps of
        1 - exp(-KL). A value on an edge belongs to the bin above it.
        """
        if bins < 1 or BINS % bins:
            raise InputError("bins", received=bins, expected=f"a divisor of {BINS:,}: 10, 20, 50, ...")
        return histogram(self.table("histogram")["pairs"].to_numpy(), self.settings["distance"], bins)

    def contrast(self, first: Iterable[object], second: Iterable[object]) -> pl.DataFrame:
        """Two groups of editors (ids) on the same viewers: the mean instability of each, and the difference.

        Columns: group (first, second, first - second), value, lower and upper (an interval over viewers), reason (why
        there is none), status, viewers, editors. A viewer counts who has pairs with editors of both groups. Where
        distances are lower bounds a group's mean is one too, and is called bounded; so is the difference, which may be
        off either way.
        """
        if self.scan("pairs").head(1).collect().is_empty():
            remedy = "Pass pairs=True to instability, or only the editors of the two groups."
            raise InputError("contrast", received="a result without pairs", expected="a row a pair", remedy=remedy)
        means, sizes, found = [], [], []
        for name, ids in (("first", list(first)), ("second", list(second))):
            if strangers := [editor for editor in ids if editor not in self.editors["editor"]]:
                raise InputError(name, received=strangers[0], expected="ids of this result's editors")
            known = self.scan("pairs").filter(pl.col("editor").is_in(ids), pl.col("value").is_not_null()).collect()
            means.append(means_by(known, "viewer", "value").rename({"value": name}))
            sizes.append(known["editor"].n_unique())
            found.append(known["status"].cast(pl.String).to_numpy())
        paired = means[0].join(means[1], on="viewer").sort("viewer")
        if paired.is_empty():
            expected = "editors of this result, each group with at least one"
            raise InputError("first, second", received="groups without a viewer in common", expected=expected)
        one, two = paired["first"].to_numpy(), paired["second"].to_numpy()
        bounds, confidence = self.metrics["instability"].bounds, self.audit.confidence
        estimates = (
            estimate_mean(one, bounds, confidence=confidence),
            estimate_mean(two, bounds, confidence=confidence),
            estimate_difference(one, two, confidence=confidence),
        )
        ends = dict.fromkeys(("value", "lower", "upper"), pl.Float64)
        return pl.DataFrame(
            {
                "group": ["first", "second", "first - second"],
                **{name: [getattr(each, name) for each in estimates] for name in (*ends, "reason")},
                "status": [weakest(some).value for some in (*found, np.concatenate(found))],
                "viewers": [len(paired)] * 3,
                "editors": [*sizes, sum(sizes)],
            },
            schema_overrides={**ends, "reason": pl.String},
        )

    def summary(self) -> str:
        """How many pairs there are of each status, and the overall values with their intervals."""
        head, *lines = super().summary().splitlines()
        counts = self.counts()
        shown = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
        return "\n".join([head, f"  {sum(counts.values()):,} pairs: {shown or 'none'}", *lines])


def averages(totals: PairTotals, viewers: IntArray, grouped: list[Grouping]) -> list[Ratio]:
    """What is reported overall, by groups of viewers, and by groups of editors: "editor history" beside "history"."""
    everybody, worst = np.ones(len(viewers)), totals.viewers.metrics()["max_instability"]
    ratios = _means(totals.viewers.sums, everybody, worst)
    editor_groups = iter(np.moveaxis(totals.by_group, 2, 0))
    for grouping in grouped:
        for group, members in zip(grouping.names, grouping.weights[viewers].T, strict=True):
            ratios += _means(totals.viewers.sums, members, worst, grouping.by, group)
        for group in grouping.names:
            ratios += _means(next(editor_groups), everybody, None, f"editor {grouping.by}", group)
    return ratios


def _means(
    sums: FloatArray, members: FloatArray, worst: FloatArray | None, by: str = "", group: str = ""
) -> list[Ratio]:
    """The metrics over these viewers, from the `sums` (4, viewers) of their pairs."""
    known, total, above, bounded = sums
    statuses = standing(bounded > 0, known > 0, np.zeros(len(known), dtype=bool))
    n_pairs = np.where(known > 0, known, np.nan)
    average = mean("instability", total / n_pairs, members, by, group, statuses=statuses)
    share = mean("unstable_share", above / n_pairs, members, by, group, statuses=statuses)
    largest = [] if worst is None else [mean("max_instability", worst, members, by, group, statuses=statuses)]
    return [average, *largest, share]


def people(side: PersonTotals, ids: pl.Series, one: str, others: pl.Series, other: str) -> pl.DataFrame:
    """A row for each viewer, or editor, with these `ids`; `others` are the ids on the other side of the pairs."""
    partner = others.gather(pl.Series(side.partner).set(pl.Series(side.partner < 0), None))
    own = {name: pl.Series(values).fill_nan(None) for name, values in side.metrics().items()}
    return pl.DataFrame({one: ids, f"{other}s": side.sums[0].astype(np.int64), **own, f"worst_{other}": partner})


def histogram(counts: IntArray, distance: Distance, bins: int = BINS) -> pl.DataFrame:
    """The counts (BINS,) of `bin_counts`, in fewer steps."""
    pairs, steps = counts.reshape(bins, -1).sum(axis=1), np.linspace(0.0, 1.0, bins + 1)
    with np.errstate(divide="ignore"):
        edges = -np.log1p(-steps) if distance == "kl" else LARGEST[distance] * steps
    return pl.DataFrame({"lower": edges[:-1], "upper": edges[1:], "pairs": pairs, "share": pairs / max(1, pairs.sum())})

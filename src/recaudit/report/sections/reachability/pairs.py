"""What one model lets its users reach: the pairs of its audit, boiled down to what the page shows, and its charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log10
from typing import Any, Literal, final

import altair as alt
import numpy as np
import polars as pl

from recaudit.metrics.numbers import TIMES, chance, percent, times
from recaudit.report.evidence import Evidence, columns
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import count
from recaudit.seeding import generator
from recaudit.status import Status
from recaudit.ties import TIE

AUDIT = "reachability"
MOST_POINTS = 1000
"""How many pairs a chart draws, chosen at random by the run's seed."""
STEP = 0.1
"""The width of a bar of the lift histogram, in powers of ten."""

_ACTIONS = {
    "next-k": "rate the {k} unseen items that they would be shown next",
    "history-edits": "change {k} of the ratings that they gave",
    "future-edits": "rate {k} unseen items drawn at random",
    "past": "change the last {k} ratings that they gave",
    "future": "rate the {k} items that they are shown next, one after the other",
}
_PAIRS = columns("user item status", "value upper baseline lift", "candidates")
_USERS = columns("user", "discovery baseline_discovery log_lift")
_ITEMS = columns("item title", "best", "ratings users")
_ACTIONS_TAKEN = {"action_items": pl.List(pl.String), "action_ratings": pl.List(pl.Float64)}
_EXAMPLE = {**columns("user item", "value baseline", "rank_gain"), **_ACTIONS_TAKEN}


@final
@dataclass(frozen=True, eq=False)
class Reach:
    """What one model's audit found, without the millions of pairs that it can have."""

    statuses: Mapping[str, int]
    """How many pairs there are of each status."""
    lifts: pl.DataFrame
    """step, pairs: how many pairs have a lift from 10^(STEP step) up to the next step; finite lifts only."""
    points: pl.DataFrame
    """user, title, baseline, value: some of the pairs where both chances are above 0."""
    users: pl.DataFrame
    """A row a user who was asked: user, discovery, baseline_discovery, log_lift."""
    items: pl.DataFrame
    """A row an item that was somebody's target: item, title (the id where there is none), ratings, users (who could
    have wanted it), best (anybody's best chance), reached_by (how many of the users can make it likelier than by a
    uniform draw from what the policy chooses from), ruled_out (whether it is certain that none of them can)."""
    example: Mapping[str, Any] | None
    """One user and one item at its best chance: user, title, baseline, value, lift (None where the item had no chance
    at all before), places (how many it climbs), candidates (among how many items), ratings (the title of each acted-on
    item, and the rating to give)."""

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(self.statuses.values())

    @property
    def unreached(self) -> pl.DataFrame:
        """The items that none of the users can make likelier than by chance, the least likely first."""
        return self.hardest.filter(pl.col("ruled_out"))

    @property
    def undecided(self) -> int:
        """How many items none of the users is known to make likelier than by chance, though it is not ruled out."""
        return self.items.filter((pl.col("reached_by") == 0) & ~pl.col("ruled_out")).height

    @property
    def hardest(self) -> pl.DataFrame:
        """All items, those that the fewest users can reach first."""
        share = pl.col("reached_by") / pl.col("users")
        return self.items.sort(share, "best", "item")

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> Reach:
        """Read a finished audit."""
        pairs = evidence.scan(model, AUDIT, "pairs", _PAIRS)
        known = pairs.filter(pl.col("value").is_not_null())
        items = evidence.table(model, AUDIT, "items", _ITEMS).with_columns(pl.coalesce("title", "item"))
        titles = items.select("item", "title")
        found = dict(pairs.group_by("status").len().collect().iter_rows())
        return cls(
            statuses={status.value: int(found.get(status.value, 0)) for status in Status},
            lifts=_histogram(known),
            points=_drawn(known, evidence.run.manifest.seed).join(titles, on="item", maintain_order="left"),
            users=evidence.table(model, AUDIT, "users", _USERS).drop_nulls("discovery"),
            items=_with_reached_by(items, pairs),
            example=_example(evidence.table(model, AUDIT, "example", _EXAMPLE), known, dict(titles.iter_rows())),
        )


def reach_by_model(evidence: Evidence) -> Mapping[str, Reach]:
    """What the models that were audited let users reach."""
    return evidence.each(AUDIT, Reach.of)


def describe_actions(actions: Mapping[str, Any]) -> str:
    """What users may do, as a verb, from the audit's setting `{"kind": "next-k", "k": 10, ...}`."""
    return _ACTIONS.get(actions.get("kind", ""), "change some of their ratings").format(k=actions.get("k"))


def _histogram(known: pl.LazyFrame) -> pl.DataFrame:
    """The pairs by lift, from the lowest step to the highest, those without any included."""
    finite = known.filter(pl.col("lift").is_finite() & (pl.col("lift") > 0))
    step = (pl.col("lift").log10() / STEP).floor().cast(pl.Int64).alias("step")
    counts = finite.group_by(step).agg(pairs=pl.len().cast(pl.Int64)).collect()
    if counts.is_empty():
        return counts
    low, high = counts["step"].to_numpy().min(), counts["step"].to_numpy().max()
    steps = pl.DataFrame({"step": np.arange(low, high + 1)})
    return steps.join(counts, on="step", how="left", maintain_order="left").with_columns(pl.col("pairs").fill_null(0))


def _drawn(known: pl.LazyFrame, seed: int) -> pl.DataFrame:
    """Some of the pairs that a chart with logarithmic axes can show."""
    shown = known.filter((pl.col("value") > 0) & (pl.col("baseline") > 0)).with_row_index("row")
    count = shown.select(pl.len()).collect().item()
    if count > MOST_POINTS:
        rows = generator(seed, "pairs shown").choice(count, MOST_POINTS, replace=False)
        shown = shown.filter(pl.col("row").is_in(pl.Series(rows, dtype=pl.get_index_type()).implode()))
    return shown.select("user", "item", "baseline", "value").collect()


def _with_reached_by(items: pl.DataFrame, pairs: pl.LazyFrame) -> pl.DataFrame:
    """The items that were somebody's target, with reached_by and ruled_out."""
    asked = pairs.filter(pl.col("status") != Status.NOT_APPLICABLE.value)
    # The verdict of `Reachability.aggregate`: better than uniform by more than rounding.
    uniform = ((1 + TIE) / pl.col("candidates")).alias("uniform")
    reached = asked.with_columns(uniform).group_by("item")
    verdicts = reached.agg(
        reached_by=(pl.col("value") > pl.col("uniform")).sum(),
        # Without an upper bound, as of a failed pair, nothing is ruled out.
        ruled_out=(pl.col("upper") <= pl.col("uniform")).fill_null(value=False).all(),
    )
    return items.filter(pl.col("users") > 0).join(verdicts.collect(), on="item", how="left", maintain_order="left")


def _example(worked: pl.DataFrame, known: pl.LazyFrame, titles: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The one pair whose best action the run has kept."""
    if worked.is_empty():
        return None
    row = worked.row(0, named=True)
    acted = [titles.get(item, item) for item in row["action_items"]]
    return {
        **{name: row[name] for name in ("user", "baseline", "value")},
        "title": titles.get(row["item"], row["item"]),
        "lift": row["value"] / row["baseline"] if row["baseline"] else None,
        "places": row["rank_gain"],
        "candidates": known.filter(user=row["user"]).select(pl.len()).collect().item(),
        "ratings": tuple(zip(acted, row["action_ratings"], strict=True)),
    }


SMALLEST_TAIL = 0.001
"""A histogram ends where each further step has a smaller share of the pairs."""
_ENOUGH = 0.5
"""The chart of chances needs both above 0 for this share of the pairs: a policy that never chooses has none."""


def chances(evidence: Evidence, model: str) -> kit.Figure | None:
    """The best chance of a pair against its chance without strategy, both logarithmic (paper 000, Figure 5)."""
    reach = reach_by_model(evidence)[model]
    if reach.points.is_empty() or reach.lifts["pairs"].sum() < _ENOUGH * reach.pairs:
        return None
    rows: kit.Rows = [
        {
            "user": row["user"],
            "item": row["title"],
            "x": float(f"{row['baseline']:.3g}"),
            "y": float(f"{row['value']:.3g}"),
            "told": f"{chance(row['baseline'])} to {chance(row['value'])}",
        }
        for row in reach.points.iter_rows(named=True)
    ]
    before, best = ([row[side] for row in rows] for side in ("x", "y"))
    left, right = min(before), max(before)
    x = _log("x", "chance without strategy", 0.9 * left, 1.1 * right, "~%")
    y = _log("y", "best chance", 0.9 * min(left, *best), 1.1 * max(right, *best), "~%")
    line = kit.chart([{"x": left, "y": left}, {"x": right, "y": right}])
    name = kit.chart([{"x": right, "y": right, "note": "no say"}])
    above = sum(b > a for a, b in zip(before, best, strict=True))
    return kit.figure(
        "Best chance against chance without strategy",
        f"{count(len(rows))} pairs of a user and an item with {model} as points, {percent(above / len(rows))} of them "
        f"above the line on which strategy changes nothing. Without strategy chances go from {chance(left)} to "
        f"{chance(right)}, at best from {chance(min(best))} to {chance(max(best))}.",
        320,
        kit.chart(rows).mark_point(size=14, fill=kit.ACCENT, opacity=0.4).encode(x, y, kit.tooltip("user", "item")),
        line.mark_line(stroke=kit.INK, strokeDash=[3, 3], strokeWidth=1).encode(x, y),
        name.mark_text(align="right", dy=18, fill=kit.INK).encode(x, y, alt.Text("note:N")),
    )


def lifts(evidence: Evidence) -> kit.Figure | None:
    """How many pairs can be lifted how far: a histogram for each model, drawn as a line."""
    rows: kit.Rows = []
    for model, reach in reach_by_model(evidence).items():
        total = reach.lifts["pairs"].sum()
        shares = {step: pairs / total for step, pairs in reach.lifts.iter_rows()}
        high = [step for step, share in shares.items() if share >= SMALLEST_TAIL]
        for step in range(min(high) - 1, max(high) + 2) if high else ():  # each line comes down to its tails
            start, share = 10 ** (STEP * step), shares.get(step, 0.0)
            told = f"{percent(share)} of pairs from {times(start)} to {times(start * 10**STEP)}"
            middle = start * 10 ** (STEP / 2)
            rows.append({**kit.in_series(evidence.models, model), "x": middle, "y": round(share, 5), "told": told})
    if not rows:
        return None
    edges = [row["x"] for row in rows]
    # The line at 1 belongs to the picture even where all lifts lie on one side of it.
    x = _log("x", "lift: best chance / chance without strategy", min(0.9, *edges), max(1.1, *edges), "~r", TIMES)
    y = alt.Y("y:Q", title="share of pairs", axis=alt.Axis(format="%", grid=True, tickCount=4))
    lines = kit.chart(rows).mark_line(strokeWidth=2, interpolate="monotone")
    means = [f"{model} {estimate.full}" for model, estimate in evidence.known("lift").items()]
    return kit.figure(
        "How far a chance can be lifted",
        f"Histogram of the lift of all pairs for each model. On average: {', '.join(means) or 'not available'}.",
        320,
        kit.chart([{"x": 1}]).mark_rule(stroke=kit.INK, strokeDash=[3, 3]).encode(x=x),
        lines.encode(x, y, kit.by_series(evidence.models), kit.tooltip("model")),
    )


def _log(field: Literal["x", "y"], title: str, low: float, high: float, form: str, sign: str = "") -> alt.X | alt.Y:
    """A logarithmic axis with a handful of round numbers on it."""
    powers = [10.0**power for power in range(floor(log10(low)), floor(log10(high)) + 1)]
    finer = [step * power for power in powers for step in (1, 2, 5)]
    ticks = [tick for tick in (finer if len(powers) < 3 else powers) if low <= tick <= high]
    axis = kit.tick_axis(ticks, labelExpr=f"'{sign}' + format(datum.value, '{form}')", grid=True)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    channel = alt.X if field == "x" else alt.Y
    return channel(f"{field}:Q", title=title, axis=axis, scale=scale)


def before_and_after(evidence: Evidence, model: str, metric: str, by: str) -> kit.Figure | None:
    """Without strategy and at best in each group: a ring and a dot (paper 000, Figures 7 and 9)."""
    groups = [group for group in evidence.groups(model, metric, by) if group.estimate.baseline is not None]
    if len(groups) < 2:
        return None
    groups = groups[: kit.MOST_CATEGORIES]
    names = [group.name for group in groups]
    rows: kit.Rows = [
        {
            "group": group.name,
            "before": group.estimate.baseline,
            **kit.drawn(group.estimate),
            "told": f"{group.estimate.compared} to {group.estimate.full}",
        }
        for group in groups
    ]
    axis, scale = alt.Axis(format="%", labelFlush=False), alt.Scale(zero=True, nice=True)
    y = kit.rows_of("group", names)
    best, before, ends = kit.across("value", "before", "lower", axis=axis, scale=scale)
    base, told = kit.chart(rows), kit.tooltip("group")
    numbers = [f"{row['group']} {row['told']}" for row in rows]
    return kit.figure(
        f"By {by}",
        f"{evidence.label(metric)} with {model} by {by}, without strategy and at best: {'; '.join(numbers)}.",
        (kit.ROW + 4) * len(names),
        base.mark_rule(strokeWidth=1, stroke=kit.MUTED).encode(before, alt.X2("value:Q"), y),
        base.mark_rule(strokeWidth=2, stroke=kit.ACCENT).encode(ends, alt.X2("upper:Q"), y),
        base.mark_point(size=60, fill=kit.PAPER, stroke=kit.INK, strokeWidth=1.5).encode(before, y, tooltip=told),
        base.mark_point(size=80, fill=kit.ACCENT).encode(best, y, tooltip=told),
    )

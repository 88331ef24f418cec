"""What one model lets people do over time: by horizon, by beta, and how far pairs of users move each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from typing import Literal, final

import altair as alt
import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.metrics.metric import Metric
from recaudit.metrics.numbers import TIMES, percent
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.report.evidence import Evidence
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import Estimate

AUDIT = "agency"

When = Literal["past", "future"]
WHEN: Mapping[When, str] = {"past": "in hindsight", "future": "from now on"}

_PAIR_SCHEMA = {
    "when": pl.String,
    "viewer": pl.String,
    "editor": pl.String,
    "value": pl.Float64,
    "action_items": pl.List(pl.String),
    "given_ratings": pl.List(pl.Float64),
    "action_ratings": pl.List(pl.Float64),
}
_ITEM_SCHEMA = {"item": pl.String, "title": pl.String}


@final
@dataclass(frozen=True)
class Worked:
    """The pair that moves furthest: whose recommendations, by whose ratings, and by which."""

    viewer: str
    editor: str
    value: float
    ratings: tuple[tuple[str, float | None, float], ...]
    """The title of each item, the rating that was given, if any, and the one that would be given instead."""


@final
@dataclass(frozen=True, eq=False)
class AgencyCurves:
    """One model's audit."""

    series: pl.DataFrame
    """Columns as in SERIES_SCHEMA."""
    worked: Mapping[str, Worked]
    """By "past" and "future"."""

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> AgencyCurves:
        """Read a finished audit."""
        items = evidence.table(model, AUDIT, "items", _ITEM_SCHEMA)
        titles = dict(items.select("item", pl.coalesce("title", "item")).iter_rows())
        pairs = evidence.table(model, AUDIT, "pairs", _PAIR_SCHEMA)
        worked = {
            when: Worked(
                viewer,
                editor,
                value,
                tuple((titles.get(item, item), *ratings) for item, *ratings in zip(acted, given, instead, strict=True)),
            )
            for when, viewer, editor, value, acted, given, instead in pairs.iter_rows()
        }
        return cls(evidence.table(model, AUDIT, "series", SERIES_SCHEMA), worked)

    def curve(self, over: str, metric: str) -> pl.DataFrame:
        """The points that have a value."""
        wanted = (pl.col("over") == over) & (pl.col("metric") == metric)
        return self.series.filter(wanted & pl.col("value").is_not_null()).sort("at")

    def histogram(self, metric: str, edges: FloatArray) -> list[float]:
        """(len(edges) - 1,): the share of pairs whose instability lies between two edges."""
        steps = self.curve("instability", metric)
        # A step belongs to the bin that starts where it does, whichever way the two were rounded.
        starts = steps["at"].to_numpy() * (1 + 1e-9)
        return [float(share) for share in np.histogram(starts, edges, weights=steps["value"].to_numpy())[0]]


def agency_of(evidence: Evidence) -> Mapping[str, AgencyCurves]:
    """The curves and pairs of the models that were audited."""
    return evidence.each(AUDIT, AgencyCurves.of)


_HEIGHT = 220
_STEPS = 25
"""Bars of the histogram, at most."""
_FINEST = 0.001
"""The narrowest bar: as narrow as the steps in which pairs were counted."""
_TAIL = 0.001
"""A histogram ends where no model has a larger share of its pairs beyond."""
_WIDE = 8
"""From this ratio on between its ends, an axis of lifts is logarithmic."""

_HEADINGS = {
    "past_lift": "Lift in hindsight",
    "future_lift": "Lift from now on",
    "past_instability": "Instability in hindsight",
    "future_instability": "Instability from now on",
}
_TITLES = {"horizon": "ratings that are free", "beta": "beta: from anything goes to the top item alone"}


def curve(evidence: Evidence, over: Literal["horizon", "beta"], metric: str) -> kit.Figure | None:
    """One metric along a sweep: a line for each model, its interval as a band."""
    rows: kit.Rows = []
    for model, agency in agency_of(evidence).items():
        for row in agency.curve(over, metric).iter_rows(named=True):
            estimate = Estimate.of(evidence.definitions[metric], row)
            rows.append({**kit.in_series(evidence.models, model), over: row["at"], **kit.drawn(estimate)})
    if len({row[over] for row in rows}) < 2:
        return None
    points = sorted({row[over] for row in rows})
    marks = points if over == "horizon" else list(range(floor(points[-1]) + 1))
    ticks = kit.tick_axis(marks, format="d", grid=False)
    x = alt.X(f"{over}:Q", title=_TITLES[over], axis=ticks, scale=alt.Scale(zero=over == "beta", nice=False, padding=8))
    axis, scale = _level(rows, evidence.definitions[metric])
    value, lower = (alt.Y(f"{field}:Q", title=None, axis=axis, scale=scale) for field in ("value", "lower"))
    color = kit.by_series(evidence.models)
    base = kit.chart(rows)
    ends = [
        f"{model} {own[0]['told']} to {own[-1]['told']}"
        for model in agency_of(evidence)
        if (own := [row for row in rows if row["model"] == model])
    ]
    heading = _HEADINGS[metric]
    return kit.figure(
        heading,
        f"{heading} of each model over {over}, from {points[0]:g} to {points[-1]:g}: {'; '.join(ends)}.",
        _HEIGHT,
        base.mark_area(opacity=0.16).encode(x, lower, alt.Y2("upper:Q"), color),
        base.mark_line(strokeWidth=2).encode(x, value, color),
        base.mark_point(size=36).encode(x, value, color, tooltip=kit.tooltip("model", over)),
    )


def _level(rows: kit.Rows, metric: Metric) -> tuple[alt.Axis, alt.Scale]:
    """Distances start at 0; lifts at 1, where users have no say, on a logarithmic axis where they are far apart."""
    if metric.format != "times":
        return alt.Axis(grid=True, tickCount=4), alt.Scale(zero=True, nice=True)
    ends = [end for row in rows for end in (row["lower"], row["value"], row["upper"]) if end is not None]
    low, high = min(1.0, *ends), max(1.0, *ends)
    wide = high >= _WIDE * low
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= 1.05 * high]
    label = f"'{TIMES}' + format(datum.value, '~r')"
    if not wide:
        return alt.Axis(labelExpr=label, grid=True, tickCount=4), alt.Scale(domain=[low, high], nice=True)
    return kit.tick_axis(ticks, labelExpr=label, grid=True), alt.Scale(
        type="log", domain=[low, 1.05 * high], nice=False
    )


def moved_pairs(evidence: Evidence, when: When) -> kit.Figure | None:
    """How many pairs of users move each other how far: a histogram for each model, drawn as a line."""
    metric = f"{when}_instability"
    steps = {
        model: found
        for model, agency in agency_of(evidence).items()
        if len(found := agency.curve("instability", metric))
    }
    if not steps:
        return None
    end = max(_end(found["at"].to_numpy(), found["value"].to_numpy()) for found in steps.values())
    edges = np.linspace(0.0, end, _STEPS + 1)
    written = evidence.definitions[metric].written
    rows: kit.Rows = []
    for model in steps:
        shares = agency_of(evidence)[model].histogram(metric, edges)
        for (low, high), share in zip(pairwise(edges.tolist()), shares, strict=True):
            told = f"{percent(share)} of pairs from {written(low)} to {written(high)}"
            middle = float((low + high) / 2)
            rows.append({**kit.in_series(evidence.models, model), "x": middle, "y": round(share, 5), "told": told})
    distance = str(evidence.settings["agency"]["distance"]).capitalize()
    x = alt.X("x:Q", title=f"how far another can move a user ({distance} distance)", scale=alt.Scale(domain=[0, end]))
    y = alt.Y("y:Q", title="share of pairs", axis=alt.Axis(format="%", grid=True, tickCount=4))
    lines = kit.chart(rows).mark_line(strokeWidth=2, interpolate="step")
    means = [f"{model} {estimate.full}" for model, estimate in evidence.known(metric).items()]
    return kit.figure(
        f"How far others can move users {WHEN[when]}",
        f"Histogram of the instability of all pairs of users {WHEN[when]}, for each model. Mean: {', '.join(means)}.",
        _HEIGHT,
        lines.encode(x, y, kit.by_series(evidence.models), kit.tooltip("model")),
    )


def _end(starts: FloatArray, shares: FloatArray) -> float:
    """Where hardly any pair lies beyond: the end of the last step that counts."""
    beyond = shares[::-1].cumsum()[::-1]
    last = float(starts[beyond > _TAIL].max(initial=0.0))
    return _STEPS * _FINEST * (floor(last / (_STEPS * _FINEST)) + 1)

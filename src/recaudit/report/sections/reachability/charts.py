"""Charts of what users can reach: at best against without strategy, and how far that is."""

from __future__ import annotations

from math import floor, log10
from typing import Literal

import altair as alt

from recaudit.metrics.numbers import TIMES, chance, percent, times
from recaudit.report.evidence import Evidence
from recaudit.report.kit.charts import (
    ACCENT,
    INK,
    MOST_CATEGORIES,
    MUTED,
    PAPER,
    ROW,
    Figure,
    Rows,
    by_series,
    data,
    drawn,
    finished,
    in_series,
    rows_of,
    tick_axis,
    tooltip,
)
from recaudit.report.kit.numbers import count
from recaudit.report.sections.reachability.pairs import STEP, reach_of

SMALLEST_TAIL = 0.001
"""A histogram ends where each further step has a smaller share of the pairs."""
_ENOUGH = 0.5
"""The chart of chances needs both above 0 for this share of the pairs: a policy that never chooses has none."""


def chances(evidence: Evidence, model: str) -> Figure | None:
    """The best chance of a pair against its chance without strategy, both logarithmic (paper 000, Figure 5)."""
    reach = reach_of(evidence)[model]
    if reach.points.is_empty() or reach.lifts["pairs"].sum() < _ENOUGH * reach.pairs:
        return None
    rows: Rows = [
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
    line = alt.Chart(data([{"x": left, "y": left}, {"x": right, "y": right}]))
    name = alt.Chart(data([{"x": right, "y": right, "note": "no say"}]))
    layers = alt.layer(
        alt.Chart(data(rows)).mark_point(size=14, fill=ACCENT, opacity=0.4).encode(x, y, tooltip("user", "item")),
        line.mark_line(stroke=INK, strokeDash=[3, 3], strokeWidth=1).encode(x, y),
        name.mark_text(align="right", dy=18, fill=INK).encode(x, y, alt.Text("note:N")),
    )
    above = sum(b > a for a, b in zip(before, best, strict=True))
    return Figure(
        "Best chance against chance without strategy",
        finished(layers, height=320),
        f"{count(len(rows))} pairs of a user and an item with {model} as points, {percent(above / len(rows))} of them "
        f"above the line on which strategy changes nothing. Without strategy chances go from {chance(left)} to "
        f"{chance(right)}, at best from {chance(min(best))} to {chance(max(best))}.",
    )


def lifts(evidence: Evidence) -> Figure | None:
    """How many pairs can be lifted how far: a histogram for each model, drawn as a line."""
    rows: Rows = []
    for model, reach in reach_of(evidence).items():
        total = reach.lifts["pairs"].sum()
        shares = {step: pairs / total for step, pairs in reach.lifts.iter_rows()}
        high = [step for step, share in shares.items() if share >= SMALLEST_TAIL]
        for step in range(min(high) - 1, max(high) + 2) if high else ():  # each line comes down to its tails
            start, share = 10 ** (STEP * step), shares.get(step, 0.0)
            told = f"{percent(share)} of pairs from {times(start)} to {times(start * 10**STEP)}"
            middle = start * 10 ** (STEP / 2)
            rows.append({**in_series(evidence.models, model), "x": middle, "y": round(share, 5), "told": told})
    if not rows:
        return None
    edges = [row["x"] for row in rows]
    # The line at 1 belongs to the picture even where all lifts lie on one side of it.
    x = _log("x", "lift: best chance / chance without strategy", min(0.9, *edges), max(1.1, *edges), "~r", TIMES)
    y = alt.Y("y:Q", title="share of pairs", axis=alt.Axis(format="%", grid=True, tickCount=4))
    lines = alt.Chart(data(rows)).mark_line(strokeWidth=2, interpolate="monotone")
    layers = alt.layer(
        alt.Chart(data([{"x": 1}])).mark_rule(stroke=INK, strokeDash=[3, 3]).encode(x=x),
        lines.encode(x, y, by_series(evidence.models), tooltip("model")),
    )
    means = [f"{model} {estimate.full}" for model, estimate in evidence.known("lift").items()]
    return Figure(
        "How far a chance can be lifted",
        finished(layers, height=320),
        f"Histogram of the lift of all pairs for each model. On average: {', '.join(means) or 'not available'}.",
    )


def _log(field: Literal["x", "y"], title: str, low: float, high: float, form: str, sign: str = "") -> alt.X | alt.Y:
    """A logarithmic axis with a handful of round numbers on it."""
    powers = [10.0**power for power in range(floor(log10(low)), floor(log10(high)) + 1)]
    finer = [step * power for power in powers for step in (1, 2, 5)]
    ticks = [tick for tick in (finer if len(powers) < 3 else powers) if low <= tick <= high]
    axis = tick_axis(ticks, labelExpr=f"'{sign}' + format(datum.value, '{form}')", grid=True)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    channel = alt.X if field == "x" else alt.Y
    return channel(f"{field}:Q", title=title, axis=axis, scale=scale)


def before_and_after(evidence: Evidence, model: str, metric: str, by: str) -> Figure | None:
    """Without strategy and at best in each group: a ring and a dot (paper 000, Figures 7 and 9)."""
    groups = [group for group in evidence.groups(model, metric, by) if group.estimate.baseline is not None]
    if len(groups) < 2:
        return None
    groups = groups[:MOST_CATEGORIES]
    names = [group.name for group in groups]
    rows: Rows = [
        {
            "group": group.name,
            "before": group.estimate.baseline,
            **drawn(group.estimate),
            "told": f"{group.estimate.compared} to {group.estimate.full}",
        }
        for group in groups
    ]
    axis, scale = alt.Axis(format="%", labelFlush=False), alt.Scale(zero=True, nice=True)
    y = rows_of("group", names)
    best, before, ends = (
        alt.X(f"{field}:Q", title=None, axis=axis, scale=scale) for field in ("value", "before", "lower")
    )
    base, told = alt.Chart(data(rows)), tooltip("group")
    layers = alt.layer(
        base.mark_rule(strokeWidth=1, stroke=MUTED).encode(before, alt.X2("value:Q"), y),
        base.mark_rule(strokeWidth=2, stroke=ACCENT).encode(ends, alt.X2("upper:Q"), y),
        base.mark_point(size=60, fill=PAPER, stroke=INK, strokeWidth=1.5).encode(before, y, tooltip=told),
        base.mark_point(size=80, fill=ACCENT).encode(best, y, tooltip=told),
    )
    numbers = [f"{row['group']} {row['told']}" for row in rows]
    return Figure(
        f"By {by}",
        finished(layers, height=(ROW + 4) * len(names)),
        f"{evidence.label(metric)} with {model} by {by}, without strategy and at best: {'; '.join(numbers)}.",
    )

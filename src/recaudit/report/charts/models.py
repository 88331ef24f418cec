"""Charts that set models side by side: one metric, two metrics, the spread of places over items."""

from __future__ import annotations

from typing import Literal

import altair as alt
import numpy as np

from recaudit.audits.audit import definitions
from recaudit.report.charts.figure import (
    ACCENT,
    INK,
    MUTED,
    ROW,
    Figure,
    Rows,
    by_series,
    data,
    drawn,
    finished,
    in_series,
    is_share,
    rows_of,
    tooltip,
)
from recaudit.report.charts.labels import PLACES, label_sides
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.numbers import Estimate, figure

Edge = Literal["right", "left"]


def models_by(evidence: Evidence, metric: str) -> Figure:
    """A dot and its interval for each model.

    A reference that lies so far off that it would press the others together is written at the edge instead.
    """
    known = evidence.known(metric)
    off = _far_off(evidence, known)
    rows = [
        {"model": model, "main": model == evidence.main, **drawn(None if model in off else known.get(model))}
        for model in evidence.models
    ]
    notes = [
        {"model": model, "note": _edge_note(metric, estimate, off.get(model)), "right": off.get(model) == "right"}
        for model in evidence.models
        if (estimate := known.get(model)) is None or model in off
    ]
    y = rows_of("model", evidence.models)
    axis = alt.Axis(format="%") if is_share(metric) else alt.Axis()
    scale = alt.Scale(zero=False, nice=True)
    ends, x = (alt.X(f"{field}:Q", title=None, axis=axis, scale=scale) for field in ("lower", "value"))
    base = alt.Chart(data(rows))
    layers = [
        base.mark_rule(strokeWidth=2).encode(ends, alt.X2("upper:Q"), y, _main_stands_out()),
        base.mark_point(size=70).encode(x, y, _main_stands_out(), tooltip("model")),
    ]
    for right in (False, True):
        if edge := [note for note in notes if note["right"] == right]:
            text = alt.Chart(data(edge)).encode(y, alt.Text("note:N"))
            layers.append(
                text.mark_text(x="width", align="right", fill=MUTED)
                if right
                else text.mark_text(x=4, align="left", fill=MUTED)
            )
    better = definitions()[metric].better
    told = [f"{model} {estimate.text}" for model, estimate in known.items()]
    heading = evidence.label(metric)
    return Figure(
        heading,
        finished(alt.layer(*layers), height=ROW * len(rows)),
        f"{heading} of each model{'' if better == 'neither' else f', {better} is better'}: {', '.join(told)}.",
        metric,
    )


def _main_stands_out() -> alt.Color:
    return alt.Color("main:N", scale=alt.Scale(domain=[True, False], range=[ACCENT, INK]), legend=None)


def _far_off(evidence: Evidence, known: dict[str, Estimate]) -> dict[str, Edge]:
    """References further from the personalised models than twice the range these span, and on which side."""
    values = [known[model].value or 0.0 for model in evidence.personalised if model in known]
    if len(values) < 3:
        return {}
    low, high = min(values), max(values)
    reach = 2 * (high - low)
    off: dict[str, Edge] = {}
    for model in evidence.references:
        if model in known:
            value = known[model].value or 0.0
            if value > high + reach:
                off[model] = "right"
            elif value < low - reach:
                off[model] = "left"
    return off


def _edge_note(metric: str, estimate: Estimate | None, side: Edge | None) -> str:
    if estimate is None or estimate.value is None:
        return "n/a"
    text = figure(metric, estimate.value)
    return f"{text} →" if side == "right" else f"← {text}"


def tradeoff(evidence: Evidence) -> Figure | None:
    """Ranking quality against coverage, a labelled point for each model."""
    quality, coverage = evidence.known(QUALITY), evidence.known("coverage")
    points = {
        model: (coverage[model].value or 0.0, quality[model].value or 0.0) for model in quality if model in coverage
    }
    if len(points) < 2:
        return None
    top = max(height for _, height in points.values()) or 1.0
    sides = label_sides({model: (x, y / (1.08 * top)) for model, (x, y) in points.items()})
    rows: Rows = [
        {
            "model": model,
            "main": model == evidence.main,
            "x": x,
            "y": y,
            "side": sides[model],
            "told": f"{evidence.label(QUALITY)} {quality[model].full}, coverage {coverage[model].full}",
        }
        for model, (x, y) in points.items()
    ]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("x:Q", title=evidence.label("coverage"), scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
        y=alt.Y("y:Q", title=evidence.label(QUALITY), scale=alt.Scale(domain=[0, top * 1.08], nice=False)),
        color=_main_stands_out(),
    )
    labels = [
        base.transform_filter(f"datum.side === '{side}'")
        .mark_text(align=align, dx=dx, dy=dy)
        .encode(alt.Text("model:N"))
        for side, align, dx, dy in PLACES
    ]
    numbers = [f"{row['model']}: {row['told']}" for row in rows]
    return Figure(
        "Ranking quality against coverage",
        finished(alt.layer(base.mark_point(size=80).encode(tooltip("model")), *labels), height=320),
        f"Each model as a point. {'; '.join(numbers)}.",
    )


def lorenz(evidence: Evidence) -> Figure | None:
    """The share of all places that goes to the least shown items, for each model."""
    # Points lie closer towards the most shown items, where the curve bends.
    shares = 1 - np.linspace(1, 0, 51) ** 2
    rows: Rows = []
    for model in evidence.models:
        shown = np.sort(evidence.items[model]["recommended"].to_numpy()) if model in evidence.items else np.zeros(0)
        if shown.sum():
            curve = np.concatenate([[0.0], np.cumsum(shown) / shown.sum()])
            taken = np.interp(shares * len(shown), np.arange(len(shown) + 1), curve)
            rows += [
                {**in_series(evidence.models, model), "x": round(float(x), 4), "y": round(float(y), 4)}
                for x, y in zip(shares, taken, strict=True)
            ]
    if not rows:
        return None
    axis, ends = alt.Axis(format="%", grid=True, tickCount=5), alt.Scale(domain=[0, 1])
    x = alt.X("x:Q", title="items, least shown first", axis=axis, scale=ends)
    y = alt.Y("y:Q", title="share of all places", axis=axis, scale=ends)
    lines = alt.Chart(data(rows)).mark_line(strokeWidth=2)
    curves = lines.encode(x, y, by_series(evidence.models), tooltip=alt.Tooltip("model:N"))
    equal = alt.Chart(data([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    diagonal = equal.mark_line(stroke=MUTED, strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=y)
    told = [f"{model} {estimate.text}" for model, estimate in evidence.known("gini").items()]
    return Figure(
        "How places are spread over items",
        finished(alt.layer(diagonal, curves), height=320),
        "Lorenz curve of exposure for each model: the further below the diagonal, the fewer items take all "
        f"places. {evidence.label('gini')}: {', '.join(told)}.",
    )

"""Charts of calibration before and after re-ranking: paper 004, Figures 1 to 3, and its Table 2 as curves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from recaudit.report.charts.figure import (
    ACCENT,
    INK,
    LINE,
    MUTED,
    ROW,
    UP,
    Figure,
    Rows,
    by_series,
    data,
    finished,
    in_series,
    rows_of,
    tooltip,
)
from recaudit.report.charts.groups import MOST_CATEGORIES
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import figure, percent
from recaudit.report.sections.calibration import AUDIT, KL, Point

OWN, RERANKED = "as ranked", "re-ranked"
_COLORS = alt.Scale(domain=[OWN, RERANKED], range=[UP, ACCENT])
_STEPS = 30
"""Bars of the histogram."""
_NEAREST = 0.001
"""Where the histogram's axis starts: lists that are nearer are as good as calibrated."""
_HEIGHT = 260


def divergences(evidence: Evidence, model: str) -> Figure | None:
    """How many users have lists how far from their interests, before and after re-ranking (Figure 1).

    The steps are even on a logarithmic axis: re-ranked lists are nearer by orders of magnitude, and on a plain axis
    would all lie in the first bar.
    """
    own, reranked = evidence.calibration[model].divergences()
    both = np.concatenate([own, reranked])
    if not len(own) or both.max() <= _NEAREST:
        return None
    edges = np.geomspace(max(_NEAREST, both.min()), both.max(), _STEPS + 1)
    rows: Rows = []
    for lists, values in ((OWN, own), (RERANKED, reranked)):
        shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        for (low, high), share in zip(pairwise(edges.tolist()), shares.tolist(), strict=True):
            told = f"{percent(share)} of users from {low:.2g} to {high:.2g}"
            rows.append({"lists": lists, "low": low, "high": high, "y": round(share, 5), "told": told})
    ticks = [tick for tick in (0.001, 0.01, 0.1, 1.0) if edges[0] <= tick <= edges[-1]]
    axis = alt.Axis(values=ticks, tickCount=len(ticks), format="~r", grid=False, labelOverlap=False)
    scale = alt.Scale(type="log", domain=[edges[0], edges[-1]], nice=False)
    x = alt.X("low:Q", title=_title(evidence, "further left: better"), axis=axis, scale=scale)
    y = alt.Y("y:Q", title="share of users", stack=None, axis=alt.Axis(format="%", grid=True, tickCount=4))
    bars = alt.Chart(data(rows)).mark_bar(opacity=0.6, orient="vertical")
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    chart = bars.encode(x, alt.X2("high:Q"), y, alt.Y2Datum(0), color, tooltip=tooltip("lists"))
    medians = [f"{lists} {np.median(values):.3f}" for lists, values in ((OWN, own), (RERANKED, reranked))]
    return Figure(
        "How far lists are from their users' interests",
        finished(chart, height=_HEIGHT),
        f"Histogram of C_KL of the lists of {model} over users, before and after re-ranking. "
        f"Median: {', '.join(medians)}.",
    )


def one_user(evidence: Evidence, model: str) -> Figure | None:
    """One badly calibrated user's history, list and re-ranked list by category (Figure 2)."""
    example = evidence.calibration[model].example
    if example is None:
        return None
    shares = [share for share in example.shares if max(share.history, share.own, share.reranked) > 0][:MOST_CATEGORIES]
    names = [share.name for share in shares]
    rows: Rows = [
        {
            "category": share.name,
            "history": share.history,
            "own": share.own,
            "reranked": share.reranked,
            "told": f"{percent(share.history)} of the history, {percent(share.own)} of the list, "
            f"{percent(share.reranked)} re-ranked",
        }
        for share in shares
    ]
    axis = alt.Axis(format="%", grid=True)
    y = rows_of("category", names)
    history, own, reranked = (
        alt.X(f"{field}:Q", title=None, axis=axis, scale=alt.Scale(zero=True), stack=None)
        for field in ("history", "own", "reranked")
    )
    base, told = alt.Chart(data(rows)), tooltip("category")
    layers = alt.layer(
        base.mark_bar(height=14, fill=LINE).encode(history, y, tooltip=told),
        base.mark_rule(strokeWidth=1, stroke=MUTED).encode(own, alt.X2("reranked:Q"), y),
        base.mark_point(size=70, fill=UP).encode(own, y, tooltip=told),
        base.mark_point(size=70, fill=ACCENT).encode(reranked, y, tooltip=told),
    )
    numbers = [f"{row['category']}: {row['told']}" for row in rows]
    return Figure(
        f"One user: {example.user}",
        finished(layers, height=ROW * len(names)),
        f"Categories of {example.user} with {model}. {'; '.join(numbers)}.",
    )


def least_calibrated(evidence: Evidence, model: str) -> Figure | None:
    """How far each category is above and below its share among the users with the worst lists (Figure 3)."""
    worst = evidence.calibration[model].worst[:MOST_CATEGORIES]
    if not worst:
        return None
    names = [category.name for category in worst]
    ends: Rows = []
    for category in worst:
        for lists, (below, above) in ((OWN, category.own), (RERANKED, category.reranked)):
            told = f"{percent(below)} below to {percent(above)} above {percent(category.history)}"
            low, high = category.history - below, category.history + above
            ends.append({"category": category.name, "lists": lists, "low": low, "high": high, "told": told})
    axis, scale = alt.Axis(format="%", grid=True), alt.Scale(zero=True)
    y = rows_of("category", names, alt.Scale(paddingInner=0.35))
    offset = alt.YOffset("lists:N", sort=[OWN, RERANKED])
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    start = alt.X("low:Q", title=None, axis=axis, scale=scale)
    history: Rows = [{"category": category.name, "x": category.history} for category in worst]
    layers = alt.layer(
        alt.Chart(data(ends))
        .mark_bar(opacity=0.75)
        .encode(start, alt.X2("high:Q"), y, offset, color, tooltip("category", "lists")),
        alt.Chart(data(history))
        .mark_tick(thickness=2, stroke=INK, fill=INK, bandSize=ROW - 4)
        .encode(alt.X("x:Q", title=None, axis=axis, scale=scale), y),
    )
    own = [f"{row['category']} {row['told']}" for row in ends if row["lists"] == OWN]
    return Figure(
        "The users with the worst lists, by category",
        finished(layers, height=(ROW + 6) * len(names)),
        f"How far categories are below and above their share of the history in the lists of {model}: {'; '.join(own)}.",
    )


def recall_against_divergence(evidence: Evidence) -> Figure | None:
    """Recall against C_KL along the weight of calibration, the best bargain marked (Table 2)."""
    rows: Rows = []
    for model, found in evidence.calibration.items():
        best = found.best_bargain
        rows += [_placed(evidence, model, point, knee=point == best) for point in found.curve]
    if not rows:
        return None
    label = evidence.label("recall", AUDIT)
    grid = alt.Axis(grid=True, tickCount=5)
    x = alt.X("x:Q", title=_title(evidence, "further left: better"), scale=alt.Scale(zero=True), axis=grid)
    y = alt.Y("y:Q", title=label, scale=alt.Scale(zero=False, nice=True), axis=grid)
    color = by_series(evidence.models)
    base, told = alt.Chart(data(rows)), tooltip("model", "weight")
    marked = alt.Chart(data([row for row in rows if row["knee"]]))
    # One label: those of all models would lie on top of each other.
    first = rows[0]["model"]
    named = alt.Chart(data([row for row in rows if row["knee"] and row["model"] == first]))
    layers = alt.layer(
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(x, y, color, order="weight:Q"),
        base.mark_point(size=24).encode(x, y, color, tooltip=told),
        marked.mark_point(size=150, filled=False, strokeWidth=2).encode(x, y, color, tooltip=told),
        named.mark_text(align="left", dx=8, dy=16).encode(x, y, text="weight:N"),
    )
    bargains = [f"{row['model']} at {row['weight']:g}: {row['told']}" for row in rows if row["knee"]]
    return Figure(
        f"{label} against calibration",
        finished(layers, height=_HEIGHT),
        f"{label} against C_KL for each model, a point for each weight. Best bargains: {'; '.join(bargains)}.",
    )


def _placed(evidence: Evidence, model: str, point: Point, *, knee: bool) -> dict[str, Any]:
    told = f"{evidence.label(KL, AUDIT)} {figure(KL, point.divergence)}, "
    told += f"{evidence.label('recall', AUDIT)} {figure('recall', point.recall)}"
    return {
        **in_series(evidence.models, model),
        "weight": point.weight,
        "x": round(point.divergence, 5),
        "y": round(point.recall, 5),
        "knee": knee,
        "told": told,
    }


def _title(evidence: Evidence, hint: str) -> str:
    """C_KL on an axis, with the smoothing that it depends on."""
    return f"C_KL@{evidence.list_length(AUDIT)}, smoothing {evidence.settings[AUDIT]['smoothing']:g} ({hint})"

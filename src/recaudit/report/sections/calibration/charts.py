"""Charts of calibration before and after re-ranking: paper 004, Figures 1 to 3, and its Table 2 as curves."""

from __future__ import annotations

from itertools import pairwise

import altair as alt
import numpy as np

from recaudit.metrics.numbers import percent
from recaudit.report.evidence import Evidence
from recaudit.report.kit.charts import (
    ACCENT,
    INK,
    LINE,
    MOST_CATEGORIES,
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
    tick_axis,
    tooltip,
)
from recaudit.report.sections.calibration.reranked import KL, RERANKING, reranked_of, settings_of

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
    own, reranked = reranked_of(evidence)[model].divergences()
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
    axis = tick_axis(ticks, format="~r", grid=False)
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
    example = reranked_of(evidence)[model].example
    if example.is_empty():
        return None
    user, shares = example["user"][0], ("history", "own", "reranked")
    rows: Rows = [
        {
            "category": row["category"],
            **{name: row[name] for name in shares},
            "told": f"{percent(row['history'])} of the history, {percent(row['own'])} of the list, "
            f"{percent(row['reranked'])} re-ranked",
        }
        for row in example.iter_rows(named=True)
        if max(row[name] for name in shares) > 0
    ][:MOST_CATEGORIES]
    names = [row["category"] for row in rows]
    axis = alt.Axis(format="%", grid=True)
    y = rows_of("category", names)
    history, own, reranked = (
        alt.X(f"{field}:Q", title=None, axis=axis, scale=alt.Scale(zero=True), stack=None) for field in shares
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
        f"One user: {user}",
        finished(layers, height=ROW * len(names)),
        f"Categories of {user} with {model}. {'; '.join(numbers)}.",
    )


def least_calibrated(evidence: Evidence, model: str) -> Figure | None:
    """How far each category is above and below its share among the users with the worst lists (Figure 3)."""
    worst = reranked_of(evidence)[model].worst.head(MOST_CATEGORIES)
    if worst.is_empty():
        return None
    ends: Rows = []
    for row in worst.iter_rows(named=True):
        for lists, ending in ((OWN, ""), (RERANKED, "_reranked")):
            below, above, history = row[f"under{ending}"], row[f"over{ending}"], row["history"]
            told = f"{percent(below)} below to {percent(above)} above {percent(history)}"
            place = {"low": history - below, "high": history + above}
            ends.append({"category": row["category"], "lists": lists, **place, "told": told})
    axis, scale = alt.Axis(format="%", grid=True), alt.Scale(zero=True)
    y = rows_of("category", worst["category"].to_list(), alt.Scale(paddingInner=0.35))
    offset = alt.YOffset("lists:N", sort=[OWN, RERANKED])
    color = alt.Color("lists:N", scale=_COLORS, legend=None)
    start = alt.X("low:Q", title=None, axis=axis, scale=scale)
    layers = alt.layer(
        alt.Chart(data(ends))
        .mark_bar(opacity=0.75)
        .encode(start, alt.X2("high:Q"), y, offset, color, tooltip("category", "lists")),
        alt.Chart(worst.select("category", x="history"))
        .mark_tick(thickness=2, stroke=INK, fill=INK, bandSize=ROW - 4)
        .encode(alt.X("x:Q", title=None, axis=axis, scale=scale), y),
    )
    own = [f"{row['category']} {row['told']}" for row in ends if row["lists"] == OWN]
    return Figure(
        "The users with the worst lists, by category",
        finished(layers, height=(ROW + 6) * len(worst)),
        f"How far categories are below and above their share of the history in the lists of {model}: {'; '.join(own)}.",
    )


def recall_against_divergence(evidence: Evidence) -> Figure | None:
    """Recall against C_KL along the weight of calibration, the best bargain marked (Table 2)."""
    label = evidence.label("recall", RERANKING)
    rows: Rows = []
    for model, found in reranked_of(evidence).items():
        for point in found.curve.iter_rows(named=True):
            told = ", ".join(evidence.said(name, point[name], RERANKING) for name in (KL, "recall"))
            place = {"weight": point["at"], "x": round(point[KL], 5), "y": round(point["recall"], 5)}
            knee = point == found.best_bargain
            rows.append({**in_series(evidence.models, model), **place, "knee": knee, "told": told})
    if not rows:
        return None
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


def _title(evidence: Evidence, hint: str) -> str:
    """C_KL on an axis, with the smoothing that it depends on."""
    return f"C_KL@{evidence.list_length(RERANKING)}, smoothing {settings_of(evidence)['smoothing']:g} ({hint})"

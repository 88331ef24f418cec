"""The page's charts: Vega-Lite specifications made with Altair, small, and without any colour of their own.

Colours are the page's CSS variables, which the SVG renderer passes on: the charts follow light, dark and print
without being drawn again. The data in a chart is what is drawn, never the raw tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import altair as alt
import numpy as np

from recaudit.audits.metrics import METRICS
from recaudit.report.evidence import QUALITY, Evidence, Group
from recaudit.report.numbers import Estimate, figure, listing, percent

Rows = list[dict[str, Any]]

SERIES = 8
"""How many models have a colour of their own; the style sheet defines as many."""
MOST_CATEGORIES = 20
"""A chart shows the categories with the most ratings, up to this many; the table beneath it has all."""

_ACCENT, _INK, _MUTED, _LINE = "var(--accent)", "var(--ink)", "var(--muted)", "var(--line)"
_UP, _DOWN = "var(--up)", "var(--down)"
_MAIN, _RIVAL, _OTHER = "main", "rival", "other"
_ROW = 24

THEME: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "labelColor": _MUTED,
        "titleColor": _MUTED,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "gridColor": _LINE,
        "domainColor": _LINE,
        "tickColor": _LINE,
        "labelLimit": 130,
    },
    "axisY": {"grid": False, "ticks": False, "domain": False, "labelPadding": 6, "labelColor": _INK},
    "axisX": {"tickCount": 4, "titlePadding": 8},
    "text": {"fill": _INK, "fontSize": 11},
    "point": {"filled": True, "opacity": 1},
}
"""The configuration shared by all charts."""


@final
@dataclass(frozen=True)
class Figure:
    """A chart, what it is called, and what it shows for those who cannot see it."""

    heading: str
    spec: dict[str, Any]
    description: str
    metric: str | None = None
    """The metric it shows, if the heading is that metric's name."""


# ---- one number for each model -------------------------------------------------------------------------


def models_by(evidence: Evidence, metric: str) -> Figure:
    """A dot and its interval for each model."""
    known = evidence.known(metric)
    rows = [
        {"model": model, "role": _role(evidence, model), **_drawn(known.get(model), metric)}
        for model in evidence.models
    ]
    y = alt.Y("model:N", sort=list(evidence.models), title=None)
    color = alt.Color("role:N", scale=_roles((_ACCENT, _INK, _INK)), legend=None)
    base = alt.Chart(_data(rows))
    intervals = base.mark_rule(strokeWidth=2).encode(x=_x(metric, "lower"), x2="upper:Q", y=y, color=color)
    dots = base.mark_point(size=70, strokeWidth=2).encode(
        x=_x(metric, "value"), y=y, color=color, tooltip=_tooltip("model", "value")
    )
    absent = (
        base.transform_filter("datum.value === null")
        .mark_text(align="left", fill=_MUTED)
        .encode(x=alt.value(4), y=y, text=alt.value("n/a"))
    )
    better = METRICS[metric].better
    heading = evidence.label(metric)
    told = [f"{model} {estimate.text}" for model, estimate in known.items()]
    return Figure(
        heading,
        _spec(alt.layer(intervals, dots, absent), height=_ROW * len(rows)),
        f"{heading} of each model{'' if better == 'neither' else f', {better} is better'}: {', '.join(told)}.",
        metric,
    )


def tradeoff(evidence: Evidence) -> Figure | None:
    """Ranking quality against coverage, a point for each model."""
    quality, coverage = evidence.known(QUALITY), evidence.known("coverage")
    models = [model for model in quality if model in coverage]
    if len(models) < 2:
        return None
    rows = [
        {
            "model": model,
            "role": _role(evidence, model),
            "x": coverage[model].value,
            "y": quality[model].value,
            "right": (coverage[model].value or 0) > 0.5,
            "told": f"{evidence.label(QUALITY)} {quality[model].text}, coverage {coverage[model].text}",
        }
        for model in models
    ]
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("x:Q", title=evidence.label("coverage"), scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
        y=alt.Y("y:Q", title=evidence.label(QUALITY), scale=alt.Scale(zero=True, nice=True)),
        color=alt.Color("role:N", scale=_roles((_ACCENT, _INK, _INK)), legend=None),
    )
    dots = base.mark_point(size=80).encode(tooltip=_tooltip("model", "told"))
    left = base.transform_filter("!datum.right").mark_text(align="left", dx=9).encode(text="model:N")
    right = base.transform_filter("datum.right").mark_text(align="right", dx=-9).encode(text="model:N")
    told = [f"{row['model']}: {row['told']}" for row in rows]
    return Figure(
        "Ranking quality against the share of the catalogue shown",
        _spec(alt.layer(dots, left, right), height=320),
        f"Each model as a point. {'; '.join(told)}.",
    )


# ---- groups --------------------------------------------------------------------------------------------


def groups_by(evidence: Evidence, metric: str, by: str) -> Figure | None:
    """The main model with its interval in each group; the reference and the other models beside it."""
    groups = evidence.groups(evidence.main, metric, by)
    if len(groups) < 2:
        return None
    names = [group.name for group in groups]
    rows = [
        {"group": group.name, "model": model, "role": _emphasis(evidence, model), **_drawn(group.estimate, metric)}
        for model in reversed(evidence.models)
        for group in evidence.groups(model, metric, by)
    ]
    y = alt.Y("group:N", sort=names, title=None)
    base = alt.Chart(_data(rows))
    x, tooltip = _x(metric, "value", zero=True), _tooltip("group", "model", "value")
    others = (
        base.transform_filter(f"datum.role === '{_OTHER}'")
        .mark_point(size=22, fill=_MUTED, opacity=0.55)
        .encode(x=x, y=y, tooltip=tooltip)
    )
    rival = (
        base.transform_filter(f"datum.role === '{_RIVAL}'")
        .mark_point(size=60, shape="diamond", fill=_INK)
        .encode(x=x, y=y, tooltip=tooltip)
    )
    main = base.transform_filter(f"datum.role === '{_MAIN}'")
    interval = main.mark_rule(strokeWidth=2, stroke=_ACCENT).encode(x=_x(metric, "lower", zero=True), x2="upper:Q", y=y)
    dots = main.mark_point(size=80, fill=_ACCENT).encode(x=x, y=y, tooltip=tooltip)
    told = [f"{group.name} {group.estimate.text}" for group in groups]
    return Figure(
        f"By {by}",
        _spec(alt.layer(others, rival, interval, dots), height=(_ROW + 4) * len(names)),
        f"{evidence.label(metric)} of {evidence.main} by {by}: {', '.join(told)}.",
    )


def amplification(evidence: Evidence, by: str) -> Figure | None:
    """Share of recommended places over share of ratings, for the categories with the most ratings."""
    groups = [group for group in evidence.groups(evidence.main, "share", by) if group.estimate.baseline]
    groups = sorted(groups, key=lambda group: -(group.estimate.baseline or 0))[:MOST_CATEGORIES]
    if not groups:
        return None
    groups.sort(key=lambda group: -_ratio(group.estimate, group.estimate.value))
    names = [group.name for group in groups]
    rows = [
        _ratio_row(group, model, _MAIN if model == evidence.main else _OTHER)
        for model in reversed(evidence.models)
        for group in evidence.groups(model, "share", by)
        if group.name in names and group.estimate.baseline
    ]
    reach = min(3.0, max(1.0, *(abs(np.log2(max(row["value"], 1 / 8))) for row in rows)))
    for row in rows:
        for end in ("value", "lower", "upper"):
            row[end] = None if row[end] is None else float(np.clip(row[end], 2**-reach, 2**reach))
    scale = alt.Scale(type="log", base=2, domain=[2**-reach, 2**reach], nice=False)
    axis = alt.Axis(values=[0.125, 0.25, 0.5, 1, 2, 4, 8], labelExpr="'×' + datum.value")
    title = "share of recommendations / share of ratings"
    x, y = alt.X("value:Q", scale=scale, axis=axis, title=title), alt.Y("group:N", sort=names, title=None)
    base = alt.Chart(_data(rows))
    tooltip = _tooltip("group", "model", "told")
    others = (
        base.transform_filter(f"datum.role === '{_OTHER}'")
        .mark_point(size=18, fill=_MUTED, opacity=0.5)
        .encode(x=x, y=y, tooltip=tooltip)
    )
    main = base.transform_filter(f"datum.role === '{_MAIN}'")
    way = alt.Color("way:N", scale=alt.Scale(domain=["up", "down", "level"], range=[_UP, _DOWN, _MUTED]), legend=None)
    stems = main.mark_bar(height=3).encode(x=x, x2=alt.datum(1), y=y, color=way)
    intervals = main.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
        x=alt.X("lower:Q", scale=scale), x2="upper:Q", y=y, color=way
    )
    dots = main.mark_point(size=80).encode(x=x, y=y, color=way, tooltip=tooltip)
    middle = alt.Chart(_data([{"one": 1}])).mark_rule(stroke=_INK).encode(x=alt.X("one:Q", scale=scale))
    told = [f"{row['group']}: {row['told']}" for row in rows if row["role"] == _MAIN]
    return Figure(
        f"By {by}",
        _spec(alt.layer(middle, stems, intervals, others, dots), height=_ROW * len(names)),
        f"Share of recommendations against share of ratings by {by}, {evidence.main}. {'; '.join(told)}.",
    )


def popularity_shares(evidence: Evidence) -> Figure | None:
    """How places are divided over the items by popularity: a bar for the data, and one for each model."""
    quarters = {model: evidence.groups(model, "share", "popularity") for model in evidence.models}
    quarters = {model: groups for model, groups in quarters.items() if groups}
    if not quarters:
        return None
    first = next(iter(quarters.values()))
    names = [group.name for group in first]
    data = "ratings in the data"
    rows = [
        _segment(data, place, name, group.estimate.baseline)
        for place, (name, group) in enumerate(zip(names, first, strict=True))
    ]
    rows += [
        _segment(model, names.index(group.name), group.name, group.estimate.value)
        for model, groups in quarters.items()
        for group in groups
        if group.name in names
    ]
    chart = (
        alt.Chart(_data(rows))
        .mark_bar(height=16, stroke="var(--paper)", strokeWidth=1)
        .encode(
            x=alt.X("share:Q", stack="zero", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]), title=None),
            y=alt.Y("bar:N", sort=[data, *quarters], title=None),
            order=alt.Order("place:Q"),
            color=alt.Color(
                "place:O",
                scale=alt.Scale(
                    domain=list(range(len(names))), range=[f"var(--step-{i + 1})" for i in range(len(names))]
                ),
                legend=None,
            ),
            tooltip=_tooltip("bar", "group", "told"),
        )
    )
    top = [f"{row['bar']} {row['told']}" for row in rows if row["place"] == len(names) - 1]
    return Figure(
        "Places by popularity of the item",
        _spec(chart, height=_ROW * (1 + len(quarters))),
        f"How recommended places are divided over items by popularity. Items with {names[-1]}: {', '.join(top)}.",
    )


# ---- concentration -------------------------------------------------------------------------------------


def lorenz(evidence: Evidence) -> Figure | None:
    """The share of all places that goes to the least shown items, for each model."""
    models = [model for model in evidence.models if model in evidence.items]
    # Points lie closer towards the most shown items, where the curve bends.
    shares = 1 - np.linspace(1, 0, 51) ** 2
    rows: Rows = []
    for model in models:
        shown = np.sort(evidence.items[model]["recommended"].to_numpy())
        if shown.sum():
            curve = np.concatenate([[0.0], np.cumsum(shown) / shown.sum()])
            taken = np.interp(shares * len(shown), np.arange(len(shown) + 1), curve)
            rows += [
                {"model": model, "x": round(float(a), 4), "y": round(float(b), 4)}
                for a, b in zip(shares, taken, strict=True)
            ]
    if not rows:
        return None
    axis = alt.Axis(format="%", grid=True)
    ends = alt.Scale(domain=[0, 1])
    x = alt.X("x:Q", title="items, least shown first", axis=axis, scale=ends)
    y = alt.Y("y:Q", title="share of all places", axis=axis, scale=ends)
    lines = (
        alt.Chart(_data(rows))
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=alt.Color("model:N", scale=series(evidence), legend=None), tooltip=["model:N"])
    )
    equal = alt.Chart(_data([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    diagonal = equal.mark_line(stroke=_MUTED, strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=y)
    gini = evidence.known("gini")
    told = [f"{model} {estimate.text}" for model, estimate in gini.items()]
    return Figure(
        "How places are spread over items",
        _spec(alt.layer(diagonal, lines), height=320),
        "Lorenz curve of exposure for each model; the further below the diagonal, the fewer items take the places."
        + (f" {evidence.label('gini')}: {', '.join(told)}." if told else ""),
    )


def series(evidence: Evidence) -> alt.Scale:
    """The colour of each model, the same everywhere on the page."""
    return alt.Scale(domain=list(evidence.models), range=[series_color(i) for i in range(len(evidence.models))])


def series_color(place: int) -> str:
    """The colour of the model at this place of the order; the colours repeat after the last."""
    return f"var(--series-{place % SERIES + 1})"


# ---- shared parts --------------------------------------------------------------------------------------


def _data(rows: Rows) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _spec(chart: alt.Chart | alt.LayerChart, height: int) -> dict[str, Any]:
    """The specification, as wide as its place on the page."""
    sized = chart.properties(width="container", height=height)
    spec: dict[str, Any] = sized.to_dict()
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec.pop("config", None)  # the page has one theme for all, whatever theme Altair is set to
    return spec


def _drawn(estimate: Estimate | None, metric: str) -> dict[str, Any]:
    """What a chart needs of an estimate; nulls where there is none."""
    if estimate is None or estimate.value is None:
        return {"value": None, "lower": None, "upper": None, "told": "n/a"}
    return {
        "value": estimate.value,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "told": estimate.full,
    }


def _role(evidence: Evidence, model: str) -> str:
    if model == evidence.main:
        return _MAIN
    return _RIVAL if model in evidence.references else _OTHER


def _emphasis(evidence: Evidence, model: str) -> str:
    if model == evidence.main:
        return _MAIN
    return _RIVAL if model == evidence.rival else _OTHER


def _roles(colors: tuple[str, str, str]) -> alt.Scale:
    return alt.Scale(domain=[_MAIN, _OTHER, _RIVAL], range=list(colors))


def _x(metric: str, field: str, *, zero: bool = False) -> alt.X:
    is_share = figure(metric, 0.5).endswith("%")
    axis = alt.Axis(format="%") if is_share else alt.Axis()
    return alt.X(f"{field}:Q", title=None, axis=axis, scale=alt.Scale(zero=zero, nice=True))


def _tooltip(*fields: str) -> list[alt.Tooltip]:
    """The named fields; a value is told as the page writes it, interval included."""
    return [
        alt.Tooltip("told:N", title="value") if field in ("value", "told") else alt.Tooltip(f"{field}:N")
        for field in fields
    ]


def _ratio(estimate: Estimate, value: float | None) -> float:
    return (value or 0.0) / (estimate.baseline or 1.0)


def _ratio_row(group: Group, model: str, role: str) -> dict[str, Any]:
    estimate = group.estimate
    baseline = estimate.baseline or 1.0
    way = "up" if estimate.above(baseline) else "down" if estimate.below(baseline) else "level"
    return {
        "group": group.name,
        "model": model,
        "role": role,
        "way": way,
        "value": _ratio(estimate, estimate.value),
        "lower": None if estimate.lower is None else estimate.lower / baseline,
        "upper": None if estimate.upper is None else estimate.upper / baseline,
        "told": f"{estimate.full} of places, {percent(baseline)} of ratings",
    }


def _segment(bar: str, place: int, name: str, share: float | None) -> dict[str, Any]:
    return {
        "bar": bar,
        "place": place,
        "group": f"items with {name}",
        "share": share or 0.0,
        "told": percent(share or 0.0),
    }

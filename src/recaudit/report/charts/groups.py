"""Charts by group: of users, of items by popularity, of items by category."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import log2
from typing import Any

import altair as alt

from recaudit.report.charts.figure import (
    ACCENT,
    DOWN,
    INK,
    MUTED,
    PAPER,
    ROW,
    UP,
    Figure,
    Rows,
    data,
    drawn,
    finished,
    is_share,
    rows_of,
    step_color,
    tooltip,
)
from recaudit.report.evidence import Evidence, Group
from recaudit.report.kit.numbers import TIMES, percent

MOST_CATEGORIES = 20
"""A chart shows the categories with the most ratings, up to this many; the table beneath it has all."""

_LARGEST_RATIO = 8
_DATA_BAR = "ratings in the data"


def groups_by(evidence: Evidence, metric: str, by: str) -> Figure | None:
    """The main model with its interval in each group; the reference and the other models beside it."""
    groups = evidence.groups(evidence.main, metric, by)
    if len(groups) < 2:
        return None
    names = [group.name for group in groups]
    rows = [
        {"group": group.name, "model": model, "role": _role(evidence, model), **drawn(group.estimate)}
        for model in reversed(evidence.models)
        for group in evidence.groups(model, metric, by)
        if group.name in names
    ]
    axis = alt.Axis(format="%") if is_share(metric) else alt.Axis()
    scale = alt.Scale(zero=True, nice=True)
    x = alt.X("value:Q", title=None, axis=axis, scale=scale)
    y = rows_of("group", names)
    others, rival, main = (
        alt.Chart(data([row for row in rows if row["role"] == role])) for role in ("other", "rival", "main")
    )
    told = tooltip("group", "model")
    layers = alt.layer(
        others.mark_point(size=22, fill=MUTED, opacity=0.55).encode(x=x, y=y, tooltip=told),
        rival.mark_point(size=60, shape="diamond", fill=INK).encode(x=x, y=y, tooltip=told),
        main.mark_rule(strokeWidth=2, stroke=ACCENT).encode(
            x=alt.X("lower:Q", title=None, axis=axis, scale=scale), x2=alt.X2("upper:Q"), y=y
        ),
        main.mark_point(size=80, fill=ACCENT).encode(x=x, y=y, tooltip=told),
    )
    return Figure(
        f"By {by}",
        finished(layers, height=(ROW + 4) * len(names)),
        f"{evidence.label(metric)} of {evidence.main} by {by}: "
        f"{', '.join(f'{group.name} {group.estimate.text}' for group in groups)}.",
    )


def _role(evidence: Evidence, model: str) -> str:
    if model == evidence.main:
        return "main"
    return "rival" if model == evidence.rival else "other"


def amplification(evidence: Evidence, by: str) -> Figure | None:
    """Share of recommended places over share of ratings, for the categories with the most ratings."""
    groups = [group for group in evidence.groups(evidence.main, "share", by) if group.estimate.baseline]
    groups = sorted(groups, key=lambda group: -(group.estimate.baseline or 0.0))[:MOST_CATEGORIES]
    if not groups:
        return None
    names = [group.name for group in sorted(groups, key=lambda group: -_ratio(group, group.estimate.value))]
    rows = [
        {"model": model, **_compared(group)}
        for model in reversed(evidence.models)
        for group in evidence.groups(model, "share", by)
        if group.name in names and group.estimate.baseline
    ]
    steps = [abs(log2(max(row["value"], 1 / _LARGEST_RATIO))) for row in rows]
    edge = 2 ** min(max(1.0, *steps), log2(_LARGEST_RATIO))
    for row in rows:
        row |= {end: None if row[end] is None else min(max(row[end], 1 / edge), edge) for end in _ENDS}
    scale = alt.Scale(type="log", base=2, domain=[1 / edge, edge], nice=False)
    ticks = [tick for tick in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8) if 1 / edge <= tick <= edge]
    axis = alt.Axis(values=ticks, tickCount=len(ticks), labelExpr=f"'{TIMES}' + datum.value", labelOverlap=False)
    x = alt.X("value:Q", scale=scale, axis=axis, title="share of recommendations / share of ratings")
    y = rows_of("group", names)
    ways = alt.Scale(domain=["up", "down", "level"], range=[UP, DOWN, MUTED])
    color = alt.Color("way:N", scale=ways, legend=None)
    main = alt.Chart(data([row for row in rows if row["model"] == evidence.main]))
    others = alt.Chart(data([row for row in rows if row["model"] != evidence.main]))
    told = tooltip("group", "model")
    layers = alt.layer(
        alt.Chart(data([{"value": 1}])).mark_rule(stroke=INK).encode(x=x),
        main.mark_bar(height=3).encode(x=x, x2=alt.X2Datum(1), y=y, color=color),
        main.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
            x=alt.X("lower:Q", scale=scale, axis=axis), x2=alt.X2("upper:Q"), y=y, color=color
        ),
        others.mark_point(size=18, fill=MUTED, opacity=0.5).encode(x=x, y=y, tooltip=told),
        main.mark_point(size=80).encode(x=x, y=y, color=color, tooltip=told),
    )
    numbers = [f"{row['group']}: {row['told']}" for row in rows if row["model"] == evidence.main]
    return Figure(
        f"By {by}",
        finished(layers, height=ROW * len(names)),
        f"Share of recommendations of {evidence.main} against share of ratings, by {by}. {'; '.join(numbers)}.",
    )


_ENDS = ("value", "lower", "upper")


def _ratio(group: Group, value: float | None) -> float:
    return (value or 0.0) / (group.estimate.baseline or 1.0)


def _compared(group: Group) -> dict[str, Any]:
    """A group's share as a ratio to its baseline, and on which side of it the interval lies."""
    estimate, baseline = group.estimate, group.estimate.baseline or 1.0
    return {
        "group": group.name,
        "way": "up" if estimate.above(baseline) else "down" if estimate.below(baseline) else "level",
        "value": _ratio(group, estimate.value),
        "lower": None if estimate.lower is None else _ratio(group, estimate.lower),
        "upper": None if estimate.upper is None else _ratio(group, estimate.upper),
        "told": f"{estimate.full} of places, {percent(baseline)} of ratings",
    }


def popularity_shares(evidence: Evidence) -> Figure | None:
    """How places are divided over the items by popularity: a bar for the data, and one for each model."""
    quarters = {model: evidence.groups(model, "share", "popularity") for model in evidence.models}
    quarters = {model: groups for model, groups in quarters.items() if groups}
    if not quarters:
        return None
    first = next(iter(quarters.values()))
    names = [group.name for group in first]
    rows = _bar(_DATA_BAR, [(place, group, group.estimate.baseline or 0.0) for place, group in enumerate(first)])
    for model, groups in quarters.items():
        known = [group for group in groups if group.name in names]
        rows += _bar(model, [(names.index(group.name), group, group.estimate.value or 0.0) for group in known])
    places = list(range(len(names)))
    steps = alt.Scale(domain=places, range=[step_color(place, len(names)) for place in places])
    bars = alt.Chart(data(rows)).mark_bar(height=16, stroke=PAPER, strokeWidth=1)
    chart = bars.encode(
        x=alt.X("start:Q", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]), title=None),
        x2=alt.X2("end:Q"),
        y=rows_of("bar", [_DATA_BAR, *quarters]),
        color=alt.Color("place:O", scale=steps, legend=None),
        tooltip=tooltip("bar", "group"),
    )
    most = [f"{row['bar']} {row['told']}" for row in rows if row["place"] == places[-1]]
    return Figure(
        "By popularity",
        finished(chart, height=ROW * (1 + len(quarters))),
        f"How places are divided over items by popularity. Places of {first[-1].things}: {', '.join(most)}.",
    )


def _bar(bar: str, parts: list[tuple[int, Group, float]]) -> Rows:
    """The segments of one bar, one after the other: (place of the group, group, share) each."""
    ends = list(accumulate((share for _, _, share in parts), initial=0.0))
    return [
        {"bar": bar, "place": place, "group": group.things, "start": start, "end": end, "told": percent(share)}
        for (place, group, share), (start, end) in zip(parts, pairwise(ends), strict=True)
    ]

"""Recommenders by what was measured before and what people thought (paper 003, Figures 1 and 3 to 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

import altair as alt

from recaudit.report.kit.charts import (
    HEIGHT,
    INK,
    MUTED,
    ROW,
    WIDTH,
    Box,
    Figure,
    Rows,
    data,
    edge_levels,
    finished,
    label_sides,
    labels,
    rows_of,
    series_color,
    tooltip,
)
from recaudit.report.kit.numbers import Estimate
from recaudit.report.simulation.evidence import Arena, Study

FAR = 4.0
"""An error so many times the median is no error of predicted ratings: it is written at the edge, not drawn."""

_ROOM = 0.07
"""Empty space at the ends of an axis."""
_PLOT = 320


def recommender_color(study: Study, name: str) -> str:
    """A colour for each; those that are there for comparison have none."""
    if name in study.references:
        return INK if name in {arena.oracle for arena in study.arenas} else MUTED
    return series_color(study.recommenders.index(name))


def color_scale(study: Study) -> alt.Scale:
    """The colours of all recommenders."""
    names = list(study.recommenders)
    return alt.Scale(domain=names, range=[recommender_color(study, name) for name in names])


def far_off(known: dict[str, Estimate]) -> dict[str, Estimate]:
    """Those whose number would press all others together."""
    limit = FAR * median([estimate.value or 0.0 for estimate in known.values()]) if known else 0.0
    return {name: estimate for name, estimate in known.items() if 0 < limit < (estimate.value or 0.0)}


def against(
    study: Study, arena: Arena, across: str, titles: tuple[str, str], *, up: str = "mean_rating", heading: str
) -> Figure | None:
    """One measure to the right, another upwards: a named point for each recommender, with both intervals.

    Published numbers are hollow points, tied to ours.
    """
    right, high = arena.known(across), arena.known(up)
    both = [name for name in arena.recommenders if name in right and name in high]
    off = far_off({name: right[name] for name in both})
    drawn = [name for name in both if name not in off]
    if len(drawn) < 2:
        return None
    beside = _published(arena, drawn, (across, up))
    # Who lies far off to the right has a height all the same.
    width = _domain([*_ends(right[name] for name in drawn), *(row["x"] for row in beside)])
    height = _domain([*_ends(high[name] for name in both), *(row["y"] for row in beside)])
    places = {name: (_unit(right[name].value, width), _unit(high[name].value, height)) for name in drawn}
    crosses = [box for name in drawn for box in _crosses(right[name], high[name], width, height)]
    notes = {f"{name} {estimate.text} →": _unit(high[name].value, height) for name, estimate in off.items()}
    levels = edge_levels(notes, [*crosses, *map(_dot, places.values())])
    sides = label_sides(places, [*crosses, *(box for _, box in levels.values())])
    rows: Rows = [
        {
            "recommender": name,
            **_named("x", right[name]),
            **_named("y", high[name]),
            "side": sides[name],
            "told": f"{titles[0]} {right[name].full}, {titles[1]} {high[name].full}",
        }
        for name in drawn
    ]
    x = alt.X("x:Q", title=titles[0], scale=_scale(width), axis=alt.Axis(grid=True, tickCount=5))
    y = alt.Y("y:Q", title=titles[1], scale=_scale(height), axis=alt.Axis(grid=True, tickCount=5))
    color = alt.Color("recommender:N", scale=color_scale(study), legend=None)
    base = alt.Chart(data(rows))
    layers = _whiskers(rows, x, y, color) + _rings(rows, beside, x, y, color)
    layers.append(base.mark_point(size=64).encode(x, y, color, tooltip=tooltip("recommender")))
    layers += labels(base.encode(x, y), "recommender")
    layers += [
        alt.Chart(data([{"y": high[name].value, "note": note}]))
        .mark_text(x="width", align="right", dy=level, fill=MUTED)
        .encode(y, alt.Text("note:N"))
        for name, (note, (level, _)) in zip(off, levels.items(), strict=True)
    ]
    numbers = [f"{row['recommender']}: {row['told']}" for row in rows]
    numbers += [f"{name}, beyond the edge: {titles[0]} {estimate.full}" for name, estimate in off.items()]
    return Figure(
        heading,
        finished(alt.layer(*layers), height=_PLOT),
        f"{titles[1]} against {titles[0]} in {arena.name}, a point for each recommender. {'; '.join(numbers)}.",
    )


def _published(arena: Arena, names: list[str], measures: tuple[str, str]) -> Rows:
    """Where the published numbers of these recommenders lie."""
    found = [(name, *(arena.published.get(name, {}).get(measure) for measure in measures)) for name in names]
    return [
        {"recommender": name, "x": x, "y": y, "told": f"published: {x:g} and {y:g}"}
        for name, x, y in found
        if x is not None and y is not None
    ]


def _whiskers(rows: Rows, x: alt.X, y: alt.Y, color: alt.Color) -> list[alt.Chart]:
    """Intervals to both sides, where there are any."""
    layers = []
    if wide := [{**row, "x": row["x_lower"]} for row in rows if row["x_lower"] is not None]:
        layers.append(alt.Chart(data(wide)).mark_rule(strokeWidth=1.5).encode(x, y, color, x2="x_upper:Q"))
    if tall := [{**row, "y": row["y_lower"]} for row in rows if row["y_lower"] is not None]:
        layers.append(alt.Chart(data(tall)).mark_rule(strokeWidth=1.5).encode(x, y, color, y2="y_upper:Q"))
    return layers


def _rings(rows: Rows, beside: Rows, x: alt.X, y: alt.Y, color: alt.Color) -> list[alt.Chart]:
    """What was published, and a line from there to ours."""
    if not beside:
        return []
    ours = {row["recommender"]: (row["x"], row["y"]) for row in rows}
    ties = [{**row, "x2": ours[row["recommender"]][0], "y2": ours[row["recommender"]][1]} for row in beside]
    points = alt.Chart(data(beside)).mark_point(size=56, filled=False, strokeWidth=1.5)
    return [
        alt.Chart(data(ties)).mark_rule(strokeDash=[2, 2], opacity=0.6).encode(x, y, color, x2="x2:Q", y2="y2:Q"),
        points.encode(x, y, color, tooltip=tooltip("recommender")),
    ]


def correlations(study: Study, metric: str) -> Figure | None:
    """Spearman of a metric on the log with the mean rating, for each environment (Figure 4)."""
    rows: Rows = [
        {
            "environment": arena.name,
            "value": found.estimate.value,
            "lower": found.estimate.lower,
            "upper": found.estimate.upper,
            "published": found.published,
            "told": found.estimate.full,
        }
        for arena in study.arenas
        if (found := arena.correlations[metric]).estimate.value is not None
    ]
    if not rows:
        return None
    y = rows_of("environment", [arena.name for arena in study.arenas])
    axis = alt.Axis(values=[-1, -0.5, 0, 0.5, 1], grid=True)
    value, lower, other = (
        alt.X(f"{field}:Q", title=None, axis=axis, scale=alt.Scale(domain=[-1, 1]))
        for field in ("value", "lower", "published")
    )
    layers: list[alt.Chart] = []
    if certain := [row for row in rows if row["lower"] is not None]:
        layers.append(alt.Chart(data(certain)).mark_rule(strokeWidth=2).encode(lower, y, x2="upper:Q"))
    if known := [row for row in rows if row["published"] is not None]:
        ring = alt.Chart(data(known)).mark_point(size=70, filled=False, stroke=INK, strokeWidth=1.5)
        layers.append(ring.encode(other, y, tooltip=alt.Tooltip("published:Q", format=".3f")))
    layers.append(alt.Chart(data(rows)).mark_point(size=70, fill=INK).encode(value, y, tooltip=tooltip("environment")))
    label = study.label(metric)
    told = [f"{row['environment']} {row['told']}" for row in rows]
    return Figure(
        f"{label} and mean rating",
        finished(alt.layer(*layers), height=ROW * max(2, len(rows))),
        f"Spearman's rank correlation of {label} with the mean rating, by environment: {'; '.join(told)}.",
    )


def known_people(study: Study, arena: Arena) -> Figure | None:
    """How well each recommender knows everybody at the end, best first (Figure 5, middle)."""
    known = arena.known("population_rmse")
    if len(known) < 2:
        return None
    off = far_off(known)
    names = arena.ranked("population_rmse")
    rows: Rows = [
        {"recommender": name, **_named("x", known[name]), "told": known[name].full} for name in names if name not in off
    ]
    y = rows_of("recommender", names)
    value, lower = (
        alt.X(f"{field}:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(grid=True))
        for field in ("x", "x_lower")
    )
    color = alt.Color("recommender:N", scale=color_scale(study), legend=None)
    layers: list[alt.Chart] = []
    if certain := [row for row in rows if row["x_lower"] is not None]:
        layers.append(alt.Chart(data(certain)).mark_rule(strokeWidth=2).encode(lower, y, color, x2="x_upper:Q"))
    layers.append(alt.Chart(data(rows)).mark_point(size=64).encode(value, y, color, tooltip=tooltip("recommender")))
    if off:
        edge: Rows = [{"recommender": name, "note": f"{estimate.text} →"} for name, estimate in off.items()]
        layers.append(
            alt.Chart(data(edge)).mark_text(x="width", align="right", fill=MUTED).encode(y, alt.Text("note:N"))
        )
    return Figure(
        "Error over everybody and everything, at the end",
        finished(alt.layer(*layers), height=ROW * len(names)),
        f"Population RMSE at the end in {arena.name}, lower is better: "
        f"{', '.join(f'{name} {known[name].full}' for name in names)}.",
    )


def _named(axis: str, estimate: Estimate) -> dict[str, float | None]:
    return {axis: estimate.value, f"{axis}_lower": estimate.lower, f"{axis}_upper": estimate.upper}


def _ends(estimates: Iterable[Estimate]) -> list[float]:
    found = (end for estimate in estimates for end in (estimate.lower, estimate.value, estimate.upper))
    return [end for end in found if end is not None]


def _domain(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = _ROOM * (high - low) or 0.1
    return low - room, high + room


def _unit(value: float | None, domain: tuple[float, float]) -> float:
    return ((value or 0.0) - domain[0]) / (domain[1] - domain[0])


def _dot(place: tuple[float, float]) -> Box:
    x, y = WIDTH * place[0], HEIGHT * (1 - place[1])
    return x - 6, y - 6, x + 6, y + 6


def _crosses(right: Estimate, high: Estimate, width: tuple[float, float], height: tuple[float, float]) -> Iterator[Box]:
    """Where the intervals of a point lie."""
    x, y = WIDTH * _unit(right.value, width), HEIGHT * (1 - _unit(high.value, height))
    if right.lower is not None:
        yield WIDTH * _unit(right.lower, width), y - 1, WIDTH * _unit(right.upper, width), y + 1
    if high.lower is not None:
        yield x - 1, HEIGHT * (1 - _unit(high.upper, height)), x + 1, HEIGHT * (1 - _unit(high.lower, height))


def _scale(domain: tuple[float, float]) -> alt.Scale:
    return alt.Scale(domain=list(domain), nice=False, zero=False)

"""Charts of a simulation: what was measured before against what people thought, and step by step (paper 003)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import altair as alt
import polars as pl

from recaudit.metrics.metric import Metric
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import Estimate
from recaudit.report.simulation.evidence import Arena, SimulationStudy
from recaudit.report.simulation.terms import term

FAR = 4.0
"""An error so many times the median is no error of predicted ratings: it is written at the edge, not drawn."""

_ROOM = 0.07
"""Empty space at the ends of an axis."""
_PLOT = 320
Ends = tuple[float, float]


def recommender_color(study: SimulationStudy, name: str) -> str:
    """A colour for each; those that are there for comparison have none."""
    if name in study.references:
        return kit.INK if name in {arena.oracle for arena in study.arenas} else kit.MUTED
    return kit.series_color(study.recommenders.index(name))


def color_scale(study: SimulationStudy, names: Sequence[str]) -> alt.Scale:
    """The colours of these recommenders."""
    return alt.Scale(domain=list(names), range=[recommender_color(study, name) for name in names])


def far_off(known: dict[str, Estimate]) -> dict[str, Estimate]:
    """Those whose number would press all others together."""
    limit = FAR * median([estimate.value or 0.0 for estimate in known.values()]) if known else 0.0
    return {name: estimate for name, estimate in known.items() if 0 < limit < (estimate.value or 0.0)}


def against_rating(
    study: SimulationStudy, arena: Arena, measure: str, title: str, heading: str, rating: str = "mean_rating"
) -> kit.Figure | None:
    """A measure to the right, the mean rating upwards: a point for each recommender; what was published is hollow."""
    rated, right, high = study.label("mean_rating"), arena.known(measure), arena.known(rating)
    both = [name for name in arena.recommenders if name in right and name in high]
    off = far_off({name: right[name] for name in both})
    drawn = [name for name in both if name not in off]
    if len(drawn) < 2:
        return None
    beside = _published(arena, drawn, (measure, rating))
    # Who lies far off to the right has a height all the same.
    width = _domain([right[name] for name in drawn], [row["x"] for row in beside])
    height = _domain([high[name] for name in both], [row["y"] for row in beside])
    places = {name: (_unit(right[name].value, width), _unit(high[name].value, height)) for name in drawn}
    crosses = [box for name in drawn for box in _crosses(right[name], high[name], width, height)]
    notes = {f"{name} {estimate.text} →": _unit(high[name].value, height) for name, estimate in off.items()}
    levels = kit.edge_levels(notes, [*crosses, *map(kit.dot, places.values())])
    sides = kit.label_sides(places, [*crosses, *(box for _, box in levels.values())])
    rows: kit.Rows = []
    for name in drawn:
        told = f"{title} {right[name].full}, {rated} {high[name].full}"
        place = {**_named("x", right[name]), **_named("y", high[name])}
        rows.append({"recommender": name, **place, "side": sides[name], "told": told})
    scales = [alt.Scale(domain=list(domain), nice=False, zero=False) for domain in (width, height)]
    x = alt.X("x:Q", title=title, scale=scales[0], axis=alt.Axis(grid=True, tickCount=5))
    y = alt.Y("y:Q", title=rated, scale=scales[1], axis=alt.Axis(grid=True, tickCount=5))
    color = alt.Color("recommender:N", scale=color_scale(study, study.recommenders), legend=None)
    base = kit.chart(rows)
    layers = _whiskers(rows, x, y, color) + _rings(rows, beside, x, y, color)
    layers.append(base.mark_point(size=64).encode(x, y, color, tooltip=kit.tooltip("recommender")))
    layers += kit.labels(base.encode(x, y), "recommender")
    layers += [
        kit.chart([{"y": high[name].value, "note": note}])
        .mark_text(x="width", align="right", dy=level, fill=kit.MUTED)
        .encode(y, alt.Text("note:N"))
        for name, (note, (level, _)) in zip(off, levels.items(), strict=True)
    ]
    numbers = [f"{row['recommender']}: {row['told']}" for row in rows]
    numbers += [f"{name}, beyond the edge: {title} {estimate.full}" for name, estimate in off.items()]
    about = f"{rated} against {title} in {arena.name}, a point for each recommender. {'; '.join(numbers)}."
    return kit.figure(heading, about, _PLOT, *layers, note=kit.unnamed(sides, "recommender"))


def _published(arena: Arena, names: list[str], measures: tuple[str, str]) -> kit.Rows:
    """Where the published numbers of these recommenders lie."""
    found = [(name, *(arena.published.get(name, {}).get(measure) for measure in measures)) for name in names]
    return [
        {"recommender": name, "x": x, "y": y, "told": f"published: {x:g} and {y:g}"}
        for name, x, y in found
        if x is not None and y is not None
    ]


def _whiskers(rows: kit.Rows, x: alt.X, y: alt.Y, color: alt.Color) -> list[alt.Chart]:
    """Intervals to both sides, where there are any."""
    layers = []
    for axis in ("x", "y"):
        if known := [{**row, axis: row[f"{axis}_lower"]} for row in rows if row[f"{axis}_lower"] is not None]:
            rules = kit.chart(known).mark_rule(strokeWidth=1.5)
            layers.append(rules.encode(x, y, color, **{f"{axis}2": f"{axis}_upper:Q"}))
    return layers


def _rings(rows: kit.Rows, beside: kit.Rows, x: alt.X, y: alt.Y, color: alt.Color) -> list[alt.Chart]:
    """What was published, and a line from there to ours."""
    if not beside:
        return []
    ours = {row["recommender"]: {"x2": row["x"], "y2": row["y"]} for row in rows}
    ties = [{**row, **ours[row["recommender"]]} for row in beside]
    points = kit.chart(beside).mark_point(size=56, filled=False, strokeWidth=1.5)
    return [
        kit.chart(ties).mark_rule(strokeDash=[2, 2], opacity=0.6).encode(x, y, color, x2="x2:Q", y2="y2:Q"),
        points.encode(x, y, color, tooltip=kit.tooltip("recommender")),
    ]


def correlations(study: SimulationStudy, metric: str) -> kit.Figure | None:
    """Spearman of a metric on the log with the mean rating, for each environment (Figure 4); one alone is a number."""
    rows: kit.Rows = [
        {"environment": arena.name, **kit.drawn(found.estimate), "published": found.published}
        for arena in study.arenas
        if (found := arena.correlations[metric]).estimate.value is not None
    ]
    if len(rows) < 2 and not any(row["published"] is not None for row in rows):
        return None
    y = kit.rows_of("environment", [arena.name for arena in study.arenas])
    axis = alt.Axis(values=[-1, -0.5, 0, 0.5, 1], grid=True)
    value, lower, other = kit.across("value", "lower", "published", axis=axis, scale=alt.Scale(domain=[-1, 1]))
    layers: list[alt.Chart] = []
    if certain := [row for row in rows if row["lower"] is not None]:
        layers.append(kit.chart(certain).mark_rule(strokeWidth=2).encode(lower, y, x2="upper:Q"))
    if known := [row for row in rows if row["published"] is not None]:
        ring = kit.chart(known).mark_point(size=70, filled=False, stroke=kit.INK, strokeWidth=1.5)
        layers.append(ring.encode(other, y, tooltip=alt.Tooltip("published:Q", format=".3f")))
    points = kit.chart(rows).mark_point(size=70, fill=kit.INK)
    layers.append(points.encode(value, y, tooltip=kit.tooltip("environment")))
    label = study.label(metric)
    told = "; ".join(f"{row['environment']} {row['told']}" for row in rows)
    about = f"Spearman's rank correlation of {label} with the mean rating, by environment: {told}."
    return kit.figure(f"{label} and mean rating", about, kit.height_of(max(2, len(rows))), *layers)


def known_people(study: SimulationStudy, arena: Arena) -> kit.Figure | None:
    """How well each recommender knows everybody at the end, best first (Figure 5, middle)."""
    known = arena.known("population_rmse")
    if len(known) < 2:
        return None
    off = far_off(known)
    names = arena.ranked("population_rmse")
    rows: kit.Rows = [{"recommender": name, **kit.drawn(known[name])} for name in names if name not in off]
    y = kit.rows_of("recommender", names)
    value, lower = kit.across("value", "lower", scale=alt.Scale(zero=True), axis=alt.Axis(grid=True))
    color = alt.Color("recommender:N", scale=color_scale(study, study.recommenders), legend=None)
    layers: list[alt.Chart] = []
    if certain := [row for row in rows if row["lower"] is not None]:
        layers.append(kit.chart(certain).mark_rule(strokeWidth=2).encode(lower, y, color, x2="upper:Q"))
    layers.append(kit.chart(rows).mark_point(size=64).encode(value, y, color, tooltip=kit.tooltip("recommender")))
    if off:
        edge: kit.Rows = [{"recommender": name, "note": f"{estimate.text} →"} for name, estimate in off.items()]
        layers.append(kit.chart(edge).mark_text(x="width", align="right", fill=kit.MUTED).encode(y, alt.Text("note:N")))
    told = ", ".join(f"{name} {known[name].full}" for name in names)
    about = f"Population RMSE at the end in {arena.name}, lower is better: {told}."
    return kit.figure("Error over everybody and everything, at the end", about, kit.height_of(len(names)), *layers)


def _named(axis: str, estimate: Estimate) -> dict[str, float | None]:
    return {axis: estimate.value, f"{axis}_lower": estimate.lower, f"{axis}_upper": estimate.upper}


def _domain(estimates: Iterable[Estimate], others: Iterable[float]) -> Ends:
    """From the lowest to the highest of all of these, with some room at the ends."""
    found = [end for own in estimates for end in (own.lower, own.value, own.upper) if end is not None]
    low, high = min(*found, *others), max(*found, *others)
    room = _ROOM * (high - low) or 0.1
    return low - room, high + room


def _unit(value: float | None, domain: Ends) -> float:
    return ((value or 0.0) - domain[0]) / (domain[1] - domain[0])


def _crosses(right: Estimate, high: Estimate, width: Ends, height: Ends) -> Iterator[kit.Box]:
    """Where the intervals of a point lie."""
    x, y = kit.WIDTH * _unit(right.value, width), kit.HEIGHT * (1 - _unit(high.value, height))
    if right.lower is not None:
        yield kit.WIDTH * _unit(right.lower, width), y - 1, kit.WIDTH * _unit(right.upper, width), y + 1
    if high.lower is not None:
        yield x - 1, kit.HEIGHT * (1 - _unit(high.upper, height)), x + 1, kit.HEIGHT * (1 - _unit(high.lower, height))


MOST_BANDS = 6
"""With more recommenders, bands would hide each other: only that of a chosen one is shown."""
_DASHES = ([1, 0], [6, 3], [2, 2])
"""Of the first recommenders, of those after the last colour, and so on."""


def over_time(
    study: SimulationStudy, arena: Arena, measure: str, heading: str, *, zero: bool = False
) -> kit.Figure | None:
    """One measure along the steps; whose error is far off is left out."""
    known = arena.known(measure)
    off = far_off(known) if measure == "shown_rmse" else {}
    curves = {name: arena.curve(name, measure) for name in known if name not in off}
    return drawn_curves(study, arena, curves, term(measure), heading, zero=zero)


def drawn_curves(
    study: SimulationStudy,
    arena: Arena,
    curves: Mapping[str, pl.DataFrame],
    metric: Metric,
    heading: str,
    *,
    zero: bool = False,
) -> kit.Figure | None:
    """A line and a band for each recommender (step, value, lower, upper); names can be clicked. None with one step."""
    rows: kit.Rows = [
        {"recommender": name, "step": row["step"], **kit.drawn(Estimate.around(metric, row, 0))}
        for name, curve in curves.items()
        for row in curve.with_columns(pl.col(pl.Float64).round(5)).iter_rows(named=True)
    ]
    if len({row["step"] for row in rows}) < 2:
        return None
    names = [name for name in study.recommenders if name in curves]
    chosen = alt.selection_point("chosen", fields=["recommender"], bind="legend")
    symbols: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 140, "symbolOpacity": 1}
    legend = alt.Legend(title=None, orient="top", columns=3, labelColor=kit.INK, labelLimit=92, **symbols)
    dashes = alt.Scale(domain=names, range=[_dash(study, name) for name in names])
    color = alt.Color("recommender:N", scale=color_scale(study, names), legend=legend)
    dash = alt.StrokeDash("recommender:N", scale=dashes, legend=legend)
    axis = kit.value_axis(metric, grid=True, tickCount=5)
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(format="d", grid=False))
    scale = alt.Scale(zero=zero, nice=True)
    value, lower = (alt.Y(f"{field}:Q", title=None, scale=scale, axis=axis) for field in ("value", "lower"))
    base = kit.chart(rows)
    layers: list[alt.Chart] = []
    if any(row["lower"] is not None for row in rows):
        everybody = len(arena.recommenders) <= MOST_BANDS
        band = alt.condition({"param": "chosen", "empty": everybody}, alt.value(0.16), alt.value(0))
        layers.append(base.mark_area().encode(x, lower, color, alt.Y2("upper:Q"), opacity=band))
    shown = alt.condition(chosen, alt.value(1), alt.value(0.12))
    told = [alt.Tooltip("recommender:N"), alt.Tooltip("step:Q", format=".0f"), alt.Tooltip("told:N", title="value")]
    lines = base.mark_line(strokeWidth=1.75).encode(x, value, color, dash, opacity=shown, tooltip=told)
    layers.append(lines.add_params(chosen))
    values = {name: [row["value"] for row in rows if row["recommender"] == name] for name in names}
    ends = [f"{name} from {metric.written(own[0])} to {metric.written(own[-1])}" for name, own in values.items() if own]
    return kit.figure(heading, f"{metric.titled()} along the steps in {arena.name}: {'; '.join(ends)}.", 300, *layers)


def _dash(study: SimulationStudy, name: str) -> list[int]:
    """Solid for the first eight; whoever shares a colour has a line of its own kind."""
    if name in study.references:
        others = [own for own in study.references if recommender_color(study, own) != kit.INK]
        return _DASHES[1 + others.index(name) % 2] if name in others else _DASHES[0]
    return _DASHES[study.recommenders.index(name) // kit.SERIES % len(_DASHES)]

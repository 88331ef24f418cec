"""Recommenders step by step (paper 003, Figures 2 and 5)."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from recaudit.metrics.metric import Metric
from recaudit.report.kit.charts import INK, SERIES, Figure, Rows, data, finished, value_axis
from recaudit.report.simulation.charts import far_off, recommender_color
from recaudit.report.simulation.evidence import Arena, Study
from recaudit.report.simulation.terms import term

_HEIGHT = 300
_COLUMNS = 3
MOST_BANDS = 6
"""With more recommenders, bands would hide each other: only that of a chosen one is shown."""
_FIELDS = ("step", "value", "lower", "upper")
_DASHES = ([1, 0], [6, 3], [2, 2])
"""Of the first recommenders, of those after the last colour, and so on."""


def over_time(study: Study, arena: Arena, measure: str, heading: str, *, zero: bool = False) -> Figure | None:
    """One measure along the steps; whose error is far off is left out."""
    known = arena.known(measure)
    off = far_off(known) if measure == "shown_rmse" else {}
    curves = {name: arena.curve(name, measure) for name in known if name not in off}
    return drawn_curves(study, arena, curves, term(measure), heading, zero=zero)


def drawn_curves(
    study: Study,
    arena: Arena,
    curves: Mapping[str, pl.DataFrame],
    metric: Metric,
    heading: str,
    *,
    zero: bool = False,
) -> Figure | None:
    """A line for each recommender (columns step, value, lower, upper), its interval as a band; names can be clicked.

    None where there is but one step.
    """
    rows: Rows = [
        {"recommender": name, **{key: _rounded(row[key]) for key in _FIELDS}, "told": _told(metric, row)}
        for name, curve in curves.items()
        for row in curve.iter_rows(named=True)
    ]
    if len({row["step"] for row in rows}) < 2:
        return None
    names = [name for name in study.recommenders if name in curves]
    chosen = alt.selection_point("chosen", fields=["recommender"], bind="legend")
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=_COLUMNS,
        symbolType="stroke",
        labelColor=INK,
        labelLimit=92,
        symbolSize=140,
        symbolOpacity=1,
    )
    colors = alt.Scale(domain=names, range=[recommender_color(study, name) for name in names])
    dashes = alt.Scale(domain=names, range=[_dash(study, name) for name in names])
    color = alt.Color("recommender:N", scale=colors, legend=legend)
    dash = alt.StrokeDash("recommender:N", scale=dashes, legend=legend)
    axis = value_axis(metric, grid=True, tickCount=5)
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(format="d", grid=False))
    value, lower = (
        alt.Y(f"{field}:Q", title=None, scale=alt.Scale(zero=zero, nice=True), axis=axis)
        for field in ("value", "lower")
    )
    base = alt.Chart(data(rows))
    layers: list[alt.Chart] = []
    if any(row["lower"] is not None for row in rows):
        everybody = len(arena.recommenders) <= MOST_BANDS
        band = alt.condition({"param": "chosen", "empty": everybody}, alt.value(0.16), alt.value(0))
        layers.append(base.mark_area().encode(x, lower, color, alt.Y2("upper:Q"), opacity=band))
    shown = alt.condition(chosen, alt.value(1), alt.value(0.12))
    told = [alt.Tooltip("recommender:N"), alt.Tooltip("step:Q", format=".0f"), alt.Tooltip("told:N", title="value")]
    lines = base.mark_line(strokeWidth=1.75).encode(x, value, color, dash, opacity=shown, tooltip=told)
    layers.append(lines.add_params(chosen))
    ends = []
    for name in names:
        own = [row["value"] for row in rows if row["recommender"] == name]
        ends += [f"{name} from {metric.written(own[0])} to {metric.written(own[-1])}"] if own else []
    return Figure(
        heading,
        finished(alt.layer(*layers), height=_HEIGHT),
        f"{metric.titled()} along the steps in {arena.name}: {'; '.join(ends)}.",
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _told(metric: Metric, row: dict[str, float | None]) -> str:
    value, lower, upper = (row[name] for name in ("value", "lower", "upper"))
    ends = "" if lower is None or upper is None else f" {metric.interval(lower, upper)}"
    return "" if value is None else f"{metric.written(value)}{ends}"


def _dash(study: Study, name: str) -> list[int]:
    """Solid for the first eight; whoever shares a colour has a line of its own kind."""
    if name in study.references:
        oracles = {arena.oracle for arena in study.arenas}
        others = [reference for reference in study.references if reference not in oracles]
        return _DASHES[0] if name in oracles else _DASHES[1 + others.index(name) % 2]
    return _DASHES[study.recommenders.index(name) // SERIES % len(_DASHES)]

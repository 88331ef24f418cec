"""What all charts share: the theme, the colours by name, and how a specification is finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import altair as alt
import polars as pl

from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, figure

Rows = list[dict[str, Any]]
Chart = alt.Chart | alt.LayerChart | alt.FacetChart

ACCENT, INK, MUTED, LINE, PAPER = (f"var(--{name})" for name in ("accent", "ink", "muted", "line", "paper"))
UP, DOWN = "var(--up)", "var(--down)"

SERIES = 8
"""How many models have a colour of their own; the style sheet defines as many."""
STEPS = 4
"""How many steps of one colour the style sheet defines, for groups that have an order."""
ROW = 24
"""Pixels for a row of a chart."""

THEME: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    # The page itself describes each chart to those who cannot see it.
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelLimit": 130,
    },
    "axisY": {"grid": False, "ticks": False, "domain": False, "labelPadding": 10, "labelColor": INK},
    "axisX": {"tickCount": 4, "titlePadding": 8},
    "text": {"fill": INK, "fontSize": 11},
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
    """The metric it shows, where the heading is that metric's name."""


def data(rows: Rows) -> pl.DataFrame:
    """Rows as a chart takes them."""
    return pl.DataFrame(rows, infer_schema_length=None)


def finished(chart: Chart, height: int) -> dict[str, Any]:
    """The specification, as wide as its place on the page, however Altair is set in this process."""
    autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    with alt.theme.enable("none"), alt.data_transformers.enable("default", max_rows=None):
        return chart.properties(width="container", height=height, autosize=autosize).to_dict()


def drawn(estimate: Estimate | None) -> dict[str, Any]:
    """What a chart needs of an estimate: numbers to draw, nulls where there are none, and the text to tell."""
    if estimate is None or estimate.value is None:
        return {"value": None, "lower": None, "upper": None, "told": NOT_AVAILABLE}
    return {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper, "told": estimate.full}


def is_share(metric: str) -> bool:
    """Whether the metric is written in percent."""
    return figure(metric, 0.5).endswith("%")


def tooltip(*fields: str) -> list[alt.Tooltip]:
    """The named fields, then the number as the page writes it, interval included."""
    return [*(alt.Tooltip(f"{field}:N", title=field) for field in fields), alt.Tooltip("told:N", title="value")]


def rows_of(field: str, names: Sequence[str], scale: alt.Scale | None = None) -> alt.Y:
    """A row of the chart for each name, the first on top.

    The order is the domain of the scale, where names are values. An order given as `sort` is compiled into an
    expression with the names spelt out in it: data in code, and a name such as "constructor" stops the chart.
    """
    scale = alt.Scale() if scale is None else scale.copy()
    scale["domain"] = list(names)
    return alt.Y(f"{field}:N", title=None, scale=scale)


def series_color(place: int) -> str:
    """The colour of the model at this place of the order; the colours repeat after the last."""
    return f"var(--series-{place % SERIES + 1})"


def in_series(models: Sequence[str], model: str) -> dict[str, Any]:
    """The fields of a row that belongs to the line of one model: its name to be read, its place to be drawn by.

    Lines are told apart by a number: a name that is grouped by becomes a key in the browser's own objects, where
    "constructor" and "__proto__" are taken.
    """
    return {"model": model, "series": models.index(model)}


def by_series(models: Sequence[str]) -> alt.Color:
    """A colour for each model, for rows with the fields of `in_series`."""
    places = list(range(len(models)))
    colors = alt.Scale(domain=places, range=[series_color(place) for place in places])
    return alt.Color("series:O", scale=colors, legend=None)


def step_color(place: int, steps: int) -> str:
    """The colour of the step at this place, from light to dark; the last step is the darkest."""
    return f"var(--step-{max(1, STEPS - steps + place + 1)})"

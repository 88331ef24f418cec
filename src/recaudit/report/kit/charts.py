"""What all charts share: the theme, the colours by name, how a specification is finished, where labels stand.

Charts are Vega-Lite specifications made with Altair, small, and without any colour of their own: colours are the page's
CSS variables, which the SVG renderer passes on, so that charts follow light, dark and print without being drawn again.
The data in a chart is what is drawn, never the raw tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any, Literal, final

import altair as alt
import polars as pl

from recaudit.metrics.metric import Metric
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, plural

Rows = list[dict[str, Any]]

ACCENT, INK, MUTED, LINE, PAPER = (f"var(--{name})" for name in ("accent", "ink", "muted", "line", "paper"))
UP, DOWN, OTHERS = "var(--up)", "var(--down)", "var(--others)"

SERIES = 8
"""How many colours can be told apart; the style sheet defines as many."""
STEPS = 4
"""How many steps of one colour the style sheet defines, for groups that have an order."""
ROW, CLOSE_ROW, MANY_ROWS = 24, 18, 12
"""Pixels for a row of a chart, and for one of more than so many rows."""
_POWERS = 6
"""So many powers of ten are written out beside each other on an axis."""
MOST_CATEGORIES = 20
"""A chart shows the categories with the most ratings, up to this many; the table beneath it has all."""

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
    note: str = ""
    """What it leaves out."""
    title: str = ""
    """What it is called where it stands alone, in a file, if the heading does not say it all."""


def chart(rows: Rows, colors: Mapping[str, str] | None = None) -> alt.Chart:
    """A chart of these rows, which is still to be given marks; models that have a colour lie on top of the others."""
    drawn = sorted(rows, key=lambda row: colors[row["model"]] != OTHERS) if colors else rows
    return alt.Chart(pl.DataFrame(drawn, infer_schema_length=None))


def height_of(rows: int, more: int = 0) -> int:
    """The height of a chart with so many rows, each higher than usual by some pixels; many rows stand closer."""
    return rows * ((CLOSE_ROW if rows > MANY_ROWS else ROW) + more)


def figure(
    heading: str,
    description: str,
    height: int,
    *layers: alt.Chart,
    metric: str | None = None,
    note: str = "",
    title: str = "",
) -> Figure:
    """These layers on top of each other, as wide as their place on the page, however Altair is set in this process."""
    autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    with alt.theme.enable("none"), alt.data_transformers.enable("default", max_rows=None):
        whole = alt.layer(*layers).properties(width="container", height=height, autosize=autosize)
        return Figure(heading, whole.to_dict(), description, metric, note, title)


def existing(figures: Iterable[Figure | None]) -> list[Figure]:
    """Those for which there was something to draw."""
    return [figure for figure in figures if figure is not None]


def across(*fields: str, **options: Any) -> list[alt.X]:
    """The same axis to the right for several fields."""
    return [alt.X(f"{field}:Q", title=None, **options) for field in fields]


def drawn(estimate: Estimate | None) -> dict[str, Any]:
    """What a chart needs of an estimate: numbers to draw, nulls where there are none, and the text to tell."""
    ends = ("value", "lower", "upper")
    if estimate is None or estimate.value is None:
        return {**dict.fromkeys(ends), "told": NOT_AVAILABLE}
    return {**{end: getattr(estimate, end) for end in ends}, "told": estimate.full}


def value_axis(metric: Metric, **options: Any) -> alt.Axis:
    """The axis of a metric's values, in percent where they are written so."""
    percent = metric.format in ("share", "chance", "signed share")
    return alt.Axis(format="%", **options) if percent else alt.Axis(**options)


def tick_axis(ticks: Sequence[float], **options: Any) -> alt.Axis:
    """An axis with a label at each of these ticks, and at no other."""
    return alt.Axis(values=list(ticks), tickCount=len(ticks), labelOverlap=False, **options)


def log_axis(field: Literal["x", "y"], title: str, low: float, high: float, form: str, sign: str = "") -> alt.X | alt.Y:
    """A logarithmic axis with a handful of round numbers on it, in short where they are many powers of ten apart."""
    powers = [10.0**power for power in range(floor(log10(low)), floor(log10(high)) + 1)]
    finer = [step * power for power in powers for step in (1, 2, 5)]
    form, every = ("~e", 1 + len(powers) // _POWERS) if len(powers) > _POWERS else (form, 1)
    ticks = [tick for tick in (finer if len(powers) < 3 else powers[::every]) if low <= tick <= high]
    axis = tick_axis(ticks, labelExpr=f"'{sign}' + format(datum.value, '{form}')", grid=True)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    channel = alt.X if field == "x" else alt.Y
    return channel(f"{field}:Q", title=title, axis=axis, scale=scale)


def tooltip(*fields: str) -> list[alt.Tooltip]:
    """The named fields, then the number as the page writes it, interval included."""
    return [*(alt.Tooltip(f"{field}:N", title=field) for field in fields), alt.Tooltip("told:N", title="value")]


def rows_of(field: str, names: Sequence[str], **options: Any) -> alt.Y:
    """A row of the chart for each name, the first on top.

    The order is the domain of the scale, where names are values. An order given as `sort` is compiled into an
    expression with the names spelt out in it: data in code, and a name such as "constructor" stops the chart.
    """
    return alt.Y(f"{field}:N", title=None, scale=alt.Scale(domain=list(names), **options))


def series_colors(models: Sequence[str], first: Iterable[str]) -> dict[str, str]:
    """A colour for each model; of more models than can be told apart, only the `first` have one of their own."""
    named = list(models if len(models) <= SERIES else dict.fromkeys(first))[:SERIES]
    return {model: series_color(named.index(model)) if model in named else OTHERS for model in models}


def in_series(colors: Mapping[str, str], model: str) -> dict[str, Any]:
    """The fields of a row that belongs to the line of one model: its name to be read, its place to be drawn by.

    Lines are told apart by a number: a name that is grouped by becomes a key in the browser's own objects, where
    "constructor" and "__proto__" are taken.
    """
    return {"model": model, "series": list(colors).index(model)}


def by_series(colors: Mapping[str, str]) -> alt.Color:
    """The colour of each model, for rows with the fields of `in_series`."""
    scale = alt.Scale(domain=list(range(len(colors))), range=list(colors.values()))
    return alt.Color("series:O", scale=scale, legend=None)


def series_color(place: int) -> str:
    """The colour of the model at this place of the order; the colours repeat after the last."""
    return f"var(--series-{place % SERIES + 1})"


def step_color(place: int, steps: int) -> str:
    """The colour of the step at this place, from light to dark; the last step is the darkest."""
    return f"var(--step-{max(1, STEPS - steps + place + 1)})"


Align = Literal["left", "right", "center"]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""

WIDTH, HEIGHT, _LETTER = 400, 300, 6.5
"""The plot that places are reckoned for, and the width of a letter, in pixels: close enough on any screen."""

PLACES: tuple[tuple[str, Align, int, int], ...] = (
    ("right", "left", 9, 0),
    ("left", "right", -9, 0),
    ("above", "center", 0, -12),
    ("below", "center", 0, 13),
    ("above right", "left", 6, -11),
    ("below right", "left", 6, 12),
    ("above left", "right", -6, -11),
    ("below left", "right", -6, 12),
)
"""For each side of a point how its label is aligned, and how far it is moved; the first is the best."""
_LEVELS = (0, -13, 13, -26, 26)
"""How far a note at the edge may be moved up or down."""
_CROWDED = 0.1
"""Among many points, a label that would hide or lose this share of its size is left out."""


def labels(points: alt.Chart, field: str) -> list[alt.Chart]:
    """The names of points, each on its `side`; without a side there is none."""
    return [
        points.transform_filter(f"datum.side === '{side}'")
        .mark_text(align=align, dx=dx, dy=dy)
        .encode(alt.Text(f"{field}:N"))
        for side, align, dx, dy in PLACES
    ]


def label_sides(points: Mapping[str, tuple[float, float]], taken: Sequence[Box] = ()) -> dict[str, str]:
    """For each point, in the unit square, the first side on which its label hides nothing, else as little as may be.

    Of many points some stay without a label, and have no side; the first always has one.
    """
    covered = [*taken, *map(dot, points.values())]
    sides: dict[str, str] = {}
    for name, (x, y) in points.items():
        boxes = {side: _box(name, align, WIDTH * x + dx, HEIGHT * (1 - y) + dy) for side, align, dx, dy in PLACES}
        best = min(boxes, key=lambda side: _hidden(boxes[side], covered))
        crowded = _hidden(boxes[best], covered) > _CROWDED * _overlap(boxes[best], boxes[best])
        sides[name] = "" if crowded and sides and len(points) > SERIES else best
        covered += [boxes[best]] if sides[name] else []
    return sides


def unnamed(sides: Mapping[str, str], noun: str) -> str:
    """What to say of points that stay without a label."""
    many = sum(not side for side in sides.values())
    return f"{plural(many, noun)} too close to others to be named here: point at one for its name." if many else ""


def dot(point: tuple[float, float]) -> Box:
    """What a point in the unit square covers."""
    x, y = WIDTH * point[0], HEIGHT * (1 - point[1])
    return x - 6, y - 6, x + 6, y + 6


def edge_levels(notes: Mapping[str, float], taken: Sequence[Box]) -> dict[str, tuple[int, Box]]:
    """For each note at the right edge, at this height of 0 to 1, how far it is moved, and the box that it takes."""
    levels: dict[str, tuple[int, Box]] = {}
    for note, height in notes.items():
        covered = [*taken, *(box for _, box in levels.values())]
        boxes = {level: _box(note, "right", WIDTH, HEIGHT * (1 - height) + level) for level in _LEVELS}
        levels[note] = min(boxes.items(), key=lambda made: _hidden(made[1], covered))
    return levels


def _box(text: str, align: Align, x: float, y: float) -> Box:
    width = _LETTER * len(text)
    left = x - {"left": 0.0, "center": width / 2, "right": width}[align]
    return left, y - 6, left + width, y + 6


def _hidden(box: Box, covered: Sequence[Box]) -> float:
    """How many square pixels of the box lie outside or on something else."""
    left, top, right, bottom = box
    inside = _overlap(box, (0, -HEIGHT, WIDTH, HEIGHT))
    return (right - left) * (bottom - top) - inside + sum(_overlap(box, other) for other in covered)


def _overlap(one: Box, two: Box) -> float:
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    return max(0.0, width) * max(0.0, height)

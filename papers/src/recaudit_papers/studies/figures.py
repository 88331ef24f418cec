"""Charts of studies: lines with intervals, bars and points, from a table with the columns that are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized

import altair as alt
import polars as pl

from recaudit.report import charts as kit

_HEIGHT = 220
_MANY_POINTS, _FEW_POINTS = 60, 30
"""More points are small; fewer have their names beside them."""
_NOTHING = "There is nothing to draw"


def lines(
    heading: str,
    table: pl.DataFrame,
    x: str,
    y: str,
    series: str,
    *,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    published: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    note: str = "",
) -> kit.Figure:
    """A line for each of `series`, with a band from `lower` to `upper` where the table has them.

    `published` has the paper's points by series: drawn as hollow diamonds in the colour of their line.
    """
    banded = {"lower", "upper"} <= set(table.columns)
    ends = [_number(end) for end in ("lower", "upper")] if banded else []
    rows = table.select(_text(series, "name"), _number(x, "x", log=log_x), _number(y, "y"), *ends).drop_nulls(
        ["x", "y"]
    )
    names = list(dict.fromkeys(rows["name"]))
    base, color = alt.Chart(rows), _colors(names)
    across, up = _axis(alt.X, "x", x_title, log=log_x), _axis(alt.Y, "y", y_title)
    layers = [
        base.mark_line(strokeWidth=2).encode(across, up, color),
        base.mark_point(size=30).encode(across, up, color),
    ]
    if banded:
        band = base.mark_area(opacity=0.15).encode(across, _axis(alt.Y, "lower", y_title), alt.Y2("upper:Q"), color)
        layers.insert(0, band)
    printed = [(name, at, value) for name, points in (published or {}).items() if name in names for at, value in points]
    theirs = (
        pl.DataFrame(printed, {"name": pl.String, "x": pl.Float64, "y": pl.Float64}, strict=False, orient="row")
        .select("name", _number("x", log=log_x), _number("y"))
        .drop_nulls()
    )
    if len(theirs):
        drawn = alt.Chart(theirs)
        layers.append(drawn.mark_point(shape="diamond", filled=False, size=80).encode(across, up, color))
    return kit.figure(heading, _told(heading, rows), _HEIGHT, *layers, note=_with_theirs(theirs, note))


def bars(
    heading: str,
    table: pl.DataFrame,
    name: str,
    value: str,
    *,
    title: str,
    published: str | None = None,
    note: str = "",
) -> kit.Figure:
    """A bar for each line of the table with its interval (`lower`, `upper`) where there is one; theirs as diamonds."""
    ends = [_number(end) for end in ("lower", "upper") if end in table.columns]
    theirs = [] if published is None else [_number(published, "published")]
    rows = table.select(_text(name, "name"), _number(value, "value"), *ends, *theirs)
    base, y = alt.Chart(rows), kit.rows_of("name", rows["name"].to_list())
    # Bars are not put on top of each other by their names: some names stop the chart, see `kit.in_series`.
    bar = alt.X("value:Q", title=title, stack=None)
    layers = [base.mark_bar(height=10, fill=kit.ACCENT, opacity=0.8).encode(bar, y)]
    if ends:
        layers.append(base.mark_rule(stroke=kit.INK).encode(alt.X("lower:Q", title=title), alt.X2("upper:Q"), y))
    if theirs:
        mark = base.mark_point(shape="diamond", filled=False, size=80, stroke=kit.UP)
        layers.append(mark.encode(alt.X("published:Q", title=title), y))
    known = rows.select("name", "value").drop_nulls()
    said = "; ".join(f"{one}: {number:.3g}" for one, number in known.iter_rows())
    height = kit.height_of(len(rows))
    return kit.figure(heading, f"{heading}. {said or _NOTHING}.", height, *layers, note=_with_theirs(theirs, note))


def points(
    heading: str,
    table: pl.DataFrame,
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    name: str | None = None,
    series: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
    note: str = "",
) -> kit.Figure:
    """A point for each line of the table, coloured by `series`, with its `name` where there are few; no raw logs."""
    labels, group = _text(name, "label"), _text(series, "name")
    rows = table.select(labels, group, _number(x, "x", log=log_x), _number(y, "y", log=log_y)).drop_nulls()
    base, names = alt.Chart(rows), list(dict.fromkeys(rows["name"]))
    across, up = _axis(alt.X, "x", x_title, log=log_x), _axis(alt.Y, "y", y_title, log=log_y)
    size = 50 if len(rows) <= _MANY_POINTS else 10
    layers = [base.mark_point(size=size, opacity=0.7).encode(across, up, _colors(names))]
    if name is not None and len(rows) <= _FEW_POINTS:
        layers.append(base.mark_text(align="left", dx=6, dy=-4).encode(across, up, alt.Text("label:N")))
    told = f"{heading}. {len(rows)} points, {y_title} against {x_title}."
    return kit.figure(heading, told, _HEIGHT + 60, *layers, note=note)


def _text(column: str | None, name: str) -> pl.Expr:
    return (pl.lit("") if column is None else pl.col(column).cast(pl.String).fill_null("")).alias(name)


def _number(column: str, name: str = "", *, log: bool = False) -> pl.Expr:
    """A number that an axis has a place for; null for all others."""
    number = pl.col(column).cast(pl.Float64)
    drawn = number.is_finite() & (number > 0) if log else number.is_finite()
    return pl.when(drawn).then(number).alias(name or column)


def _axis(channel: type[alt.X] | type[alt.Y], field: str, title: str, *, log: bool = False) -> alt.X | alt.Y:
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=True)
    return channel(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(grid=channel is alt.Y))


def _colors(names: Sequence[str]) -> alt.Color:
    """A colour for each name, with a legend inside the picture, which may stand alone."""
    colors = [kit.series_color(place) for place in range(len(names))]
    keys = alt.Legend(orient="bottom", title=None, columns=3, labelLimit=260, labelColor=kit.INK, symbolOpacity=1)
    scale = alt.Scale(domain=list(names), range=colors)
    return alt.Color("name:N", scale=scale, legend=keys if len(names) > 1 else None)


def _with_theirs(theirs: Sized, note: str) -> str:
    return f"Diamonds: published. {note}".strip() if len(theirs) else note


def _told(heading: str, rows: pl.DataFrame) -> str:
    """The chart in words, for those who cannot see it."""
    first, last = pl.col("x", "y").first().name.suffix("_first"), pl.col("x", "y").last()
    said = "; ".join(
        f"{one['name']}: {one['y_first']:.3g} at {one['x_first']:.3g} to {one['y']:.3g} at {one['x']:.3g}"
        for one in rows.group_by("name", maintain_order=True).agg(first, last).iter_rows(named=True)
    )
    return f"{heading}. {said or _NOTHING}."

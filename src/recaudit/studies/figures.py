"""Charts of studies: lines with intervals, points, bars and maps, from a table with the columns that are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from recaudit.report.kit import charts as kit

_HEIGHT = 220


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
    names = list(dict.fromkeys(table[series].cast(pl.String)))
    places = {name: place for place, name in enumerate(names)}
    banded = {"lower", "upper"} <= set(table.columns)
    ends = [pl.col("lower", "upper")] if banded else []
    rows = table.select(
        pl.col(series).cast(pl.String).alias("name"),
        pl.col(series).cast(pl.String).replace_strict(places, return_dtype=pl.Int64).alias("series"),
        pl.col(x).alias("x"),
        pl.col(y).alias("y"),
        *ends,
    ).filter(pl.col("y").is_finite())
    base = alt.Chart(rows)
    across = alt.X("x:Q", title=x_title, scale=alt.Scale(type="log") if log_x else alt.Scale(zero=False, nice=True))
    up = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(grid=True))
    color = _colors(names)
    layers = [
        base.mark_line(strokeWidth=2).encode(across, up, color),
        base.mark_point(size=30).encode(across, up, color),
    ]
    if banded:
        layers.insert(
            0, base.mark_area(opacity=0.15).encode(across, alt.Y("lower:Q", title=y_title), alt.Y2("upper:Q"), color)
        )
    theirs = [
        {"name": name, "series": places[name], "x": at, "y": value}
        for name, points in (published or {}).items()
        if name in places
        for at, value in points
    ]
    if theirs:
        drawn = alt.Chart(pl.DataFrame(theirs))
        layers.append(drawn.mark_point(shape="diamond", filled=False, size=80).encode(across, up, color))
    return kit.figure(heading, _told(heading, rows, theirs), _HEIGHT, *layers, note=_legend(names, theirs, note))


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
    ends = [pl.col(end) for end in ("lower", "upper") if end in table.columns]
    theirs = [] if published is None else [pl.col(published).alias("published")]
    rows = table.select(pl.col(name).cast(pl.String).alias("name"), pl.col(value).alias("value"), *ends, *theirs)
    base = alt.Chart(rows)
    y = kit.rows_of("name", rows["name"].to_list())
    layers = [base.mark_bar(height=10, fill=kit.ACCENT, opacity=0.8).encode(alt.X("value:Q", title=title), y)]
    if ends:
        layers.append(base.mark_rule(stroke=kit.INK).encode(alt.X("lower:Q", title=title), alt.X2("upper:Q"), y))
    if theirs:
        layers.append(
            base.mark_point(shape="diamond", filled=False, size=80, stroke=kit.UP).encode(
                alt.X("published:Q", title=title), y
            )
        )
        note = f"Diamonds: published. {note}".strip()
    described = "; ".join(
        f"{row['name']}: {row['value']:.3g}" for row in rows.iter_rows(named=True) if row["value"] is not None
    )
    return kit.figure(heading, f"{heading}. {described}.", kit.height_of(len(rows)), *layers, note=note)


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
    named = pl.lit("") if name is None else pl.col(name).cast(pl.String)
    group = pl.lit("") if series is None else pl.col(series).cast(pl.String)
    rows = table.select(named.alias("name"), group.alias("group"), pl.col(x).alias("x"), pl.col(y).alias("y"))
    rows = rows.filter(pl.col("x").is_finite() & pl.col("y").is_finite())
    names = list(dict.fromkeys(rows["group"]))
    places = {one: place for place, one in enumerate(names)}
    rows = rows.with_columns(pl.col("group").replace_strict(places, return_dtype=pl.Int64).alias("series"))
    base = alt.Chart(rows)
    across = alt.X("x:Q", title=x_title, scale=alt.Scale(type="log") if log_x else alt.Scale(zero=False, nice=True))
    up = alt.Y(
        "y:Q",
        title=y_title,
        scale=alt.Scale(type="log") if log_y else alt.Scale(zero=False, nice=True),
        axis=alt.Axis(grid=True),
    )
    size = 50 if len(rows) <= 60 else 10
    layers = [base.mark_point(size=size, opacity=0.7).encode(across, up, _colors(names))]
    if name is not None and len(rows) <= 30:
        layers.append(base.mark_text(align="left", dx=6, dy=-4).encode(across, up, alt.Text("name:N")))
    told = f"{heading}. {len(rows)} points, {x_title} against {y_title}."
    return kit.figure(heading, told, _HEIGHT + 60, *layers, note=_legend(names, [], note) if series else note)


def _colors(names: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(range(len(names))), range=[kit.series_color(place) for place in range(len(names))])
    return alt.Color("series:O", scale=scale, legend=None)


_COLORS = ("blue", "orange", "green", "pink", "ochre", "light blue", "violet", "grey")
"""What the colours of series are called: the legend of a picture that stands alone."""


def _legend(names: Sequence[str], theirs: Sequence[object], note: str) -> str:
    said = ", ".join(f"{name} ({_COLORS[place % len(_COLORS)]})" for place, name in enumerate(names))
    return f"{said}.{' Diamonds: published.' if theirs else ''} {note}".strip()


def _told(heading: str, rows: pl.DataFrame, theirs: Sequence[Mapping[str, Any]]) -> str:
    """The chart in words, for those who cannot see it."""
    ends = rows.group_by("name", maintain_order=True).agg(
        pl.col("x", "y").first().name.suffix("_a"), pl.col("x", "y").last()
    )
    said = "; ".join(
        f"{one['name']}: {one['y_a']:.3g} at {one['x_a']:.3g} to {one['y']:.3g} at {one['x']:.3g}"
        for one in ends.iter_rows(named=True)
    )
    return f"{heading}. {said}.{' With published points.' if theirs else ''}"

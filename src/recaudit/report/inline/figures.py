"""Charts that stand alone in a notebook: rows with intervals, shares beside what they were, lines, a histogram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10

import altair as alt
import polars as pl

from recaudit.metrics.metric import Metric
from recaudit.metrics.numbers import TIMES, percent, times
from recaudit.report.inline.card import Drawing
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import Estimate, plural

_HEIGHT = 200
_BANDS = 3
"""Lines of which the bands can be told apart."""
_FEW = 20
"""Points of a line that are marked."""
_STEPS = 5
"""Bars of a histogram for each power of ten."""


def interval_rows(heading: str, metric: Metric, estimates: Mapping[str, Estimate]) -> Drawing:
    """A row for each name: the value as a point, its interval as a bar."""
    rows: kit.Rows = [{"name": name, **kit.drawn(own)} for name, own in estimates.items()]
    axis, scale = kit.value_axis(metric, grid=True), alt.Scale(zero=False, nice=True)
    value, lower = kit.across("value", "lower", axis=axis, scale=scale)
    base, y = kit.chart(rows), kit.rows_of("name", list(estimates))
    said = "; ".join(f"{row['name']}: {row['told']}" for row in rows)
    layers = [
        base.mark_rule(strokeWidth=3, opacity=0.45, stroke=kit.ACCENT).encode(lower, alt.X2("upper:Q"), y),
        base.mark_point(size=60, fill=kit.ACCENT).encode(value, y),
    ]
    return Drawing(kit.figure(heading, f"{heading}. {said}.", kit.height_of(len(rows)), *layers))


def shares(heading: str, estimates: Mapping[str, Estimate], shown: str, before: str) -> Drawing:
    """A row for each name: its share as a bar, and what it is compared with as a mark."""
    found = [(name, own.value, own.baseline) for name, own in estimates.items()]
    names = [name for name, _, _ in found][: kit.MOST_CATEGORIES]
    rows: kit.Rows = [{"name": name, "value": value, "baseline": was} for name, value, was in found if name in names]
    axis = alt.Axis(format="%", grid=True)
    value, was = kit.across("value", "baseline", axis=axis, scale=alt.Scale(zero=True), stack=None)
    base, y = kit.chart(rows), kit.rows_of("name", names)
    said = "; ".join(
        f"{name}: {percent(value or 0)} {shown}, {percent(was or 0)} {before}" for name, value, was in found
    )
    note = f"The {len(names)} most shown of {len(found):,}." if len(found) > len(names) else ""
    layers = [
        base.mark_bar(height=12, fill=kit.ACCENT, opacity=0.75).encode(value, y),
        base.mark_tick(thickness=3, opacity=1, stroke=kit.UP, fill=kit.UP, bandSize=kit.CLOSE_ROW).encode(was, y),
    ]
    figure = kit.figure(heading, f"{heading}. {said}.", kit.height_of(len(rows)), *layers, note=note)
    return Drawing(figure, ((kit.ACCENT, shown), (kit.UP, before)))


def lines(heading: str, table: pl.DataFrame, names: Sequence[str], x: str, y: str, *, percent: bool = False) -> Drawing:
    """A line for each name, of few with its band: columns `name`, `at`, `value`, `lower` and `upper`."""
    place = pl.col("name").replace_strict(dict(zip(names, range(len(names)), strict=True)), return_dtype=pl.Int64)
    rows = table.with_columns(series=place).drop("name")
    colors = {name: kit.series_color(own) for own, name in enumerate(names)}
    across = alt.X("at:Q", title=x, scale=alt.Scale(zero=False, nice=False))
    axis = alt.Axis(grid=True, tickCount=5, format="%" if percent else alt.Undefined)
    up, low = (alt.Y(f"{end}:Q", title=y, scale=alt.Scale(zero=False), axis=axis) for end in ("value", "lower"))
    base, color = alt.Chart(rows), kit.by_series(colors)
    bands = [base.mark_area(opacity=0.15).encode(across, low, alt.Y2("upper:Q"), color)]
    layers = [
        *(bands if len(names) <= _BANDS else []),
        base.mark_line(strokeWidth=2, point={"size": 20} if rows["at"].n_unique() <= _FEW else False).encode(
            across, up, color
        ),
    ]
    last = table.group_by("name", maintain_order=True).agg(pl.col("at", "value").last())
    said = "; ".join(f"{row['name'] or y}: {row['value']:.3g} at {row['at']:g}" for row in last.iter_rows(named=True))
    key = [(color, name) for name, color in colors.items()] if len(names) > 1 else []
    return Drawing(kit.figure(heading, f"{heading}. At the end: {said}.", _HEIGHT, *layers), key)


def lifts(pairs: pl.LazyFrame) -> Drawing | None:
    """How many pairs can be made so many times likelier: bars on a scale of powers of ten."""
    finite = pairs.filter(pl.col("lift").is_finite() & (pl.col("lift") > 0))
    step = (pl.col("lift").log10() * _STEPS).floor().cast(pl.Int64)
    counts = finite.group_by(step=step).agg(pairs=pl.len()).sort("step").collect()
    if counts.is_empty():
        return None
    drawn = counts.select("pairs", x=10.0 ** (pl.col("step") / _STEPS), x2=10.0 ** ((pl.col("step") + 1) / _STEPS))
    low, high = min(0.5, drawn["x"][0]), max(2.0, drawn["x2"][-1])
    y = alt.Y("pairs:Q", title="pairs", axis=alt.Axis(grid=True, tickCount=4, tickMinStep=1))
    x = kit.log_axis("x", "how many times likelier at best", low, high, ",~r", TIMES)
    bars = (
        alt.Chart(drawn)
        .mark_bar(opacity=0.75, fill=kit.ACCENT, orient="vertical")
        .encode(x, alt.X2("x2:Q"), y, alt.Y2Datum(0))
    )
    one = kit.chart([{"x": 1.0}]).mark_rule(stroke=kit.INK, strokeDash=[3, 3]).encode(x)
    total, above = int(drawn["pairs"].sum()), finite.filter(pl.col("lift") > 1).select(pl.len()).collect().item()
    most = 10.0 ** floor(log10(high))
    about = f"{above:,} of {plural(total, 'pair')} can be made likelier than now; the axis ends beyond {times(most)}."
    return Drawing(kit.figure("How much likelier people can make an item", about, 150, bars, one))

"""The answer of an audit in a notebook."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import polars as pl

from recaudit.audits.result import Result
from recaudit.metrics.groupings import told_names
from recaudit.report.inline.card import Card, CardTable, Drawing, number, people, stands
from recaudit.report.inline.figures import interval_rows, lifts, lines, shares
from recaudit.report.kit.numbers import Estimate, plural, standing

_FIRST = ("ndcg",)
"""Of several metrics that a chart could show, the ones that are shown before others."""


def shown_result(result: Result) -> str:
    """The audit's question, its numbers with intervals, the chart that says most, and what all of it rests on."""
    head, *notes = result.heading()
    terms = [(own.titled(result.settings.get("k")), f"{own.definition} {own.range}") for own in result.metrics.values()]
    drawn = next(filter(None, (draw(result) for draw in _CHARTS)), None)
    return Card(
        title=result.kind.replace("-", " ").capitalize(),
        question=(inspect.getdoc(type(result.audit)) or "").partition("\n")[0],
        asked=head.partition("(")[2].removesuffix(")"),
        tables=[_summary(result) if len(result.frame) else _curve(result)],
        drawings=[drawn] if drawn else [],
        notes=[*_asked(result), *(note.strip() for note in notes)],
        terms=terms,
    ).html


def _asked(result: Result) -> list[str]:
    """How many pairs there are of each status; of an audit of several questions, for each of them."""
    counts = result.facts.get("statuses", {})
    several = any(isinstance(own, Mapping) for own in counts.values())
    each = (
        {result.metrics[name].titled(result.settings.get("k")): own for name, own in counts.items()} if several else {}
    )
    told = each or ({"Asked about": counts} if counts else {})
    return [f"{what}: {plural(sum(own.values()), 'pair')}, {standing(own)}." for what, own in told.items()]


def _estimates(result: Result, rows: pl.DataFrame) -> list[Estimate]:
    return [Estimate.of(result.metrics[row["metric"]], row) for row in rows.iter_rows(named=True)]


def _summary(result: Result) -> CardTable:
    rows = [
        (
            own.metric.titled(result.settings.get("k")),
            *number(own),
            own.compared if own.baseline is not None else "",
            people(own.users),
            f"{own.excluded:,}" if own.excluded else "",
            stands(own),
        )
        for own in _estimates(result, result.frame)
    ]
    interval = f"{result.audit.confidence:.0%} interval"
    return CardTable(("", "value", interval, "before", "people", "left out", "note"), rows, words=("note",))


def _curve(result: Result) -> CardTable:
    """Of a sweep, a row a point and metric."""
    points = result.series
    rows = [
        (
            f"{over} {at:g}",
            own.metric.titled(result.settings.get("k")),
            *number(own),
            people(own.users),
            stands(own),
        )
        for over, at, own in zip(points["over"], points["at"], _estimates(result, points), strict=True)
    ]
    interval = f"{result.audit.confidence:.0%} interval"
    return CardTable(("", "number", "value", interval, "people", "note"), rows, words=("number", "note"))


def _by_category(result: Result) -> Drawing | None:
    """What lists show of each category, beside its share of the log."""
    rows = result.groups.filter((pl.col("metric") == "share") & (pl.col("by") != "popularity")).drop_nulls("value")
    if rows.is_empty():
        return None
    by = rows["by"][0]
    rows = rows.filter(by=by).sort("value", descending=True, maintain_order=True)
    found = dict(zip(rows["group"], _estimates(result, rows), strict=True))
    return shares(f"What is shown, by {by}", found, "of the recommendations", "of all ratings")


def _likelier(result: Result) -> Drawing | None:
    if not result.has_table("pairs") or "lift" not in result.scan("pairs").collect_schema():
        return None
    return lifts(result.scan("pairs"))


def _along(result: Result) -> Drawing | None:
    """The first metric that was measured at several points."""
    points = result.series.drop_nulls("value")
    for name, metric in result.metrics.items():
        own = points.filter(pl.col("metric") == name, pl.col("over") == pl.col("over").first().over("metric"))
        own = own.unique("at", keep="first", maintain_order=True)
        if len(own) > 1:
            over, label = str(own["over"][0]).replace("_", " "), metric.titled(result.settings.get("k"))
            table = own.with_columns(pl.lit("").alias("name")).select("name", "at", "value", "lower", "upper")
            share = metric.format in ("share", "chance")
            return lines(f"{label} by {over}", table, [""], over, label, percent=share)
    return None


def _by_group(result: Result) -> Drawing | None:
    """The first metric that groups of people have, for the first way of grouping them."""
    rows = result.groups.drop_nulls("value")
    ways = sorted(rows["by"].unique(maintain_order=True), key=lambda by: by != "history")
    for name in sorted(result.metrics, key=lambda name: name not in _FIRST):
        for by in ways:
            own = rows.filter(metric=name, by=by).sort("group")
            if len(own) > 1:
                metric, names = result.metrics[name], told_names(own["group"].to_list()).values()
                heading = f"{metric.titled(result.settings.get('k'))} by {by}"
                return interval_rows(heading, metric, dict(zip(names, _estimates(result, own), strict=True)))
    return None


_CHARTS: tuple[Callable[[Result], Drawing | None], ...] = (_by_category, _likelier, _along, _by_group)
"""The first of these that has something to draw is drawn."""

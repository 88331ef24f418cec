"""Models side by side, over all and group by group: the tables and charts that any audit can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, final

import altair as alt

from recaudit.report.evidence import Evidence
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, plural
from recaudit.status import Status

_NOT_RUN = "this audit was not run for the model"
_RAW = ("value", "lower", "upper", "baseline")
_FIRST = 3
"""Of many models, so many of the best have a colour of their own, besides those that do not personalise."""
MOST_ROWS = 10
"""How many users or items a table lists."""

Mark = Literal["", "best", "near"]


@final
@dataclass(frozen=True)
class TableCell:
    """One number: its text, its interval, whether it is the best of its column, or why there is none."""

    text: str
    interval: str = ""
    before: str = ""
    """What the number was without what is looked at, where that is the comparison."""
    mark: Mark = ""
    reason: str = ""
    few: str = ""
    """How many users it stands on, where these are too few for a finding."""
    published: str = ""
    raw: Mapping[str, float | str] = field(default_factory=dict)
    """What the text was rounded from, under `value`, and what belongs to it; for downloads."""


class TableRow(NamedTuple):
    """A line of a table: what it is about, and its cells."""

    name: str
    cells: list[TableCell]
    reference: bool = False


class NumberTable(NamedTuple):
    """Lines under headings, the first of which is that of the lines' names."""

    caption: str
    columns: list[str]
    rows: list[TableRow]
    names: list[str] | None = None
    """What programs call the columns, where that is not their headings."""


class Overview(NamedTuple):
    """Metrics by model: a column each, under the metric's label and with its definition a click away."""

    metrics: list[str]
    labels: list[str]
    rows: list[TableRow]


def cell(estimate: Estimate | None, mark: Mark = "", reason: str = _NOT_RUN) -> TableCell:
    """A number with its interval, or `n/a` with the reason."""
    if estimate is None or estimate.value is None:
        return TableCell(NOT_AVAILABLE, reason=reason)
    found = {name: getattr(estimate, name) for name in _RAW}
    raw = {name: number for name, number in found.items() if number is not None}
    raw |= {} if estimate.status == Status.SOLVED else {"status": estimate.status}
    return TableCell(estimate.text, estimate.interval, estimate.before, mark, raw=raw)


def number_cell(value: float | None, written: Callable[[Any], str]) -> TableCell:
    """A number that is no estimate, as it is and as it is written, or `n/a`."""
    if value is None:
        return TableCell(NOT_AVAILABLE, reason="there was nothing to measure")
    return TableCell(written(value), raw={"value": value})


def user_cell(estimate: Estimate | None, mark: Mark = "", reason: str = _NOT_RUN) -> TableCell:
    """A number over users: with how many they are, where they are too few for a finding."""
    made = cell(estimate, mark, reason)
    if estimate is None or made.reason:
        return made
    few = "" if estimate.rests_on_enough else plural(estimate.users, "user")
    return replace(made, few=few, raw={**made.raw, "users": estimate.users})


def overview(
    evidence: Evidence, audit: str, metrics: list[str] | None = None, *, everybody: bool = False, marked: bool = False
) -> Overview:
    """A line for each model that was audited, or for `everybody`; the best of a column is `marked`."""
    metrics = evidence.metrics(audit) if metrics is None else metrics
    marks = {metric: _marks(evidence, metric, audit) if marked else {} for metric in metrics}

    def made(model: str, metric: str) -> TableCell:
        found, mark = evidence.overall(model, metric, audit), marks[metric].get(model, "")
        return user_cell(found, mark, evidence.reason(model, metric, audit))

    rows = [
        TableRow(model, [made(model, metric) for metric in metrics], everybody and model in evidence.references)
        for model in evidence.models
        if everybody or audit in evidence.run.audits(model)
    ]
    return Overview(metrics, [evidence.label(metric, audit) for metric in metrics], rows)


def _marks(evidence: Evidence, metric: str, audit: str) -> dict[str, Mark]:
    """The best of several models, and those whose interval overlaps with its."""
    known = evidence.known(metric, audit)
    if len(known) < 2 or evidence.definitions[metric].better == "neither":
        return {}
    best = known[evidence.ranked(metric, audit)[0]]
    near = {model for model, own in known.items() if own.interval and best.interval and not own.apart_from(best)}
    marks: dict[str, Mark] = {model: "near" if model in near else "" for model in known}
    return marks | {model: "best" for model, own in known.items() if own.text == best.text}


def group_tables(evidence: Evidence, metrics: list[str], groupings: list[str], audit: str = "") -> list[NumberTable]:
    """A table for each metric and way of grouping that there are numbers of."""
    found = [_group_table(evidence, metric, by, audit) for metric in metrics for by in groupings]
    return [table for table in found if table.rows]


def _group_table(evidence: Evidence, metric: str, by: str, audit: str) -> NumberTable:
    """One metric in every group for every model that has it; with the share of ratings first where it compares."""
    named: dict[str, dict[str, Estimate]] = {}
    for model in evidence.models:
        for group in evidence.groups(model, metric, by, audit):
            named.setdefault(group.name, {})[model] = group.estimate
    models = [model for model in evidence.models if any(model in found for found in named.values())]
    compares = ["ratings in the data"] if metric == "share" else []
    rows = []
    for name, found in named.items():
        own = next(iter(found.values()))
        baseline = [number_cell(own.baseline, own.metric.written) for _ in compares]
        rows.append(TableRow(name, [*baseline, *(user_cell(found.get(model)) for model in models)]))
    caption, columns = f"{evidence.label(metric, audit)} by {by}", [*compares, *models]
    if len(columns) <= max(len(rows), kit.SERIES):
        return NumberTable(caption, [by, *columns], rows)
    turned = [TableRow(name, [row.cells[place] for row in rows]) for place, name in enumerate(columns)]
    return NumberTable(caption, ["model", *(row.name for row in rows)], turned)


class ByGroup(NamedTuple):
    """One metric by group: a chart for each grouping, and all numbers."""

    metric: str
    figures: list[kit.Figure]
    tables: list[NumberTable]
    rival: str | None = None
    """The reference that the figures set beside the main model, where it has such numbers."""
    others: bool = False
    """Whether the figures show further models."""


def by_group(
    evidence: Evidence, metric: str, groupings: list[str], audit: str = "", before: str = ""
) -> ByGroup | None:
    """Charts of all models, or `before` and after of the one that is named; None where there are no numbers."""
    tables = group_tables(evidence, [metric], groupings, audit)
    if not tables:
        return None
    shown = {model for model in evidence.models for by in groupings if evidence.groups(model, metric, by, audit)}
    rival = evidence.rival if evidence.rival in shown else None
    figures = kit.existing(
        before_and_after(evidence, before, metric, by) if before else groups_by(evidence, metric, by, audit)
        for by in groupings
    )
    return ByGroup(metric, figures, tables, rival, bool(shown - {evidence.main, rival}))


def groups_by(evidence: Evidence, metric: str, by: str, audit: str = "") -> kit.Figure | None:
    """The main model with its interval in each group; the reference and the other models beside it."""
    groups = evidence.groups(evidence.main, metric, by, audit)
    if len(groups) < 2:
        return None
    names = [group.name for group in groups]
    roles = {evidence.rival: "rival", evidence.main: "main"}
    rows: kit.Rows = [
        {"group": group.name, "model": model, "role": roles.get(model, "other"), **kit.drawn(group.estimate)}
        for model in reversed(evidence.models)
        for group in evidence.groups(model, metric, by, audit)
        if group.name in names
    ]
    axis, scale = kit.value_axis(evidence.definitions[metric]), alt.Scale(zero=True, nice=True)
    x, lower = kit.across("value", "lower", axis=axis, scale=scale)
    y, told = kit.rows_of("group", names), kit.tooltip("group", "model")
    others, rival, main = (kit.chart([row for row in rows if row["role"] == own]) for own in ("other", "rival", "main"))
    return kit.figure(
        f"By {by}",
        f"{evidence.label(metric, audit)} of {evidence.main} by {by}: "
        f"{', '.join(f'{group.name} {group.estimate.text}' for group in groups)}.",
        kit.height_of(len(names), 4),
        others.mark_point(size=22, fill=kit.MUTED, opacity=0.55).encode(x, y, tooltip=told),
        rival.mark_point(size=60, shape="diamond", fill=kit.INK).encode(x, y, tooltip=told),
        main.mark_rule(strokeWidth=2, stroke=kit.ACCENT).encode(lower, alt.X2("upper:Q"), y),
        main.mark_point(size=80, fill=kit.ACCENT).encode(x, y, tooltip=told),
        title=f"{evidence.label(metric, audit)} by {by}",
    )


def before_and_after(evidence: Evidence, model: str, metric: str, by: str) -> kit.Figure | None:
    """Without strategy and at best in each group: a ring and a dot (paper 000, Figures 7 and 9)."""
    groups = [group for group in evidence.groups(model, metric, by) if group.estimate.baseline is not None]
    if len(groups) < 2:
        return None
    groups = groups[: kit.MOST_CATEGORIES]
    names = [group.name for group in groups]
    rows: kit.Rows = []
    for group in groups:
        own = group.estimate
        change = {"before": own.baseline, **kit.drawn(own), "told": f"{own.compared} to {own.full}"}
        rows.append({"group": group.name, **change})
    axis, scale = alt.Axis(format="%", labelFlush=False), alt.Scale(zero=True, nice=True)
    y = kit.rows_of("group", names)
    best, before, ends = kit.across("value", "before", "lower", axis=axis, scale=scale)
    base, told = kit.chart(rows), kit.tooltip("group")
    numbers = [f"{row['group']} {row['told']}" for row in rows]
    return kit.figure(
        f"By {by}",
        f"{evidence.label(metric)} with {model} by {by}, without strategy and at best: {'; '.join(numbers)}.",
        kit.height_of(len(names), 4),
        base.mark_rule(strokeWidth=1, stroke=kit.MUTED).encode(before, alt.X2("value:Q"), y),
        base.mark_rule(strokeWidth=2, stroke=kit.ACCENT).encode(ends, alt.X2("upper:Q"), y),
        base.mark_point(size=60, fill=kit.PAPER, stroke=kit.INK, strokeWidth=1.5).encode(before, y, tooltip=told),
        base.mark_point(size=80, fill=kit.ACCENT).encode(best, y, tooltip=told),
        title=f"{evidence.label(metric)} with {model} by {by}",
    )


def figures_by_model(evidence: Evidence, audit: str, metrics: list[str] | None = None) -> list[kit.Figure]:
    """A chart for each metric of the audit that any model has a value of; a model alone has its numbers in a table."""
    wanted = evidence.metrics(audit) if metrics is None else metrics
    if len(evidence.models) < 2:
        return []
    return [models_by(evidence, metric, audit) for metric in wanted if evidence.known(metric, audit)]


def models_by(evidence: Evidence, metric: str, audit: str = "") -> kit.Figure:
    """A dot and its interval for each model; a reference too far off to be drawn with the others stands at the edge."""
    known = evidence.known(metric, audit)
    off = _far_off(evidence, known)
    rows: kit.Rows = [
        {"model": model, "main": model == evidence.main, **kit.drawn(None if model in off else known.get(model))}
        for model in evidence.models
    ]
    arrows = {"left": "← {}", "right": "{} →"}
    notes = {model: arrows[side].format(known[model].text) for model, side in off.items()}
    notes |= {model: NOT_AVAILABLE for model in evidence.models if model not in known}
    y, told = kit.rows_of("model", evidence.models), kit.tooltip("model")
    axis, scale = kit.value_axis(evidence.definitions[metric]), alt.Scale(zero=False, nice=True)
    ends, x = kit.across("lower", "value", axis=axis, scale=scale)
    base = kit.chart(rows)
    layers = [
        base.mark_rule(strokeWidth=2).encode(ends, alt.X2("upper:Q"), y, main_stands_out()),
        base.mark_point(size=70).encode(x, y, main_stands_out(), told),
    ]
    for right, place in ((False, {"x": 4, "align": "left"}), (True, {"x": "width", "align": "right"})):
        beyond = [model for model in evidence.models if model in notes and (off.get(model) == "right") == right]
        if edge := [{"model": model, "note": notes[model], "right": right} for model in beyond]:
            layers.append(kit.chart(edge).mark_text(fill=kit.MUTED, **place).encode(y, alt.Text("note:N")))
    better = evidence.definitions[metric].better
    numbers = ", ".join(f"{model} {estimate.text}" for model, estimate in known.items())
    heading = evidence.label(metric, audit)
    about = f"{heading} of each model{'' if better == 'neither' else f', {better} is better'}: {numbers}."
    return kit.figure(heading, about, kit.height_of(len(rows)), *layers, metric=metric)


def model_colors(evidence: Evidence) -> dict[str, str]:
    """The colour of each model's lines, on the whole page."""
    return kit.series_colors(evidence.models, [*evidence.models[:_FIRST], *evidence.references])


def main_stands_out() -> alt.Color:
    """The main model in colour, for rows with the field `main`."""
    return alt.Color("main:N", scale=alt.Scale(domain=[True, False], range=[kit.ACCENT, kit.INK]), legend=None)


def _far_off(evidence: Evidence, known: dict[str, Estimate]) -> dict[str, str]:
    """References further from the personalised models than twice the range these span, and on which side."""
    values = [known[model].value or 0.0 for model in evidence.personalised if model in known]
    if len(values) < 3:
        return {}
    reach = 2 * (max(values) - min(values))
    low, high = min(values) - reach, max(values) + reach
    found = {model: known[model].value or 0.0 for model in evidence.references if model in known}
    return {model: "left" if value < low else "right" for model, value in found.items() if not low <= value <= high}

"""Models side by side, over all and group by group: the charts and tables that any audit can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import altair as alt

from recaudit.report.evidence import Evidence
from recaudit.report.kit import charts as kit
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate
from recaudit.report.kit.tables import NumberTable, group_tables

Edge = Literal["right", "left"]


@final
@dataclass(frozen=True)
class ByGroup:
    """One metric by group: a chart for each grouping, and all numbers."""

    metric: str
    label: str
    figures: list[kit.Figure]
    tables: list[NumberTable]
    rival: str | None = None
    """The reference that the figures set beside the main model, where it has such numbers."""
    others: bool = False
    """Whether the figures show further models."""


def by_group(evidence: Evidence, metric: str, groupings: list[str], audit: str = "") -> ByGroup | None:
    """None where there are no numbers."""
    figures = [figure for by in groupings if (figure := groups_by(evidence, metric, by, audit)) is not None]
    tables = group_tables(evidence, [metric], groupings, audit)
    if not tables:
        return None
    shown = {model for model in evidence.models if any(evidence.groups(model, metric, by, audit) for by in groupings)}
    rival = evidence.rival if evidence.rival in shown else None
    others = bool(shown - {evidence.main, rival})
    return ByGroup(metric, evidence.label(metric, audit), figures, tables, rival, others)


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
    others, rival, main = (
        kit.chart([row for row in rows if row["role"] == role]) for role in ("other", "rival", "main")
    )
    return kit.figure(
        f"By {by}",
        f"{evidence.label(metric, audit)} of {evidence.main} by {by}: "
        f"{', '.join(f'{group.name} {group.estimate.text}' for group in groups)}.",
        (kit.ROW + 4) * len(names),
        others.mark_point(size=22, fill=kit.MUTED, opacity=0.55).encode(x, y, tooltip=told),
        rival.mark_point(size=60, shape="diamond", fill=kit.INK).encode(x, y, tooltip=told),
        main.mark_rule(strokeWidth=2, stroke=kit.ACCENT).encode(lower, alt.X2("upper:Q"), y),
        main.mark_point(size=80, fill=kit.ACCENT).encode(x, y, tooltip=told),
    )


def figures_by_model(evidence: Evidence, audit: str, metrics: list[str] | None = None) -> list[kit.Figure]:
    """A chart for each metric of the audit that any model has a value of."""
    wanted = evidence.metrics(audit) if metrics is None else metrics
    return [models_by(evidence, metric, audit) for metric in wanted if evidence.known(metric, audit)]


def models_by(evidence: Evidence, metric: str, audit: str = "") -> kit.Figure:
    """A dot and its interval for each model.

    A reference that lies so far off that it would press the others together is written at the edge instead.
    """
    known = evidence.known(metric, audit)
    off = _far_off(evidence, known)
    rows: kit.Rows = [
        {"model": model, "main": model == evidence.main, **kit.drawn(None if model in off else known.get(model))}
        for model in evidence.models
    ]
    arrows = {"left": "← {}", "right": "{} →"}
    notes = {model: arrows[side].format(known[model].text) for model, side in off.items()}
    notes |= {model: NOT_AVAILABLE for model in evidence.models if model not in known}
    y = kit.rows_of("model", evidence.models)
    axis, scale = kit.value_axis(evidence.definitions[metric]), alt.Scale(zero=False, nice=True)
    ends, x = kit.across("lower", "value", axis=axis, scale=scale)
    base = kit.chart(rows)
    layers = [
        base.mark_rule(strokeWidth=2).encode(ends, alt.X2("upper:Q"), y, main_stands_out()),
        base.mark_point(size=70).encode(x, y, main_stands_out(), kit.tooltip("model")),
    ]
    for right, place in ((False, {"x": 4, "align": "left"}), (True, {"x": "width", "align": "right"})):
        edge: kit.Rows = [
            {"model": model, "note": notes[model], "right": right}
            for model in evidence.models
            if model in notes and (off.get(model) == "right") == right
        ]
        if edge:
            layers.append(kit.chart(edge).mark_text(fill=kit.MUTED, **place).encode(y, alt.Text("note:N")))
    better = evidence.definitions[metric].better
    told = [f"{model} {estimate.text}" for model, estimate in known.items()]
    heading = evidence.label(metric, audit)
    return kit.figure(
        heading,
        f"{heading} of each model{'' if better == 'neither' else f', {better} is better'}: {', '.join(told)}.",
        kit.ROW * len(rows),
        *layers,
        metric=metric,
    )


def main_stands_out() -> alt.Color:
    """The main model in colour, for rows with the field `main`."""
    return alt.Color("main:N", scale=alt.Scale(domain=[True, False], range=[kit.ACCENT, kit.INK]), legend=None)


def _far_off(evidence: Evidence, known: dict[str, Estimate]) -> dict[str, Edge]:
    """References further from the personalised models than twice the range these span, and on which side."""
    values = [known[model].value or 0.0 for model in evidence.personalised if model in known]
    if len(values) < 3:
        return {}
    low, high = min(values), max(values)
    reach = 2 * (high - low)
    found = {model: known[model].value or 0.0 for model in evidence.references if model in known}
    off: dict[str, Edge] = {model: "left" for model, value in found.items() if value < low - reach}
    return off | {model: "right" for model, value in found.items() if value > high + reach}

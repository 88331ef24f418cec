"""What mitigation costs and gives: each lever before and after in the eyes of all audits, and along its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, final

import altair as alt
import polars as pl

from recaudit.audits.mitigation.definitions import CHANGING
from recaudit.metrics.groupings import told_names
from recaudit.metrics.inference import adjust_by_holm, compute_interval_p_value
from recaudit.metrics.numbers import minus
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit import charts as kit
from recaudit.report.kit.claims import LEVEL
from recaudit.report.kit.comparisons import NumberTable, TableCell, TableRow, cell, model_colors, user_cell
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, plural
from recaudit.report.sections.section import Section
from recaudit.status import Status

AUDIT = "mitigation"
LEVERS: Mapping[str, tuple[str, str]] = {
    "weight": ("Calibrated re-ranking", "weight of calibration"),
    "unobserved_weight": ("Weight of unobserved pairs", "weight"),
    "beta": ("Temperature of the policy", "beta"),
}
"""By what is varied: the lever, and what its settings are called."""
_HEIGHT = 260

Verdict = Literal["", "gain", "cost"]


class LeverChange(NamedTuple):
    """One number before and after: the difference, and whether that is a gain or a cost; or why there is none."""

    before: str = ""
    after: str = ""
    difference: str = ""
    interval: str = ""
    verdict: Verdict = ""
    bounded: bool = False
    """Whether a lower bound is behind it: the difference may be off either way, and gets no verdict."""
    few: str = ""
    """How many users it stands on, where these are too few for a verdict."""
    reason: str = ""
    raw: Mapping[str, float] = MappingProxyType({})
    """The numbers themselves, for a file."""


class TurnedLever(NamedTuple):
    """One lever at the setting that was picked, and along all settings."""

    over: str
    name: str
    setting: str
    """From which value to which."""
    changes: Mapping[str, LeverChange]
    curve: NumberTable


@final
@dataclass(frozen=True, eq=False)
class Levers:
    """One model's levers."""

    evidence: Evidence
    model: str
    series: pl.DataFrame
    changes: pl.DataFrame
    people: pl.DataFrame
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, evidence: Evidence, model: str) -> Levers:
        """Read a finished audit."""
        series, changes = (evidence.table(model, AUDIT, name, SERIES_SCHEMA) for name in ("series", "changes"))
        people = evidence.table(model, AUDIT, "group_changes", {**GROUP_SCHEMA, "over": pl.String}).filter(
            metric=QUALITY
        )
        return cls(evidence, model, series, changes, people, evidence.facts(model, AUDIT))

    @property
    def names(self) -> list[str]:
        """The levers that were turned."""
        return [lever for lever in self.facts["picked"] if lever in LEVERS]

    def turned(self, lever: str) -> TurnedLever:
        """One lever, before and at the setting that was picked."""
        start, at = (self.facts[when][lever] for when in ("before", "picked"))
        after = {row["metric"]: row for row in self.series.filter(over=lever, at=at).iter_rows(named=True)}
        changes = {
            row["metric"]: self._change(row, after[row["metric"]])
            for row in self.changes.filter(over=lever, at=at).iter_rows(named=True)
            if row["metric"] in after and row["value"] is not None
        }
        name, setting = LEVERS[lever]
        return TurnedLever(lever, name, f"{setting} {start:.3g} → {at:.3g}", changes, self._curve(lever))

    @property
    def groups(self) -> NumberTable | None:
        """The change of ranking quality by group of users, a column for each lever; None where nobody is grouped."""
        found: dict[str, dict[str, TableCell]] = {}
        slices = self.people.group_by("by", maintain_order=True)
        names = {by[0]: told_names(own["group"].unique(maintain_order=True).to_list()) for by, own in slices}
        for row in self.people.drop_nulls("value").iter_rows(named=True):
            name = f"{row['by']}: {names[row['by']][row['group']]}"
            change = self._change(row, row)
            found.setdefault(name, {})[row["over"]] = TableCell(change.difference, change.interval, few=change.few)
        rows = [TableRow(name, [own.get(lever, cell(None)) for lever in self.names]) for name, own in found.items()]
        label, levers = self.evidence.label(QUALITY, AUDIT), [LEVERS[own][0] for own in self.names]
        return NumberTable(f"Change of {label} by group of users", ["group", *levers], rows) if rows else None

    def absent(self, lever: str, metric: str) -> LeverChange:
        """That a lever has no such number, and why."""
        lacking = {**self.facts["left_out"], **self.facts["not_asked"]}
        named = {name: why for why, names in lacking.items() for name in names}
        return LeverChange(reason=named.get(f"{metric} ({lever})") or named.get(metric, "there was nothing to measure"))

    def _change(self, row: Mapping[str, Any], after: Mapping[str, Any]) -> LeverChange:
        gained = Estimate.of(self.evidence.definitions[row["metric"]], row)
        metric = gained.metric
        few = "" if gained.rests_on_enough else plural(gained.users, "user")
        verdict: Verdict = ""
        bounded = gained.status == Status.BOUNDED
        p = self.evidence.remember(_compute_adjusted_p_values).get(_key(self.model, row), 1.0)
        if not (few or bounded) and metric.better != "neither" and p <= LEVEL:
            verdict = "gain" if ((gained.value or 0.0) > 0) == (metric.better == "higher") else "cost"
        raw = {"value": after["value"], "before": gained.baseline, "difference": gained.value}
        raw |= {"lower": gained.lower, "upper": gained.upper}
        unit, ends = _difference(metric.format, gained.value, gained.lower, gained.upper)
        return LeverChange(
            before=gained.compared,
            after=NOT_AVAILABLE if after["value"] is None else metric.written(after["value"]),
            difference=f"{ends[0]}{unit}",
            interval=f"[{ends[1]}, {ends[2]}]" if len(ends) > 1 else "",
            verdict=verdict,
            bounded=bounded,
            few=few,
            raw={name: value for name, value in raw.items() if value is not None},
        )

    def _curve(self, lever: str) -> NumberTable:
        """Every number at every setting, a column each."""
        rows, evidence = self.series.filter(over=lever), self.evidence
        marks = {self.facts["before"][lever]: ", as it is", self.facts["picked"][lever]: ", picked"}
        settings = rows["at"].unique().sort().to_list()
        # A best case would be written after its baseline, which here is another setting's.
        found = {(row["metric"], row["at"]): {**row, "baseline": None} for row in rows.iter_rows(named=True)}
        lines = []
        for metric, own in rows.group_by("metric", maintain_order=True):
            defined = evidence.definitions[str(metric[0])]
            at_each = [found.get((defined.name, at)) for at in settings]
            cells = [user_cell(None if row is None else Estimate.of(defined, row)) for row in at_each]
            bound = f", {defined.bound}" if Status.BOUNDED in own["status"] else ""
            lines.append(TableRow(f"{evidence.label(defined.name, AUDIT)}{bound}", cells))
        name, setting = LEVERS[lever]
        columns = [setting, *(f"{at:.3g}{marks.get(at, '')}" for at in settings)]
        return NumberTable(f"{name}, by {setting}", columns, lines)


_Key = tuple[str, str, str, str, str]
"""Model, lever, metric, grouping and group of a change."""


def _key(model: str, row: Mapping[str, Any]) -> _Key:
    return model, row["over"], row["metric"], row.get("by", ""), row.get("group", "")


def _compute_adjusted_p_values(evidence: Evidence) -> dict[_Key, float]:
    """P-values of all changes at the settings that were picked, corrected by Holm's method as one family."""
    found: dict[_Key, float] = {}
    for model, own in evidence.each(AUDIT, Levers.of).items():
        for lever in own.names:
            changes = own.changes.filter(over=lever, at=own.facts["picked"][lever])
            for row in (*changes.iter_rows(named=True), *own.people.filter(over=lever).iter_rows(named=True)):
                change = Estimate.of(evidence.definitions[row["metric"]], row)
                if change.rests_on_enough and None not in (change.value, change.lower, change.upper):
                    ends = (change.value or 0.0, change.lower or 0.0, change.upper or 0.0)
                    found[_key(model, row)] = compute_interval_p_value(
                        *ends, 0.0, change.users - 1, confidence=evidence.confidence
                    )
    return dict(zip(found, adjust_by_holm(list(found.values())).tolist(), strict=True))


def _difference(kind: str, *values: float | None) -> tuple[str, list[str]]:
    """The unit of a difference, and each of these as it is written: shares in percentage points."""
    known = [value for value in values if value is not None]
    if kind == "number":
        return "", [_signed(value, 3) for value in known]
    digits = 1 if max(map(abs, known)) >= 0.01 else 2
    return " points", [_signed(100 * value, digits) for value in known]


def _signed(value: float, digits: int) -> str:
    """With its sign, and none before a zero."""
    text = f"{value:+.{digits}f}"
    return minus(text) if text.strip("+-0.") else text[1:]


def price_of(evidence: Evidence, lever: str) -> kit.Figure | None:
    """Along the settings of a lever: ranking quality to the right, what the lever aims at upwards."""
    rows: kit.Rows = []
    aim, colors = "", model_colors(evidence)
    for model, own in evidence.each(AUDIT, Levers.of).items():
        if lever not in own.names:
            continue
        aim = own.facts["aims"][lever]
        wide = own.series.filter(pl.col("over") == lever, pl.col("metric").is_in([QUALITY, aim]))
        points = wide.pivot("metric", index="at", values="value").sort("at")
        if not {QUALITY, aim} <= set(points.columns):
            continue
        for point in points.drop_nulls().iter_rows(named=True):
            told = ", ".join(evidence.said(name, point[name], AUDIT) for name in (QUALITY, aim))
            place = {"setting": f"{point['at']:.3g}", "order": point["at"], "x": point[QUALITY], "y": point[aim]}
            marks = {
                "before": point["at"] == own.facts["before"][lever],
                "picked": point["at"] == own.facts["picked"][lever],
            }
            rows.append({**kit.in_series(colors, model), **place, **marks, "told": told})
    if not rows:
        return None
    name, setting = LEVERS[lever]
    label, better = evidence.label(aim, AUDIT), evidence.definitions[aim].better
    scale, grid = alt.Scale(zero=False, nice=True, padding=12), alt.Axis(grid=True, tickCount=4)
    x = alt.X("x:Q", title=f"{evidence.label(QUALITY, AUDIT)} (further right: better)", scale=scale, axis=grid)
    y = alt.Y("y:Q", title=f"{label} ({'up' if better == 'higher' else 'down'}: better)", scale=scale, axis=grid)
    color, shown = kit.by_series(colors), kit.tooltip("model", "setting")
    before, picked = (kit.chart([row for row in rows if row[mark]]) for mark in ("before", "picked"))
    # The settings of one model: those of all would lie on top of each other.
    named = kit.chart([row for row in rows if row["model"] == rows[0]["model"]])
    base = kit.chart(rows)
    about = [f"{row['model']} at {row['setting']}: {row['told']}" for row in rows if row["before"] or row["picked"]]
    return kit.figure(
        name,
        f"{evidence.label(QUALITY, AUDIT)} against {label} along the {setting}. {'; '.join(about)}.",
        _HEIGHT,
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(x, y, color, order="order:Q"),
        base.mark_point(size=24).encode(x, y, color, tooltip=shown),
        before.mark_point(size=90).encode(x, y, color, tooltip=shown),
        picked.mark_point(size=150, filled=False, strokeWidth=2).encode(x, y, color, tooltip=shown),
        named.mark_text(align="left", dx=8, dy=-8, fill=kit.MUTED).encode(x, y, text="setting:N"),
    )


@final
class MitigationSection(Section):
    """Levers before and after."""

    audits = (AUDIT,)
    anchor, title, template, place = "mitigation", "Mitigation", "mitigation.html.j2", 90

    def content(self) -> dict[str, Any] | None:
        """A table for each model, the best at ranking first, and a figure for each lever."""
        evidence = self.evidence
        found = evidence.each(AUDIT, Levers.of)
        if not found:
            return None
        turned = {model: [own.turned(lever) for lever in own.names] for model, own in found.items()}
        settings = evidence.settings[AUDIT]
        measured = [name for name in CHANGING if any(name in each.changes for own in turned.values() for each in own)]
        front = next(iter(found.values()))
        levers = [lever for lever in LEVERS if any(lever in own.names for own in found.values())]
        return {
            "k": settings["k"],
            "kind": kind if isinstance(kind := settings.get("categories"), str) else "category",
            "sampled": front.facts["sampled"],
            "budget": settings["budget"],
            "floor": evidence.overall(front.model, "history_future_kl"),
            "models": [
                {
                    "model": model,
                    "levers": own,
                    "rows": [
                        (name, [each.changes.get(name) or found[model].absent(each.over, name) for each in own])
                        for name in measured
                        if any(name in each.changes for each in own)
                    ],
                    "groups": found[model].groups,
                    "lacking": _lacking(found[model]),
                }
                for model, own in turned.items()
            ],
            "figures": kit.existing(price_of(evidence, lever) for lever in levers),
            "drawn": [*found],
            "skipped": evidence.unasked(AUDIT),
            "metrics": [*measured, *evidence.metrics(AUDIT)],
        }


def _lacking(own: Levers) -> list[str]:
    """Why the model lacks a lever, a sentence each."""
    told = ((LEVERS[name][0], why) for why, names in own.facts["left_out"].items() for name in names if name in LEVERS)
    return [f"{name}: {why}" for name, why in told]

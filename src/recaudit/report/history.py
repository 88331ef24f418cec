"""The page of a history: every number over runs, what changed between them, and what the last change did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import altair as alt
import polars as pl

from recaudit.metrics.metric import Metric
from recaudit.report.comparison import write_page
from recaudit.report.differences import Difference, metric_of
from recaudit.report.kit import charts as kit
from recaudit.report.kit.comparisons import NumberTable, TableRow, cell
from recaudit.report.kit.document import rendered
from recaudit.report.kit.numbers import Estimate, listing, plural
from recaudit.report.reading import ComparisonReading, Point, folder_names
from recaudit.runs.changes import RunChange
from recaudit.runs.history import RunHistory
from recaudit.status import Status
from recaudit.version import __version__

LETTERS = {"data": "D", "model": "M", "configuration": "C", "versions": "V"}
"""The marks of what changed between two runs, the weightiest first."""
_HEIGHT = 150
_MANY_RUNS = 15
"""Of more runs points are small, and the list of runs is folded."""
_BOUNDS = {
    False: "Lower bounds in some run, above which the truth may lie",
    True: "Not proved to be the least in some run, so that less may do",
}
"""What is said of bounded numbers, by whether a metric is the least of something."""
_NO_NUMBER = "the run has no such number"


class Multiple(NamedTuple):
    """One metric over runs, and what the last change did to it."""

    figure: kit.Figure
    last: list[Difference]
    """Of each model."""


class HistoryStep(NamedTuple):
    """A run in the order of the history."""

    number: int
    name: str
    started: str
    data: str
    status: str
    marks: str
    """What changed since the run before, in letters."""
    changed: list[str]
    """The same in words."""


@final
class HistoryReading:
    """A history, ready to be told."""

    def __init__(self, history: RunHistory) -> None:
        self.history = history
        self.runs = history.runs
        self.names = folder_names(history.runs)
        self.models = history.models
        self.colors = kit.series_colors(self.models, self.models)
        self.overall = history.frame.filter(pl.col("by") == "")

    @cached_property
    def last(self) -> ComparisonReading | None:
        """The last run against the one before."""
        return None if self.history.last is None else ComparisonReading(self.history.last)

    @cached_property
    def steps(self) -> list[HistoryStep]:
        """The runs, and what changed from each to the next."""
        return [
            HistoryStep(
                number,
                name,
                run.manifest.started,
                run.manifest.data.name,
                "finished" if run.manifest.status == "complete" else "not finished",
                _marks(changed),
                [f"{own.what}, {own.name}: {own.before or 'none'} → {own.after or 'none'}" for own in changed],
            )
            for number, (name, run, changed) in enumerate(
                zip(self.names, self.runs, self.history.changes, strict=True), start=1
            )
        ]

    @cached_property
    def verdict(self) -> str:
        """What the last change did, in a few sentences."""
        if self.last is None:
            return f"The last run shares no number with the one before: {self.history.why_not}"
        return f"The last of {plural(len(self.runs), 'run')}, against the one before: {self.last.verdict}"

    @cached_property
    def notes(self) -> list[str]:
        """What has to be known before any number is read."""
        open_ones = [step.name for step in self.steps if step.status != "finished"]
        told = [f"Not finished, and shown as far as they have come: {listing(open_ones)}."] if open_ones else []
        if len({run.manifest.data.fingerprint for run in self.runs}) > 1:
            told.append("Not all runs looked at the same data: a step in a number may come from the data.")
        bounded = self.overall.filter(status=Status.BOUNDED.value).select("audit", "metric").unique(maintain_order=True)
        if len(bounded):
            found = [
                (metric.least, self.label(metric, audit))
                for audit, name in bounded.iter_rows()
                for metric in self.metrics(audit)
                if metric.name == name
            ]
            for least, words in _BOUNDS.items():
                if labels := [label for own, label in found if own == least]:
                    told.append(f"{words}: {listing(labels)}.")
        return told

    @property
    def findings(self) -> list[Point]:
        """What the last change did most, each with the section of its audit."""
        return [own._replace(section=f"audit-{own.audit}") for own in self.last.findings] if self.last else []

    def metrics(self, audit: str) -> list[Metric]:
        """What was measured in an audit, in the order of its tables."""
        return [metric_of(name) for name in self.overall.filter(audit=audit)["metric"].unique(maintain_order=True)]

    @cached_property
    def audits(self) -> list[str]:
        """Every audit that any run has."""
        return self.overall["audit"].unique(maintain_order=True).to_list()

    def label(self, metric: Metric, audit: str) -> str:
        """What the metric is called, for lists as long as those of the last run that has it."""
        steps = (step for run in reversed(self.runs) for step in run.manifest.steps if step.audit == audit)
        return metric.titled(next((step.settings.get("k") for step in steps), None))

    @cached_property
    def _rows(self) -> Mapping[tuple[str, ...], dict[str, Any]]:
        """By run, model, audit and metric."""
        rows = self.overall.iter_rows(named=True)
        return {(row["run"], row["model"], row["audit"], row["metric"]): row for row in rows}

    def estimate(self, place: int, model: str, audit: str, metric: Metric) -> tuple[int, Estimate] | None:
        """The era and the number of the run at this place; None where it has none."""
        found = self._rows.get((str(self.runs[place].path), model, audit, metric.name))
        if found is None or found["value"] is None:
            return None
        return found["era"], Estimate.of(metric, {**found, "baseline": None, "excluded": 0})

    def changes_of(self, audit: str, metric: Metric) -> list[Difference]:
        """What the last change did to a number about everybody, by model."""
        found = self.last.overall if self.last else []
        return [own for own in found if (own.audit, own.metric.name) == (audit, metric.name)]


def write_history(history: RunHistory, path: Path) -> Path:
    """Write the page, whole or not at all, and say where it is; never into a run folder."""
    return write_page(path, render_history(history), history.runs)


def render_history(history: RunHistory) -> str:
    """The page as text."""
    course = HistoryReading(history)
    metrics = {audit: course.metrics(audit) for audit in course.audits}
    drawn = {audit: [_multiple(course, audit, metric) for metric in own] for audit, own in metrics.items()}
    sections = {audit: own for audit, some in drawn.items() if (own := [one for one in some if one is not None])}
    shown = {metric: course.label(metric, audit) for audit, own in metrics.items() for metric in own}
    return rendered(
        "history.html.j2",
        course=course,
        history=history,
        contents={
            "runs": "Runs",
            **{f"audit-{audit}": audit.capitalize() for audit in sections},
            "numbers": "All numbers",
            "methods": "Definitions",
        },
        sections=sections,
        tables=[
            table for model in course.models for audit in course.audits if (table := _table(course, model, audit)).rows
        ],
        colors=course.colors,
        letters=LETTERS,
        many_runs=_MANY_RUNS,
        defined=[(metric.name, label, "", metric) for metric, label in shown.items()],
        version=__version__,
    )


def _marks(changed: Sequence[RunChange]) -> str:
    kinds = {own.what.partition(" ")[0] for own in changed}
    return "".join(letter for kind, letter in LETTERS.items() if kind in kinds)


def _multiple(course: HistoryReading, audit: str, metric: Metric) -> Multiple | None:
    """The chart of one metric: a line for each model; None where no run has a value."""
    rows: kit.Rows = []
    for place, model in enumerate(course.models):
        # Models stand beside each other, so that their intervals can be told apart.
        aside = 0.4 * ((place + 0.5) / len(course.models) - 0.5)
        era, broken = 0, 0
        for step in course.steps:
            found = course.estimate(step.number - 1, model, audit, metric)
            # No line leads over a run that has no number, nor from one question to another.
            broken += found is None or found[0] != era
            if found is not None:
                era, own = found
                line = {"at": step.number + aside, "line": f"{place} {broken}"}
                named = {"run": f"{step.number}: {step.name}", **kit.in_series(course.colors, model)}
                rows.append({**named, **line, **kit.drawn(own)})
    if not rows:
        return None
    n, label = len(course.steps), course.label(metric, audit)
    ends = [0.5, n + 0.5]
    x = alt.X("at:Q", title=None, scale=alt.Scale(domain=ends, nice=False), axis=_run_axis(n))
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=False, nice=True),
        axis=kit.value_axis(metric, tickCount=4, grid=True),
    )
    color, base = kit.by_series(course.colors), kit.chart(rows, course.colors)
    layers = [
        base.mark_rule(strokeWidth=1.5, opacity=0.45).encode(x, alt.Y("lower:Q", title=None), alt.Y2("upper:Q"), color),
        base.mark_line(strokeWidth=1.5).encode(x, y, color, detail="line:N"),
        base.mark_point(size=16 if n > _MANY_RUNS else 50).encode(x, y, color, tooltip=kit.tooltip("run", "model")),
    ]
    marked = [{"at": step.number - 0.5, "mark": step.marks} for step in course.steps if step.marks]
    if marked:
        between = kit.chart(marked)
        layers.insert(0, between.mark_rule(strokeDash=[3, 3], stroke=kit.MUTED, opacity=0.6).encode(x))
        layers.append(between.mark_text(y=-6, fontSize=10, fill=kit.MUTED).encode(x, alt.Text("mark:N")))
    told = "; ".join(f"{row['model']}, run {row['run']}: {row['told']}" for row in rows)
    figure = kit.figure(label, f"{label} over {plural(n, 'run')}. {told}.", _HEIGHT, *layers, metric=metric.name)
    return Multiple(figure, course.changes_of(audit, metric))


def _run_axis(n: int) -> alt.Axis:
    """The numbers of runs, as many as there is room for."""
    stride = -(-n // 12)
    return kit.tick_axis(list(range(1, n + 1, stride)), format="d", grid=False)


def _table(course: HistoryReading, model: str, audit: str) -> NumberTable:
    """All numbers of one model in one audit, a line for each run that has any."""
    metrics = course.metrics(audit)
    rows = []
    for place, step in enumerate(course.steps):
        found = [course.estimate(place, model, audit, metric) for metric in metrics]
        if any(found):
            cells = [cell(None if own is None else own[1], reason=_NO_NUMBER) for own in found]
            rows.append(TableRow(f"{step.number}: {step.name}", cells))
    labels, names = [course.label(metric, audit) for metric in metrics], [metric.name for metric in metrics]
    return NumberTable(f"{audit} of {model}", ["run", *labels], rows, ["run", *names])

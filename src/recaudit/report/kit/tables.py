"""The page's tables, cell by cell: what is written, what is marked, and why a cell is empty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

from recaudit.report.evidence import Evidence, GroupEstimate
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, plural

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


@final
@dataclass(frozen=True)
class TableRow:
    """A line of a table: what it is about, and its cells."""

    name: str
    cells: list[TableCell]
    reference: bool = False


@final
@dataclass(frozen=True)
class NumberTable:
    """Lines under headings, the first of which is that of the lines' names."""

    caption: str
    columns: list[str]
    rows: list[TableRow]


@final
@dataclass(frozen=True)
class Overview:
    """Metrics by model: a column each, under the metric's label and with its definition a click away."""

    metrics: list[str]
    labels: list[str]
    rows: list[TableRow]


def cell(estimate: Estimate | None, mark: Mark = "", reason: str = "this audit was not run for the model") -> TableCell:
    """A number with its interval, or `n/a` with the reason."""
    if estimate is None or estimate.value is None:
        return TableCell(NOT_AVAILABLE, reason=reason)
    return TableCell(estimate.text, estimate.interval, estimate.before, mark)


def user_cell(
    estimate: Estimate | None, mark: Mark = "", reason: str = "this audit was not run for the model"
) -> TableCell:
    """A number over users: with how many they are, where they are too few for a finding."""
    made = cell(estimate, mark, reason)
    few = estimate is not None and estimate.value is not None and not estimate.rests_on_enough
    return replace(made, few=plural(estimate.users, "user")) if few and estimate else made


def overview(
    evidence: Evidence, audit: str, metrics: list[str] | None = None, *, everybody: bool = False, marked: bool = False
) -> Overview:
    """A line for each model that was audited, or for `everybody`; the best of a column is `marked`."""
    metrics = evidence.metrics(audit) if metrics is None else metrics
    models = [model for model in evidence.models if everybody or audit in evidence.run.audits(model)]
    marks = {metric: _marks(evidence, metric, audit) if marked else {} for metric in metrics}
    rows = [
        TableRow(
            model,
            [
                user_cell(
                    evidence.overall(model, metric, audit),
                    marks[metric].get(model, ""),
                    evidence.reason(model, metric, audit),
                )
                for metric in metrics
            ],
            everybody and model in evidence.references,
        )
        for model in models
    ]
    return Overview(metrics, [evidence.label(metric, audit) for metric in metrics], rows)


def _marks(evidence: Evidence, metric: str, audit: str) -> dict[str, Mark]:
    """The best of several models, and those whose interval overlaps with its."""
    known = evidence.known(metric, audit)
    if len(known) < 2 or evidence.definitions[metric].better == "neither":
        return {}
    best = known[evidence.ranked(metric, audit)[0]]
    marks: dict[str, Mark] = {}
    for model, own in known.items():
        near = own.interval and best.interval and not own.apart_from(best)
        marks[model] = "best" if own.text == best.text else "near" if near else ""
    return marks


def group_table(evidence: Evidence, metric: str, by: str, audit: str = "") -> NumberTable | None:
    """One metric in every group for every model that has it; with the share of ratings first where it compares."""
    columns = {model: evidence.groups(model, metric, by, audit) for model in evidence.models}
    columns = {model: groups for model, groups in columns.items() if groups}
    if not columns:
        return None
    named: dict[str, dict[str, GroupEstimate]] = {}
    for model, groups in columns.items():
        for group in groups:
            named.setdefault(group.name, {})[model] = group
    compares = metric == "share"
    rows = []
    for name, found in named.items():
        cells = [user_cell(found[model].estimate if model in found else None) for model in columns]
        baseline = [TableCell(next(iter(found.values())).estimate.compared)] if compares else []
        rows.append(TableRow(name, [*baseline, *cells]))
    headings = [by, "ratings in the data", *columns] if compares else [by, *columns]
    return NumberTable(f"{evidence.label(metric, audit)} by {by}", headings, rows)


def group_tables(evidence: Evidence, metrics: list[str], groupings: list[str], audit: str = "") -> list[NumberTable]:
    """A table for each metric and way of grouping that there are numbers of."""
    found = [group_table(evidence, metric, by, audit) for metric in metrics for by in groupings]
    return [table for table in found if table is not None]

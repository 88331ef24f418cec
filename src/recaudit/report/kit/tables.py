"""The page's tables, cell by cell: what is written, what is marked, and why a cell is empty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

from recaudit.audits.audit import definitions
from recaudit.report.evidence import Evidence, Group
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, count, listing, percent, plural
from recaudit.report.sections.catalogue import above_average, best_hidden, most_shown

MOST_ITEMS = 10
"""How many items a table lists."""

Mark = Literal["", "best", "near"]


@final
@dataclass(frozen=True)
class Cell:
    """One number: its text, its interval, whether it is the best of its column, or why there is none."""

    text: str
    interval: str = ""
    before: str = ""
    """What the number was without what is looked at, where that is the comparison."""
    mark: Mark = ""
    reason: str = ""
    few: str = ""
    """How many users it stands on, where these are too few for a finding."""


@final
@dataclass(frozen=True)
class Row:
    """A line of a table: what it is about, and its cells."""

    name: str
    cells: list[Cell]
    reference: bool = False


@final
@dataclass(frozen=True)
class GroupTable:
    """One metric by group, a column a model."""

    metric: str
    by: str
    columns: list[str]
    rows: list[Row]


@final
@dataclass(frozen=True)
class Item:
    """An item as a table lists it."""

    title: str
    lists: str
    share: str
    ratings: str
    mean_rating: str


@final
@dataclass(frozen=True)
class ItemTables:
    """What one model shows most, and the best-rated of what it shows nobody."""

    model: str
    shown: list[Item]
    hidden: list[Item]
    n_shown: str
    n_hidden: str
    n_loved: str


@final
@dataclass(frozen=True)
class Gap:
    """Something that was not measured: of which model, what, and why."""

    model: str
    metrics: list[str]
    """Empty where no model has any number of the audit."""
    reason: str
    audit: str = ""


def metric_rows(evidence: Evidence, metrics: list[str], *, marked: bool) -> list[Row]:
    """A line for each model and a cell for each metric; the best of a column is `marked`."""
    columns = [_column(evidence, metric, marked=marked) for metric in metrics]
    return [
        Row(model, [column[model] for column in columns], model in evidence.references) for model in evidence.models
    ]


def _column(evidence: Evidence, metric: str, *, marked: bool) -> dict[str, Cell]:
    known = evidence.known(metric)
    ranked = evidence.ranked(metric) if marked and definitions()[metric].better != "neither" and len(known) > 1 else []
    best = known[ranked[0]] if ranked else None
    cells = {}
    for model in evidence.models:
        mark: Mark = ""
        if best is not None and model in known:
            mark = "best" if known[model].text == best.text else "near" if _overlap(known[model], best) else ""
        cells[model] = metric_cell(evidence, model, metric, mark)
    return cells


def _overlap(estimate: Estimate, other: Estimate) -> bool:
    return bool(estimate.interval and other.interval) and not estimate.apart_from(other)


def cell(estimate: Estimate | None, mark: Mark = "") -> Cell:
    """A number with its interval, or `n/a` with the reason."""
    if estimate is None:
        return Cell(NOT_AVAILABLE, reason="this audit was not run for the model")
    if estimate.value is None:
        return Cell(NOT_AVAILABLE, reason=estimate.reason)
    return Cell(estimate.text, estimate.interval, estimate.before, mark)


def user_cell(estimate: Estimate | None, mark: Mark = "") -> Cell:
    """A number over users: with how many they are, where they are too few for a finding."""
    told = cell(estimate, mark)
    if estimate is None or estimate.value is None or estimate.rests_on_enough:
        return told
    return replace(told, few=plural(estimate.users, "user"))


def metric_cell(evidence: Evidence, model: str, metric: str, mark: Mark = "") -> Cell:
    """An overall number of one model, or why there is none, as the audit itself says it."""
    told = user_cell(evidence.summaries.get((model, metric)), mark)
    return replace(told, reason=evidence.reason(model, metric)) if told.reason else told


def group_table(evidence: Evidence, metric: str, by: str) -> GroupTable | None:
    """One metric in every group for every model that has it; with the share of ratings first where it compares."""
    columns = {model: evidence.groups(model, metric, by) for model in evidence.models}
    columns = {model: groups for model, groups in columns.items() if groups}
    if not columns:
        return None
    named: dict[str, dict[str, Group]] = {}
    for model, groups in columns.items():
        for group in groups:
            named.setdefault(group.name, {})[model] = group
    compares = metric == "share"
    rows = []
    for name, found in named.items():
        cells = [user_cell(found[model].estimate if model in found else None) for model in columns]
        if compares:
            baseline = next(iter(found.values())).estimate.baseline
            cells = [Cell(NOT_AVAILABLE if baseline is None else percent(baseline)), *cells]
        rows.append(Row(name, cells))
    return GroupTable(metric, by, ["ratings in the data", *columns] if compares else list(columns), rows)


def item_tables(evidence: Evidence, model: str) -> ItemTables:
    """The items of one model's exposure audit, by title."""
    items = evidence.items[model]
    users = evidence.run.manifest.data.users
    best = best_hidden(items)
    hidden = int((items["recommended"] == 0).sum())
    return ItemTables(
        model=model,
        shown=[_item(row, users) for row in most_shown(items, MOST_ITEMS).iter_rows(named=True)],
        hidden=[_item(row, users) for row in best.head(MOST_ITEMS).iter_rows(named=True)],
        n_shown=count(len(items) - hidden),
        n_hidden=count(hidden),
        n_loved=count(len(above_average(best, items))),
    )


def _item(row: dict[str, object], users: int) -> Item:
    lists, ratings, mean = row["recommended"], row["ratings"], row["mean_rating"]
    assert isinstance(lists, int)
    assert isinstance(ratings, int)
    return Item(
        title=str(row["title"]),
        lists=count(lists),
        share=percent(lists / users) if users else NOT_AVAILABLE,
        ratings=count(ratings),
        mean_rating=f"{mean:.2f}" if isinstance(mean, float) else NOT_AVAILABLE,
    )


def gaps(evidence: Evidence) -> list[Gap]:
    """Every number that the run does not have, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for (model, metric), estimate in evidence.summaries.items():
        if estimate.value is None:
            found.setdefault((model, evidence.reason(model, metric)), []).append(metric)
    audits = dict.fromkeys([*evidence.audit_of.values(), *(audit for _, audit in evidence.skipped)])
    missing = [
        Gap(model, evidence.metrics(audit), evidence.absence(model, audit), audit)
        for model in evidence.models
        for audit in audits
        if audit not in evidence.run.audits(model)
    ]
    return [Gap(model, metrics, reason) for (model, reason), metrics in found.items()] + missing


def left_out_lines(evidence: Evidence) -> list[str]:
    """For how many users a number could not be measured, a sentence for each set of metrics that share it."""
    found: dict[tuple[int, int], list[str]] = {}
    for metric in evidence.audit_of:
        for estimate in evidence.known(metric).values():
            if estimate.excluded and metric not in found.setdefault((estimate.users, estimate.excluded), []):
                found[estimate.users, estimate.excluded].append(metric)
    return [
        f"{listing([evidence.label(metric) for metric in metrics])} {'stands' if len(metrics) == 1 else 'stand'} on "
        f"{plural(users, 'user')}; {count(excluded)} had nothing to measure."
        for (users, excluded), metrics in found.items()
    ]

"""The section on what users can reach: its numbers, charts, people, items and one example."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any, final

from recaudit.report import charts
from recaudit.report.charts import Figure
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import NOT_AVAILABLE, chance, count, percent, times
from recaudit.report.kit.tables import MOST_ITEMS, Cell, Row, group_table, metric_cell
from recaudit.report.sections.lists import ByGroup
from recaudit.report.sections.reach import AUDIT, Example, Reach
from recaudit.status import Status


@final
@dataclass(frozen=True)
class ReachSection:
    """What stands in the section."""

    metrics: list[str]
    rows: list[Row]
    """A line for each model that can be asked."""
    skipped: list[str]
    """The models that cannot be asked."""
    not_ratings: list[str]
    """Of the models asked, those whose scores are known not to be ratings."""
    detail: ReachDetail | None
    """Of the model in front; None where no pair of any model has an answer."""
    lifts: Figure | None


@final
@dataclass(frozen=True)
class ReachDetail:
    """The model in front: the best at ranking of those that can be asked."""

    model: str
    asked: int
    """How many users."""
    pairs: str
    """How many pairs there are, and how they stand."""
    chances: Figure | None
    points: int
    parts: list[ByGroup]
    """Discovery by group of users, availability by group of items."""
    users: list[Row]
    """The users with the least discovery."""
    items: list[Row]
    """The items that the fewest users can reach."""
    unreached: int
    undecided: int
    example: Example | None


def reach_section(evidence: Evidence) -> ReachSection | None:
    """None where the audit was not run for any model."""
    metrics = evidence.metrics(AUDIT)
    if not metrics:
        return None
    front = evidence.front("discovery")
    return ReachSection(
        metrics=metrics,
        rows=[Row(model, [metric_cell(evidence, model, metric) for metric in metrics]) for model in evidence.reach],
        skipped=[model for model in evidence.models if (model, AUDIT) in evidence.skipped],
        not_ratings=[
            model
            for model in evidence.reach
            if (model, "rmse") in evidence.summaries and model not in evidence.known("rmse")
        ],
        detail=None if front is None else _detail(evidence, front),
        lifts=charts.lifts(evidence),
    )


def _detail(evidence: Evidence, model: str) -> ReachDetail:
    reach = evidence.reach[model]
    found = evidence.known("discovery")[model]
    groupings = {"discovery": evidence.user_groupings, "availability": evidence.item_groupings}
    return ReachDetail(
        model=model,
        asked=found.users + found.excluded,
        pairs=_standing(reach),
        chances=charts.chances(evidence, model),
        points=len(reach.points),
        parts=[part for metric, by in groupings.items() if (part := _by_group(evidence, model, metric, by)).tables],
        users=[_user(row) for row in reach.users.sort("discovery", "user").head(MOST_ITEMS).iter_rows(named=True)],
        items=[_item(row) for row in reach.hardest.head(MOST_ITEMS).iter_rows(named=True)],
        unreached=len(reach.unreached),
        undecided=reach.undecided,
        example=reach.example,
    )


def _by_group(evidence: Evidence, model: str, metric: str, groupings: list[str]) -> ByGroup:
    figures = [charts.before_and_after(evidence, model, metric, by) for by in groupings]
    tables = [group_table(evidence, metric, by) for by in groupings]
    return ByGroup(metric, [figure for figure in figures if figure], [table for table in tables if table])


def _standing(reach: Reach) -> str:
    """`53,521, all solved`, or how many of each status."""
    parts = {status: number for status, number in reach.statuses.items() if number}
    if list(parts) == [Status.SOLVED.value]:
        return f"{count(reach.pairs)}, all solved"
    told = [f"{count(number)} {status.replace('_', ' ')}" for status, number in parts.items()]
    return f"{count(reach.pairs)}, of which {', '.join(told)}"


def _user(row: dict[str, Any]) -> Row:
    log_lift = row["log_lift"]
    return Row(
        row["user"],
        [
            Cell(percent(row["discovery"]), before=percent(row["baseline_discovery"])),
            Cell(NOT_AVAILABLE if log_lift is None else times(exp(log_lift))),
        ],
    )


def _item(row: dict[str, Any]) -> Row:
    reached = f"{count(row['reached_by'])} of {count(row['users'])}"
    return Row(row["title"], [Cell(reached), Cell(chance(row["best"])), Cell(count(row["ratings"]))])

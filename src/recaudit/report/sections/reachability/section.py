"""The section on what users can reach: its numbers, charts, people, items and one example."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any, final

from recaudit.metrics.numbers import chance, percent, times
from recaudit.report.evidence import Evidence
from recaudit.report.kit.comparisons import ByGroup
from recaudit.report.kit.numbers import NOT_AVAILABLE, count
from recaudit.report.kit.tables import MOST_ROWS, Cell, Row, Table, group_tables, overview
from recaudit.report.sections.reachability.charts import SMALLEST_TAIL, before_and_after, chances, lifts
from recaudit.report.sections.reachability.findings import (
    least_discovery,
    not_applicable,
    out_of_reach,
    popular_within_reach,
    unsettled,
    users_say,
)
from recaudit.report.sections.reachability.pairs import AUDIT, Reach, describe_actions, reach_of
from recaudit.report.sections.section import Section
from recaudit.status import Status


@final
class ReachabilitySection(Section):
    """How much say users have."""

    audits = (AUDIT,)
    anchor, title, template, place = "reach", "Reach", "reachability.html.j2", 50
    questions = (unsettled, users_say, out_of_reach, least_discovery, popular_within_reach, not_applicable)

    def content(self) -> dict[str, Any] | None:
        """All models that can be asked, and the best at ranking of them in detail."""
        evidence = self.evidence
        if not evidence.metrics(AUDIT):
            return None
        settings, front = evidence.settings[AUDIT], evidence.front("discovery")
        return {
            "actions": describe_actions(settings.get("actions", {})),
            "overview": overview(evidence, AUDIT),
            "models": list(reach_of(evidence)),
            "skipped": evidence.unasked(AUDIT),
            "not_ratings": [
                model
                for model in reach_of(evidence)
                if evidence.overall(model, "rmse") is not None and model not in evidence.known("rmse")
            ],
            "detail": None if front is None else _detail(evidence, front),
            "lifts": lifts(evidence),
            "smallest_tail": SMALLEST_TAIL,
            "methods": "A best chance is what the model's answer to the new ratings makes possible, without training "
            "it anew; everything else stays as it is. What is called solved is proven, not sampled: it has a lower "
            f"and an upper bound, and these are at most {settings['tolerance']:g} apart in log-probability.",
        }


def _detail(evidence: Evidence, model: str) -> dict[str, Any]:
    reach, found = reach_of(evidence)[model], evidence.known("discovery")[model]
    groupings = {"discovery": evidence.user_groupings, "availability": evidence.item_groupings}
    users = reach.users.sort("discovery", "user").head(MOST_ROWS)
    return {
        "model": model,
        "asked": found.users + found.excluded,
        "pairs": _standing(reach),
        "chances": chances(evidence, model),
        "points": len(reach.points),
        "parts": [part for metric, by in groupings.items() if (part := _by_group(evidence, model, metric, by)).tables],
        "users": Table(
            "Users who can discover least",
            ["User", "Discovery", "Lift"],
            [_user(row) for row in users.iter_rows(named=True)],
        ),
        "hardest": Table(
            "Items that the fewest users can make likelier than by chance",
            ["Item", "Reached by", "Best chance", "Ratings"],
            [_item(row) for row in reach.hardest.head(MOST_ROWS).iter_rows(named=True)],
        ),
        "unreached": len(reach.unreached),
        "undecided": reach.undecided,
        "example": reach.example,
    }


def _by_group(evidence: Evidence, model: str, metric: str, groupings: list[str]) -> ByGroup:
    """Without strategy and at best."""
    figures = [before_and_after(evidence, model, metric, by) for by in groupings]
    drawn, tables = [figure for figure in figures if figure], group_tables(evidence, [metric], groupings)
    return ByGroup(metric, evidence.label(metric), drawn, tables)


def _standing(reach: Reach) -> str:
    """`53,521, all solved`, or how many of each status."""
    parts = {status: number for status, number in reach.statuses.items() if number}
    if list(parts) == [Status.SOLVED.value]:
        return f"{count(reach.pairs)}, all solved"
    counts = [f"{count(number)} {status.replace('_', ' ')}" for status, number in parts.items()]
    return f"{count(reach.pairs)}, of which {', '.join(counts)}"


def _user(row: Mapping[str, Any]) -> Row:
    lift = NOT_AVAILABLE if row["log_lift"] is None else times(exp(row["log_lift"]))
    discovery = Cell(percent(row["discovery"]), before=percent(row["baseline_discovery"]))
    return Row(row["user"], [discovery, Cell(lift)])


def _item(row: Mapping[str, Any]) -> Row:
    reached = f"{count(row['reached_by'])} of {count(row['users'])}"
    return Row(row["title"], [Cell(reached), Cell(chance(row["best"])), Cell(count(row["ratings"]))])

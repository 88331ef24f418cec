"""The section on agency over time: what people can do to their own recommendations, and others to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from recaudit.audits.agency.definitions import EDITOR_CONTRAST, ITEM_CONTRAST
from recaudit.report import charts
from recaudit.report.charts import Figure
from recaudit.report.evidence import Evidence
from recaudit.report.kit.tables import GroupTable, Row, group_table, metric_cell, user_cell
from recaudit.report.sections.agency import AUDIT, WHEN, Worked
from recaudit.report.sections.lists import Overview

MAIN = ("past_lift", "future_lift", "past_instability", "future_instability")


@final
@dataclass(frozen=True)
class AgencySection:
    """What stands in the section."""

    settings: dict[str, Any]
    main: Overview
    """The four numbers, a line for each model that can be asked."""
    more: Overview
    """Everything else that was measured."""
    skipped: list[str]
    """The models that cannot be asked anything."""
    movers: list[str]
    """The models that say what others' ratings do."""
    own_only: list[str]
    """Those that do not."""
    horizons: list[Figure]
    betas: list[Figure]
    moved: list[Figure]
    contrasts: list[Contrast]
    groups: list[GroupTable]
    example: Example | None


@final
@dataclass(frozen=True)
class Contrast:
    """Two groups on the same users, a line for each model and tense."""

    caption: str
    columns: list[str]
    rows: list[Row]


@final
@dataclass(frozen=True)
class Example:
    """The pair of one model that moves furthest in hindsight."""

    model: str
    pair: Worked


def agency_section(evidence: Evidence) -> AgencySection | None:
    """None where the audit was not run for any model."""
    metrics = evidence.metrics(AUDIT)
    if not metrics:
        return None
    others = evidence.known("past_instability") | evidence.known("future_instability")
    return AgencySection(
        settings=dict(evidence.settings[AUDIT]),
        main=_overview(evidence, [metric for metric in MAIN if metric in metrics]),
        more=_overview(evidence, [metric for metric in metrics if metric not in MAIN]),
        skipped=[model for model in evidence.models if (model, AUDIT) in evidence.skipped],
        movers=[model for model in evidence.agency if model in others],
        own_only=[model for model in evidence.agency if model not in others],
        horizons=[figure for metric in MAIN if (figure := charts.curve(evidence, "horizon", metric)) is not None],
        betas=[figure for metric in MAIN if (figure := charts.curve(evidence, "beta", metric)) is not None],
        moved=[figure for when in WHEN if (figure := charts.moved_pairs(evidence, when)) is not None],
        contrasts=[contrast for contrast in _contrasts(evidence) if contrast.rows],
        groups=[table for metric, by in _groupings() if (table := group_table(evidence, metric, by)) is not None],
        example=_example(evidence),
    )


def _overview(evidence: Evidence, metrics: list[str]) -> Overview:
    rows = [Row(model, [metric_cell(evidence, model, metric) for metric in metrics]) for model in evidence.agency]
    return Overview(metrics, rows, [])


def _groupings() -> list[tuple[str, str]]:
    """Who has the most say, over what, and who moves others most."""
    return [
        *((metric, "history") for metric in MAIN),
        *((metric, "popularity") for metric in MAIN[:2]),
        *((metric, "editor history") for metric in MAIN[2:]),
    ]


def _contrasts(evidence: Evidence) -> list[Contrast]:
    return [
        Contrast(
            "Lift of popular and of intermediate items",
            ["Model", "Popular", "Intermediate", "Ratio"],
            _contrast_rows(evidence, "lift", ITEM_CONTRAST),
        ),
        Contrast(
            "Instability by active and by intermediate users",
            ["Model", "Active", "Intermediate", "Difference"],
            _contrast_rows(evidence, "instability", EDITOR_CONTRAST),
        ),
    ]


def _contrast_rows(evidence: Evidence, metric: str, by: str) -> list[Row]:
    rows = []
    for model in evidence.agency:
        for when, told in WHEN.items():
            groups = evidence.groups(model, f"{when}_{metric}", by)
            if len(groups) == 3:
                rows.append(Row(f"{model}, {told}", [user_cell(group.estimate) for group in groups]))
    return rows


def _example(evidence: Evidence) -> Example | None:
    """Of the best at ranking of the models in which others move anything."""
    for model, agency in evidence.agency.items():
        if "past" in agency.worked:
            return Example(model, agency.worked["past"])
    return None

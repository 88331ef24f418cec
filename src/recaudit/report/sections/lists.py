"""What stands in each section of the page: its charts and tables, chosen by what the run has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.report import charts
from recaudit.report.charts import Figure
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.tables import GroupTable, ItemTables, Row, group_table, item_tables, metric_rows


@final
@dataclass(frozen=True)
class Overview:
    """Metrics of one audit by model: a table, and a chart for each metric."""

    metrics: list[str]
    rows: list[Row]
    figures: list[Figure]


@final
@dataclass(frozen=True)
class ByGroup:
    """One metric by group: a chart for each grouping, and all numbers."""

    metric: str
    figures: list[Figure]
    tables: list[GroupTable]
    rival: str | None = None
    """The reference that the figures set beside the main model, where it has such numbers."""
    others: bool = False
    """Whether the figures show further models."""


@final
@dataclass(frozen=True)
class Sections:
    """The parts of the page that come from results."""

    accuracy: Overview | None
    found_items: ByGroup | None
    """How often held-out items are found, by kind of item."""
    people: list[ByGroup]
    """Quality and popularity of lists by group of users."""
    exposure: Overview | None
    lorenz: Figure | None
    tradeoff: Figure | None
    popularity: Figure | None
    quarters: dict[str, str]
    """The groups of items by popularity, the least popular first, and their colours."""
    amplification: list[Figure]
    shares: list[GroupTable]
    items: list[ItemTables]
    """The main model first."""


def sections_of(evidence: Evidence) -> Sections:
    """Put together what the run can show; what it has no numbers for is left out."""
    by_popularity = (evidence.groups(model, "share", "popularity") for model in evidence.models)
    quarters = [group.name for group in next(filter(None, by_popularity), [])]
    categories = [by for by in evidence.item_groupings if by != "popularity"]
    return Sections(
        accuracy=_overview(evidence, "accuracy", marked=True),
        found_items=_by_group(evidence, "recall", evidence.item_groupings),
        people=[
            part
            for metric in (QUALITY, "popularity_lift")
            if (part := _by_group(evidence, metric, evidence.user_groupings)) is not None
        ],
        exposure=_overview(evidence, "exposure", marked=False),
        lorenz=charts.lorenz(evidence),
        tradeoff=charts.tradeoff(evidence),
        popularity=charts.popularity_shares(evidence),
        quarters={name: charts.step_color(place, len(quarters)) for place, name in enumerate(quarters)},
        amplification=[figure for by in categories if (figure := charts.amplification(evidence, by)) is not None],
        shares=[table for by in evidence.item_groupings if (table := group_table(evidence, "share", by)) is not None],
        items=[item_tables(evidence, model) for model in evidence.models if model in evidence.items],
    )


def _overview(evidence: Evidence, audit: str, *, marked: bool) -> Overview | None:
    metrics = evidence.metrics(audit)
    if not metrics:
        return None
    rows = metric_rows(evidence, metrics, marked=marked)
    return Overview(metrics, rows, [charts.models_by(evidence, metric) for metric in metrics if evidence.known(metric)])


def _by_group(evidence: Evidence, metric: str, groupings: list[str]) -> ByGroup | None:
    figures = [figure for by in groupings if (figure := charts.groups_by(evidence, metric, by)) is not None]
    tables = [table for by in groupings if (table := group_table(evidence, metric, by)) is not None]
    if not tables:
        return None
    shown = {model for model in evidence.models if any(evidence.groups(model, metric, by) for by in groupings)}
    rival = evidence.rival if evidence.rival in shown else None
    return ByGroup(metric, figures, tables, rival, bool(shown - {evidence.main, rival}))

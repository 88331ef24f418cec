"""The section on folding: how much each model folds, cases, which groups fold onto each other, and the trade-off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.report import charts
from recaudit.report.charts import Figure
from recaudit.report.evidence import Evidence
from recaudit.report.kit.tables import GroupTable, Row, group_table, metric_cell
from recaudit.report.sections.folding import AUDIT, Case, Fold, category_system, told_relatedness
from recaudit.report.sections.lists import Overview

_CASES = 3
_FOLDS = 6


@final
@dataclass(frozen=True)
class FoldingSection:
    """What stands in the section."""

    relatedness: str
    """What it was taken from, in words."""
    kind: str
    """What the categories of items are called: genre."""
    main: Overview
    """A line for each model that has vectors."""
    skipped: list[str]
    """The models that have none."""
    against_accuracy: list[Figure]
    curves: list[str]
    """The models that were fitted with other weights of unrated pairs."""
    detail: FoldingDetail | None
    """Of the model with the most spurious lists; None where no model shows anything spurious."""
    others: list[FoldingDetail]
    """The other models that show anything spurious, the most spurious first."""
    groups: list[GroupTable]


@final
@dataclass(frozen=True)
class FoldingDetail:
    """One model: three cases, and which groups fold onto each other."""

    model: str
    cases: tuple[Case, ...]
    folds: list[Fold]


def folding_section(evidence: Evidence) -> FoldingSection | None:
    """None where the audit was not run for any model."""
    metrics = evidence.metrics(AUDIT)
    if not metrics:
        return None
    spurious = evidence.known("spurious_share")
    order = sorted(spurious, key=lambda model: -(spurious[model].value or 0.0))
    details = [
        FoldingDetail(model, folded.cases[:_CASES], [fold for fold in folded.folds if fold.apart][:_FOLDS])
        for model in order
        if (folded := evidence.folding[model]).cases
    ]
    label = str(evidence.settings[AUDIT].get("relatedness", ""))
    groupings = [*evidence.user_groupings, *evidence.item_groupings]
    tables = [("folding", "relatedness"), *(("spurious_share", by) for by in groupings)]
    return FoldingSection(
        relatedness=told_relatedness(label),
        kind=category_system(label) or next(iter(evidence.run.manifest.data.categories), "category"),
        main=Overview(
            metrics,
            [Row(model, [metric_cell(evidence, model, metric) for metric in metrics]) for model in evidence.folding],
            [],
        ),
        skipped=[model for model in evidence.models if (model, AUDIT) in evidence.skipped],
        against_accuracy=[
            figure
            for metric in ("folding", "shown_folding")
            if (figure := charts.folding_against_error(evidence, metric)) is not None
        ],
        curves=[model for model, folded in evidence.folding.items() if folded.curve],
        detail=details[0] if details else None,
        others=details[1:],
        groups=[table for metric, by in tables if (table := group_table(evidence, metric, by)) is not None],
    )

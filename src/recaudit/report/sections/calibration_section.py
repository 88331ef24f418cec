"""The section on calibration: lists before and after re-ranking, whom they fail, and what re-ranking costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import final

from recaudit.report import charts
from recaudit.report.charts import Figure
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import NOT_AVAILABLE, figure
from recaudit.report.kit.tables import Cell, GroupTable, Row, group_table, user_cell
from recaudit.report.sections.calibration import AUDIT, DISTANCES, KL, QUALITIES, Example, Point

_SHORT = {
    KL: "C_KL",
    "calibration_hellinger": "Hellinger",
    "calibration_tv": "Total variation",
    "uncalibrated_share": "Beyond chance",
    "coverage": "Coverage",
    "gini": "Gini",
    "popularity_lift": "Popularity lift",
    "novelty": "Novelty",
    "log_folding": "Folding by the log",
}


@final
@dataclass(frozen=True)
class BeforeAndAfter:
    """Metrics by model, each as its value before re-ranking and after."""

    metrics: list[str]
    labels: list[str]
    """Shorter than elsewhere: each cell holds three numbers."""
    rows: list[Row]


@final
@dataclass(frozen=True)
class CalibrationSection:
    """What stands in the section."""

    kind: str
    """What the categories are called: genre."""
    weight: float
    """Lambda of the re-ranked lists."""
    smoothing: float
    highest: float
    """C_KL of a list of nothing that the user is interested in."""
    k: int
    main: BeforeAndAfter
    """How far lists are from interests, and what that costs in accuracy."""
    others: BeforeAndAfter
    """What re-ranking does to the numbers of other audits."""
    model: str
    """The model that the figures are about."""
    histogram: Figure | None
    example: Example | None
    one_user: Figure | None
    worst: Figure | None
    tradeoff: Figure | None
    bargain: Point | None
    """Of the model that the figures are about."""
    curves: list[Curve]
    skipped: list[str]
    """The models that have no answer."""
    groups: list[GroupTable]

    @property
    def metrics(self) -> list[str]:
        """Everything that the section speaks of, by name."""
        return [KL, *self.main.metrics, *self.others.metrics]


@final
@dataclass(frozen=True)
class Curve:
    """One model's numbers along the weight: paper 004, Table 2."""

    model: str
    columns: list[str]
    rows: list[Row]


def calibration_section(evidence: Evidence) -> CalibrationSection | None:
    """None where the audit was not run for any model."""
    if not evidence.calibration:
        return None
    settings = evidence.settings[AUDIT]
    model = evidence.front(KL) or next(iter(evidence.calibration))
    measured = list(dict.fromkeys(name for found in evidence.calibration.values() for name in found.reranked))
    first = [name for name in (*DISTANCES, "uncalibrated_share", *QUALITIES) if name in measured]
    found = evidence.calibration[model]
    groupings = [*evidence.user_groupings, *evidence.item_groupings]
    return CalibrationSection(
        kind=str(settings["categories"]),
        weight=settings["weight"],
        smoothing=settings["smoothing"],
        highest=-log(settings["smoothing"]),
        k=settings["k"],
        main=_compared(evidence, first),
        others=_compared(evidence, [name for name in measured if name not in first]),
        model=model,
        histogram=charts.divergences(evidence, model),
        example=found.example,
        one_user=charts.one_user(evidence, model),
        worst=charts.least_calibrated(evidence, model),
        tradeoff=charts.recall_against_divergence(evidence),
        bargain=found.best_bargain,
        curves=[_curve(evidence, name) for name, own in evidence.calibration.items() if own.curve],
        skipped=[name for name in evidence.models if (name, AUDIT) in evidence.skipped],
        groups=[table for by in groupings if (table := group_table(evidence, KL, by)) is not None],
    )


def _compared(evidence: Evidence, metrics: list[str]) -> BeforeAndAfter:
    rows = [
        Row(model, [_change(evidence, model, metric) for metric in metrics], model in evidence.references)
        for model in evidence.calibration
    ]
    return BeforeAndAfter(metrics, [_label(evidence, metric) for metric in metrics], rows)


def _label(evidence: Evidence, metric: str) -> str:
    return _SHORT.get(metric, evidence.label(metric, AUDIT))


def _change(evidence: Evidence, model: str, metric: str) -> Cell:
    """A metric after re-ranking, with its interval, and before."""
    estimate = evidence.calibration[model].reranked.get(metric)
    if estimate is None:
        return Cell(NOT_AVAILABLE, reason="the model has no vectors of users and items")
    told = user_cell(estimate)
    before = NOT_AVAILABLE if estimate.baseline is None else figure(metric, estimate.baseline)
    return told if told.reason else replace(told, before=before)


def _curve(evidence: Evidence, model: str) -> Curve:
    found = evidence.calibration[model]
    rows = [
        Row(
            f"{point.weight:g}",
            [
                Cell(figure(KL, point.divergence)),
                Cell(figure("recall", point.recall)),
                Cell("best bargain" if point == found.best_bargain else ""),
            ],
        )
        for point in found.curve
    ]
    labels = [evidence.label(metric, AUDIT) for metric in (KL, "recall")]
    return Curve(model, ["weight of calibration", *labels, ""], rows)

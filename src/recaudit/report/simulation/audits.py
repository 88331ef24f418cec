"""Audits that were asked of recommenders while they learned: each metric step by step, and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.audits.audit import definitions
from recaudit.report.charts import Figure
from recaudit.report.charts.simulation_time import drawn_curves
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, finite
from recaudit.report.kit.tables import Cell, Row, cell
from recaudit.report.simulation.evidence import Arena, Study
from recaudit.simulate.loop.simulation import interval
from recaudit.status import Status

_CURVE = dict.fromkeys(("step", "value", "lower", "upper"), pl.Float64)


@final
@dataclass(frozen=True)
class AuditPart:
    """One audit in one environment."""

    name: str
    figures: list[Figure]
    """A metric each, where it was asked more than once."""
    metrics: list[str]
    labels: list[str]
    rows: list[Row]
    """At the last step, by recommender."""


def audit_parts(study: Study, arena: Arena) -> list[AuditPart]:
    """Every audit that was asked, in the order of asking."""
    frames = [
        simulation.audits.with_columns(recommender=pl.lit(name))
        for name, simulation in arena.comparison.simulations.items()
        if len(simulation.audits)
    ]
    if not frames:
        return []
    table = pl.concat(frames)
    return [
        _part(study, arena, str(audit), table.filter(pl.col("audit") == audit))
        for audit in table["audit"].unique(maintain_order=True)
    ]


def _part(study: Study, arena: Arena, audit: str, table: pl.DataFrame) -> AuditPart:
    metrics = [str(metric) for metric in table["metric"].drop_nulls().unique(maintain_order=True)]
    figures = []
    for metric in metrics:
        own = table.filter((pl.col("metric") == metric) & pl.col("value").is_finite())
        curves = {
            name: _curve(own.filter(pl.col("recommender") == name))
            for name in arena.recommenders
            if name in own["recommender"]
        }
        drawn = drawn_curves(study, arena, curves, (metric, label(metric)), label(metric))
        figures += [drawn] if drawn is not None else []
    last = table.filter(pl.col("step") == pl.col("step").max())
    rows = [
        Row(name, [_cell(last.filter(pl.col("recommender") == name), metric) for metric in metrics])
        for name in arena.recommenders
    ]
    return AuditPart(audit, figures, metrics, [label(metric) for metric in metrics], rows)


def label(metric: str) -> str:
    """What a metric is called; how long its lists were is the audit's to say."""
    return definitions()[metric].label.replace("@k", "") if metric in definitions() else metric


def _curve(rows: pl.DataFrame) -> pl.DataFrame:
    found = [
        {"step": step + 1, **interval(part["value"].to_numpy())}
        for (step,), part in rows.sort("step").group_by("step", maintain_order=True)
    ]
    return pl.DataFrame(found, _CURVE)


def _cell(rows: pl.DataFrame, metric: str) -> Cell:
    own = rows.filter(pl.col("metric") == metric)
    values = own["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    found = interval(values)
    value, lower, upper = (finite(found[name]) for name in ("value", "lower", "upper"))
    if value is None:
        failed = Status.FAILED in own["status"]
        return Cell(NOT_AVAILABLE, reason="no finite number came" if failed else "this recommender cannot be asked")
    return cell(Estimate(metric, value, lower, upper, Status.SOLVED, None, len(values), 0))

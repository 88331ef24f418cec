"""What was measured, read: each number of the base, its ladder, and what each change does, person by person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor, isfinite, log10, nan, sqrt
from typing import Any, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.audits import Result
from recaudit.plugins import Status, decide_differences, result_differences
from recaudit.registry import AUDITS
from recaudit.report import Figure
from recaudit_papers.studies import figures
from recaudit_papers.studies.own.config import BASE, OwnStudyConfiguration, StudyMetric
from recaudit_papers.studies.own.measures import result_of, skipped
from recaudit_papers.studies.reading import PlainTable, Quantity, StudyRow, StudyTable

_SURE = ("better", "worse", "changed")
"""Verdicts on a difference that is not chance."""


@final
@dataclass(frozen=True, eq=False)
class MeasuredAudit:
    """One audit of one model in one configuration, as its experiment kept it."""

    experiment: str
    table: pl.DataFrame
    settings: Mapping[str, Any]

    @cached_property
    def result(self) -> Result:
        """The result, as far as it was kept."""
        return result_of(self.table, self.settings)

    @property
    def lacking(self) -> str:
        """Why the model could not be put to the audit; empty where it was."""
        return skipped(self.table)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The summary, by metric."""
        found = [] if self.lacking else self.result.frame.iter_rows(named=True)
        return {row["metric"]: row for row in found}

    def quantity(self, metric: str) -> Quantity | None:
        """A number with its interval; None where it has none."""
        row = self.rows.get(metric, {})
        if row.get("value") is None:
            return None
        return Quantity(row["value"], row["lower"], row["upper"], f"{row['users']:,} users")


@final
@dataclass(frozen=True)
class ChangeEffect:
    """What a change does to one number of one model."""

    place: int
    """Of the change."""
    against: str
    label: str
    audit: str
    metric: str
    difference: Quantity
    verdict: str


@final
class Findings:
    """Everything that was measured: the base first, then each change, then the base with other seeds."""

    def __init__(self, config: OwnStudyConfiguration, steps: Sequence[Mapping[tuple[str, str], MeasuredAudit]]) -> None:
        self.config = config
        n = len(config.changes)
        self.base, self.changes, self.seeds = steps[0], steps[1 : n + 1], [steps[0], *steps[n + 1 :]]

    def table(self, audit: str) -> StudyTable:
        """The rows of one audit, and what each change does to them."""
        asked = [(metric, label) for metric in self._metrics(audit) for label in metric.models or self.config.labels]
        rows = {(metric.name, label): self._row(metric, label) for metric, label in asked}
        title = AUDITS[audit].__name__
        drawn = [self._figure(row) for row in rows.values()] if self.config.metrics else []
        effects = self._effects_table(audit, rows)
        return StudyTable(
            audit,
            title,
            tuple(rows.values()),
            figures=tuple(one for one in drawn if one is not None),
            plain=(effects,) if effects.rows else (),
        )

    def _metrics(self, audit: str) -> list[StudyMetric]:
        """Those that were asked for, or all that the base has."""
        if self.config.metrics:
            return [metric for metric in self.config.metrics if metric.audit == audit]
        names = dict.fromkeys(name for label in self.config.labels for name in self.base[label, audit].rows)
        return [StudyMetric(audit=audit, name=name) for name in names]

    @property
    def reading(self) -> str:
        """How differences are to be read."""
        told = (
            "A difference is the number with the change minus the number without it, for the users that both "
            "measured: each user is compared with themselves. Verdicts are corrected (Holm) for the number of metrics "
            "of a model: better and worse by the metric's definition, changed for a metric that has no better, not "
            "shown if the difference may be chance, not known with too few users."
        )
        if len(self.seeds) > 1:
            told += (
                " By seed alone: how far two numbers of the base lie apart that differ in nothing but the seed, by the "
                f"{len(self.seeds)} that were tried."
            )
        return told

    # ---- rows ------------------------------------------------------------------------------------------------

    def _row(self, metric: StudyMetric, label: str) -> StudyRow:
        at, name = (label, metric.audit), metric.name
        ours = self.base[at].quantity(name)
        variants = {}
        for place, step in enumerate(self.changes):
            found = step[at].quantity(name)
            if found is not None and step[at].experiment != self._below(place)[at].experiment:
                variants[self.config.told(place)] = found
        repeated = self._over_seeds(at, name)
        if repeated is not None:
            variants[f"another seed ({len(self.seeds)} tried)"] = repeated
        [definition] = [one for one in AUDITS[metric.audit].metrics if one.name == name]
        known = definition.titled(self.base[at].settings["asked"].get("k"))
        title = known if len(self.config.labels) == 1 else f"{known}, {label}"
        published = metric.beside
        digits = _digits([one for one in (ours, *variants.values()) if one is not None], published.text)
        return StudyRow(title, published, ours, variants, self._note(metric, label), digits)

    def _below(self, place: int) -> Mapping[tuple[str, str], MeasuredAudit]:
        under = self.config.under(place)
        return self.base if under is None else self.changes[under]

    def _note(self, metric: StudyMetric, label: str) -> str:
        found = self.base[label, metric.audit]
        row = found.rows.get(metric.name)
        if found.lacking:
            said = found.lacking
        elif row is None:
            said = f"The base has no such number; it has {', '.join(found.rows)}."
        elif row["value"] is None:
            said = f"{Status(row['status']).value.replace('_', ' ').capitalize()} in the base."
        else:
            bound = found.result.metrics[metric.name].bound.capitalize()
            said = f"{bound}." if row["status"] == Status.BOUNDED.value else ""
        return f"{metric.note} {said}".strip()

    # ---- other seeds -----------------------------------------------------------------------------------------

    def _values(self, at: tuple[str, str], metric: str) -> list[float]:
        found = [step[at].quantity(metric) for step in self.seeds]
        return [one.value for one in found if one is not None and isfinite(one.value)]

    def _over_seeds(self, at: tuple[str, str], metric: str) -> Quantity | None:
        """Where the number of one more seed would lie: the prediction interval of Student's t."""
        values, spread = self._values(at, metric), self._spread(at, metric)
        if not isfinite(spread):
            return None
        n, mean = len(values), float(np.mean(values))
        half = spread / sqrt(2) * sqrt(1 + 1 / n)
        return Quantity(mean, mean - half, mean + half, f"{n} seeds")

    def _spread(self, at: tuple[str, str], metric: str) -> float:
        """By how much the numbers of two seeds differ, at the level of the intervals: t s sqrt(2)."""
        values = self._values(at, metric)
        if len(values) < 2:
            return nan
        confidence = self.base[at].settings["asked"]["confidence"]
        return float(stats.t.ppf(0.5 + confidence / 2, len(values) - 1) * np.std(values, ddof=1) * sqrt(2))

    # ---- what each change does -------------------------------------------------------------------------------

    def _effects_table(self, audit: str, rows: Mapping[tuple[str, str], StudyRow]) -> PlainTable:
        repeated = len(self.seeds) > 1
        columns = ("number", "change", "against", "difference", *(["by seed alone"] if repeated else []), "verdict")
        cells: list[tuple[str | Quantity, ...]] = []
        for effect in self._effects:
            row = rows.get((effect.metric, effect.label)) if effect.audit == audit else None
            if row is None:
                continue
            verdict, moved = effect.verdict, list[Quantity]()
            if repeated:
                spread = self._spread((effect.label, audit), effect.metric)
                moved = [Quantity(spread)]
                if verdict in _SURE and abs(effect.difference.value) <= spread:
                    verdict += ", no more than by another seed"
            change = self.config.changes[effect.place].name
            cells.append((row.name, change, effect.against, effect.difference, *moved, verdict))
        digits = max((row.digits for row in rows.values()), default=3)
        return PlainTable("differences", "The difference that each change makes", columns, tuple(cells), digits=digits)

    @cached_property
    def _effects(self) -> list[ChangeEffect]:
        """In the order of the changes; what a change does not touch has none."""
        found: list[ChangeEffect] = []
        for place, step in enumerate(self.changes):
            under = self.config.under(place)
            against = {BASE: self.base}
            if under is not None:
                against = {self.config.changes[under].name: self.changes[under], **against}
            for name, below in against.items():
                for label in self.config.labels:
                    found += self._of_model(place, name, label, below, step)
        return found

    def _of_model(
        self,
        place: int,
        against: str,
        label: str,
        below: Mapping[tuple[str, str], MeasuredAudit],
        step: Mapping[tuple[str, str], MeasuredAudit],
    ) -> Iterator[ChangeEffect]:
        frames = []
        for audit in self.config.audits:
            before, after = below[label, audit], step[label, audit]
            untouched = self._below(place)[label, audit].experiment == after.experiment
            if untouched or before.experiment == after.experiment or before.lacking or after.lacking:
                continue
            confidence = before.settings["asked"]["confidence"]
            found = result_differences(before.result, after.result, confidence=confidence)
            names = [m.name for m in self._metrics(audit) if label in (m.models or self.config.labels)]
            frames.append(found.filter(pl.col("metric").is_in(names)).with_columns(audit=pl.lit(audit)))
        if not frames:
            return
        confidence = next(iter(below.values())).settings["asked"]["confidence"]
        found = decide_differences(pl.concat(frames).drop_nulls("difference"), "holm", 1 - confidence)
        for row in found.iter_rows(named=True):
            over = f"{row['users']:,} users"
            difference = Quantity(row["difference"], row["lower"], row["upper"], over)
            yield ChangeEffect(place, against, label, row["audit"], row["metric"], difference, row["verdict"])

    # ---- pictures --------------------------------------------------------------------------------------------

    def _figure(self, row: StudyRow) -> Figure | None:
        """The ladder of a number."""
        if row.ours is None or not row.variants:
            return None
        rungs = {BASE: row.ours, **row.variants}
        drawn = [
            {"rung": name, "value": one.value, "lower": one.ends[0], "upper": one.ends[1]}
            for name, one in rungs.items()
        ]
        table = pl.DataFrame(drawn).with_columns(published=pl.lit(row.published.value, dtype=pl.Float64))
        theirs = None if row.published.value is None else "published"
        return figures.bars(row.name, table, "rung", "value", title=row.name, published=theirs)


def _digits(found: Iterable[Quantity], printed: str) -> int:
    """So many that three of the smallest number count, and no fewer than are printed."""
    sizes = [abs(one.value) for one in found if isfinite(one.value) and one.value]
    needed = 2 - floor(log10(min(sizes))) if sizes else 3
    known = len(printed.partition(".")[2]) if printed.replace(".", "", 1).lstrip("-").isdigit() else 0
    return max(3 if not sizes or min(sizes) < 10 else 1, min(needed, 6), known)

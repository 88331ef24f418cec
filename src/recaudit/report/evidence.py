"""What the page is made from: the tables of a run side by side, and which model stands in front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast, final

import polars as pl

from recaudit.audits.audit import definitions
from recaudit.errors import InputError
from recaudit.metrics.groupings import told_names
from recaudit.metrics.metric import Metric
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.registry import AUDITS
from recaudit.report.kit.claims import Effect, against
from recaudit.report.kit.numbers import Estimate
from recaudit.runs import Run
from recaudit.runs.manifest import StepRecord
from recaudit.runs.recommenders import IMPERSONAL
from recaudit.status import Status

QUALITY = "ndcg"
"""The metric that puts models in order: a recommender is there to rank."""
_NO_RATINGS = "the model's scores rank items and are not ratings"

Read = TypeVar("Read")


def columns(text: str = "", numbers: str = "", counts: str = "") -> dict[str, Any]:
    """A schema of columns by name: of text, as ids are read whatever they were, of numbers and of counts."""
    kinds = ((text, pl.String), (numbers, pl.Float64), (counts, pl.Int64))
    return {name: kind for names, kind in kinds for name in names.split()}


@final
@dataclass(frozen=True)
class GroupEstimate:
    """One group of users or items, and what was measured for it."""

    by: str
    name: str
    estimate: Estimate
    raw: str = ""
    """The name as in the tables of results."""

    @property
    def people(self) -> str:
        """A group of users in a sentence."""
        return f"users with {self.name}" if self.by == "history" else f"users of {self.by} {self.name}"

    @property
    def things(self) -> str:
        """A group of items in a sentence."""
        return f"items with {self.name}" if self.by == "popularity" else f"items of {self.by} {self.name}"


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """A run, ready for questions: every answer comes from its tables."""

    run: Run
    _read: dict[object, Any] = field(default_factory=dict)

    def table(self, model: str, audit: str, name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
        """The named columns of a table, ids as text whatever they were; no rows where there is no such table."""
        try:
            return self.scan(model, audit, name, schema).collect()
        except InputError as error:
            if error.argument not in ("audit", "name"):
                raise
            return pl.DataFrame(schema=dict(schema))

    def scan(self, model: str, audit: str, name: str, schema: Mapping[str, Any]) -> pl.LazyFrame:
        """The same of a finished audit, read no further than it is asked for."""
        self.run.check_columns(model, audit, name, schema)
        return self.run.scan(model, audit, name).select(pl.col(column).cast(kind) for column, kind in schema.items())

    def each(self, audit: str, read: Callable[[Evidence, str], Read]) -> Mapping[str, Read]:
        """What `read` takes from the tables of each model that has this audit, in the order of `models`; read once."""
        if read not in self._read:
            self._read[read] = {model: read(self, model) for model in self.models if audit in self.run.audits(model)}
        return cast("Mapping[str, Read]", self._read[read])

    def remember(self, compute: Callable[[Evidence], Read]) -> Read:
        """What a function computes from the run; computed once."""
        if compute not in self._read:
            self._read[compute] = compute(self)
        return cast("Read", self._read[compute])

    def curve(self, model: str, audit: str, over: str, metrics: list[str]) -> pl.DataFrame:
        """The points of a series at which all of these were measured: columns `at` and the metrics."""
        series = self.table(model, audit, "series", SERIES_SCHEMA).filter(pl.col("over") == over)
        wide = series.pivot("metric", index="at", values="value").sort("at")
        if not set(metrics) <= set(wide.columns):
            return pl.DataFrame(schema=dict.fromkeys(["at", *metrics], pl.Float64))
        return wide.select("at", *metrics).drop_nulls()

    @cached_property
    def definitions(self) -> Mapping[str, Metric]:
        """Every metric of every audit, by name."""
        return definitions()

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """The audit that a metric is meant to be of where none is named: the first that measures it."""
        return {
            metric.name: name
            for name, audit in AUDITS.items()
            for metric in audit.metrics
            if metric.name not in audit.borrowed
        }

    @property
    def everything(self) -> tuple[str, ...]:
        """Every model that was measured, the floors last."""
        return (*self.run.models, *self.run.floors)

    @cached_property
    def summaries(self) -> Mapping[tuple[str, str, str], Estimate]:
        """The overall numbers by (model, audit, metric)."""
        return {
            (model, audit, row["metric"]): Estimate.of(self.definitions[row["metric"]], row)
            for model in self.everything
            for audit in self.run.audits(model)
            for row in self.table(model, audit, "summary", SUMMARY_SCHEMA).iter_rows(named=True)
            if row["metric"] in self.definitions
        }

    @cached_property
    def grouped(self) -> pl.DataFrame:
        """The numbers by group: columns model, audit and those of GROUP_SCHEMA."""
        frames = [
            self.table(model, audit, "groups", GROUP_SCHEMA).with_columns(model=pl.lit(model), audit=pl.lit(audit))
            for model in self.everything
            for audit in self.run.audits(model)
        ]
        return pl.concat(frames or [pl.DataFrame(schema={**GROUP_SCHEMA, "model": pl.String, "audit": pl.String})])

    @cached_property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """What the numbers of all models depend on, by audit; `facts` has what differs between them as well."""
        found: dict[str, Mapping[str, Any]] = {}
        for step in self.run.manifest.steps:
            before = found.get(step.audit, step.settings)
            found[step.audit] = {
                name: value for name, value in step.settings.items() if name in before and before[name] == value
            }
        return found

    def facts(self, model: str, audit: str) -> Mapping[str, Any]:
        """What the numbers of one model in a finished audit depend on."""
        return self._step(model, audit).settings

    def asked(self, model: str, audit: str) -> Mapping[str, Any]:
        """What was asked of one model in a finished audit, before it turned out as `facts` say."""
        return self._step(model, audit).asked

    def _step(self, model: str, audit: str) -> StepRecord:
        return next(step for step in self.run.manifest.steps if (step.model, step.audit) == (model, audit))

    @cached_property
    def skipped(self) -> Mapping[tuple[str, str], str]:
        """Why there is no answer, by (model, audit) that was skipped; that a floor has none is no news."""
        skipped = (skip for skip in self.run.manifest.skipped if skip.model not in self.run.floors)
        return {(skip.model, skip.audit): skip.reason for skip in skipped}

    @cached_property
    def references(self) -> tuple[str, ...]:
        """The models that do not personalise: what every other model has to beat."""
        return tuple(model.label for model in self.run.manifest.models if model.kind in IMPERSONAL)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Every model, best ranking first; those without a value after them, references last."""

        def place(model: str) -> tuple[bool, bool, float]:
            found = self.overall(model, QUALITY)
            value = None if found is None else found.value
            return model in self.references, value is None, -(value or 0.0)

        return tuple(sorted(self.everything, key=place))

    @property
    def main(self) -> str:
        """The model meant where the page speaks of one: the best ranking of those that personalise."""
        return self.models[0]

    @property
    def personalised(self) -> list[str]:
        """The models that are no references, best ranking first."""
        return [model for model in self.models if model not in self.references]

    @property
    def contestants(self) -> list[str]:
        """Of the models that personalise, those whose ranking was measured, best first."""
        return [model for model in self.known(QUALITY) if model not in self.references]

    @property
    def rival(self) -> str | None:
        """The reference with the best ranking, where the main model is not a reference itself."""
        known = [] if self.main in self.references else self.known(QUALITY)
        return next((model for model in known if model in self.references), None)

    def front(self, metric: str) -> str | None:
        """The model to speak of where this number is meant: the best ranking of those that have it."""
        return next(iter(self.spoken_of(metric)), None)

    def unasked(self, *audits: str) -> list[str]:
        """The models for which one of these audits was skipped."""
        return [model for model in self.models if any((model, audit) in self.skipped for audit in audits)]

    def overall(self, model: str, metric: str, audit: str = "") -> Estimate | None:
        """The overall number of a model; of `audit` where two have measured it."""
        return self.summaries.get((model, audit or self.owners.get(metric, ""), metric))

    def known(self, metric: str, audit: str = "") -> dict[str, Estimate]:
        """The overall number of every model that has one, in the order of `models`."""
        found = {model: self.overall(model, metric, audit) for model in self.models}
        return {model: row for model, row in found.items() if row is not None and row.value is not None}

    def spoken_of(self, metric: str) -> dict[str, Estimate]:
        """Of `known`, the models that the page is about: those that personalise; the references where none does."""
        about = self.personalised or self.references
        return {model: estimate for model, estimate in self.known(metric).items() if model in about}

    def firm(self, metric: str) -> dict[str, Estimate]:
        """Of `known`, what rests on enough users to be spoken of as a finding."""
        return {model: estimate for model, estimate in self.known(metric).items() if estimate.rests_on_enough}

    def ranked(self, metric: str, audit: str = "") -> list[str]:
        """The models that have a value, best first."""
        found = self.known(metric, audit)
        sign = 1 if self.definitions[metric].better == "lower" else -1
        return sorted(found, key=lambda model: sign * (found[model].value or 0.0))

    def metrics(self, audit: str) -> list[str]:
        """What this audit measured for any model, in the order in which it defines them."""
        measured = {metric for _, own, metric in self.summaries if own == audit}
        return [metric.name for metric in AUDITS[audit].metrics if metric.name in measured] if audit in AUDITS else []

    def label(self, metric: str, audit: str = "") -> str:
        """What the metric is called, with the list length filled in: nDCG@10; of `audit` where two have measured it."""
        return self.definitions[metric].titled(self.list_length(audit or self.owners[metric]))

    def said(self, metric: str, value: float, audit: str = "") -> str:
        """A value under the metric's label: nDCG@10 0.312."""
        return f"{self.label(metric, audit)} {self.definitions[metric].written(value)}"

    def list_length(self, audit: str) -> int | None:
        """How many items a list has in this audit."""
        return self.settings.get(audit, {}).get("k")

    @property
    def confidence(self) -> float:
        """The level of the intervals."""
        levels = (settings.get("confidence") for settings in self.settings.values())
        return next((float(level) for level in levels if level is not None), 0.95)

    def reason(self, model: str, metric: str, audit: str = "") -> str:
        """Why this model has no value of a metric that was asked for."""
        audit = audit or self.owners[metric]
        found = self.overall(model, metric, audit)
        if found is None:
            return self.absence(model, audit)
        left_out = self.facts(model, audit).get("left_out", {})
        told = next((why for why, metrics in left_out.items() if metric in metrics), None)
        if told or found.status == Status.FAILED:
            return told or "the computation failed"
        return _NO_RATINGS if metric in ("rmse", "mae") else "there was nothing to measure"

    def absence(self, model: str, audit: str) -> str:
        """Why this model has no numbers of this audit."""
        return self.skipped.get((model, audit), f"the {audit} audit of this model has not been run")

    def groups(self, model: str, metric: str, by: str, audit: str = "") -> list[GroupEstimate]:
        """The number of every group that has one, in the table's order."""
        of = {"model": model, "audit": audit or self.owners[metric], "metric": metric, "by": by}
        rows = self.grouped.filter(**of).to_dicts()
        names = told_names([row["group"] for row in rows])
        estimates = {row["group"]: Estimate.of(self.definitions[metric], row) for row in rows}
        return [
            GroupEstimate(by, names[raw], estimate, raw)
            for raw, estimate in estimates.items()
            if estimate.value is not None
        ]

    def firm_groups(self, model: str, metric: str, by: str) -> list[GroupEstimate]:
        """Of `groups`, those with enough users to be spoken of in a finding."""
        return [group for group in self.groups(model, metric, by) if group.estimate.rests_on_enough]

    @property
    def user_groupings(self) -> list[str]:
        """The ways in which users are grouped, the length of their history first."""
        return self._groupings("history", self.run.manifest.data.attributes)

    @property
    def item_groupings(self) -> list[str]:
        """The ways in which items are grouped, popularity first."""
        return self._groupings("popularity", self.run.manifest.data.categories)

    def _groupings(self, first: str, others: Iterable[str]) -> list[str]:
        found = self.grouped["by"].unique(maintain_order=True)
        return sorted((by for by in found if by in {first, *others}), key=lambda by: by != first)

    def size(self, *estimates: Estimate, value: float = 0.0, beside: Iterable[Estimate] = ()) -> Effect:
        """How far the farthest of these lies from a value; on the fewest users, also of those `beside`."""
        users = min(own.users for own in (*estimates, *beside))
        effects = (against(own, value, self.confidence) for own in estimates)
        return replace(max(effects, key=lambda own: own.size), users=users)

"""What the page is made from: the tables of a run side by side, and which model stands in front."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, final

import polars as pl

from recaudit.audits.audit import definitions
from recaudit.metrics.tables import GROUP_SCHEMA, SUMMARY_SCHEMA
from recaudit.report.kit.numbers import Estimate, finite
from recaudit.report.kit.reading import table_of
from recaudit.report.sections.agency import Agency
from recaudit.report.sections.calibration import Calibrated
from recaudit.report.sections.folding import Folded
from recaudit.report.sections.reach import Reach, told_actions
from recaudit.runs import Run
from recaudit.status import Status

QUALITY = "ndcg"
"""The metric that puts models in order: a recommender is there to rank."""

_ITEM_SCHEMA = {
    "item": pl.String,
    "title": pl.String,
    "ratings": pl.Int64,
    "mean_rating": pl.Float64,
    "recommended": pl.Int64,
}
_REFERENCE_KINDS = frozenset({"toppop", "random"})


@final
@dataclass(frozen=True)
class Group:
    """One group of users or items, and what was measured for it."""

    by: str
    name: str
    estimate: Estimate

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
    models: tuple[str, ...]
    """Every model, best ranking first; those without a value after them, references last."""
    references: tuple[str, ...]
    """The models that do not personalise: what every other model has to beat."""
    summaries: Mapping[tuple[str, str], Estimate]
    """The overall numbers by (model, metric)."""
    audit_of: Mapping[str, str]
    """Which audit measured a metric, in the order in which metrics are defined."""
    grouped: pl.DataFrame
    """The numbers by group: a column model and those of GROUP_SCHEMA."""
    items: Mapping[str, pl.DataFrame]
    """A frame for each model that was audited for exposure, a row an item: item, title (the id where there is
    none), ratings, mean_rating, recommended."""
    settings: Mapping[str, Mapping[str, Any]]
    """What the numbers depend on, by audit."""
    skipped: Mapping[tuple[str, str], str]
    """Why there is no answer, by (model, audit) that was skipped."""
    left_out: Mapping[tuple[str, str], str]
    """Why there is no value, by (model, metric), where a finished audit says so itself."""

    @classmethod
    def of(cls, run: Run) -> Evidence:
        """Read a run's tables."""
        pairs = [(model, audit) for model in run.models for audit in run.audits(model)]
        summaries: dict[tuple[str, str], Estimate] = {}
        audit_of: dict[str, str] = {}
        for model, audit in pairs:
            for row in table_of(run, model, audit, "summary", SUMMARY_SCHEMA).iter_rows(named=True):
                summaries[model, row["metric"]] = _estimate(row)
                audit_of[row["metric"]] = audit
        grouped = [
            table_of(run, model, audit, "groups", GROUP_SCHEMA).insert_column(0, pl.lit(model).alias("model"))
            for model, audit in pairs
        ]
        items = {model: _items(run, model) for model, audit in pairs if audit == "exposure"}
        references = tuple(model.label for model in run.manifest.models if _is_reference(model.kind))

        def place(model: str) -> tuple[bool, bool, float]:
            found = summaries.get((model, QUALITY))
            value = None if found is None else found.value
            return model in references, value is None, -(value or 0.0)

        return cls(
            run=run,
            models=tuple(sorted(run.models, key=place)),
            references=references,
            summaries=summaries,
            audit_of={name: audit_of[name] for name in definitions() if name in audit_of},
            grouped=pl.concat(grouped or [pl.DataFrame(schema={"model": pl.String, **GROUP_SCHEMA})]),
            items={model: frame for model, frame in items.items() if len(frame)},
            settings={step.audit: step.settings for step in run.manifest.steps},
            skipped={(skip.model, skip.audit): skip.reason for skip in run.manifest.skipped},
            left_out={
                (step.model, metric): reason
                for step in run.manifest.steps
                for reason, metrics in step.settings.get("left_out", {}).items()
                for metric in metrics
            },
        )

    # ---- models ----------------------------------------------------------------------------------------

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
        if self.main in self.references:
            return None
        return next((model for model in self.known(QUALITY) if model in self.references), None)

    def front(self, metric: str) -> str | None:
        """The model to speak of where this number is meant: the best ranking of those that have it."""
        return next(iter(self.known(metric)), None)

    @cached_property
    def reach(self) -> Mapping[str, Reach]:
        """What the models that were audited for reachability let users reach, in the order of `models`."""
        return {model: Reach.of(self.run, model) for model in self.models if "reachability" in self.run.audits(model)}

    @cached_property
    def folding(self) -> Mapping[str, Folded]:
        """What the models that were audited for folding fold, in the order of `models`."""
        return {model: Folded.of(self.run, model) for model in self.models if "folding" in self.run.audits(model)}

    @cached_property
    def calibration(self) -> Mapping[str, Calibrated]:
        """What the models that were audited for calibration say, in the order of `models`."""
        audited = [model for model in self.models if "calibration" in self.run.audits(model)]
        return {model: Calibrated.of(self.run, model) for model in audited}

    @property
    def allowed_actions(self) -> str:
        """What users may do in the reachability audit, as a verb: "rate ..."."""
        return told_actions(str(self.settings.get("reachability", {}).get("actions", "")))

    @cached_property
    def agency(self) -> Mapping[str, Agency]:
        """What the models that were audited for agency say, in the order of `models`."""
        return {model: Agency.of(self.run, model) for model in self.models if "agency" in self.run.audits(model)}

    def reason(self, model: str, metric: str) -> str:
        """Why this model has no value of a metric that was asked for."""
        found = self.summaries.get((model, metric))
        if found is None:
            return self.absence(model, self.audit_of[metric])
        return self.left_out.get((model, metric), found.reason)

    def absence(self, model: str, audit: str) -> str:
        """Why this model has no numbers of this audit."""
        return self.skipped.get((model, audit), f"the {audit} audit of this model has not been run")

    # ---- numbers ---------------------------------------------------------------------------------------

    def known(self, metric: str) -> dict[str, Estimate]:
        """The overall number of every model that has one, in the order of `models`."""
        found = {model: self.summaries.get((model, metric)) for model in self.models}
        return {model: row for model, row in found.items() if row is not None and row.value is not None}

    def firm(self, metric: str) -> dict[str, Estimate]:
        """Of `known`, what rests on enough users to be spoken of as a finding."""
        return {model: estimate for model, estimate in self.known(metric).items() if estimate.rests_on_enough}

    def ranked(self, metric: str) -> list[str]:
        """The models that have a value, best first."""
        found = self.known(metric)
        sign = 1 if definitions()[metric].better == "lower" else -1
        return sorted(found, key=lambda model: sign * (found[model].value or 0.0))

    def metrics(self, audit: str) -> list[str]:
        """What this audit measured for any model."""
        return [name for name, source in self.audit_of.items() if source == audit]

    def label(self, metric: str, audit: str | None = None) -> str:
        """What the metric is called, with the list length filled in: nDCG@10; of `audit` where two have measured it."""
        k = self.list_length(audit or self.audit_of.get(metric, "exposure"))
        return definitions()[metric].label.replace("@k", "" if k is None else f"@{k}")

    def list_length(self, audit: str) -> int | None:
        """How many items a list has in this audit."""
        return self.settings.get(audit, {}).get("k")

    @property
    def confidence(self) -> float:
        """The level of the intervals."""
        levels = (settings.get("confidence") for settings in self.settings.values())
        return next((float(level) for level in levels if level is not None), 0.95)

    def firm_groups(self, model: str, metric: str, by: str) -> list[Group]:
        """Of `groups`, those with enough users to be spoken of in a finding."""
        return [group for group in self.groups(model, metric, by) if group.estimate.rests_on_enough]

    def groups(self, model: str, metric: str, by: str) -> list[Group]:
        """The number of every group that has one, in the table's order."""
        wanted = (pl.col("model") == model) & (pl.col("metric") == metric) & (pl.col("by") == by)
        rows = self.grouped.filter(wanted).to_dicts()
        names = _readable([row["group"] for row in rows])
        found = [Group(by, name, _estimate(row)) for name, row in zip(names, rows, strict=True)]
        return [group for group in found if group.estimate.value is not None]

    @property
    def user_groupings(self) -> list[str]:
        """The ways in which users are grouped, the length of their history first."""
        return self._groupings({"history", *self.run.manifest.data.attributes})

    @property
    def item_groupings(self) -> list[str]:
        """The ways in which items are grouped, popularity first."""
        return self._groupings({"popularity", *self.run.manifest.data.categories})

    def _groupings(self, wanted: set[str]) -> list[str]:
        found = [by for by in self.grouped["by"].unique(maintain_order=True) if by in wanted]
        return sorted(found, key=lambda by: by not in ("history", "popularity"))

    def difference(self, model: str, other: str, metric: str) -> Estimate | None:
        """How much more the same users get from one model than from the other, with a paired interval.

        mean(d) +- z sd(d) / sqrt(n) over the differences d of users who have both values: two models are
        compared on the same people, so this interval is tighter than the two separate ones suggest.
        """
        schema = {"user": pl.String, metric: pl.Float64}
        left, right = (table_of(self.run, name, "accuracy", "users", schema) for name in (model, other))
        gains = left.join(right, on="user").select(pl.col(metric) - pl.col(f"{metric}_right")).to_series()
        gains = gains.filter(gains.is_finite().fill_null(value=False))
        mean, spread = gains.mean(), gains.std()
        if not isinstance(mean, float) or not isinstance(spread, float):
            return None
        reach = NormalDist().inv_cdf((1 + self.confidence) / 2) * spread / len(gains) ** 0.5
        return Estimate(metric, mean, mean - reach, mean + reach, Status.SOLVED, None, len(gains), 0)

    def predicts_better(self, model: str, other: str) -> bool:
        """Whether the same users' ratings are predicted better by one model than by the other, beyond chance."""
        gain = self.difference(model, other, "rmse")
        return gain is not None and gain.below(0)


def widest_gap(groups: list[Group]) -> tuple[Group, Group] | None:
    """The lowest and the highest group, if their intervals do not overlap."""
    ordered = sorted(groups, key=lambda group: group.estimate.value or 0.0)
    if len(ordered) < 2 or not ordered[0].estimate.apart_from(ordered[-1].estimate):
        return None
    return ordered[0], ordered[-1]


def widest_gaps(evidence: Evidence, model: str, metric: str) -> list[tuple[Group, Group]]:
    """The lowest and highest group of users of every grouping where their intervals are apart, the widest gap first.

    Groups with too few users for a finding are not looked at.
    """
    found = [widest_gap(evidence.firm_groups(model, metric, by)) for by in evidence.user_groupings]
    gaps = [gap for gap in found if gap is not None]
    return sorted(gaps, key=lambda gap: (gap[0].estimate.value or 0.0) - (gap[1].estimate.value or 0.0))


def _readable(names: list[str]) -> list[str]:
    """Group names without the numbers that only keep them in order ("1: 3-9 ratings", "2: ...")."""
    if all(name.startswith(f"{place}: ") for place, name in enumerate(names, start=1)):
        return [name.split(": ", 1)[1] for name in names]
    return names


def _is_reference(kind: str) -> bool:
    return re.sub(r"[^a-z]", "", kind.lower()) in _REFERENCE_KINDS


def _items(run: Run, model: str) -> pl.DataFrame:
    rows = table_of(run, model, "exposure", "items", _ITEM_SCHEMA)
    return rows.with_columns(pl.coalesce("title", "item").alias("title"))


def _estimate(row: dict[str, Any]) -> Estimate:
    value = finite(row["value"])
    return Estimate(
        metric=row["metric"],
        value=value,
        lower=finite(row["lower"]),
        upper=finite(row["upper"]),
        status=row["status"],
        baseline=finite(row["baseline"]),
        users=row["users"] or 0,
        excluded=row["excluded"] or 0,
    )

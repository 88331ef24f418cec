"""From rules to questions: which numbers of which run each rule is about, and why some cannot be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import polars as pl
from scipy.special import ndtri

from recaudit.audits.audit import definitions
from recaudit.errors import DamagedError, InputError, did_you_mean
from recaudit.metrics.tables import GROUP_SCHEMA
from recaudit.runs.comparison import RunComparison, compare
from recaudit.runs.folder import Run
from recaudit.runs.gate.judging import GateQuestion
from recaudit.runs.gate.rules import Gate, Rule
from recaudit.status import Status

_QUARTILES = ("history", "popularity")
"""The groupings that every log has."""


@final
@dataclass(frozen=True, eq=False)
class GateEvidence:
    """A run, and perhaps the run that it is compared with."""

    run: Run
    baseline: Run | None

    @cached_property
    def _compared(self) -> RunComparison | str:
        """The comparison, or why there is none."""
        assert self.baseline is not None
        try:
            return compare(self.baseline, self.run)
        except DamagedError:
            raise
        except InputError as error:
            same = "no model has the same label in both runs"
            return same if error.argument == "models" else f"nothing can be compared: {error.remedy.rstrip('.')}"

    @property
    def same_data(self) -> bool:
        """Whether both runs looked at the same log."""
        logs = [run.manifest.data.fingerprint for run in self._runs]
        return logs[0] == logs[-1]

    @property
    def _runs(self) -> list[Run]:
        return [self.run] if self.baseline is None else [self.run, self.baseline]

    def questions(self, gate: Gate) -> list[GateQuestion]:
        """Every number that the rules are about; at least one of each rule."""
        for place, rule in enumerate(gate.rules):
            self._check_names(rule, f"rule[{place}]")
        return [
            question
            for place, rule in enumerate(gate.rules, start=1)
            for model in ((rule.model,) if rule.model is not None else self.run.models)
            for question in self._of_model(
                GateQuestion(rule, place, model, rule.measured_by, rule.by or "", rule.group or "")
            )
        ]

    def ungated(self, gate: Gate) -> list[str]:
        """What the rules pass over, and somebody may take for judged: groups and models of one run alone."""
        changes = [rule for rule in gate.rules if rule.has_margin]
        if self.baseline is None or not changes or isinstance(self._compared, str):
            return []
        compared = {before for before, _ in self._compared.models.values()}
        gone = [model for model in self.baseline.models if model not in compared]
        told = [f"In the baseline alone, and not judged: {', '.join(gone)}."] if gone else []
        for by in dict.fromkeys(rule.by for rule in changes if rule.by and rule.group is None):
            audits = {rule.measured_by for rule in changes if rule.by == by}
            new, old = (_groups(run, by, audits) for run in (self.run, self.baseline))
            added = [group for group in new if group not in old]
            if old and added:
                told.append(f"By {by} the baseline has no {', '.join(added)}: no change of theirs is judged.")
        return told

    # ---- names ---------------------------------------------------------------------------------------------

    def _check_names(self, rule: Rule, at: str) -> None:
        """That the rule's names are known here; that this very number is not there is no mistake of the rule."""
        models = [label for run in self._runs for label in (*run.models, *run.floors)]
        if rule.model is not None and rule.model not in models:
            remedy = did_you_mean(rule.model, dict.fromkeys(models))
            raise InputError(f"{at}.model", received=rule.model, expected="a model of the run", remedy=remedy)
        if rule.by is None:
            return
        known = [
            *(name for run in self._runs for name in (*run.manifest.data.attributes, *run.manifest.data.categories)),
            *_QUARTILES,
        ]
        groups = list(dict.fromkeys(group for run in self._runs for group in _groups(run, rule.by, {rule.measured_by})))
        if rule.by not in known and not groups:
            remedy = did_you_mean(rule.by, known)
            raise InputError(f"{at}.by", received=rule.by, expected="a grouping of the run", remedy=remedy)
        if rule.group is not None and groups and rule.group not in groups:
            remedy = did_you_mean(rule.group, groups)
            raise InputError(f"{at}.group", received=rule.group, expected=f"a group by {rule.by}", remedy=remedy)

    # ---- numbers -------------------------------------------------------------------------------------------

    def _of_model(self, asked: GateQuestion) -> Iterator[GateQuestion]:
        rule = asked.rule
        lacking = _lacking(self.run, asked.model, asked, "the run")
        if not lacking and rule.has_margin:
            lacking = self._lacking_baseline(asked)
        if lacking:
            yield replace(asked, lacking=lacking)
            return
        found = list(self._changes(asked) if rule.has_margin else self._numbers(asked))
        groups = f" by {rule.by}" * bool(rule.by) + f" for {rule.group}" * bool(rule.group)
        nothing = f"{asked.audit} has no {rule.metric}{groups} in {'both runs' if rule.has_margin else 'the run'}"
        yield from found or [replace(asked, lacking=nothing)]

    def _lacking_baseline(self, asked: GateQuestion) -> str:
        """Why the number cannot be compared at all."""
        if self.baseline is None:
            return "there is no baseline to compare with"
        if self.baseline.manifest.status != "complete":
            return "the baseline is interrupted"
        compared = self._compared
        if isinstance(compared, str):
            return compared
        labels = {after: before for before, after in compared.models.values()}
        if asked.model not in labels:
            added = asked.model in self.run.floors
            return f"no change of {asked.model} is measured" if added else f"the baseline has no model {asked.model}"
        label = labels[asked.model]
        reasons = (
            left.reason
            for left in compared.left_out
            if (left.audit, compared.models[left.model]) == (asked.audit, (label, asked.model))
            and (not left.metrics or asked.rule.metric in left.metrics)
        )
        return _lacking(self.baseline, label, asked, "the baseline") or next(reasons, "")

    def _numbers(self, asked: GateQuestion) -> Iterator[GateQuestion]:
        """The numbers that the run has, beside their bound."""
        settings = self.run.steps(asked.model)[asked.audit]
        for row in rows_of(self.run, asked.model, asked.rule).iter_rows(named=True):
            yield beside_bound(asked, row, settings.get("confidence", 0.95))

    def _changes(self, asked: GateQuestion) -> Iterator[GateQuestion]:
        """The numbers of both runs that were compared, and the groups of the baseline that could not be."""
        assert self.baseline is not None
        assert isinstance(self._compared, RunComparison)
        [name] = (name for name, (_, after) in self._compared.models.items() if after == asked.model)
        about = {"model": name, "audit": asked.audit, "metric": asked.rule.metric, "by": asked.by}
        rows = self._compared.frame.filter(pl.col(column) == value for column, value in about.items())
        for row in rows.iter_rows(named=True):
            if asked.rule.group in (None, row["group"]):
                yield beside_baseline(asked, row)
        compared = set(rows["group"])
        for group in _groups(self.baseline, asked.by, {asked.audit}, asked.rule.metric):
            if compared and group not in compared and asked.rule.group in (None, group):
                yield replace(asked, group=group, lacking="nobody of this group was measured in both runs")


def beside_bound(asked: GateQuestion, row: Mapping[str, Any], confidence: float) -> GateQuestion:
    """The question about a row as in GROUP_SCHEMA, whose interval has this level."""
    rule = asked.rule
    error = standard_error(row, confidence) if rule.confidence is not None else None
    lacking = _undecidable(rule, row["value"], row["users"], row["status"])
    if not lacking and rule.confidence is not None and error is None:
        lacking = "it has no interval, which a rule with a confidence needs"
    found = replace(asked, group=row["group"], value=row["value"], users=row["users"], lacking=lacking)
    if lacking:
        return found
    excess = row["value"] - rule.limit if rule.rising else rule.limit - row["value"]
    bounded = row["status"] == Status.BOUNDED.value and rule.bounds == "undecided"
    least = definitions()[rule.metric].least
    return replace(found, allowed=rule.limit, excess=excess, error=error, bounded=bounded, least=least)


def beside_baseline(asked: GateQuestion, row: Mapping[str, Any]) -> GateQuestion:
    """The question about a row as in COMPARISON_SCHEMA."""
    rule, error = asked.rule, row["error"]
    value = None if row["before"] is None else row["after"]
    lacking = _undecidable(rule, value, row["users"], "not applicable to one of the two runs")
    if not lacking and row["status"] == Status.BOUNDED.value and rule.bounds == "undecided":
        lacking = "one of the two numbers is only a bound"
    if not lacking and error is None:
        lacking = "how sure the change is cannot be said of so few people"
    numbers = {"value": row["after"], "before": row["before"], "users": row["users"]}
    found = replace(asked, group=row["group"], lacking=lacking, **numbers)
    if lacking:
        return found
    allowed, error = _margin(rule, row)
    change = row["difference"] if rule.rising else -row["difference"]
    return replace(found, allowed=allowed, excess=change - allowed, error=error)


def _undecidable(rule: Rule, value: float | None, users: int, status: str) -> str:
    """Why nothing could be said of a number, whatever it is held to."""
    if value is None:
        return f"it is {status.replace('_', ' ')}"
    return f"it stands on {users:,} people, and the rule asks for {rule.people:,}" if users < rule.people else ""


def _margin(rule: Rule, row: Mapping[str, Any]) -> tuple[float, float]:
    """By how much a number may change, and the standard error of how far it goes beyond.

    A share s of the baseline's number b is as uncertain as b. What lies beyond is +-(after - c b) with c = 1 +- s, and
    the variances of after, b and after - b, all from the same draws, give its own:
    (1 - c) var(after) + (c^2 - c) var(b) + c var(after - b). With a margin in the metric's units, c is 1.
    """
    before = row["before"]
    if not rule.relative:
        return rule.limit, row["error"]
    c = 1 + (rule.limit if rule.rising else -rule.limit) * np.sign(before)
    variance = (1 - c) * row["error_after"] ** 2 + (c * c - c) * row["error_before"] ** 2 + c * row["error"] ** 2
    return rule.limit * abs(before), float(np.sqrt(max(variance, 0.0)))


def standard_error(row: Mapping[str, Any], confidence: float) -> float | None:
    """The standard error that an interval of this level implies."""
    if row["lower"] is None or row["upper"] is None:
        return None
    return float((row["upper"] - row["lower"]) / (2 * ndtri(0.5 + confidence / 2)))


def _lacking(run: Run, model: str, asked: GateQuestion, called: str) -> str:
    """Why a run has no numbers for this question, or none to rely on."""
    audit = asked.audit
    if run.manifest.status != "complete":
        return f"{called} is interrupted: its command, run again, goes on"
    if model not in (*run.models, *run.floors):
        return f"{called} has no model {model}"
    if audit in run.audits(model):
        failed = "" if asked.rule.failures == "accept" else failures(run.steps(model)[audit])
        return failed and f"in {called} {failed}"
    skipped = (skip.reason for skip in run.manifest.skipped if (skip.model, skip.audit) == (model, audit))
    return next((f"{called} skipped {audit}: {reason}" for reason in skipped), f"{called} has no {audit} of {model}")


def failures(settings: Mapping[str, Any]) -> str:
    """For how many users or pairs an audit failed, in words; empty for none. Its numbers leave them out."""
    failed = sum(settings.get("failed", {}).values()) + sum(_failed(settings.get("statuses", {})))
    if not failed and not settings.get("causes"):
        return ""
    return f"answers failed{f' for {failed:,} users or pairs' if failed else ''}, which the number leaves out"


def _failed(statuses: Mapping[str, Any]) -> Iterator[int]:
    """Of counts by status, or of several such tables by name."""
    for name, count in statuses.items():
        if isinstance(count, Mapping):
            yield from _failed(count)
        elif name == Status.FAILED.value:
            yield count


def rows_of(run: Run, model: str, rule: Rule) -> pl.DataFrame:
    """The rows of a model's result that a rule is about, columns as in GROUP_SCHEMA."""
    result = run.result(model, rule.measured_by)
    everybody = result.frame.with_columns(by=pl.lit(""), group=pl.lit(""))
    rows = (result.groups if rule.by else everybody).select(*GROUP_SCHEMA)
    chosen = rows.filter(pl.col("metric") == rule.metric, pl.col("by") == (rule.by or ""))
    return chosen if rule.group is None else chosen.filter(pl.col("group") == rule.group)


def _groups(run: Run, by: str, audits: Iterable[str], metric: str | None = None) -> list[str]:
    """The groups of a grouping in the tables of some audits."""
    found = dict[str, None]()
    for step in run.manifest.steps:
        if step.audit in audits and run.has_table(step.model, step.audit, "groups"):
            table = run.table(step.model, step.audit, "groups").filter(pl.col("by") == by)
            rows = table if metric is None else table.filter(pl.col("metric") == metric)
            found |= dict.fromkeys(rows["group"])
    return list(found)

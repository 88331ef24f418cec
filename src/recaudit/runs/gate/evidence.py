"""From rules to questions: which numbers of which run each rule is about, and why some cannot be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import polars as pl

from recaudit.audits.result import Result
from recaudit.errors import DamagedError, InputError, did_you_mean
from recaudit.metrics.inference import MIN_USERS
from recaudit.metrics.metric import Metric
from recaudit.metrics.paired import PairedNumber
from recaudit.metrics.tables import GROUP_SCHEMA
from recaudit.runs.comparison import RunComparison, compare, paired_numbers
from recaudit.runs.folder import Run
from recaudit.runs.gate.judging import GateQuestion, Lacking
from recaudit.runs.gate.rules import Gate, Rule
from recaudit.runs.gate.testing import compute_margin_test, compute_threshold_test
from recaudit.status import Status

Numbers = dict[tuple[str, str, str], PairedNumber]

_QUARTILES = ("history", "popularity")
"""The groupings that every log has."""


@final
@dataclass(frozen=True, eq=False)
class GateEvidence:
    """A run, and perhaps the run that it is compared with."""

    run: Run
    baseline: Run | None

    @cached_property
    def compared(self) -> RunComparison | Lacking:
        """The comparison, or why there is none."""
        assert self.baseline is not None
        try:
            return compare(self.baseline, self.run)
        except DamagedError:
            raise
        except InputError as error:
            if error.argument == "models":
                return Lacking("no_model", "no model has the same label in both runs")
            return Lacking("not_compared", f"nothing can be compared: {error.remedy.rstrip('.')}")

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
                GateQuestion(
                    rule,
                    place,
                    model,
                    rule.measured_by,
                    rule.by or "",
                    rule.group or "",
                    level=1 - (gate.confidence if rule.confidence is None else rule.confidence),
                )
            )
        ]

    def ungated(self, gate: Gate) -> list[str]:
        """What the rules pass over, and somebody may take for judged: groups and models of one run alone."""
        changes = [rule for rule in gate.rules if rule.has_margin]
        if self.baseline is None or not changes or isinstance(self.compared, Lacking):
            return []
        compared = {before for before, _ in self.compared.models.values()}
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
        if lacking is None and rule.has_margin:
            lacking = self._lacking_baseline(asked)
        if lacking is not None:
            yield replace(asked, lacking=lacking)
            return
        found = list(self._changes(asked) if rule.has_margin else self._numbers(asked))
        groups = f" by {rule.by}" * bool(rule.by) + f" for {rule.group}" * bool(rule.group)
        where = "both runs" if rule.has_margin else "the run"
        nothing = Lacking("not_measured", f"{asked.audit} has no {rule.metric}{groups} in {where}")
        yield from found or [replace(asked, lacking=nothing)]

    def _lacking_baseline(self, asked: GateQuestion) -> Lacking | None:
        """Why the number cannot be compared at all."""
        if self.baseline is None:
            return Lacking("no_baseline", "there is no baseline to compare with")
        if self.baseline.manifest.status != "complete":
            return Lacking("interrupted", "the baseline is interrupted")
        compared = self.compared
        if isinstance(compared, Lacking):
            return compared
        labels = {after: before for before, after in compared.models.values()}
        if asked.model not in labels:
            added = f"no change of {asked.model} is measured, which the run added itself"
            absent = f"the baseline has no model {asked.model}"
            return Lacking("no_model", added if asked.model in self.run.floors else absent)
        label = labels[asked.model]
        reasons = (
            Lacking(left.code, left.reason)
            for left in compared.left_out
            if (left.audit, compared.models[left.model]) == (asked.audit, (label, asked.model))
            and (not left.metrics or asked.rule.metric in left.metrics)
        )
        return _lacking(self.baseline, label, asked, "the baseline") or next(reasons, None)

    def _numbers(self, asked: GateQuestion) -> Iterator[GateQuestion]:
        """The numbers that the run has, with the test of their threshold."""
        result = self.run.result(asked.model, asked.audit)
        numbers = self._pair(result, result, (asked.model, asked.model, asked.audit))
        for row in rows_of(self.run, asked.model, asked.rule).iter_rows(named=True):
            number = numbers.get((asked.rule.metric, asked.by, row["group"]))
            yield apply_threshold_test(asked, row, number, result.metrics[asked.rule.metric])

    def _changes(self, asked: GateQuestion) -> Iterator[GateQuestion]:
        """The numbers of both runs that were compared, and the groups of the baseline that could not be."""
        assert self.baseline is not None
        assert isinstance(self.compared, RunComparison)
        [(name, (label, _))] = (pair for pair in self.compared.models.items() if pair[1][1] == asked.model)
        about = {"model": name, "audit": asked.audit, "metric": asked.rule.metric, "by": asked.by}
        rows = self.compared.frame.filter(pl.col(column) == value for column, value in about.items())
        result = self.run.result(asked.model, asked.audit)
        key = (label, asked.model, asked.audit)
        numbers = self._pair(self.baseline.result(label, asked.audit), result, key)
        for row in rows.iter_rows(named=True):
            if asked.rule.group in (None, row["group"]):
                number = numbers[asked.rule.metric, asked.by, row["group"]]
                yield apply_margin_test(asked, row, number, result.metrics[asked.rule.metric])
        compared = set(rows["group"])
        for group in _groups(self.baseline, asked.by, {asked.audit}, asked.rule.metric):
            if compared and group not in compared and asked.rule.group in (None, group):
                absent = Lacking("too_few_users", "no user of this group was measured in both runs")
                yield replace(asked, group=group, users=0, lacking=absent)

    def _pair(self, before: Result, after: Result, key: tuple[str, str, str]) -> Numbers:
        """The paired numbers of two results by metric, grouping and group; several rules ask for the same."""
        known = self._paired.setdefault((before is after, *key), {})
        if not known:
            known.update({(own.metric, own.by, own.group): own for own in paired_numbers(before, after)})
        return known

    @cached_property
    def _paired(self) -> dict[tuple[bool, str, str, str], Numbers]:
        return {}


def apply_threshold_test(
    asked: GateQuestion, row: Mapping[str, Any], number: PairedNumber | None, metric: Metric
) -> GateQuestion:
    """Test the threshold of a rule for a number of the run.

    Args:
        asked: Question without numbers.
        row: Number of the run, columns as in `GROUP_SCHEMA`.
        number: The same number with the values of users, None without such values.
        metric: Definition of the metric, with its bounds.
    """
    lacking = _undecidable(asked.rule, row["value"], row["users"], row["status"])
    if lacking is None and number is None:
        lacking = Lacking("not_per_user", "it is not made of values of users, which a test needs")
    found = replace(asked, group=row["group"], value=row["value"], users=row["users"], lacking=lacking)
    if lacking is not None or number is None:
        return found
    return replace(
        found,
        allowed=asked.rule.limit,
        test=compute_threshold_test(asked.rule, number, metric.bounds, asked.level),
        bounded=row["status"] == Status.BOUNDED.value and asked.rule.bounds == "undecided",
        least=metric.least,
    )


def apply_margin_test(
    asked: GateQuestion, row: Mapping[str, Any], number: PairedNumber, metric: Metric
) -> GateQuestion:
    """Test the margin of a rule for a number of both runs.

    Args:
        asked: Question without numbers.
        row: Difference, columns as in `COMPARISON_SCHEMA`.
        number: The same number with the values of users.
        metric: Definition of the metric, with its bounds.
    """
    rule = asked.rule
    value = None if row["before"] is None else row["after"]
    lacking = _undecidable(rule, value, row["users"], "not applicable to one of the two runs")
    if lacking is None and row["status"] == Status.BOUNDED.value and rule.bounds == "undecided":
        lacking = Lacking("only_a_bound", "one of the two numbers is only a bound")
    numbers = {"value": row["after"], "before": row["before"], "users": row["users"]}
    found = replace(asked, group=row["group"], lacking=lacking, **numbers)
    if lacking is not None:
        return found
    allowed = rule.limit * abs(row["before"]) if rule.relative else rule.limit
    test = compute_margin_test(rule, number, metric.bounds, asked.level)
    return replace(found, allowed=allowed, test=test)


def _undecidable(rule: Rule, value: float | None, users: int, status: str) -> Lacking | None:
    """Why nothing can be decided about a number, whatever the rule."""
    if value is None:
        return Lacking("not_measured", f"it is {status.replace('_', ' ')}")
    if users >= rule.people:
        return None
    least = "a test needs" if rule.people == MIN_USERS else "the rule asks for"
    return Lacking("too_few_users", f"it has {users:,} users, and {least} {rule.people:,}")


def _lacking(run: Run, model: str, asked: GateQuestion, called: str) -> Lacking | None:
    """Why a run has no numbers for this question, or none to rely on."""
    audit = asked.audit
    if run.manifest.status != "complete":
        return Lacking("interrupted", f"{called} is interrupted: run its command again to finish it")
    if model not in (*run.models, *run.floors):
        return Lacking("no_model", f"{called} has no model {model}")
    if audit in run.audits(model):
        failed = "" if asked.rule.failures == "accept" else failures(run.steps(model)[audit])
        return Lacking("failures", f"in {called} {failed}") if failed else None
    skipped = (skip.reason for skip in run.manifest.skipped if (skip.model, skip.audit) == (model, audit))
    reasons = (Lacking("skipped", f"{called} skipped {audit}: {reason}") for reason in skipped)
    return next(reasons, Lacking("not_measured", f"{called} has no {audit} of {model}"))


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

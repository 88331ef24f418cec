"""The statement of an audit: what a person must say who defends its numbers, filled in from the run folder alone."""

from __future__ import annotations

import inspect
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, final

import polars as pl
from pydantic import ValidationError

from recaudit import atomic
from recaudit.audits.audit import Audit
from recaudit.audits.recipe.recipe import Recipe, Rung
from recaudit.errors import InputError
from recaudit.folders import STATEMENT
from recaudit.metrics.groupings import told_names
from recaudit.metrics.metric import Metric
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.registry import AUDITS
from recaudit.report.evidence import Evidence
from recaudit.report.findings import gaps
from recaudit.report.kit.markdown import rendered_markdown
from recaudit.report.kit.notes import among, notes
from recaudit.report.kit.numbers import Estimate, listing, plural, standing
from recaudit.report.limits import cannot_say
from recaudit.report.methods import method_lines, missing_lines
from recaudit.report.sections.groups import find_group
from recaudit.report.sections.section import sections_of
from recaudit.report.significance import compare_groups
from recaudit.report.verdict import verdict_of
from recaudit.runs import Run
from recaudit.runs.folder import RESULTS
from recaudit.specification import as_data, written
from recaudit.status import Status
from recaudit.version import __version__

_TEMPLATE = "statement.md.j2"
_HOLDING = ("summary", "reranked", "series")
"""Tables that may hold an audit's numbers; the first of them that has rows does."""
_ASKED = ("users", "viewers", "editors", "items", "targets", "followed", "sample", "tested")
_MEASURED = ("relevant", "ratings", "candidates", "baseline", "distance", "categories", "related_by")
_SEARCH = ("solver", "tolerance", "budget", "sequences", "refits", "draws")
"""Settings and facts of several audits: who and what is asked about, by what measure, and how hard the answer is
looked for."""
_ABOUT = {
    "reachability": ("targets", "users"),
    "recourse": ("users",),
    "instability": ("viewers", "editors"),
    "folding": ("sample",),
}
"""Settings by which every number of an audit may be about a draw."""
_CLOCKS = {1e9: "seconds", 1e12: "milliseconds", 1e15: "microseconds"}
_SINCE_1990, _UNTIL_2100 = 0.63, 4.1


@final
@dataclass(frozen=True)
class StatedNumber:
    """A row of a table of results."""

    label: str
    model: str
    of: str
    """What it is about where it is not about all: a contrast, a lever, a point of a curve, who and what was drawn."""
    estimate: Estimate
    worst: str
    """The group of users that is worse off than all others; empty where groups are not tested."""


@final
@dataclass(frozen=True, eq=False)
class AuditAccount:
    """One audit of a run: what it asks, what its numbers rest on, the numbers, and what they leave open."""

    evidence: Evidence
    name: str

    @property
    def known(self) -> bool:
        """Whether the package that defines the audit is here."""
        return self.name in AUDITS

    @property
    def question(self) -> str:
        """What it asks."""
        return (inspect.getdoc(AUDITS[self.name]) or "").partition("\n")[0] if self.known else ""

    @property
    def models(self) -> list[str]:
        """Those that have an answer."""
        return [model for model in self.evidence.models if self.name in self.evidence.run.audits(model)]

    @cached_property
    def asked(self) -> Audit | None:
        """The audit as it was asked of the first of the models; None where its settings cannot be read back."""
        try:
            return self.evidence.run.result(self.models[0], self.name).audit if self.known else None
        except ValidationError:
            return None

    @property
    def recipe(self) -> Recipe | None:
        """What is changed, looked at and taken; None where the audit says no such thing."""
        return self.asked.recipe if self.asked else None

    @property
    def rung(self) -> Rung | None:
        """Where the question stands on the causal ladder; None where the audit does not say."""
        return self.asked.rung if self.asked else None

    @property
    def cannot_say(self) -> str:
        """What its numbers leave open."""
        return cannot_say(self.name, self.rung)

    @property
    def settings(self) -> dict[str, str]:
        """What was asked otherwise than by default, the same for all models."""
        shared = self.evidence.settings[self.name]
        if not self.known:
            return {name: written(value) for name, value in shared.items()}
        kind: type[Audit] = AUDITS[self.name]
        fields = kind.model_fields
        default = {} if any(field.is_required() for field in fields.values()) else as_data(kind())
        return {
            name: written(value)
            for name, value in shared.items()
            if name in fields and value is not None and value != default.get(name)
        }

    @property
    def metrics(self) -> list[Metric]:
        """What it measured for any model, in the order in which it defines them."""
        found = {own.estimate.metric.name: own.estimate.metric for own in self.numbers}
        return list(found.values())

    def label(self, metric: Metric) -> str:
        """What the metric is called in this audit."""
        return self.evidence.label(metric.name, self.name)

    @property
    def assumptions(self) -> list[str]:
        """What the numbers rest on: rules and their tests, policies, who was asked about, searches, intervals."""
        shared = self.evidence.settings[self.name]
        told = [note.text for note in notes(self.evidence, self.name)]
        told += self._policies()
        for what, names in (("Asked about", _ASKED), ("Measured by", _MEASURED), ("Searches", _SEARCH)):
            settings = [f"{name} = {written(shared[name])}" for name in names if shared.get(name) is not None]
            told += [f"{what}: {', '.join(settings)}."] if settings else []
        told += self._statuses()
        if "confidence" in shared:
            told.append(f"Confidence level of the intervals: {shared['confidence']:.0%}.")
        return told

    def _policies(self) -> Iterator[str]:
        facts = {model: self.evidence.facts(model, self.name) for model in self.models}
        yield from self._together(
            (model, f"Policy: {written(own['policy'])}")
            for model, own in facts.items()
            if own.get("policy") and "perplexity" not in own
        )

    def _statuses(self) -> Iterator[str]:
        told = []
        for model in self.models:
            found = self.evidence.facts(model, self.name).get("statuses", {})
            flat = {"": found} if all(isinstance(own, int) for own in found.values()) else found
            each = [f"{name}: {standing(own)}".removeprefix(": ") for name, own in flat.items() if standing(own)]
            told += [(model, f"Answers: {'; '.join(each)}")] if each else []
        yield from self._together(told)

    def _together(self, told: Iterable[tuple[str, str]]) -> Iterator[str]:
        """A sentence for all models that share it."""
        found: dict[str, list[str]] = {}
        for model, text in told:
            found.setdefault(text, []).append(model)
        for text, models in found.items():
            yield f"{text}." if models == self.models else f"{text} ({listing(models)})."

    @cached_property
    def numbers(self) -> list[StatedNumber]:
        """Every overall number of every model, those of a metric together; then contrasts, levers and the like."""
        order = [metric.name for metric in AUDITS[self.name].metrics] if self.known else []
        found = [(model, row) for model in self.models for row in self._rows(model) if row["metric"] in order]
        found.sort(key=lambda one: order.index(one[1]["metric"]))
        return [self._number(model, row) for model, row in found]

    def _rows(self, model: str) -> Iterator[dict[str, Any]]:
        run = self.evidence.run
        for table in _HOLDING:
            rows = run.table(model, self.name, table) if run.has_table(model, self.name, table) else pl.DataFrame()
            if rows.height and set(SUMMARY_SCHEMA) <= set(rows.columns):
                yield from ({**row, "of": _point(row)} for row in rows.iter_rows(named=True))
                break
        data = run.manifest.data
        groups = "|".join(map(re.escape, ("history", "popularity", *data.attributes, *data.categories)))
        others = self.evidence.grouped.filter(
            pl.col("model") == model, pl.col("audit") == self.name, ~pl.col("by").str.contains(f"^(.* )?({groups})$")
        )
        names = told_names(others["group"].unique(maintain_order=True).to_list())
        yield from ({**row, "of": f"{row['by']}: {names[row['group']]}"} for row in others.iter_rows(named=True))

    def _number(self, model: str, row: Mapping[str, Any]) -> StatedNumber:
        estimate = Estimate.of(self.evidence.definitions[row["metric"]], row)
        worst = "" if row["of"] else worst_off(self.evidence, model, row["metric"], self.name)
        drawn = among(self.evidence, self.name, model, *_ABOUT.get(self.name, ())).removeprefix(", among ")
        return StatedNumber(self.label(estimate.metric), model, row["of"] or drawn, estimate, worst)

    @property
    def left_out(self) -> list[str]:
        """What was not asked of some models, and why, beside metrics that have no number and stand among the gaps."""
        metrics = {own.estimate.metric.name for own in self.numbers}
        told = (
            (model, f"{reason.rstrip('.')}: {', '.join(others)}")
            for model in self.models
            for fact in ("left_out", "not_asked")
            for reason, names in self.evidence.facts(model, self.name).get(fact, {}).items()
            if (others := [name for name in names if name not in metrics])
        )
        return list(self._together(told))


def worst_off(evidence: Evidence, model: str, metric: str, audit: str) -> str:
    """Name the group of users for whom a number is worse than for all others, of several that with the largest effect.

    Empty if the groups of this number are not tested, `none shown` if none is significant.
    """
    better = evidence.definitions[metric].better
    tests = [
        test for test in compare_groups(evidence) if (test.model, test.audit, test.metric) == (model, audit, metric)
    ]
    if better == "neither" or not any(test.p is not None for test in tests):
        return ""
    worse = [test for test in tests if test.is_significant and (test.value > test.rest) == (better == "lower")]
    named = [(test, group) for test in worse if (group := find_group(evidence, test)) is not None]
    if not named:
        return "none shown"
    test, group = max(named, key=lambda own: own[0].effect.size)
    rest = evidence.definitions[metric].written(test.rest)
    return f"{group.people}: {group.estimate.full}, {plural(test.users, 'user')}; all others: {rest}"


def render_statement(run: Run, template: Path | None = None) -> str:
    """The statement as Markdown; `template` is one's own, which may extend recaudit's. Not from a damaged folder."""
    files = {name: record for name, record in run.folder.manifest.files.items() if name.startswith(f"{RESULTS}/")}
    for name in files:
        run.folder.checked(name)
    evidence = Evidence(run)
    audits = [AuditAccount(evidence, audit) for audit in evidence.settings]
    found = Counter(own.estimate.status for account in audits for own in account.numbers)
    statuses = {status.value: found[status] for status in Status}
    return rendered_markdown(
        _TEMPLATE,
        template,
        version=__version__,
        evidence=evidence,
        manifest=run.manifest,
        data=run.manifest.data,
        folder=run.path.resolve().name,
        verdict=verdict_of(evidence),
        missing=missing_lines(run),
        audits=audits,
        period=_period(run.manifest.data.period),
        methods=[*method_lines(evidence), *_own_methods(evidence)],
        counted=standing(statuses),
        asked=sum(statuses.values()),
        gaps=gaps(evidence),
        commands="\n".join(_commands(run)),
        files=len(files),
        checksums="\n".join(f"{record.sha256}  {name}" for name, record in sorted(files.items())),
        elsewhere=run.folder.manifest.elsewhere,
    )


def write_statement(run: Run, out: Path | None = None, template: Path | None = None) -> Path:
    """Write the statement to `out`, or into the run's folder, and say where it is; one that is there is somebody's
    work, and is never written over."""
    path = out or run.path / STATEMENT
    if path.exists():
        remedy = "Somebody may have filled it in: choose another name with --out, or remove it."
        raise InputError("out", received=f"{path}, which is there already", expected="a new file", remedy=remedy)
    text = render_statement(run, template)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, text.encode())
    return path


def _commands(run: Run) -> list[str]:
    """Whether the folder is as it was written, and whether the same comes out again."""
    folder, manifest = shlex.quote(run.path.resolve().name), run.manifest
    elsewhere = f" --device {manifest.device}" if manifest.device != manifest.config.get("device", "cpu") else ""
    parts = " --parts FOLDER" if run.folder.manifest.elsewhere else ""
    return [
        f"recaudit verify {folder}{parts}",
        f"recaudit audit audit.toml --out again{elsewhere}",
        f"recaudit compare {folder} again",
    ]


def _own_methods(evidence: Evidence) -> Iterator[str]:
    """What sections of the report say about how their numbers come about."""
    for section in sections_of(evidence):
        if set(section.audits) & set(evidence.settings):
            yield from filter(None, [(section.content() or {}).get("methods")])


def _point(row: Mapping[str, Any]) -> str:
    """The point of a curve that a row is about; empty for a row about all."""
    return f"{row['over']} {row['at']:g}" if "over" in row else ""


def _period(period: tuple[float, float] | None) -> str:
    """From when to when, where the log has times; as dates too, where they can only be of one clock."""
    if period is None:
        return ""
    told = " to ".join(f"{moment:.15g}" for moment in period)
    for unit, name in _CLOCKS.items():
        if all(_SINCE_1990 < moment / unit < _UNTIL_2100 for moment in period):
            days = (datetime.fromtimestamp(moment / unit * 1e9, UTC).date().isoformat() for moment in period)
            return f"{' to '.join(days)} (times {told}, read as {name} since 1970)"
    return f"{told}, as the log has times"

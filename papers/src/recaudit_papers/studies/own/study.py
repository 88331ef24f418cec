"""A question of one's own, asked as the papers' studies are: rows, a ladder, and what each change does."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from recaudit.data import Interactions
from recaudit.errors import ConfigError, InputError
from recaudit.plugins import as_data, setting_differences
from recaudit_papers.studies.own.changes import LadderRung
from recaudit_papers.studies.own.config import BASE, OwnStudyConfiguration, read_own
from recaudit_papers.studies.own.findings import Findings, MeasuredAudit
from recaudit_papers.studies.own.measures import log_of, measure
from recaudit_papers.studies.reading import PlainTable, StudyTable
from recaudit_papers.studies.study import Experiment, Results, Size, Study


def own(path: str | Path) -> OwnStudy:
    """The study that a TOML file describes: a base configuration, one change at a time, and which numbers."""
    return OwnStudy(read_own(path), Path(path).name)


@final
@dataclass(frozen=True)
class _Step:
    """A configuration that is measured."""

    name: str
    rung: LadderRung


@final
class OwnStudy(Study):
    """A question of one's own; the same at every size."""

    name = "own"
    sized = False

    def __init__(self, config: OwnStudyConfiguration, file: str = "question.toml") -> None:
        self.config, self.file = config, file
        self.title, self.paper = config.title, config.paper

    @property
    def arguments(self) -> str:
        """What `recaudit study` is told to carry it out."""
        return f"{self.name} --config {shlex.quote(self.file)}"

    @cached_property
    def _steps(self) -> list[_Step]:
        """The base, the changes, and the base with other seeds."""
        base = self.config.base
        changes = [
            _Step(change.name, rung) for change, rung in zip(self.config.changes, self.config.rungs, strict=True)
        ]
        seeds = range(base.config.seed + 1, base.config.seed + self.config.repeat)
        return [_Step(BASE, base), *changes, *(_Step(f"seed {seed}", base.seeded(seed)) for seed in seeds)]

    @cached_property
    def _planned(self) -> dict[tuple[int, str, str], Experiment]:
        """By step, model and audit; what no change touches is one experiment, whatever it is part of."""
        logs: dict[str, tuple[Interactions, list[str]]] = {}
        found: dict[tuple[int, str, str], Experiment] = {}
        for place, step in enumerate(self._steps):
            source = {name: step.rung.tables[name] for name in ("seed", "data", "split")}
            digests = self._checked(step, json.dumps(source), logs)
            for label in self.config.labels:
                recommender = as_data(step.rung.model(label).recommender)
                for audit in self.config.audits:
                    settings = {
                        **source,
                        "model": {**step.rung.tables["model"][label], "label": label},
                        "recommender": recommender,
                        "audit": audit,
                        "asked": as_data(step.rung.config.audits[audit]),
                        "log": digests,
                    }
                    name = f"{_slug(label)}/{audit}-{_digest(settings)}"
                    folder = {"folder": str(step.rung.folder)}
                    found[place, label, audit] = Experiment(name, measure, settings, places=folder)
        return found

    def _checked(self, step: _Step, source: str, logs: dict[str, tuple[Interactions, list[str]]]) -> list[str]:
        """The digests of a step's log, which has to have what its audits ask for; each log is read once."""
        try:
            if source not in logs:
                _, parts, digests = log_of(step.rung.config)
                logs[source] = parts.train, digests
            train, found = logs[source]
            for audit in self.config.audits:
                step.rung.config.audits[audit].check(train)
        except InputError as error:
            raise ConfigError(
                f"{step.name}, {error.argument}",
                received=error.received,
                expected=error.expected,
                remedy=error.remedy,
            ) from error
        return found

    def experiments(self, size: Size) -> list[Experiment]:
        """One audit of one model each, each configuration once."""
        return list({one.name: one for one in self._planned.values()}.values())

    def tables(self, results: Results) -> list[StudyTable]:
        """A table for each audit, and what was changed."""
        steps: list[dict[tuple[str, str], MeasuredAudit]] = [{} for _ in self._steps]
        for (place, label, audit), one in self._planned.items():
            steps[place][label, audit] = MeasuredAudit(one.name, results[one.name], results.settings[one.name])
        found = Findings(self.config, steps)
        return [*(found.table(audit) for audit in self.config.audits), self._changes(found.reading)]

    def notes(self, results: Results) -> list[str]:
        """What the numbers stand on."""
        base = self.config.base.config
        models = ", ".join(self.config.labels)
        return [f"The base: {base.data.label}, seed {base.seed}; {models}; audits: {', '.join(self.config.audits)}."]

    def _changes(self, text: str) -> StudyTable:
        rows = tuple(self._settings())
        table = PlainTable(
            "settings", "What each change sets", ("change", "made to", "setting", "before", "after"), rows
        )
        return StudyTable("changes", "The changes", (), text, plain=(table,) if rows else ())

    def _settings(self) -> Iterator[tuple[str, ...]]:
        for place, (change, rung) in enumerate(zip(self.config.changes, self.config.rungs, strict=True)):
            under = self.config.under(place)
            below = self.config.base if under is None else self.config.rungs[under]
            made_to = BASE if under is None else self.config.changes[under].name
            for one in setting_differences("configuration", below.tables, rung.tables):
                yield change.name, made_to, one.name, one.before, one.after


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-") or "model"


def _digest(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]

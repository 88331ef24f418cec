"""The run folder of an audit: how it is read, and how it is written, one finished step after the other."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

import polars as pl

from recaudit.audits.audit import Audit
from recaudit.audits.result import Result
from recaudit.audits.spill import Keeping, Rows, SpilledRows, scan_parts
from recaudit.errors import InputError, did_you_mean
from recaudit.folders import REPORT, FileRecord, Folder, tell_lost, verify
from recaudit.folders.places import folder_of, place_of, within
from recaudit.registry import AUDITS
from recaudit.runs.manifest import AuditRecord, SkipRecord, StepRecord
from recaudit.version import __version__

RESULTS = "results"
_NONE = object()


@final
@dataclass(frozen=True, repr=False)
class Run:
    """A run as its folder tells it: finished, or as far as it has come. Every file is checked before it is read."""

    folder: Folder

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Read a run folder."""
        return cls(Folder.open(Path(path), "audit"))

    def __repr__(self) -> str:
        models, asked = ", ".join(self.models), ", ".join(self.manifest.audits)
        return f"<{self.path}: {self.manifest.status}; {asked} of {models}>"

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self.folder.path

    @cached_property
    def manifest(self) -> AuditRecord:
        """What the folder says about the run."""
        return AuditRecord.of(self.folder.manifest)

    @property
    def report(self) -> Path:
        """Where the report is, once it is written."""
        return self.path / REPORT

    @property
    def models(self) -> tuple[str, ...]:
        """The labels of the models, in configured order."""
        return tuple(model.label for model in self.manifest.models if not model.floor)

    @property
    def floors(self) -> tuple[str, ...]:
        """The labels of the models that the run added itself, for comparison: random, most popular."""
        return tuple(model.label for model in self.manifest.models if model.floor)

    def audits(self, model: str) -> tuple[str, ...]:
        """The finished audits of one model."""
        known = (*self.models, *self.floors)
        if model not in known:
            remedy = did_you_mean(model, known)
            raise InputError("model", received=model, expected="a model of this run", remedy=remedy)
        return tuple(step.audit for step in self.manifest.steps if step.model == model)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """(model, audit) of every step that is still to come: of an interrupted run, or one under way."""
        asked = ((model, audit) for audit in self.manifest.audits for model in self.models)
        return tuple(step for step in asked if step not in self.manifest.settled)

    def steps(self, model: str) -> dict[str, dict[str, Any]]:
        """What the numbers of each finished audit of one model depend on."""
        self.audits(model)
        return {step.audit: step.settings for step in self.manifest.steps if step.model == model}

    def result(self, model: str, audit: str) -> Result:
        """One finished audit, as it was when it was measured: its tables are read when they are looked at."""
        settings = self.steps(model)[self._finished(model, audit)]
        kind: type[Audit] = AUDITS[audit]
        step = next(step for step in self.manifest.steps if (step.model, step.audit) == (model, audit))
        asked = step.asked or {name: settings[name] for name in kind.model_fields if name in settings}
        facts = {name: value for name, value in settings.items() if name != "rng" and asked.get(name, _NONE) != value}
        tables = {name: partial(self._rows, model, audit, name) for name in self._tables(model, audit)}
        return kind.result(kind.model_validate(asked), tables, rng=settings.get("rng", 0), facts=facts)

    def has_table(self, model: str, audit: str, name: str) -> bool:
        """Whether an audit of a model is finished and has this table."""
        return audit in self.audits(model) and name in self._tables(model, audit)

    def table(self, model: str, audit: str, name: str) -> pl.DataFrame:
        """One table of one finished audit: 'summary', 'groups', 'users', 'items' or 'pairs'."""
        return self.scan(model, audit, name).collect()

    def scan(self, model: str, audit: str, name: str) -> pl.LazyFrame:
        """The same, read no further than it is asked for: pairs can be millions."""
        return scan_parts([self.folder.checked_place(file) for file in self._files(model, audit, name)])

    def _rows(self, model: str, audit: str, name: str) -> Rows:
        """A table, or one that is in parts as it is."""
        files = self._files(model, audit, name)
        if files[0].endswith(f"/{name}.parquet"):
            return self.table(model, audit, name)
        places = [self.folder.checked_place(file) for file in files]
        return SpilledRows(folder_of(places[0]), {Path(file).name: self.folder.manifest.files[file] for file in files})

    def _files(self, model: str, audit: str, name: str) -> list[str]:
        """A table's file, or its parts in their order."""
        tables = self._tables(model, self._finished(model, audit))
        if name not in tables:
            raise InputError("name", received=name, expected=f"a table of {audit}", remedy=did_you_mean(name, tables))
        where = f"{step_folder(model, audit)}/{name}"
        return sorted(
            file for file in self.folder.manifest.files if file == f"{where}.parquet" or file.startswith(f"{where}/")
        )

    def _finished(self, model: str, audit: str) -> str:
        audits = self.audits(model)
        if audit not in audits:
            remedy = did_you_mean(audit, audits)
            raise InputError("audit", received=audit, expected=f"a finished audit of {model}", remedy=remedy)
        return audit

    def _tables(self, model: str, audit: str) -> list[str]:
        folder = f"{step_folder(model, audit)}/"
        own = (file.removeprefix(folder) for file in self.folder.manifest.files if file.startswith(folder))
        return list(dict.fromkeys(file.partition("/")[0].removesuffix(".parquet") for file in own))


@final
class Journal:
    """Writes a run folder. The manifest lists a step only once its tables are whole and in place."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.manifest = AuditRecord.of(folder.manifest)
        self._before = self.manifest.seconds
        self._since = time.perf_counter()

    @classmethod
    def begin(cls, path: Path, new: AuditRecord, *, fresh: bool) -> Journal:
        """Start in an empty folder or, with `fresh`, over a former run; else go on with the same run.

        Steps of which a file is not as it was written are taken back, and done again.
        """
        journal = cls(Folder.begin(path, new.kept(), fresh=fresh))
        lost = verify(path).lost
        tell_lost(path, lost)
        if lost:
            journal._take_back({finding.file for finding in lost})
        elif journal.manifest.status != "complete":
            journal.folder.put({}, without=[REPORT])
        journal.folder.sweep(RESULTS)
        return journal

    def add_fit(self, model: str, seconds: float) -> None:
        """Note how long a model took; it reaches the disk with its first step."""
        now = {model: {"fit_seconds": seconds}}
        models = tuple(one.model_copy(update=now.get(one.label)) for one in self.manifest.models)
        self.manifest = self.manifest.model_copy(update={"models": models})

    def add_step(self, model: str, audit: str, result: Result, seconds: float, device: str = "cpu") -> None:
        """Write the tables of a step, then note it as finished."""
        where = step_folder(model, audit)
        tables = {f"{where}/{name}.parquet": write for name, write in result.writers.items() if name not in result.kept}
        step = StepRecord(
            model=model,
            audit=audit,
            settings=result.settings,
            asked=result.asked,
            seconds=seconds,
            device=device,
        )
        self._put(tables, steps=(*self.manifest.steps, step))

    def keeping(self, model: str, audit: str, kind: type[Audit], parts: str | None) -> Keeping:
        """Where a step that is to come keeps the parts of large tables: in the run folder, or at `parts`.

        There, every run has a folder of its own. Parts that a killed run has noted are known, if they are there.
        """
        where, plan = f"{step_folder(model, audit)}/", json.dumps([__version__, self.folder.manifest.plan])
        root = place_of(self.folder.path)
        if parts is not None:
            root = within(place_of(parts), hashlib.sha256(plan.encode()).hexdigest()[:16])

        def elsewhere(tables: Iterable[str] = ()) -> dict[str, str]:
            others = {name: at for name, at in self.folder.manifest.elsewhere.items() if not name.startswith(where)}
            return others | {name: str(within(root, name)) for name in tables if parts is not None}

        def keep(records: Mapping[str, FileRecord]) -> None:
            noted = {f"{where}{name}": record for name, record in records.items()}
            self.folder.put(noted, elsewhere=elsewhere(name.rpartition("/")[0] for name in noted))

        known = [name for name in self.folder.manifest.files if name.startswith(where)]
        if any(self.folder.manifest.place(self.folder.path.absolute(), name) != within(root, name) for name in known):
            self.folder.put({}, without=known, elsewhere=elsewhere())
            known = []
        kept = {name.removeprefix(where): self.folder.manifest.files[name] for name in known}
        return Keeping(kind, within(root, where.rstrip("/")), kept, keep)

    def add_skip(self, model: str, audit: str, reason: str) -> None:
        """Note that the model cannot be put to this audit."""
        skip, where = SkipRecord(model=model, audit=audit, reason=reason), step_folder(model, audit)
        begun = [name for name in self.folder.manifest.files if name.startswith(f"{where}/")]
        self._put({}, without=begun, skipped=(*self.manifest.skipped, skip))

    def complete(self, report: str | None = None) -> None:
        """Write the report and note that nothing is left to do."""
        self._put({} if report is None else {REPORT: report.encode()}, status="complete")

    def _take_back(self, lost: set[str]) -> None:
        """Forget the steps that the lost files belong to, and the report, which was made from them."""
        names = {(step.model, step.audit): f"{step_folder(step.model, step.audit)}/" for step in self.manifest.steps}
        hit = {step: name for step, name in names.items() if any(file.startswith(name) for file in lost)}
        kept = tuple(step for step in self.manifest.steps if (step.model, step.audit) not in hit)
        left = [file for file in self.folder.manifest.files if file.startswith(tuple(hit.values()))]
        self._put({}, without=[REPORT, *lost, *left], steps=kept, status="running")

    def _put(self, files: dict[str, Any], without: Iterable[str] = (), **changes: Any) -> None:
        seconds = round(self._before + time.perf_counter() - self._since, 3)
        self.manifest = self.manifest.model_copy(update={**changes, "seconds": seconds})
        kept = self.manifest.kept()
        self.folder.put(files, without=without, record=kept.record, status=kept.status)


def step_folder(model: str, audit: str) -> str:
    """Where the tables of one audit of one model are, inside the run folder."""
    return f"{RESULTS}/{folder_name(model)}/{audit}"


def folder_name(label: str) -> str:
    """The label, with what a file system may refuse written as %XX."""
    return re.sub(r'[/\\:*?"<>|%]|^\.|[. ]$', lambda found: f"%{ord(found[0]):02X}", label)

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
from typing import Any, TypeVar, final

import numpy as np
import polars as pl

from recaudit.audits.audit import Audit
from recaudit.audits.facts import facts_of
from recaudit.audits.result import Result
from recaudit.audits.spill import Keeping, Rows, SpilledRows, scan_parts
from recaudit.data.interactions import Interactions
from recaudit.data.signatures import compute_signatures
from recaudit.errors import InputError, did_you_mean
from recaudit.folders import REPORT, FileRecord, Folder, LostFile, check_same, read_manifest, tell_lost, verify
from recaudit.folders.tables import CheckedTable, Columns, check_columns
from recaudit.machine import check_memory
from recaudit.registry import AUDITS
from recaudit.runs.manifest import AuditRecord, SkipRecord, StepInputs, StepRecord
from recaudit.runs.resumption import Repeated, Resumption, Step, resumption_of
from recaudit.runs.tables import rules_of
from recaudit.terminal import visible
from recaudit.version import __version__

RESULTS = "results"
DATA = "data"
USER_SIGNATURES, ITEM_COUNTS = f"{DATA}/users.parquet", f"{DATA}/items.parquet"
"""Signatures of users' histories, and the catalogue: two runs are compared by them before any number is."""
AnyRecord = TypeVar("AnyRecord", StepRecord, SkipRecord)
_COPIES = {"terms": 20, "lists": 20, "people": 10}
"""How many times its own size a comparison needs for a table, as measured with half a million rows."""
_USUAL_COPIES = 3


@final
@dataclass(frozen=True, repr=False)
class Run:
    """A run as its folder tells it: finished, or as far as it has come. Every file is checked before it is read."""

    folder: Folder

    @classmethod
    def open(cls, path: str | Path, *, parts: str | Path | None = None) -> Run:
        """Read a run folder.

        Args:
            path: The folder.
            parts: The folder below which tables outside of the run folder may be read. A run on a cluster can have
                such tables, on a disk that its machines share.
        """
        return cls(Folder.open(Path(path), "audit", parts=None if parts is None else Path(parts)))

    def __repr__(self) -> str:
        models, asked = ", ".join(self.models), ", ".join(self.manifest.audits)
        return visible(f"<{self.path}: {self.manifest.status}; {asked} of {models}>")

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self.folder.path

    @cached_property
    def manifest(self) -> AuditRecord:
        """What the folder says about the run."""
        return AuditRecord.of(self.folder.manifest, self.path)

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
        facts = facts_of(asked, settings)
        tables = {name: partial(self._rows, model, audit, name) for name in self._tables(model, audit)}
        return kind.result(kind.model_validate(asked), tables, rng=settings.get("rng", 0), facts=facts)

    def has_table(self, model: str, audit: str, name: str) -> bool:
        """Whether an audit of a model is finished and has this table."""
        return audit in self.audits(model) and name in self._tables(model, audit)

    def table(self, model: str, audit: str, name: str) -> pl.DataFrame:
        """One table of one finished audit: 'summary', 'groups', 'users', 'items' or 'pairs'."""
        size = sum(table.bytes for table in self._checked_tables(model, audit, name).values())
        needed = size * _COPIES.get(name, _USUAL_COPIES)
        what = f"The table {name!r} of {audit} of {model} in {self.path}"
        check_memory(needed, what, "Use a machine with more memory, or run the audit with fewer users or items.")
        return self.scan(model, audit, name).collect()

    def scan(self, model: str, audit: str, name: str) -> pl.LazyFrame:
        """The same, read no further than it is asked for: pairs can be millions."""
        return scan_parts(list(self._checked_tables(model, audit, name)))

    def check_columns(self, model: str, audit: str, name: str, columns: Columns) -> None:
        """Check that a table of a finished audit has these columns; raise a DamagedError if it does not."""
        for path, table in self._checked_tables(model, audit, name).items():
            check_columns(path, table.schema, columns)

    def _checked_tables(self, model: str, audit: str, name: str) -> dict[Path, CheckedTable]:
        """The files of a table, each with what is known about it."""
        rules = rules_of(name, audit)
        return dict(self.folder.checked_table(file, rules) for file in self._files(model, audit, name))

    def data_table(self, name: str) -> pl.DataFrame | None:
        """Read `USER_SIGNATURES` or `ITEM_COUNTS`; None if the version that wrote the folder did not keep it."""
        if name not in self.folder.manifest.files:
            return None
        return scan_parts([self.folder.checked_table(name, rules_of(name))[0]]).collect()

    def _rows(self, model: str, audit: str, name: str) -> Rows:
        """A table, or one that is in parts as it is."""
        files = self._files(model, audit, name)
        if files[0].endswith(f"/{name}.parquet"):
            return self.table(model, audit, name)
        places = list(self._checked_tables(model, audit, name))
        return SpilledRows(places[0].parent, {Path(file).name: self.folder.manifest.files[file] for file in files})

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

    def __init__(
        self, folder: Folder, planned: Mapping[Step, StepInputs] | None = None, resumption: Resumption | None = None
    ) -> None:
        self.folder = folder
        self.manifest = AuditRecord.of(folder.manifest, folder.path)
        self.resumption = resumption or Resumption()
        """Which steps of a former run are kept."""
        self._planned = planned or {}
        self._has_other_data = False
        self._before = self.manifest.seconds
        self._since = time.perf_counter()

    @classmethod
    def begin(
        cls,
        path: Path,
        new: AuditRecord,
        planned: Mapping[Step, StepInputs] | None = None,
        *,
        fresh: bool = False,
        requery: bool = False,
        parts: Path | None = None,
    ) -> Journal:
        """Start in an empty folder or, with `fresh`, over a former run; else keep what is unchanged of the former run.

        `planned` has what each step depends on, in the order of the steps. Steps of which a file is not as it was
        written are computed again; `resumption` says which steps are kept. Tables of finished steps that are outside of
        the run folder must be below the folder `parts`.
        """
        former = None if fresh else read_manifest(path)
        if former is None:
            journal = cls(Folder.begin(path, new.kept(), fresh=fresh, parts=parts), planned)
        else:
            check_same(path, former, "audit", {})
            old = AuditRecord.of(former, path)
            resumption = resumption_of(old, planned or {}, requery=requery)
            resumption.check(path)
            journal = cls(Folder.begin(path, former, parts=parts), planned, resumption)
            journal._has_other_data = old.data.fingerprint != new.data.fingerprint
            journal._adopt(old, new)
        lost = verify(path, parts).lost
        journal._check_outside(lost)
        tell_lost(path, [finding for finding in lost if finding.fault != "outside"])
        if lost:
            journal._take_back({finding.file for finding in lost})
        elif journal.manifest.status != "complete":
            journal.folder.put({}, without=[REPORT])
        journal.folder.sweep(RESULTS, DATA)
        return journal

    def add_data(self, data: Interactions, train: Interactions) -> None:
        """Write what the run is compared with others by, before any number, unless it is there and still true."""
        tables: dict[str, Any] = {}
        if self._has_other_data or USER_SIGNATURES not in self.folder.manifest.files:
            tables[USER_SIGNATURES] = compute_signatures(data).write_parquet
        items = pl.DataFrame({"item": train.item_ids.cast(pl.String), "count": train.item_counts.astype(np.int64)})
        former = Run(self.folder).data_table(ITEM_COUNTS)
        if former is None or not former.equals(items):
            tables[ITEM_COUNTS] = items.write_parquet
        if tables:
            self.folder.put(tables)

    def _adopt(self, old: AuditRecord, new: AuditRecord) -> None:
        """Bring the record of the former run in line with the new one, and delete what is not kept of its results."""
        kept = set(self.resumption.kept)
        fitted = {model.label: model.fit_seconds for model in old.models if model.label in {label for label, _ in kept}}
        record = new.model_copy(
            update={
                "status": old.status,
                "started": old.started,
                "seconds": old.seconds,
                "versions": old.versions,
                "machine": old.machine,
                "id": old.id,
                "answers_since": new.answers_since or old.answers_since,
                "models": tuple(
                    model.model_copy(update={"fit_seconds": fitted.get(model.label)}) for model in new.models
                ),
                "steps": tuple(step for step in old.steps if (step.model, step.audit) in kept),
                "skipped": tuple(skip for skip in old.skipped if (skip.model, skip.audit) in kept),
            }
        )
        if record == old:
            return
        own = tuple(f"{step_folder(*step)}/" for step in kept)
        # Parts of a step that was interrupted are those of this step only if the plan is the same.
        same_plan = record.kept().plan == old.kept().plan and not new.answers_since
        redone = tuple(f"{step_folder(one.model, one.audit)}/" for one in self.resumption.repeated)
        gone = [
            name
            for name in self.folder.manifest.files
            if not name.startswith(own) and not (same_plan and _is_result(name) and not name.startswith(redone))
        ]
        self.manifest = record
        self._put({}, without=gone, status="running")

    def add_fit(self, model: str, seconds: float) -> None:
        """Note how long a model took; it reaches the disk with its first step."""
        now = {model: {"fit_seconds": seconds}}
        models = tuple(one.model_copy(update=now.get(one.label)) for one in self.manifest.models)
        self.manifest = self.manifest.model_copy(update={"models": models})

    def add_step(
        self,
        model: str,
        audit: str,
        result: Result,
        seconds: float,
        device: str = "cpu",
        *,
        queried: bool = False,
    ) -> None:
        """Write the tables of a step, then note it as finished; `queried` if the model is a system that was queried."""
        where = step_folder(model, audit)
        tables = {f"{where}/{name}.parquet": write for name, write in result.writers.items() if name not in result.kept}
        step = StepRecord(
            model=model,
            audit=audit,
            settings=result.settings,
            asked=result.asked,
            seconds=seconds,
            device=device,
            inputs=self._planned.get((model, audit)),
            queried=queried,
        )
        self._put(tables, steps=self._in_order(*self.manifest.steps, step))

    def _in_order(self, *records: AnyRecord) -> tuple[AnyRecord, ...]:
        """Records of steps in the order of the run, although some were made by a former one."""
        places = {step: place for place, step in enumerate(self._planned)}
        return tuple(sorted(records, key=lambda own: places.get((own.model, own.audit), len(places))))

    def keeping(self, model: str, audit: str, kind: type[Audit], parts: Path | None) -> Keeping:
        """Where a step that is to come keeps the parts of large tables: in the run folder, or in `parts`.

        There, every run has a folder of its own. Parts that a killed run has noted are known, if they are there.
        """
        where, plan = f"{step_folder(model, audit)}/", json.dumps([__version__, self.folder.manifest.plan])
        root = self.folder.path.absolute()
        if parts is not None:
            root = parts / hashlib.sha256(plan.encode()).hexdigest()[:16]

        def elsewhere(tables: Iterable[str] = ()) -> dict[str, str]:
            others = {name: at for name, at in self.folder.manifest.elsewhere.items() if not name.startswith(where)}
            return others | {name: str(root / name) for name in tables if parts is not None}

        def keep(records: Mapping[str, FileRecord]) -> None:
            noted = {f"{where}{name}": record for name, record in records.items()}
            self.folder.put(noted, elsewhere=elsewhere(name.rpartition("/")[0] for name in noted))

        known = [name for name in self.folder.manifest.files if name.startswith(where)]
        if any(self.folder.manifest.path(self.folder.path.absolute(), name) != root / name for name in known):
            self.folder.put({}, without=known, elsewhere=elsewhere())
            known = []
        kept = {name.removeprefix(where): self.folder.manifest.files[name] for name in known}
        return Keeping(kind, root / where.rstrip("/"), kept, keep)

    def add_skip(self, model: str, audit: str, reason: str, *, failed: bool = False) -> None:
        """Note that there is no result: the audit is not supported, or it `failed` for a cause that may pass."""
        inputs, where = self._planned.get((model, audit)), step_folder(model, audit)
        skip = SkipRecord(model=model, audit=audit, reason=reason, failed=failed, inputs=inputs)
        begun = [name for name in self.folder.manifest.files if name.startswith(f"{where}/")]
        self._put({}, without=begun, skipped=self._in_order(*self.manifest.skipped, skip))

    def complete(self, report: str | None = None) -> None:
        """Write the report and note that nothing is left to do."""
        self._put({} if report is None else {REPORT: report.encode()}, status="complete")

    def _check_outside(self, lost: Iterable[LostFile]) -> None:
        """Refuse to compute finished steps again only because their tables are in a folder that was not named."""
        finished = tuple(f"{step_folder(step.model, step.audit)}/" for step in self.manifest.steps)
        outside = [one.file for one in lost if one.fault == "outside" and one.file.startswith(finished)]
        if outside:
            folder = self.folder.manifest.path(self.folder.path, outside[0]).parent
            raise InputError(
                "parts",
                received=f"a run with finished tables in {folder}, outside of the run folder",
                expected="tables inside the run folder, or below the folder that the engine names",
                remedy=f"Set parts of [engine] to the folder as before, one of those above {folder}; or start the run "
                "again with --fresh.",
            )

    def _take_back(self, lost: set[str]) -> None:
        """Forget the steps that the lost files belong to, and the report, which was made from them."""
        names = {(step.model, step.audit): f"{step_folder(step.model, step.audit)}/" for step in self.manifest.steps}
        hit = {step: name for step, name in names.items() if any(file.startswith(name) for file in lost)}
        kept = tuple(step for step in self.manifest.steps if (step.model, step.audit) not in hit)
        left = [file for file in self.folder.manifest.files if file.startswith(tuple(hit.values()))]
        self._put({}, without=[REPORT, *lost, *left], steps=kept, status="running")
        self.resumption = self.resumption.without(Repeated(*step, "its files are damaged or missing") for step in hit)

    def _put(self, files: dict[str, Any], without: Iterable[str] = (), **changes: Any) -> None:
        seconds = round(self._before + time.perf_counter() - self._since, 3)
        self.manifest = self.manifest.model_copy(update={**changes, "seconds": seconds})
        kept = self.manifest.kept()
        self.folder.put(files, without=without, record=kept.record, status=kept.status, plan=kept.plan)


def _is_result(name: str) -> bool:
    """Whether a file of a run folder belongs to a step."""
    return name.startswith(f"{RESULTS}/")


def step_folder(model: str, audit: str) -> str:
    """Where the tables of one audit of one model are, inside the run folder."""
    return f"{RESULTS}/{folder_name(model)}/{audit}"


def folder_name(label: str) -> str:
    """The label, with what a file system may refuse written as %XX."""
    return re.sub(r'[/\\:*?"<>|%]|^\.|[. ]$', lambda found: f"%{ord(found[0]):02X}", label)

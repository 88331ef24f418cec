"""The folder of an audit under way: one finished step after the other, never a half-written one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, final

from recaudit.audits.result import Result
from recaudit.folders import REPORT, Folder, tell_lost, verify
from recaudit.runs.folder import RESULTS, step_folder
from recaudit.runs.manifest import Manifest, SkipRecord, StepRecord


@final
class Journal:
    """Writes a run folder. The manifest lists a step only once its tables are whole and in place."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.manifest = Manifest.of(folder.manifest)
        self._before = self.manifest.seconds
        self._since = time.perf_counter()

    @classmethod
    def begin(cls, path: Path, new: Manifest, *, fresh: bool) -> Journal:
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

    def add_step(self, model: str, audit: str, result: Result, seconds: float) -> None:
        """Write the tables of a step, then note it as finished."""
        where = step_folder(model, audit)
        tables = {f"{where}/{name}.parquet": table.write_parquet for name, table in result.tables.items()}
        step = StepRecord(model=model, audit=audit, settings=result.settings, seconds=seconds)
        self._put(tables, steps=(*self.manifest.steps, step))

    def add_skip(self, model: str, audit: str, reason: str) -> None:
        """Note that the model cannot be put to this audit."""
        skip = SkipRecord(model=model, audit=audit, reason=reason)
        self._put({}, skipped=(*self.manifest.skipped, skip))

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

"""The folder of a run under way: one finished step after the other, never a half-written one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import final

from recaudit import atomic
from recaudit.audits.result import Result
from recaudit.errors import InputError
from recaudit.runs.folder import MANIFEST, REPORT, RESULTS, read_manifest, step_folder
from recaudit.runs.manifest import Manifest, SkipRecord, StepRecord


@final
class Journal:
    """Writes a run folder. The manifest lists a step only once its tables are whole and in place."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._before = manifest.seconds
        self._since = time.perf_counter()

    @classmethod
    def begin(cls, path: Path, new: Manifest, *, fresh: bool) -> Journal:
        """Start in an empty folder or, with `fresh`, over a former run; else go on with the same run."""
        former = None if fresh else read_manifest(path)
        if former is None:
            journal = cls(path, new)
        else:
            check_same(path, former, new.config_hash, new.recaudit, new.data.fingerprint)
            present = tuple(s for s in former.steps if step_folder(path, s.model, s.audit).is_dir())
            whole = len(present) == len(former.steps) and (path / REPORT).is_file()
            status = former.status if whole else "running"
            journal = cls(path, former.model_copy(update={"steps": present, "status": status}))
        # The manifest first: killed between the two, the next run finds files that no step lays claim to.
        if journal.manifest != former:
            journal._save()
        journal._sweep()
        return journal

    def is_settled(self, model: str, audit: str) -> bool:
        """Whether this step's tables are in the folder, or it is noted why there are none."""
        settled: list[StepRecord | SkipRecord] = [*self.manifest.steps, *self.manifest.skipped]
        return any(step.model == model and step.audit == audit for step in settled)

    def add_fit(self, model: str, seconds: float) -> None:
        """Note how long a model took; it reaches the disk with its first step."""
        self.manifest = self.manifest.with_fit(model, seconds)

    def add_step(self, model: str, audit: str, result: Result, seconds: float) -> None:
        """Write the tables of a step, then note it as finished."""
        with atomic.folder(step_folder(self.path, model, audit)) as folder:
            for name, table in result.tables().items():
                table.write_parquet(folder / f"{name}.parquet")
        step = StepRecord(model=model, audit=audit, settings=dict(result.settings), seconds=seconds)
        self.manifest = self.manifest.with_step(step)
        self._save()

    def add_skip(self, model: str, audit: str, reason: str) -> None:
        """Note that the model cannot be put to this audit."""
        self.manifest = self.manifest.with_skip(SkipRecord(model=model, audit=audit, reason=reason))
        self._save()

    def complete(self) -> None:
        """Note that nothing is left to do."""
        self.manifest = self.manifest.model_copy(update={"status": "complete"})
        self._save()

    def _save(self) -> None:
        seconds = round(self._before + time.perf_counter() - self._since, 3)
        self.manifest = self.manifest.model_copy(update={"seconds": seconds})
        atomic.write(self.path / MANIFEST, self.manifest.model_dump_json(indent=2).encode() + b"\n")

    def _sweep(self) -> None:
        """Remove what no finished step lays claim to: leftovers of a kill, or of the run before this one."""
        atomic.sweep(self.path)
        if self.manifest.status != "complete":
            atomic.discard(self.path / REPORT)
        claimed = {step_folder(self.path, step.model, step.audit) for step in self.manifest.steps}
        for model in filter(Path.is_dir, (self.path / RESULTS).glob("*")):
            for step in model.glob("*"):
                if step not in claimed:
                    atomic.discard(step)
            if not any(model.iterdir()):
                model.rmdir()


def check_same(path: Path, former: Manifest, config_hash: str, version: str, fingerprint: str | None) -> None:
    """That the folder's run is this very run, so that its finished steps can be kept."""
    if former.recaudit != version:
        other = f"made by recaudit {former.recaudit} (this is {version})"
    elif former.config_hash != config_hash:
        other = "of another configuration"
    elif fingerprint is not None and former.data.fingerprint != fingerprint:
        other = "of other data"
    else:
        return
    raise InputError(
        "out",
        received=f"{path}, which holds a run {other}",
        expected="a new folder, or one with this very run in it",
        remedy="Choose another folder, or start this one over with fresh (--fresh).",
    )

"""A run folder: what is in it, and how it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl
from pydantic import ValidationError

from recaudit import atomic, lock
from recaudit.errors import InputError, did_you_mean
from recaudit.runs.manifest import Manifest

MANIFEST = "manifest.json"
RESULTS = "results"
REPORT = "report.html"


@final
@dataclass(frozen=True)
class Run:
    """A run as its folder tells it: finished, or as far as it has come."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Read a run folder."""
        path = Path(path)
        manifest = read_manifest(path)
        if manifest is None:
            raise InputError(
                "path",
                received=str(path),
                expected=f"a run folder, which holds a {MANIFEST}",
                remedy="Make one with 'recaudit audit CONFIG --out DIR'.",
            )
        return cls(path, manifest)

    @property
    def report(self) -> Path:
        """Where the report is, once it is written."""
        return self.path / REPORT

    @property
    def models(self) -> tuple[str, ...]:
        """The labels of the models, in configured order."""
        return tuple(model.label for model in self.manifest.models)

    def audits(self, model: str) -> tuple[str, ...]:
        """The finished audits of one model."""
        if model not in self.models:
            remedy = did_you_mean(model, self.models)
            raise InputError("model", received=model, expected="a model of this run", remedy=remedy)
        return tuple(step.audit for step in self.manifest.steps if step.model == model)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """(model, audit) of every step that is still to come: of an interrupted run, or one under way."""
        settled = {(step.model, step.audit) for step in self.manifest.steps}
        settled |= {(skip.model, skip.audit) for skip in self.manifest.skipped}
        asked = ((model, audit) for audit in self.manifest.audits for model in self.models)
        return tuple(step for step in asked if step not in settled)

    def table(self, model: str, audit: str, name: str) -> pl.DataFrame:
        """One table of one finished audit: 'summary', 'groups', 'users', 'items' or 'pairs'."""
        return self.scan(model, audit, name).collect()

    def scan(self, model: str, audit: str, name: str) -> pl.LazyFrame:
        """The same, read no further than it is asked for: pairs can be millions."""
        audits = self.audits(model)
        if audit not in audits:
            remedy = did_you_mean(audit, audits)
            raise InputError("audit", received=audit, expected=f"a finished audit of {model}", remedy=remedy)
        folder = step_folder(self.path, model, audit)
        file = folder / f"{name}.parquet"
        if not file.is_file():
            remedy = did_you_mean(name, (table.stem for table in folder.glob("*.parquet")))
            raise InputError("name", received=name, expected=f"a table of {audit}", remedy=remedy)
        return pl.scan_parquet(file, glob=False)  # a label such as 'ALS [2]' is no pattern


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of a run folder; None where there is no run yet: no folder, or an empty one.

    A folder that holds anything else is an error: it is not ours to write to, and never to delete.
    """
    if not path.exists():
        return None
    if not path.is_dir():
        raise InputError("path", received=f"{path}, a file", expected="a folder")
    file = path / MANIFEST
    if not file.is_file():
        # A run killed before its first manifest leaves a lock and unfinished files.
        others = [p.name for p in path.iterdir() if p.name != lock.NAME and not p.name.startswith(atomic.PREFIX)]
        if others:
            shown = ", ".join(sorted(others)[:3])
            raise _foreign(path, f"a folder with other files ({shown}{', ...' if len(others) > 3 else ''})")
        return None
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise _foreign(path, f"a {MANIFEST} that recaudit cannot read ({error.error_count()} fields)") from None


def step_folder(path: Path, model: str, audit: str) -> Path:
    """Where the tables of one audit of one model are."""
    return path / RESULTS / folder_name(model) / audit


def folder_name(label: str) -> str:
    """The label, with what a file system may refuse written as %XX."""
    return re.sub(r'[/\\:*?"<>|%]|^\.|[. ]$', lambda found: f"%{ord(found[0]):02X}", label)


def _foreign(path: Path, received: str) -> InputError:
    return InputError(
        "path",
        received=f"{path}, {received}",
        expected="a run folder, an empty folder or a new one",
        remedy="Choose another folder: recaudit leaves this one as it is.",
    )

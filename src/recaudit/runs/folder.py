"""The run folder of an audit: what is in it, and how it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import polars as pl

from recaudit.errors import InputError, did_you_mean
from recaudit.folders import REPORT, Folder
from recaudit.runs.manifest import Manifest

RESULTS = "results"


@final
@dataclass(frozen=True)
class Run:
    """A run as its folder tells it: finished, or as far as it has come. Every file is checked before it is read."""

    folder: Folder

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Read a run folder."""
        return cls(Folder.open(Path(path), "audit"))

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self.folder.path

    @cached_property
    def manifest(self) -> Manifest:
        """What the folder says about the run."""
        return Manifest.of(self.folder.manifest)

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
        asked = ((model, audit) for audit in self.manifest.audits for model in self.models)
        return tuple(step for step in asked if step not in self.manifest.settled)

    def table(self, model: str, audit: str, name: str) -> pl.DataFrame:
        """One table of one finished audit: 'summary', 'groups', 'users', 'items' or 'pairs'."""
        return self.scan(model, audit, name).collect()

    def scan(self, model: str, audit: str, name: str) -> pl.LazyFrame:
        """The same, read no further than it is asked for: pairs can be millions."""
        audits = self.audits(model)
        if audit not in audits:
            remedy = did_you_mean(audit, audits)
            raise InputError("audit", received=audit, expected=f"a finished audit of {model}", remedy=remedy)
        folder, files = step_folder(model, audit), self.folder.manifest.files
        file = f"{folder}/{name}.parquet"
        if file not in files:
            tables = (Path(table).stem for table in files if table.startswith(f"{folder}/"))
            raise InputError("name", received=name, expected=f"a table of {audit}", remedy=did_you_mean(name, tables))
        return pl.scan_parquet(self.folder.checked(file), glob=False)  # a label such as 'ALS [2]' is no pattern


def step_folder(model: str, audit: str) -> str:
    """Where the tables of one audit of one model are, inside the run folder."""
    return f"{RESULTS}/{folder_name(model)}/{audit}"


def folder_name(label: str) -> str:
    """The label, with what a file system may refuse written as %XX."""
    return re.sub(r'[/\\:*?"<>|%]|^\.|[. ]$', lambda found: f"%{ord(found[0]):02X}", label)

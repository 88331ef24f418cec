"""A study carried out: each experiment is kept as soon as it is measured, and measured once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, final

import polars as pl

from recaudit import __version__
from recaudit.data import datasets
from recaudit.engines import Engine, Serial
from recaudit.folders import FileRecord, Folder, Manifest, cut_links, hold_folder, tell_lost, verify, write_whole
from recaudit.plugins import check_written, far_ahead
from recaudit.registry import Registry
from recaudit_papers.studies.pages import FOLDERS, files_of
from recaudit_papers.studies.report import StudyReport
from recaudit_papers.studies.study import Experiment, Results, Size, Study

STUDIES = Registry("recaudit.studies", "a study")
_KEPT = "experiments"
_NOTE = "recaudit"
"""Under which a table says what it was measured with."""


def run(
    study: str | Study,
    size: Size = "quick",
    *,
    out: str | Path | None = None,
    engine: Engine | None = None,
    fresh: bool = False,
) -> StudyReport:
    """Carry a study out, by name or as it is; what `out` holds of it already is not measured again.

    `fresh` measures everything again. Experiments are spread by the engine, which changes no number.
    """
    own: Study = STUDIES[study]() if isinstance(study, str) else study
    planned = own.experiments(size)
    missing = {one.name: reason for one in planned if (reason := _lacking(one))}
    made = [one for one in planned if one.name not in missing]
    with _kept(None if out is None else Path(out), own, size, fresh=fresh) as journal:
        to_do = made if journal is None else journal.left(made)
        measured = partial(_measured, None if journal is None else journal.folder.path)
        answers = far_ahead(engine or Serial(), len(to_do)).map(measured, to_do, "experiments")
        found: dict[str, tuple[pl.DataFrame, float]] = {}
        for one, answer in zip(to_do, answers, strict=True):
            if journal is not None:
                journal.add(one)
            elif answer is not None:
                found[one.name] = answer
        if journal is not None:
            found = {one.name: journal.read(one) for one in made}
        tables = {name: table for name, (table, _) in found.items()}
        results = Results(tables, missing, {one.name: one.plan["settings"] for one in made}, size)
        seconds = {name: own_seconds for name, (_, own_seconds) in found.items()}
        report = StudyReport(own, results, seconds, None if journal is None else journal.folder.path)
        if journal is not None:
            journal.complete(report)
        return report


def _measured(folder: Path | None, experiment: Experiment) -> tuple[pl.DataFrame, float] | None:
    """The table and how long it took; with a folder, put there at once, whatever is still to come before it."""
    since = time.perf_counter()
    table = experiment.table()
    seconds = round(time.perf_counter() - since, 3)
    if folder is None:
        return table, seconds
    name = _file(experiment)
    cut_links(folder, name)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with write_whole(folder / name) as aside:
        table.write_parquet(aside, metadata={_NOTE: json.dumps({"plan": experiment.plan, "seconds": seconds})})
    return None


def _lacking(experiment: Experiment) -> str:
    """Which data an optional experiment has to do without; what others need is fetched, or an error."""
    for name in experiment.data:
        known = datasets.info(name)
        if not known.ready:
            if experiment.optional:
                return f"{known.title} is not on this machine ('recaudit data fetch {name}' gets it)"
            datasets.fetch(name)
    return ""


@final
class _Journal:
    """Writes a study's folder: an experiment is in its manifest once its table is whole and in place."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @property
    def _noted(self) -> dict[str, Any]:
        found: dict[str, Any] = self.folder.manifest.record.get(_KEPT, {})
        return found

    def has(self, experiment: Experiment) -> bool:
        """Whether its table is here, measured with these very settings."""
        noted = self._noted.get(experiment.name)
        same = noted is not None and noted["plan"] == experiment.plan
        return same and _file(experiment) in self.folder.manifest.files

    def left(self, experiments: list[Experiment]) -> list[Experiment]:
        """Those still to be measured. Tables that a killed run had put in place are noted, and others' swept away."""
        for one in experiments:
            if not self.has(one) and _written(self.folder.path / _file(one)).get("plan") == one.plan:
                self.add(one)
        self.folder.sweep(_KEPT, *FOLDERS)
        return [one for one in experiments if not self.has(one)]

    def add(self, experiment: Experiment) -> None:
        """Note a table that is in place."""
        name, manifest = _file(experiment), self.folder.manifest
        path = self.folder.path / name
        check_written(path)
        record = {**manifest.record, _KEPT: {**self._noted, experiment.name: _written(path)}}
        self.folder.note(files={**manifest.files, name: FileRecord.of(path)}, record=record)

    def complete(self, report: StudyReport) -> None:
        """Write the pages, and note that nothing is left to do."""
        files = files_of(report)
        former = [name for name in self.folder.manifest.files if name.split("/")[0] in FOLDERS]
        self.folder.put(files, without=former)
        self.folder.complete()

    def read(self, experiment: Experiment) -> tuple[pl.DataFrame, float]:
        table = pl.read_parquet(self.folder.checked(_file(experiment)), glob=False)
        return table, self._noted[experiment.name]["seconds"]


@contextmanager
def _kept(path: Path | None, study: Study, size: Size, *, fresh: bool) -> Iterator[_Journal | None]:
    """Hold the folder of a study: experiments of which a file is not as it was written are made again."""
    if path is None:
        yield None
        return
    new = Manifest(kind="experiments", recaudit=__version__, plan={"study": study.name}, record={"size": size})
    path.mkdir(parents=True, exist_ok=True)
    with hold_folder(path):
        folder = Folder.begin(path, new, fresh=fresh)
        lost = verify(path).lost
        tell_lost(path, lost)
        folder.put(
            {}, without=[one.file for one in lost], status="running", record={**folder.manifest.record, "size": size}
        )
        if fresh:
            folder.sweep(_KEPT)
        yield _Journal(folder)


def _written(path: Path) -> dict[str, Any]:
    """What a table says of itself; nothing where it is not there, or no table of a study."""
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        found: dict[str, Any] = json.loads(pl.read_parquet_metadata(path).get(_NOTE, "{}"))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        return {}
    return found


def _file(experiment: Experiment) -> str:
    return f"{_KEPT}/{experiment.name}.parquet"

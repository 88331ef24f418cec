"""A study carried out: each experiment is kept as soon as it is measured, and measured once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, final

import polars as pl

from recaudit import lock
from recaudit.data import datasets
from recaudit.engines import Engine, Serial
from recaudit.folders import Folder, Manifest, tell_lost, verify
from recaudit.registry import STUDIES
from recaudit.studies.reading import Agreement, StudyTable, counted
from recaudit.studies.study import Experiment, Results, Size, Study
from recaudit.version import __version__

_KEPT = "experiments"


@final
@dataclass(frozen=True, eq=False)
class StudyReport:
    """A finished study: its tables beside the paper's, and what they were read from."""

    study: Study
    results: Results
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each experiment took, by name."""

    @cached_property
    def tables(self) -> list[StudyTable]:
        """A table or figure of the paper each."""
        return self.study.tables(self.results)

    @property
    def notes(self) -> list[str]:
        """What has to be known before any number is read."""
        needed = dict.fromkeys(self.results.missing.values())
        return [*self.study.notes(self.results), *(f"Not measured: {reason}." for reason in needed)]

    @cached_property
    def counts(self) -> dict[Agreement, int]:
        """How many rows agree, are explained, are open."""
        return counted(self.tables)

    def frame(self) -> pl.DataFrame:
        """One row a number or claim: printed, ours, interval, difference, how it stands and why."""
        rows = [
            {
                "table": table.name,
                "row": row.name,
                "published": row.published.text,
                "value": row.ours.value if row.ours else None,
                "lower": row.ours.lower if row.ours else None,
                "upper": row.ours.upper if row.ours else None,
                "over": row.ours.over if row.ours else "",
                "difference": row.difference,
                "agreement": row.agreement.value,
                "why": row.why,
            }
            for table in self.tables
            for row in table.rows
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def summary(self) -> str:
        """Every row in a line, and how many stand how."""
        lines = [f"{self.study.title} ({self.results.size})"]
        for table in self.tables:
            lines += ["", table.title]
            lines += [
                f"  {row.name}: published {row.published.text}, ours {row.told}: {row.agreement}" for row in table.rows
            ]
        return "\n".join([*lines, "", self.verdict])

    @property
    def verdict(self) -> str:
        """How many rows stand how, in a sentence."""
        known = [f"{n} {mark}" for mark, n in self.counts.items() if n]
        return f"{sum(self.counts.values())} rows: {'; '.join(known)}."


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
        to_do = [one for one in made if journal is None or not journal.has(one)]
        found: dict[str, tuple[pl.DataFrame, float]] = {}
        for one, answer in zip(to_do, (engine or Serial()).map(_timed, to_do, "experiments"), strict=True):
            if journal is None:
                found[one.name] = answer
            else:
                journal.add(one, *answer)
        if journal is not None:
            found = {one.name: journal.read(one) for one in made}
        results = Results(
            {name: table for name, (table, _) in found.items()},
            missing,
            {one.name: one.plan["settings"] for one in made},
            size,
        )
        return StudyReport(own, results, {name: seconds for name, (_, seconds) in found.items()})


def _timed(experiment: Experiment) -> tuple[pl.DataFrame, float]:
    since = time.perf_counter()
    table = experiment.table()
    return table, round(time.perf_counter() - since, 3)


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

    def add(self, experiment: Experiment, table: pl.DataFrame, seconds: float) -> None:
        noted = {**self._noted, experiment.name: {"plan": experiment.plan, "seconds": seconds}}
        record = {**self.folder.manifest.record, _KEPT: noted}
        self.folder.put({_file(experiment): table.write_parquet}, record=record)

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
    with lock.alone(path):
        folder = Folder.begin(path, new, fresh=fresh)
        lost = verify(path).lost
        tell_lost(path, lost)
        folder.put(
            {}, without=[one.file for one in lost], status="running", record={**folder.manifest.record, "size": size}
        )
        folder.sweep(_KEPT)
        yield _Journal(folder)
        folder.complete()


def _file(experiment: Experiment) -> str:
    return f"{_KEPT}/{experiment.name}.parquet"

"""Carry a configuration out: read, split, fit, audit, report; interrupted, it goes on where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from recaudit import __version__, lock
from recaudit.audits import spill
from recaudit.audits.audit import Subject
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.engines import track, working
from recaudit.errors import NotSupportedError
from recaudit.folders import REPORT, check_same, read_manifest
from recaudit.folders.places import place_of
from recaudit.machine import release_memory
from recaudit.models.checks import check_device
from recaudit.runs.configuration import Configuration
from recaudit.runs.estimate import RunEstimate, check_log, check_room, estimate_steps
from recaudit.runs.folder import Journal, Run
from recaudit.runs.manifest import AuditRecord, DataRecord, InputFileRecord, ModelRecord, machine, versions
from recaudit.runs.recommenders import Model
from recaudit.specification import as_data

Report = Callable[[Run], str]
"""The page of a run, as text."""


Before = Callable[[RunEstimate], None]
"""What is done with the estimate of a run before it starts: raise to stop it."""

LARGE = 5_000_000
"""Ratings from which a run says beforehand what it will take: slices of a smaller log are a large part of it."""
SHORT = 60.0
"""Seconds: of a run that takes no longer nothing more is worked out beforehand."""


def execute(
    config: Configuration,
    out: str | Path,
    *,
    fresh: bool = False,
    report: Report | None = None,
    before: Before | None = None,
) -> Run:
    """Run every audit of every model into the folder `out`, then write what `report` says, and return the complete run.

    A folder that holds this very run (same configuration, data and version) is gone on with: finished steps
    stay as they are, and a model whose steps are all finished is not fitted again. The numbers are those of a
    run that was never interrupted. A file that is no longer as it was written is told by name, and its step is done
    again. `fresh` starts over. An audit that a model cannot be put to is noted as skipped, with the reason, and stops
    nothing. Memory that the machine lacks is refused before anything is fitted. `before` is told what the steps that
    are left will take, where the log has `LARGE` ratings or more.
    """
    stages = 2 + sum(1 + len(config.steps(model)) for model in config.measured)
    for _ in track(_stages(config, Path(out), fresh, report, before), "Run", stages):
        pass
    return Run.open(out)


def _stages(
    config: Configuration, out: Path, fresh: bool, report: Report | None, before: Before | None
) -> Iterator[None]:
    """The work, pausing after each stage so that progress can be told."""
    check_device(config.device)
    former = read_manifest(out)
    if former is not None and (not fresh or former.kind != "audit"):
        check_same(out, former, "audit", {"settings": config.hash})
    with working(f"reading {config.data.label}"):
        files = {name: InputFileRecord.of(file) for name, file in config.split.files(config.data).items()}
        data, (train, test) = config.split.load(config.data, config.seed)
    check_log(config, train)
    record = DataRecord.of(config.data.label, data, train, test, files)
    out.mkdir(parents=True, exist_ok=True)
    with lock.alone(out), spill.aside(place_of(_parts(config) or out)):
        journal = Journal.begin(out, _new_manifest(config, record), fresh=fresh)
        if journal.manifest.status != "complete":
            check_room(config, train, journal.manifest.settled)
            if before is not None and len(data) >= LARGE:
                before(estimate_steps(config, data, Split(train, test), journal.manifest.settled, SHORT))
                release_memory()
        yield
        for model in config.measured:
            steps = config.steps(model)
            if all((model.label, name) in journal.manifest.settled for name in steps):
                yield from (None for _ in range(1 + len(steps)))
                continue
            yield from _audited(config, model, data, Split(train, test), journal)
        unreported = report is not None and REPORT not in journal.folder.manifest.files
        if journal.manifest.status != "complete" or unreported:
            with working("report"):
                journal.complete(None if report is None else report(Run(journal.folder)))
        yield


def _audited(config: Configuration, model: Model, data: Interactions, split: Split, journal: Journal) -> Iterator[None]:
    """Fit a model and put it to its audits; it is let go before the next one is fitted."""
    start = time.perf_counter()
    with working(f"{model.label}: fit"):
        fitted = model.recommender.fit(split.train, rng=config.seed)
    journal.add_fit(model.label, _seconds_since(start))
    release_memory()
    subject = Subject(fitted, model.recommender, data, split.test)
    yield
    for name, audit in config.steps(model).items():
        if (model.label, name) not in journal.manifest.settled:
            start = time.perf_counter()
            device = "cpu" if audit.idle(fitted) else config.device
            try:
                own = journal.keeping(model.label, name, type(audit), _parts(config))
                with working(f"{model.label}: {name}"), spill.keeping(own):
                    result = audit.run(subject, rng=config.seed, engine=config.engine, device=device)
                    _ = result.writers  # what is made when it is first looked at belongs to the step
            except NotSupportedError as error:
                journal.add_skip(model.label, name, str(error))
            else:
                journal.add_step(model.label, name, result, _seconds_since(start), device)
                del result  # its tables are written, and the next audit needs the room
            release_memory()
        yield


def _parts(config: Configuration) -> str | None:
    """Where the parts of large tables are written, if elsewhere than in the run's folder."""
    parts: str | None = getattr(config.engine, "parts", None)
    return parts


def _new_manifest(config: Configuration, data: DataRecord) -> AuditRecord:
    return AuditRecord(
        recaudit=__version__,
        status="running",
        seed=config.seed,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        config=config.written,
        config_hash=config.hash,
        data=data,
        versions=versions(config.device),
        machine=machine(),
        models=tuple(
            ModelRecord(
                label=model.label,
                kind=model.kind,
                settings=as_data(model.recommender),
                given=model.recommender.given,
                floor=model.floor,
            )
            for model in config.measured
        ),
        audits=tuple(config.audits),
        device=config.device,
        steps=(),
    )


def _seconds_since(start: float) -> float:
    return round(time.perf_counter() - start, 3)

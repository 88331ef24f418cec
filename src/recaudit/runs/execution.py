"""Run a configuration: read, split, fit, audit, report; a run that was interrupted is resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from recaudit import __version__, lock
from recaudit.arrays import IntArray
from recaudit.audits import spill
from recaudit.audits.asking import FAILURES
from recaudit.audits.audit import Subject
from recaudit.audits.failures import cause_of
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split
from recaudit.engines import track, working
from recaudit.errors import NotSupportedError
from recaudit.folders import REPORT, check_same, read_manifest
from recaudit.machine import release_memory
from recaudit.models.checks import check_device
from recaudit.models.given.black_box import BlackBox
from recaudit.runs.configuration import Configuration
from recaudit.runs.estimate import RunEstimate, check_log, check_room, estimate_steps
from recaudit.runs.folder import Journal, Run
from recaudit.runs.manifest import AuditRecord, DataRecord, InputFileRecord, ModelRecord, machine, versions
from recaudit.runs.recommenders import Model
from recaudit.runs.resumption import Resumption, resumption_of, step_inputs
from recaudit.runs.shared_users import find_shared_users, restrict_users
from recaudit.specification import as_data

Report = Callable[[Run], str]
"""The page of a run, as text."""


Before = Callable[[RunEstimate], None]
"""What is done with the estimate of a run before it starts: raise to stop it."""
Resumed = Callable[[Resumption], None]
"""What is done with the decision about the steps of a former run."""

LARGE = 5_000_000
"""Ratings from which a run says beforehand what it will take: slices of a smaller log are a large part of it."""
SHORT = 60.0
"""Seconds: of a run that takes no longer nothing more is worked out beforehand."""


def execute(
    config: Configuration,
    out: str | Path,
    *,
    fresh: bool = False,
    requery: bool = False,
    report: Report | None = None,
    before: Before | None = None,
    resumed: Resumed | None = None,
) -> Run:
    """Run every audit of every model into the folder `out`, write the report, and return the complete run.

    If the folder holds a run of the same version, its steps are kept as long as everything that they depend on is the
    same (settings with their defaults, data, split, seed, device), and a model whose steps are all kept is not fitted
    again. The numbers are those of a run that was never interrupted. Steps that failed for a cause that may pass, such
    as a service that did not answer, and steps with a damaged file are computed again. A folder of which nothing could
    be kept is refused.

    Args:
        config: What is run.
        out: The run folder.
        fresh: If True, delete the results in the folder and start over.
        requery: If True, query systems behind an address again, whatever answers are in their cache, and keep all other
            steps.
        report: Makes the page of the run.
        before: Called with what the remaining steps will take, if the log has `LARGE` ratings or more.
        resumed: Called with what becomes of the steps of a former run, before anything is computed.
    """
    stages = 2 + sum(1 + len(config.steps(model)) for model in config.measured)
    options = _Options(fresh, requery, report, before, resumed)
    for _ in track(_stages(config, Path(out), options), "Run", stages):
        pass
    return Run.open(out, parts=_parts(config))


class _Options(NamedTuple):
    """The arguments of `execute`."""

    fresh: bool
    requery: bool
    report: Report | None
    before: Before | None
    resumed: Resumed | None


def _stages(config: Configuration, out: Path, options: _Options) -> Iterator[None]:
    """The work, pausing after each stage so that progress can be told."""
    check_device(config.device)
    former = read_manifest(out)
    if former is not None and (not options.fresh or former.kind != "audit"):
        check_same(out, former, "audit", {})
    with working(f"reading {config.data.label}"):
        files = {name: InputFileRecord.of(file) for name, file in config.split.files(config.data).items()}
        data, (train, test) = config.split.load(config.data, config.seed)
    users = find_shared_users((model.recommender for model in config.measured), train, config.seed)
    planned = step_inputs(config, data, Split(train, test), users)
    kept = (
        ()
        if former is None or options.fresh
        else resumption_of(AuditRecord.of(former, out), planned, requery=options.requery).kept
    )
    check_log(config, train, kept)
    record = DataRecord.of(config.data.label, data, train, test, files)
    out.mkdir(parents=True, exist_ok=True)
    with lock.alone(out), spill.aside(_parts(config) or out.absolute()):
        new = _new_manifest(config, record, requery=options.requery)
        journal = Journal.begin(out, new, planned, fresh=options.fresh, requery=options.requery, parts=_parts(config))
        journal.add_data(data, train)
        if options.resumed is not None:
            options.resumed(journal.resumption)
        if journal.manifest.status != "complete":
            check_room(config, train, journal.manifest.settled)
            if options.before is not None and len(data) >= LARGE:
                options.before(estimate_steps(config, data, Split(train, test), journal.manifest.settled, SHORT))
                release_memory()
        yield
        for model in config.measured:
            steps = config.steps(model)
            if all((model.label, name) in journal.manifest.settled for name in steps):
                yield from (None for _ in range(1 + len(steps)))
                continue
            yield from _audited(config, model, data, Split(train, test), journal, users)
        report = options.report
        unreported = report is not None and REPORT not in journal.folder.manifest.files
        if journal.manifest.status != "complete" or unreported:
            with working("report"):
                journal.complete(None if report is None else report(Run(journal.folder)))
        yield


def _audited(
    config: Configuration,
    model: Model,
    data: Interactions,
    split: Split,
    journal: Journal,
    users: IntArray | None,
) -> Iterator[None]:
    """Fit a model and run its audits, lists for these users only; it is deleted before the next one is fitted."""
    start = time.perf_counter()
    with working(f"{model.label}: fit"):
        fitted = restrict_users(model.recommender.fit(split.train, rng=config.seed), users)
    journal.add_fit(model.label, _seconds_since(start))
    release_memory()
    if isinstance(fitted, BlackBox) and fitted.service is not None:
        since = journal.manifest.answers_since
        fitted.service.session.run = journal.manifest.id
        fitted.service.session.not_before = 0.0 if since is None else datetime.fromisoformat(since).timestamp()
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
            except FAILURES as error:
                journal.add_skip(model.label, name, cause_of(error), failed=True)
            else:
                seconds, queried = _seconds_since(start), isinstance(fitted, BlackBox)
                journal.add_step(model.label, name, result, seconds, device, queried=queried)
                del result  # its tables are written, and the next audit needs the room
            release_memory()
        yield


def _parts(config: Configuration) -> Path | None:
    """The folder in which parts of large tables are written, if it is not the run folder."""
    parts: str | None = getattr(config.engine, "parts", None)
    return None if parts is None else Path(parts).absolute()


def _new_manifest(config: Configuration, data: DataRecord, *, requery: bool) -> AuditRecord:
    return AuditRecord(
        id=uuid4().hex,
        answers_since=datetime.now(UTC).isoformat() if requery else None,
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

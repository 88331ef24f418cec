"""`recaudit audit`, `recaudit demo` and `recaudit report`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from recaudit.cli.estimates import estimate_lines, estimate_table
from recaudit.cli.messages import (
    BAD_INPUT,
    NOT_AVAILABLE,
    AsJson,
    OnDevice,
    Parts,
    answers,
    command,
    notes,
    plain_table,
    print_json,
)
from recaudit.cli.progress import shown
from recaudit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recaudit.report import Finding
    from recaudit.runs import Configuration, Run, RunEstimate
    from recaudit.runs.resumption import Resumption

DEMO = Path(__file__).with_name("demo.toml")
"""What `recaudit demo` runs."""


@command(interrupted="Interrupted. Run the same command again to resume (without --fresh, which starts over).")
def audit(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration, a TOML file.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; runs/NAME if not given.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, whatever run the folder holds.")] = False,
    requery: Annotated[
        bool, typer.Option("--requery", help="Query services again, instead of their cache; keep everything else.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Spread the work; overrides \\[engine]. Never changes a number.")
    ] = None,
    device: OnDevice = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what the run will take: time, memory, what to change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Audit recommenders as a configuration says, into a run folder with a report.

    Interrupted, it resumes: run the same command again. After a change of the configuration the steps stay that do not
    depend on it. Steps that failed, because a service did not answer for instance, are tried again.

    What a run of a large log will take is printed before it starts, of any with --dry-run: steps are timed on slices of
    the users, within a factor of two.

    A configuration to start from:

    \b
      \\[data]
      name = "ml-1m"         # see 'recaudit data list', or your own file:
      # file = "ratings.csv"
      # user = "userId"
      # item = "movieId"
      # rating = "rating"
      # time = "timestamp"
    \b
      \\[split]
      kind = "leave-last"    # the last k ratings of each user are held out
      k = 5                  # or kind = "random" or "by-time", fraction = 0.1
    \b
      \\[\\[model]]              # as many as you like
      kind = "als"           # or biased-mf, item-knn, user-knn, ease, slim,
      factors = 32           # top-pop, random
    \b
      \\[\\[model]]
      kind = "factors"       # vectors that you already have; or "lists", "http",
      path = "model.npz"     # "python": a model of any library
      predicts_ratings = true  # or false: scores only rank
    \b
      \\[audits.accuracy]      # without any, accuracy and exposure
      k = 10
      \\[audits.exposure]
      k = 10
      \\[audits.reachability]  # what users can get shown by rating
      actions = {kind = "next-k", k = 10}
      users = 200            # a sample; all where nothing is said

    Then:

    \b
      recaudit audit my.toml --out runs/my
    """
    from recaudit import runs
    from recaudit.engines import with_workers

    configuration = runs.read(config)
    if workers is not None:
        engine = with_workers(configuration.engine, workers)
        configuration = configuration.with_settings(engine=engine)
    if device is not None:
        configuration = configuration.with_settings(device=device)
    if dry_run:
        _print_estimate(configuration, as_json=as_json)
        return
    run = _carry_out(configuration, out or Path("runs") / config.stem, fresh=fresh, requery=requery)
    if as_json:
        print_json(_document(run))
    else:
        _print_outcome(run)
    _exit_without_result(run)


@command(interrupted="Interrupted. Run the same command again: the demo starts over.")
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The run folder; a former demo in it is replaced.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Audit recommenders on built-in data: the quickest way to see what recaudit does.

    Takes a few minutes, needs no download, and always starts over.
    """
    from recaudit import runs
    from recaudit.cli.explore import put_explorer
    from recaudit.runs import Run

    _check_replaceable(out)
    configuration = runs.parse(DEMO.read_text(encoding="utf-8"), source="demo.toml", folder=Path())
    run = _carry_out(configuration, out, fresh=True)
    page = put_explorer(run)
    _print_outcome(Run.open(out))
    answers().print(f"Explorer: {page}")
    answers().print("\nOpen the report in a browser: every number has its definition one click away.")
    answers().print("In the explorer, change people's ratings and see what they are shown then.")
    answers().print("Audit your own data next: 'recaudit init ratings.csv' writes a configuration for your file.")


@command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    form: Annotated[
        Literal["html", "md"], typer.Option("--format", help="The page, or a statement of the audit in Markdown.")
    ] = "html",
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --format md: a Jinja template of your own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --format md: where to; DIR/statement.md if not given.")
    ] = None,
    parts: Parts = None,
) -> None:
    """Write the report of an audit's folder again, from its tables; not from damaged ones.

    With --format md a statement instead: scope, data, method, assumptions, results, limits and how to check them, with
    a blank for whatever the folder does not know. It is yours to fill in, and is never written over.

    \b
      recaudit report runs/demo
      recaudit report runs/demo --format md
      recaudit report runs/demo --format md --template mine.md.j2 --out mine.md
    """
    from recaudit.engines import working
    from recaudit.report import write, write_statement
    from recaudit.runs import Run

    for name, given in (("--template", template), ("--out", out)):
        if given is not None and form != "md":
            raise InputError(name, received=str(given), expected="--format md beside it, whose statement it is for")
    with shown(notes()), working("report"):
        run = Run.open(folder, parts=parts)
        path = write(run) if form == "html" else write_statement(run, out, template)
    if form == "html":
        _print_outcome(run)
    else:
        answers().print(f"Statement: {path}")


def _check_replaceable(out: Path) -> None:
    """That starting over in this folder costs nobody the results of an audit of their own."""
    from recaudit.folders import read_manifest
    from recaudit.runs import Run

    data = Run.open(out).manifest.data.name if read_manifest(out) else "demo"
    if data != "demo":
        raise InputError(
            "out",
            received=f"{out}, which holds an audit of {data}",
            expected="a new folder, or one with a former demo",
            remedy="Choose another folder with --out.",
        )


def _carry_out(configuration: Configuration, out: Path, *, fresh: bool, requery: bool = False) -> Run:
    from recaudit import report, runs

    with shown(notes()):
        run = runs.execute(
            configuration,
            out,
            fresh=fresh,
            requery=requery,
            report=report.render,
            before=_tell,
            resumed=_print_resumption,
        )
    if run.manifest.computed:
        notes().print(run.manifest.computed)
    return run


def _print_resumption(resumption: Resumption) -> None:
    """Print what is kept of a former run, and what is computed again and why."""
    if resumption.kept:
        notes().print(f"Kept: {_named_steps(resumption.kept)}.")
    reasons: dict[str, list[tuple[str, str]]] = {}
    for step in resumption.repeated:
        reasons.setdefault(step.reason, []).append((step.model, step.audit))
    for reason, steps in reasons.items():
        notes().print(f"Computed again: {_named_steps(steps)}: {reason.rstrip('.')}.")
    if resumption.dropped:
        notes().print(f"Deleted, since the configuration does not name it: {_named_steps(resumption.dropped)}.")


def _named_steps(steps: Iterable[tuple[str, str]]) -> str:
    """Steps by model: "ALS (accuracy, exposure), EASE (accuracy)"."""
    audits: dict[str, list[str]] = {}
    for model, audit in steps:
        audits.setdefault(model, []).append(audit)
    return ", ".join(f"{model} ({', '.join(names)})" for model, names in audits.items())


def _exit_without_result(run: Run) -> None:
    """Exit with an error code if an audit measured nothing because of its system, or none has a result."""
    from recaudit.runs.services import has_result, outages_of

    if any(outage.total for outage in outages_of(run)):
        raise typer.Exit(NOT_AVAILABLE)
    if not has_result(run):
        raise typer.Exit(BAD_INPUT)


def _tell(told: RunEstimate) -> None:
    """What a run will take, where it is long enough or lacks enough to be worth saying, to who waits for it."""
    from recaudit.runs.execution import SHORT

    if told.seconds >= SHORT or told.unknown or told.refused:
        notes().print(estimate_table(told), soft_wrap=False)
        for line in estimate_lines(told):
            notes().print(line)


def _print_estimate(configuration: Configuration, *, as_json: bool) -> None:
    from recaudit import runs

    with shown(notes()):
        told = runs.estimate(configuration)
    if as_json:
        sums = {"seconds": told.seconds, "memory": told.memory, "estimated_in": told.spent}
        print_json({**sums, "steps": [asdict(step) for step in told.steps], "advice": told.advice})
        return
    answers().print(estimate_table(told), soft_wrap=False)
    for line in estimate_lines(told):
        answers().print(line)


def _print_outcome(run: Run) -> None:
    """The verdict: what was audited, the findings that matter most with their numbers, cautions, what has no result."""
    from recaudit.report import verdict
    from recaudit.report.kit.numbers import plural
    from recaudit.runs.services import answer_lines, outage_lines, outages_of

    told = verdict(run)
    table = plain_table()
    table.add_column(justify="right")
    for caution in (own for own in told.cautions if own.premise):
        table.add_row("!", Text.assemble((caution.claim, "bold"), f". {caution.detail}"))
    for rank, finding in enumerate(told.first, start=1):
        table.add_row(Text(str(rank), style="bold"), _in_lines(finding))
    failures, remembered = outage_lines(run), answer_lines(run)
    for caution in (own for own in told.cautions if not own.premise):
        if not any(line.startswith(caution.claim) for line in (*failures, *remembered)):  # they are printed below
            table.add_row("!", Text(f"{caution.claim}."))
    answers().print(Text(f"{told.audited}\n"), soft_wrap=False)
    answers().print(table, soft_wrap=False)
    if not told.findings and not any(outage.total for outage in outages_of(run)):
        answers().print(f"\n{told.nothing}")
    if failures:
        answers().print("\nWithout an answer (the same command tries again):")
        for line in failures:
            answers().print(f"  {line}")
    if told.others:
        answers().print(f"\n{plural(len(told.others), 'more finding')} in the report.")
    if told.refused:
        answers().print("\nWithout a result (in the report under Gaps):")
        for line in told.refused:
            answers().print(f"  {line}")
    if remembered:
        answers().print("\nAnswers of services:")
        for line in remembered:
            answers().print(f"  {line}")
    answers().print(f"\nReport: {run.report}")


def _in_lines(finding: Finding) -> Text:
    """The claim, its number beside those of the floors, and what one could do about it."""
    lines = Text.assemble((finding.claim, "bold"))
    if own := finding.measure:
        floors = "".join(f"; {name}: {value}" for name, value in own.floors.items())
        lines.append(f"\n{own.label}: {own.value} {own.interval}{floors}; {finding.whom}.")
    return lines.append(f"\n{finding.advice}".rstrip())


def _document(run: Run) -> dict[str, object]:
    """What a program wants to know about a finished run."""
    from recaudit.metrics.tables import SUMMARY_SCHEMA
    from recaudit.report import headlines, verdict
    from recaudit.report.evidence import Evidence
    from recaudit.runs.services import answers_of, outages_of

    evidence = Evidence(run)
    results = [
        {"model": model, "audit": audit, **row}
        for model in run.models
        for audit in run.audits(model)
        for row in evidence.table(model, audit, "summary", SUMMARY_SCHEMA).fill_nan(None).iter_rows(named=True)
    ]
    told = verdict(run)
    return {
        "run": str(run.path),
        "report": str(run.report),
        "status": run.manifest.status,
        "skipped": [skip.model_dump() for skip in run.manifest.skipped],
        "outages": [asdict(outage) for outage in outages_of(run)],
        "answers": answers_of(run),
        "seconds": run.manifest.seconds,
        "verdict": told.code,
        "audited": told.audited,
        "findings": [_as_data(rank, finding) for rank, finding in enumerate(told.findings, start=1)],
        "cautions": [asdict(caution) for caution in told.cautions],
        "headlines": [
            {
                "code": h.code,
                "label": h.label,
                "value": h.value,
                "interval": h.interval,
                "meaning": h.meaning,
                "numbers": [asdict(number) for number in h.numbers],
            }
            for h in headlines(run)
        ],
        "results": results,
    }


def _as_data(rank: int, finding: Finding) -> dict[str, object]:
    return {
        "rank": rank,
        "code": finding.code,
        "numbers": [asdict(number) for number in finding.numbers],
        "claim": finding.claim,
        "detail": finding.detail,
        "section": finding.section,
        **(asdict(finding.measure) if finding.measure else {}),
        "effect": finding.effect.size,
        "sure": finding.effect.sure,
        "users": finding.effect.users,
        "touched": finding.share,
        "advice": finding.advice,
    }

"""`recaudit study`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from recaudit.cli.messages import AsJson, answers, command, notes, plain_table, print_json
from recaudit.cli.progress import shown
from recaudit.errors import InputError

if TYPE_CHECKING:
    from recaudit_papers.studies import StudyReport


class _SizeName(StrEnum):
    quick = "quick"
    paper = "paper"


OWN = "own"
"""The name of the study that a configuration describes."""
_FIRST = 3
"""How many rows of a table are printed that do not agree; the page has all."""


@command(interrupted="Interrupted. Run the same command again to resume (without --fresh, which starts over).")
def study(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A paper's study, or 'own'.", show_default=False)
    ] = None,
    size: Annotated[
        _SizeName, typer.Option(help="quick: ten minutes on two cores. paper: as large as the paper, or larger.")
    ] = _SizeName.quick,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder; runs/study-NAME if not given.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="CONFIG", help="For 'own': the question, a TOML file.", show_default=False)
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure everything again.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Spread the experiments. Never changes a number.")] = 1,
    list_: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a paper's tables and figures again, and put ours beside theirs.

    Every number stands beside the printed one: both with their errors, the difference, whether they agree, and, where
    not, which change makes the printed number come out. Interrupted, it resumes: run the same command again; at the
    larger size, what was measured with the same settings is kept.

    \b
      recaudit study --list
      recaudit study calibration --workers 2
      recaudit study reachability --size paper --out runs/reachability
      recaudit study own --config question.toml

    The folder gets a page (report.html), the same as Markdown with pictures, and every table as CSV and LaTeX.
    """
    if list_:
        _print_studies(as_json=as_json)
        return
    from recaudit.engines import Serial, with_workers
    from recaudit_papers import studies

    chosen = studies.own(_needed(config)) if name == OWN else _known(name, config)
    folder = out or Path("runs") / f"study-{config.stem if config and name == OWN else name}"
    engine = with_workers(Serial(), workers, "processes")
    with shown(notes()):
        report = studies.run(chosen, size.value, out=folder, engine=engine, fresh=fresh)
    if as_json:
        print_json(_document(report))
    else:
        _print_outcome(report)


def _needed(config: Path | None) -> Path:
    if config is None:
        remedy = "docs/papers/own-study.md has one to start from."
        raise InputError("--config", received="nothing", expected="a TOML file with the question", remedy=remedy)
    return config


def _known(name: str | None, config: Path | None) -> str:
    from recaudit.errors import did_you_mean
    from recaudit_papers.studies.running import STUDIES

    known = [*STUDIES, OWN]
    if name is None or name not in known:
        remedy = did_you_mean(name, known) if name else f"There are: {', '.join(known)}."
        raise InputError("NAME", received=name or "nothing", expected="the name of a study", remedy=remedy)
    if config is not None:
        raise InputError("--config", received=f"{config} for {name!r}", expected=f"no configuration but for {OWN!r}")
    return name


def _print_studies(*, as_json: bool) -> None:
    from recaudit_papers.studies.running import STUDIES

    if as_json:
        print_json([{"name": name, "title": own.title, "paper": own.paper} for name, own in STUDIES.items()])
        return
    table = plain_table("Name", "Study", wide="Study")
    for name, own in STUDIES.items():
        table.add_row(name, f"{own.title}\n{own.paper}")
    table.add_row(OWN, "A question of your own: one change at a time to a configuration (--config).")
    answers().print(table, soft_wrap=False)


def _print_outcome(report: StudyReport) -> None:
    """What does not agree, table by table; how many rows stand how; and where the page is."""
    from recaudit.report import plural
    from recaudit_papers.studies import Agreement

    table = plain_table()
    for _ in range(3):
        table.add_column(overflow="fold")
    for own in report.tables:
        if not own.rows:
            continue
        said = [row for row in own.rows if row.agreement in (Agreement.EXPLAINED, Agreement.OPEN)]
        agree = sum(row.agreement is Agreement.AGREES for row in own.rows)
        printed = sum(row.published.known for row in own.rows)
        stand = f"{agree} of {printed} agree" if printed else plural(len(own.rows), "number")
        table.add_row(Text(own.title, style="bold"), stand, "")
        for row in sorted(said, key=lambda row: row.agreement is not Agreement.OPEN)[:_FIRST]:
            table.add_row(f"  {row.name}", f"{row.published.text}, here {row.told}", str(row.agreement))
        if len(said) > _FIRST:
            table.add_row(f"  and {len(said) - _FIRST} more", "", "")
    for note in report.notes:
        answers().print(Text(note), soft_wrap=False)
    answers().print(table, soft_wrap=False)
    answers().print(f"\n{report.verdict}\nPage: {report.page}")


def _document(report: StudyReport) -> dict[str, object]:
    rows = report.frame()
    return {
        "study": report.study.name,
        "size": report.results.size,
        "out": report.path,
        "report": report.page,
        "counts": {mark.value: n for mark, n in report.counts.items()},
        "notes": report.notes,
        "rows": rows.fill_nan(None).to_dicts() if len(rows) else [],
        "seconds": report.seconds,
    }

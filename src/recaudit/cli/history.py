"""`recaudit history`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recaudit.cli.compare import Confidence, Correct
from recaudit.cli.messages import AsJson, Parts, answers, command, notes, plain_table, print_json
from recaudit.cli.progress import shown

if TYPE_CHECKING:
    from recaudit.report.history import HistoryReading

_MOST = 15
"""Numbers in the terminal."""
_LATEST = 5
"""Runs whose numbers stand beside each other there."""


@command()
def history(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Two run folders of audits, or more.")],
    as_given: Annotated[
        bool, typer.Option("--as-given", help="In this order, not in that in which the runs were started.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page with everything here.")] = None,
    confidence: Confidence = 0.95,
    correction: Correct = "holm",
    parts: Parts = None,
    as_json: AsJson = False,
) -> None:
    """Every number over several runs, what changed between them, and what the last change did.

    \b
      recaudit history runs/2026-* --out history.html
    """
    from recaudit.report import write_history
    from recaudit.report.history import HistoryReading
    from recaudit.runs import Run
    from recaudit.runs import history as followed

    with shown(notes()):
        found = followed(
            [Run.open(run, parts=parts) for run in runs],
            as_given=as_given,
            confidence=confidence,
            correction=correction,
        )
        page = None if out is None else write_history(found, out)
    course = HistoryReading(found)
    if as_json:
        print_json({**_document(course), "page": page})
    else:
        _print(course, page)


def _print(course: HistoryReading, page: Path | None) -> None:
    from recaudit.report.history import LETTERS

    console = answers()
    table = plain_table("", "run", "started", "changed")
    for step in course.steps:
        table.add_row(str(step.number), step.name, step.started, step.marks)
    console.print(table, soft_wrap=False)
    console.print(f"Changed: {', '.join(f'{letter} {kind}' for kind, letter in LETTERS.items())}")
    for line in course.notes:
        console.print(f"Note: {line}")
    console.print(f"\n{course.verdict}\n")
    if course.last is not None:
        console.print(_latest(course), soft_wrap=False)
    console.print(f"\nPage: {page}" if page else "\nEverything on a page: --out history.html; for programs: --json")


def _latest(course: HistoryReading) -> object:
    """The numbers that the last change moved most, over the latest runs."""
    from recaudit.runs.comparison import VERDICTS

    assert course.last is not None
    changes = sorted(course.last.overall, key=lambda own: (VERDICTS.index(own.verdict), -own.size))[:_MOST]
    places = range(len(course.runs))[-_LATEST:]
    table = plain_table("", "number", *(str(place + 1) for place in places), "last difference", wide="number")
    for own in changes:
        found = [course.estimate(place, own.whose, own.audit, own.metric) for place in places]
        values = ["" if one is None else one[1].text for one in found]
        table.add_row(f"{own.sign} {own.verdict}", own.named, *values, f"{own.text}\n{own.interval}".rstrip())
    return table


def _document(course: HistoryReading) -> dict[str, object]:
    """What a program wants to know about a history."""
    from dataclasses import asdict

    own = course.history
    return {
        "runs": [
            {
                "run": run.path,
                "started": run.manifest.started,
                "status": run.manifest.status,
                "changes": [asdict(change) for change in changed],
            }
            for run, changed in zip(own.runs, own.changes, strict=True)
        ],
        "notes": course.notes,
        "verdict": course.verdict,
        "results": own.frame.fill_nan(None).to_dicts(),
        "last": [] if own.last is None else own.last.frame.fill_nan(None).to_dicts(),
    }

"""`recaudit compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from recaudit.cli.messages import BAD_INPUT, AsJson, Parts, answers, command, notes, plain_table, print_json
from recaudit.cli.progress import shown

if TYPE_CHECKING:
    from rich.table import Table

    from recaudit.report.differences import Difference
    from recaudit.report.reading import ComparisonReading

_MOST = {"worse": 6, "better": 4}
"""Lines about everybody, by verdict."""
_MOST_GROUPS = 5
_MOST_CHANGES = 8

Confidence = Annotated[float, typer.Option(help="Of intervals and verdicts, between 0 and 1.")]
Correct = Annotated[
    Literal["holm", "benjamini-hochberg", "none"],
    typer.Option("--correction", help="For how many questions are asked at once."),
]


@command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of an audit.")],
    after: Annotated[
        Path | None,
        typer.Argument(metavar="RUN", help="The run that is compared with it; none, for two models of one run."),
    ] = None,
    models: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="A model of the first run, and one of the second, or both of the only run."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page with everything here.")] = None,
    confidence: Confidence = 0.95,
    correction: Correct = "holm",
    parts: Parts = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs, or two models of one run: is the second worse, and for whom?

    Every number that both have, for the same users: before, after, the difference with its interval, and whether it is
    larger than chance. "not shown" is not "the same": the difference may be chance, and may be real. What cannot be
    compared (other data, another catalogue, other users under the same ids) is printed first.

    \b
      recaudit compare runs/monday runs/tuesday --out tuesday.html
      recaudit compare runs/monday --models ALS EASE
    """
    from recaudit.report import write_comparison
    from recaudit.report.reading import ComparisonReading
    from recaudit.runs import Run
    from recaudit.runs import compare as compared

    with shown(notes()):
        first = Run.open(before, parts=parts)
        second = None if after is None else Run.open(after, parts=parts)
        comparison = compared(first, second, models=models, confidence=confidence, correction=correction)
        page = None if out is None else write_comparison(comparison, out)
    reading = ComparisonReading(comparison)
    if as_json:
        print_json({**_document(reading), "page": page})
    else:
        _print(reading, page)
    if comparison.is_refused:
        raise typer.Exit(BAD_INPUT)


def _print(reading: ComparisonReading, page: Path | None) -> None:
    from recaudit.report.differences import counted, ranked
    from recaudit.report.kit.numbers import listing, plural

    console = answers()
    for line in reading.notes:
        console.print(f"Caution: {line}")
    if reading.comparison.is_refused:
        console.print(reading.verdict)
        _print_changes(reading)
        console.print(f"\nPage: {page}" if page else "")
        return
    console.print(reading.what)
    console.print(f"\n{reading.verdict}")
    told = [own for verdict, most in _MOST.items() for own in ranked(reading.overall, verdict)[:most]]
    if told:
        console.print("\nEverybody:")
        console.print(_lines(told), soft_wrap=False)
    groups = ranked(reading.groups, "worse")[:_MOST_GROUPS]
    if groups:
        console.print("\nGroups that are worse off:")
        console.print(_lines(groups), soft_wrap=False)
    console.print(f"\nAll numbers: {counted(reading.overall)} about everybody; {counted(reading.groups)} about groups.")
    _print_changes(reading)
    for lists in reading.lists:
        most = [own["user"] for own in reading.most_changed(lists.model)[:3]]
        whom = f"; most those of {listing(most)}" if most else ""
        places = f"{lists.gone:.1f} of {plural(lists.length, 'item')} gone on average"
        console.print(f"Lists of {lists.model}: {lists.changed:,} of {lists.lists:,} changed, {places}{whom}")
    for lack in reading.comparison.left_out:
        of = f" ({', '.join(lack.metrics)})" if lack.metrics else ""
        console.print(f"Not compared: {lack.audit} of {lack.model}{of}: {lack.reason}")
    if reading.not_compared:
        console.print(f"Not compared: {listing(reading.not_compared)}")
    console.print(f"\nPage: {page}" if page else "\nEverything on a page: --out compare.html; for programs: --json")


def _print_changes(reading: ComparisonReading) -> None:
    from recaudit.report.kit.numbers import plural

    console, changes = answers(), reading.comparison.changes
    for own in changes[:_MOST_CHANGES]:
        console.print(f"Changed: {own.what}, {own.name}: {own.before or 'none'} → {own.after or 'none'}")
    if len(changes) > _MOST_CHANGES:
        console.print(f"Changed: {plural(len(changes) - _MOST_CHANGES, 'more setting')}")


def _lines(differences: list[Difference]) -> Table:
    table = plain_table("", "number", "before → after", "difference", "people", wide="number")
    for own in differences:
        way = own.way.replace("\N{NO-BREAK SPACE}", " ")
        table.add_row(
            f"{own.sign} {own.verdict}", own.named, way, f"{own.text} {own.interval}".rstrip(), f"{own.users:,}"
        )
    return table


def _document(reading: ComparisonReading) -> dict[str, object]:
    """What a program wants to know about a comparison."""
    from dataclasses import asdict

    own = reading.comparison
    return {
        "before": own.before.path,
        "after": own.after.path,
        "models": own.models,
        "confidence": own.confidence,
        "correction": own.correction,
        "verdict": reading.verdict,
        "findings": [
            {
                "code": point.code,
                "claim": point.claim,
                "detail": point.detail,
                "numbers": [asdict(number) for number in point.numbers],
            }
            for point in reading.findings
        ],
        "notes": reading.notes,
        "cautions": [asdict(caution) for caution in own.cautions],
        "same_data": own.same_data,
        "shared_answers": [asdict(shared) for shared in own.shared_answers],
        "differences": own.frame.fill_nan(None).to_dicts(),
        "changes": [asdict(change) for change in own.changes],
        "lists": [asdict(lists) for lists in reading.lists],
        "left_out": [asdict(lack) for lack in own.left_out],
    }

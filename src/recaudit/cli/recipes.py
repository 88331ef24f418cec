"""`recaudit audits`: which questions the papers ask, and how to ask them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from recaudit.cli.messages import answers, command, print_json
from recaudit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from recaudit.audits.recipe import Entry


@command()
def audits(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Say all about one of them.")] = None,
    paper: Annotated[str | None, typer.Option(metavar="KEY", help="Only those of one paper, 000 to 004.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead, for programs.")] = False,
) -> None:
    """List every audit of the five papers: what is changed, what is looked at, which number comes of it.

    \b
      recaudit audits
      recaudit audits --paper 001
      recaudit audits "past-5 instability"    # in words, with the call that runs it
    """
    from recaudit.audits.recipe import catalog

    entries = catalog(paper)
    if name is not None:
        entries = (_named(name, entries),)
    if as_json:
        print_json([_document(entry) for entry in entries])
    elif name is not None:
        _print_one(entries[0])
    else:
        _print_all(entries)


def _named(name: str, entries: tuple[Entry, ...]) -> Entry:
    for entry in entries:
        if entry.name.lower() == name.lower():
            return entry
    remedy = did_you_mean(name, [entry.name for entry in entries])
    raise InputError("NAME", received=repr(name), expected="the name of an audit, in quotes", remedy=remedy)


def _print_all(entries: tuple[Entry, ...]) -> None:
    """A line an audit, under a line for what is changed: whoever asks starts from there."""
    headings = ("Audit", "Looked at", "Number", "Paper", "Call")
    lines = {entry.name: _lines(entry) for entry in entries}
    every = [headings, *(cells for group in lines.values() for cells in group)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]

    def line(cells: tuple[str, ...]) -> str:
        return "  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

    console = answers()
    console.print(line(headings), style="bold")
    for changed in dict.fromkeys(entry.audit.intervention for entry in entries):
        group = [entry for entry in entries if entry.audit.intervention == changed]
        console.print(Text.assemble("\nChanged: ", (str(changed), "bold"), f" ({group[0].audit.rung})"))
        for entry in group:
            for cells in lines[entry.name]:
                console.print(line(cells))
    console.print()
    console.print("One of them in words, with its whole call: recaudit audits NAME")


def _lines(entry: Entry) -> list[tuple[str, ...]]:
    """The audit, and indented below it what is made of its rows."""
    from recaudit.audits.recipe import Max

    audit, call = entry.audit, entry.call.partition("(")[0]
    largest = "largest " if isinstance(audit.over, Max) and audit.over.of is None else ""
    looked_at = str(audit.outcome).removesuffix(" of an item")
    return [
        (entry.name, looked_at, f"{largest}{audit.functional}", str(entry.sources[0]), call),
        *((f"  {one.name}", "its rows", one.number, str(one.source), call) for one in entry.aggregations),
    ]


def _print_one(entry: Entry) -> None:
    from recaudit.audits.recipe import PAPERS

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_row("asks", str(entry.audit))
    table.add_row("recipe", repr(entry.audit))
    for source in entry.sources:
        table.add_row("paper", f"{source}: {PAPERS[source.paper]}")
    table.add_row("call", entry.call)
    for aggregation in entry.aggregations:
        table.add_row("made of it", f"{aggregation.name} ({aggregation.source}): {aggregation.call}")
    answers().print(entry.name, style="bold")
    answers().print(table, soft_wrap=False)


def _document(entry: Entry) -> dict[str, object]:
    audit = entry.audit
    return {
        "name": entry.name,
        "sentence": str(audit),
        "recipe": repr(audit),
        "changed": str(audit.intervention),
        "looked_at": str(audit.outcome),
        "number": str(audit.functional),
        "rung": str(audit.rung),
        "sources": [{"paper": source.paper, "where": source.where} for source in entry.sources],
        "call": entry.call,
        "aggregations": [
            {"name": one.name, "paper": one.source.paper, "where": one.source.where, "call": one.call}
            for one in entry.aggregations
        ],
    }

"""`recaudit verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recaudit.cli.messages import DAMAGED, AsJson, Parts, answers, command, print_json

if TYPE_CHECKING:
    from recaudit.folders import Verdict


@command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, of an audit or of a simulation.")],
    parts: Parts = None,
    as_json: AsJson = False,
) -> None:
    """Check that a run folder is as it was written: every table, checkpoint and page. Changes nothing, runs nothing.

    For a folder that somebody sent, or a disk that is not trusted. Exit code 4 where a file is damaged or missing.
    It finds accidents, not forgers: whoever can write the folder can write its digests too. It names links and special
    files, follows and opens none of them, and reads nothing outside of the folder, except tables below --parts.

    \b
      recaudit verify runs/demo
    """
    from recaudit.folders import verify as verified

    verdict = verified(folder, parts)
    if as_json:
        print_json(_document(verdict))
    else:
        _print(verdict)
    if verdict.lost:
        raise typer.Exit(DAMAGED)


def _print(verdict: Verdict) -> None:
    console = answers()
    for line in (*_files(verdict), *_summary(verdict)):
        console.print(line)


def _files(verdict: Verdict) -> Iterator[str]:
    """A line for each file that is not as it was written; those outside of the folder are counted by table."""
    outside = [finding.name for finding in verdict.lost if finding.fault == "outside"]
    for finding in (*verdict.lost, *verdict.irregular):
        if finding.fault != "outside":
            yield f"{finding.fault.ljust(8)} {_on_one_line(finding.name)}"
    for table, count in Counter(name.rpartition("/")[0] for name in outside).items():
        yield f"outside  {table} ({count} files)"
    for name in verdict.unknown:
        yield f"unknown  {_on_one_line(name)}"


def _summary(verdict: Verdict) -> Iterator[str]:
    from recaudit.folders import KINDS, MANIFEST

    if verdict.manifest is None:
        yield f"{verdict.path}: without its {MANIFEST} nothing can be said about the other files."
        yield "Put it back from a copy. Without one, run again in another folder."
        return
    outside = sum(finding.fault == "outside" for finding in verdict.lost)
    state = "complete" if verdict.manifest.status == "complete" else "interrupted: run its command again to resume it"
    yield f"{verdict.path}: {KINDS[verdict.manifest.kind]}, {state}."
    whole = f"{len(verdict.whole)} files are as they were written"
    if len(verdict.lost) > outside:
        yield f"{whole}; {len(verdict.lost) - outside} are not. Run the same command again to compute them again."
    else:
        yield f"{whole}; none is damaged or missing." if not outside else f"{whole}."
    if outside:
        yield (
            f"{outside} files are outside of the folder and were not read. If you trust the folder in which they are, "
            "name it, or one above it, with --parts. The manifest says where they are:"
        )
        yield from (f"  {_on_one_line(place)}" for place in sorted(set(verdict.manifest.elsewhere.values())))
    if verdict.statement:
        yield f"{verdict.statement} is the statement of the audit: it is there to be filled in, so nothing checks it."
    if verdict.unknown:
        yield f"{len(verdict.unknown)} are not the run's: nothing reads them."
    if verdict.irregular:
        yield (
            f"{len(verdict.irregular)} are symbolic links or special files, which no run writes: nothing follows or "
            "opens them."
        )


def _on_one_line(name: str) -> str:
    """The name without line feeds and tabs: the name of a file may hold any character, and look like several lines."""
    return name.replace("\n", "\\u000a").replace("\t", "\\u0009")


def _document(verdict: Verdict) -> dict[str, object]:
    manifest, irregular = verdict.manifest, (*verdict.lost, *verdict.irregular)
    return {
        "run": str(verdict.path),
        "kind": manifest and manifest.kind,
        "status": manifest and manifest.status,
        "ok": not verdict.lost,
        "whole": list(verdict.whole),
        "damaged": [finding.name for finding in verdict.lost if finding.fault == "damaged"],
        "missing": [finding.name for finding in verdict.lost if finding.fault == "missing"],
        "outside": [finding.name for finding in verdict.lost if finding.fault == "outside"],
        "links": sorted(finding.name for finding in irregular if finding.fault == "link"),
        "special": sorted(finding.name for finding in irregular if finding.fault == "special"),
        "unknown": list(verdict.unknown),
        "statement": verdict.statement,
    }

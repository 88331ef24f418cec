"""`recaudit verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recaudit.cli.messages import DAMAGED, AsJson, answers, command, print_json

if TYPE_CHECKING:
    from recaudit.folders import Verdict


@command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, of an audit or of a simulation.")],
    as_json: AsJson = False,
) -> None:
    """Check that a run folder is as it was written: every table, checkpoint and page. Changes nothing, runs nothing.

    For a folder that somebody sent, or a disk that is not trusted. Exit code 4 where a file is damaged or missing.
    It finds accidents, not forgers: whoever can write the folder can write its digests too.

    \b
      recaudit verify runs/demo
    """
    from recaudit.folders import verify as verified

    verdict = verified(folder)
    if as_json:
        print_json(_document(verdict))
    else:
        _print(verdict)
    if verdict.lost:
        raise typer.Exit(DAMAGED)


def _print(verdict: Verdict) -> None:
    from recaudit.folders import KINDS, MANIFEST

    console = answers()
    for finding in verdict.lost:
        console.print(f"{finding.fault.ljust(8)} {finding.name}")
    for name in verdict.unknown:
        console.print(f"unknown  {name}")
    if verdict.manifest is None:
        console.print(f"{verdict.path}: without its {MANIFEST} nothing can be said about the other files.")
        console.print("Put it back from a copy. Without one, run again in another folder.")
        return
    stands = "complete" if verdict.manifest.status == "complete" else "interrupted: its command, run again, goes on"
    console.print(f"{verdict.path}: {KINDS[verdict.manifest.kind]}, {stands}.")
    whole = f"{len(verdict.whole)} files are as they were written"
    if verdict.lost:
        console.print(f"{whole}; {len(verdict.lost)} are not. The same command, run again, works them out anew.")
    else:
        console.print(f"{whole}; none is damaged or missing.")
    if verdict.statement:
        console.print(
            f"{verdict.statement} is the statement of the audit: it is there to be filled in, so nothing checks it."
        )
    if verdict.unknown:
        console.print(f"{len(verdict.unknown)} are not the run's: nothing reads them.")


def _document(verdict: Verdict) -> dict[str, object]:
    manifest = verdict.manifest
    return {
        "run": str(verdict.path),
        "kind": manifest and manifest.kind,
        "status": manifest and manifest.status,
        "ok": not verdict.lost,
        "whole": list(verdict.whole),
        "damaged": [finding.name for finding in verdict.lost if finding.fault == "damaged"],
        "missing": [finding.name for finding in verdict.lost if finding.fault == "missing"],
        "unknown": list(verdict.unknown),
        "statement": verdict.statement,
    }

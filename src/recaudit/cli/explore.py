"""`recaudit explore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recaudit.cli.messages import AsJson, Parts, answers, command, notes, print_json
from recaudit.cli.progress import shown

if TYPE_CHECKING:
    from recaudit.explore import Exploration
    from recaudit.runs import Run

_MIB = 2**20
_DEMO = 5


@command(interrupted="Interrupted. Nothing was written.")
def explore(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of an audit.")],
    users: Annotated[int, typer.Option(min=1, help="How many people, drawn as audits draw them.")] = 8,
    user: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Who, instead of a number of people; repeat for several.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="A model of the run; repeat for several.  [all that personalise]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page.  [RUN/explore.html]")] = None,
    size: Annotated[
        float, typer.Option(metavar="MB", min=0.1, help="The largest page: people beyond are left out.")
    ] = 8.0,
    paths: Annotated[
        Path, typer.Option(metavar="DIR", help="Where relative paths of the run's configuration start.")
    ] = Path(),
    allow_code: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Trust this module, whose code makes a model of the run; repeat."),
    ] = None,
    parts: Parts = None,
    as_json: AsJson = False,
) -> None:
    """A page in which a person changes ratings and sees scores, chances and lists move at once.

    One HTML file for any browser, without a network. The run's models are fitted again from its seed, and what it
    takes to get each title is worked out beforehand for the people on the page. Without --out the report links to it.

    The folder may be a stranger's. Only models of recaudit's own kinds are fitted; one that is made by other code needs
    --allow-code. Files outside of the folder are read if they are those that the run has noted, no service is queried,
    and nothing is downloaded.

    \b
      recaudit explore runs/demo
      recaudit explore runs/demo --user u17 --user u42 --model ALS --out explore.html
    """
    from recaudit.runs import Run

    run = Run.open(folder, parts=parts)
    settings = {"users": user or users, "models": tuple(model or ()), "limit": round(size * _MIB), "folder": paths}
    page, found = _written(run, out, **settings, allow_code=tuple(allow_code or ()))
    if as_json:
        told = {"page": page, "bytes": page.stat().st_size, "users": found.kept, "left_out": found.left}
        print_json({**told, "models": [one["label"] for one in found.payload["models"]]})
        return
    notes().print(found.told)
    answers().print(f"Explorer: {page} ({page.stat().st_size / _MIB:.1f} MB, {len(found.kept)} people)")


def put_explorer(run: Run) -> Path:
    """The explorer of a run beside its report, which links to it then."""
    return _written(run, None, users=_DEMO)[0]


def _written(run: Run, out: Path | None, **settings: Any) -> tuple[Path, Exploration]:
    from recaudit import explore, report
    from recaudit.engines import working
    from recaudit.runs import Run as Opened

    with shown(notes()):
        found = explore.explore(run, **settings)
        page = explore.write_explorer(run, found, out)
        if page.parent.resolve() == run.path.resolve() and run.report.is_file():
            with working("report"):
                report.write(Opened.open(run.path, parts=run.folder.parts))
    return page, found

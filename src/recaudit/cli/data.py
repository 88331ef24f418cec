"""`recaudit data`: which data sets there are, and how they get here."""

from __future__ import annotations

from typing import Annotated

import typer

from recaudit.cli.messages import AsJson, answers, command, notes, plain_table, print_json
from recaudit.cli.progress import shown

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Data sets by name: list them, fetch them.\n\n"
    "Files are looked for in the folder that RECAUDIT_DATA names, then in the cache.",
)


@app.command("list")
@command()
def list_(as_json: AsJson = False) -> None:
    """List every data set and whether it is on this machine.

    \b
      recaudit data list
      recaudit data list --json
    """
    from recaudit.data import datasets

    known = datasets.catalogue()
    if as_json:
        said = ("name", "title", "about", "page", "megabytes", "ready", "location")
        print_json([{name: getattr(one, name) for name in said} for one in known])
        return
    table = plain_table("Name", "Here", "What it holds", wide="What it holds")
    for one in known:
        table.add_row(one.name, "yes" if one.ready else f"{one.megabytes:,.1f} MB to fetch", one.about)
    answers().print(table, soft_wrap=False)
    answers().print("\nGet one with 'recaudit data fetch NAME'.")


@app.command("fetch")
@command(interrupted="Interrupted. Run the same command again to resume.")
def fetch(name: Annotated[str, typer.Argument(metavar="NAME", help="As in 'recaudit data list'.")]) -> None:
    """Download a data set from its owner into the cache, verified; an interrupted download is resumed.

    \b
      recaudit data fetch ml-1m
    """
    from recaudit.data import datasets

    with shown(notes()):
        folder = datasets.fetch(name)
    answers().print(f"{name}: {folder}")
    if page := datasets.info(name).page:
        notes().print(f"Its owner's terms of use: {page}")

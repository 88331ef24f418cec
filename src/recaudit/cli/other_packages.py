"""Commands of other packages, found by entry points, and what to install for one that is not there."""

from __future__ import annotations

import typer

from recaudit.cli.messages import NOT_AVAILABLE, notes
from recaudit.registry import COMMANDS

DISTRIBUTIONS = {"study": "recaudit-papers"}
"""Known commands of other packages, and the distribution to install for each."""


def add_commands(app: typer.Typer) -> None:
    """Add every registered command whose name recaudit itself does not use, and a placeholder for each missing one."""
    own = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    for name in COMMANDS:
        if name not in own:
            app.command(name)(COMMANDS[name])
    for name, distribution in DISTRIBUTIONS.items():
        if name not in COMMANDS:
            _add_placeholder(app, name, distribution)


def _add_placeholder(app: typer.Typer, name: str, distribution: str) -> None:
    any_arguments = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @app.command(name, context_settings=any_arguments, help=f"Needs another package: pip install {distribution}.")
    def explain() -> None:
        notes().print("Error: ", style="bold red", end="")
        notes().print(
            f"NAME: received {name!r}, a command of {distribution}; expected a command that is installed. "
            f"Install the package: pip install {distribution}"
        )
        raise typer.Exit(NOT_AVAILABLE)

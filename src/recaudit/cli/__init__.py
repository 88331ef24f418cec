"""The command line. Only typer and rich are imported here: `--help` must not wait for numba."""

from __future__ import annotations

from typing import Annotated

import typer

from recaudit import __version__
from recaudit.cli import (
    audits,
    catalogue,
    check,
    compare,
    data,
    doctor,
    explore,
    history,
    init,
    rerank,
    simulate,
    verify,
)
from recaudit.cli.interruption import ends_on_second_interrupt
from recaudit.cli.messages import debugging
from recaudit.cli.other_packages import add_commands

app = typer.Typer(
    name="recaudit",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recaudit {__version__}")
        raise typer.Exit


@app.callback()
def _recaudit(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="RECAUDIT_DEBUG", help="Show the traceback of every error.")
    ] = False,
) -> None:
    """Audit recommender systems: what they let people do, and what they do to them.

    \b
      recaudit demo                         audit built-in data, in some minutes
      recaudit init ratings.csv             a configuration for your own file
      recaudit audit my.toml --out runs/my  audit your own recommenders
      recaudit report runs/my --format md   a statement of the audit, to fill in and sign
      recaudit explore runs/my              change ratings on a page, and see the lists move
      recaudit compare runs/my runs/new     is the second worse, and for whom?
      recaudit history runs/*               every number, from run to run
      recaudit check runs/my --rules ...    may it ship? rules, and an earlier run
      recaudit audits                       what can be asked of a recommender
      recaudit rerank lists.parquet ...     lists that keep a user's interests in proportion
      recaudit simulate my.toml             recommenders that learn from those they recommend to
      recaudit study reachability           a paper's tables again (needs recaudit-papers)
      recaudit verify runs/my               is a run folder as it was written?
      recaudit data list                    the data sets known by name
      recaudit doctor                       is everything here that is needed?

    Every command explains itself: 'recaudit audit --help' has a configuration to start from.

    \b
    Exit codes: 0    done
                1    a fault in recaudit
                2    bad input or configuration
                3    not available: a download, a part of the installation, a
                     service that gave no answer
                4    a run folder is damaged
                5    the machine: memory, disk, permission, a killed worker
                130  interrupted
    'recaudit check' has its own: 1 is a broken rule, 2 whatever else stops it.
    """
    debugging.set(debug)


app.command("demo")(audits.demo)
app.command("init")(init.init)
app.command("audit")(audits.audit)
app.command("report")(audits.report)
app.command("explore")(explore.explore)
app.command("compare")(compare.compare)
app.command("history")(history.history)
app.command("check")(check.check)
app.command("verify")(verify.verify)
app.command("audits")(catalogue.audits)
app.command("rerank")(rerank.rerank)
app.command("simulate")(simulate.simulate)
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.doctor)
add_commands(app)


def main() -> None:
    """Run the command line."""
    with ends_on_second_interrupt():
        app()

"""`recaudit simulate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from recaudit.cli.messages import OnDevice, answers, command, notes, plain_table, print_json
from recaudit.cli.progress import shown
from recaudit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recaudit.report.simulation.evidence import Published
    from recaudit.runs.simulation import SimulationConfiguration
    from recaudit.simulate import OfflineOnline


@command(interrupted="Interrupted. Run the same command again to resume (without --fresh, which starts over).")
def simulate(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="The configuration, a TOML file.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder; runs/NAME if not given.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, whatever simulation the folder holds.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Spread the trials; overrides \\[engine]. Never changes a number.")
    ] = None,
    device: OnDevice = None,
    list_: Annotated[bool, typer.Option("--list", help="List the scenarios of the paper, with their sizes.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it will take: time the first steps of each recommender.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead, for programs.")] = False,
) -> None:
    """Let recommenders learn from what people think of what they show, and see how it goes, into a report.

    Each is measured on the ratings that it begins with, then let loose: do offline metrics tell who will please?
    Interrupted, it resumes: run the same command again.

    A configuration to start from:

    \b
      trials = 5              # the same people, other chance
      steps = 50
    \b
      \\[\\[environment]]         # as many as you like
      name = "topics-dynamic" # see 'recaudit simulate --list'; any setting of it
      users = 200             # can be changed
      items = 300
      users_per_step = 40
      ratings = 2000          # what recommenders begin with
    \b
      # \\[\\[environment]]       # people fitted to your own ratings
      # data = {file = "ratings.csv", user = "userId", item = "movieId"}
      # ratings = 2000
    \b
      \\[\\[recommender]]
      kind = "als"            # the kinds of 'recaudit audit', and oracle
      tune = {factors = \\[4, 8], regularization = \\[0.03, 0.1]}
    \b
      \\[\\[recommender]]
      kind = "item-knn"
      policy = {kind = "epsilon-greedy", epsilon = 0.1}
    \b
      \\[\\[recommender]]
      kind = "oracle"         # knows what everybody would rate
    \b
      \\[audits]                # of every recommender while it learns
      every = 10
      \\[audits.exposure]
      k = 10

    Then:

    \b
      recaudit simulate my.toml --out runs/my
    """
    if list_:
        _print_scenarios(as_json=as_json)
        return
    if config is None:
        remedy = "'recaudit simulate --help' has one to start from."
        raise InputError("CONFIG", received="nothing", expected="a TOML file", remedy=remedy)
    from recaudit.engines import with_workers, working
    from recaudit.folders import REPORT, keep
    from recaudit.report.simulation.page import render_simulation
    from recaudit.runs.simulation import execute_simulation, read_simulation
    from recaudit.runs.simulation_estimate import work_lines

    folder = out or Path("runs") / config.stem
    configuration = read_simulation(config)
    if workers is not None:
        # Trials fit models, whose kernels take all cores: processes share them out, threads would get in their way.
        engine = with_workers(configuration.engine, workers, "processes")
        configuration = configuration.model_copy(update={"engine": engine})
    if device is not None:
        configuration = configuration.model_copy(update={"device": device})
    if dry_run:
        _print_estimate(configuration, as_json=as_json)
        return
    for line in work_lines(configuration):
        notes().print(line)
    with shown(notes()):
        result = execute_simulation(configuration, folder, fresh=fresh)
        with working("report"):
            page = render_simulation(result, published=_published_numbers(result))
            report = keep(folder, REPORT, page.encode())
    if as_json:
        document = {
            "out": str(folder),
            "report": str(report),
            "trials": result.trials,
            "k": result.k,
            "results": result.points().fill_nan(None).to_dicts(),
            "spearman": result.spearman().fill_nan(None).to_dicts(),
            "settings": [{**row, "settings": json.loads(row["settings"])} for row in result.recommenders.to_dicts()],
        }
        print_json(document)
    else:
        answers().print(f"Report: {report}\n")
        answers().print(Text(result.summary()), soft_wrap=True)


def _published_numbers(result: OfflineOnline) -> Published:
    """Return what installed packages know to be published for the study's environments."""
    from recaudit.registry import PUBLISHED

    found: dict[tuple[str, str], Mapping[str, float]] = {}
    for name in PUBLISHED:
        find_published: Callable[[OfflineOnline], Published] = PUBLISHED[name]
        found |= find_published(result)
    return found


def _print_estimate(configuration: SimulationConfiguration, *, as_json: bool) -> None:
    from dataclasses import asdict

    from recaudit.runs.simulation_estimate import estimate_simulation, work_lines

    with shown(notes()):
        found = list(estimate_simulation(configuration))
    if as_json:
        print_json([asdict(each) for each in found])
        return
    table = plain_table("Environment", "Recommender", "Fits", "A fit", "A step", "In all")
    for each in found:
        numbers = map(_time, (each.fit, each.step, each.seconds))
        table.add_row(each.environment, each.recommender, f"{each.fits:,}", *numbers)
    answers().print(table, soft_wrap=False)
    for line in work_lines(configuration):
        answers().print(line)
    whole = _time(sum(each.seconds for each in found))
    answers().print(
        f"In all about {whole} with one worker, judged by the first fit and steps: fits take longer as the log grows. "
        "Audits and the population's error are not counted."
    )


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _print_scenarios(*, as_json: bool) -> None:
    from recaudit.registry import ENVIRONMENTS
    from recaudit.simulate import SCENARIOS
    from recaudit.specification import as_data

    if as_json:
        print_json([{"changes": one.environment.changes_people, **as_data(one)} for one in SCENARIOS.values()])
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("Name", no_wrap=True)
    for heading in ("Users", "Items", "A step", "Slate", "Ratings", "Steps"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("People change", no_wrap=True)
    for name, scenario in SCENARIOS.items():
        there = scenario.environment
        sizes = (there.users, there.items, there.users_per_step, there.slate, scenario.ratings, scenario.steps)
        table.add_row(name, *(f"{size:,}" for size in sizes), "yes" if there.changes_people else "no")
    answers().print(table, soft_wrap=False)
    answers().print(
        "\nA step: users online at each. Slate: items shown to each. Ratings: what recommenders begin with."
    )
    answers().print(f"Environments for scenarios of your own, by kind: {', '.join(ENVIRONMENTS)}.")
    answers().print("All of it can be changed in a configuration: 'recaudit simulate --help' has one to start from.")

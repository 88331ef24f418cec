"""`run`, a recommender in an environment over some trials, and `compare`, several before the same people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import polars as pl

from recaudit.arguments import checked
from recaudit.audits.audit import Audit
from recaudit.engines import Engine, Serial
from recaudit.engines.base import check_written
from recaudit.errors import InputError
from recaudit.folders import Folder, Kind, Manifest, claimed
from recaudit.models.base import Recommender
from recaudit.policies import ListPolicy, Top1
from recaudit.simulate.loop.simulation import Comparison, Simulation
from recaudit.simulate.loop.trial import Loop, run_trial
from recaudit.simulate.loop.trial_folder import trial_name
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import Scenario, paper
from recaudit.specification import as_data
from recaudit.version import __version__

MOST_TRIALS = 1_000_000
WithPolicy = Recommender | tuple[Recommender, ListPolicy]
"""A recommender, with a policy of its own where it has one."""


@checked
def run(
    environment: Environment | Scenario | str,
    recommender: Recommender,
    policy: ListPolicy | None = None,
    steps: int | None = None,
    *,
    ratings: int | None = None,
    trials: int = 1,
    retrain: int = 1,
    warm: bool = False,
    audits: Mapping[str, Audit] | None = None,
    audit_every: int = 0,
    population_every: int = 0,
    same_people: bool = True,
    out: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Simulation:
    """A closed loop: people are shown what the recommender picks, it learns from what they rate, and so on.

    `environment` is a description, a scenario, or the name of one of the paper's ("topics-dynamic"). `ratings` is how
    many ratings the recommender begins with, `steps` how many steps follow; a scenario has its own. Each user online
    gets a slate by `policy` (default: what scores highest), and the recommender is fitted anew every `retrain` steps
    (0: never), from scratch or, with `warm`, from the model before. `audits` are run on the model every `audit_every`
    steps and at the last (`{"shown": ra.audits.Exposure(k=20)}`), as is the error over the whole population.

    Trials differ in everything that happens after the start; with `same_people=False` in people and items too. With
    `out`, everything shown is kept there as Parquet, and an interrupted simulation resumes where it stopped.
    """
    loop = Loop(
        scenario=as_scenario(environment, ratings=ratings, steps=steps),
        recommender=recommender,
        policy=policy or Top1(),
        retrain=retrain,
        warm=warm,
        audits=dict(audits or {}),
        audit_every=audit_every,
        population_every=population_every,
        same_people=same_people,
        rng=rng,
    )
    return run_loops({"": loop}, trials, out, engine, kind="simulation")[""]


@checked
def compare(
    environment: Environment | Scenario | str,
    recommenders: Mapping[str, WithPolicy],
    policy: ListPolicy | None = None,
    steps: int | None = None,
    *,
    ratings: int | None = None,
    trials: int = 10,
    retrain: int = 1,
    warm: bool = False,
    audits: Mapping[str, Audit] | None = None,
    audit_every: int = 0,
    population_every: int = 0,
    same_people: bool = True,
    out: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Comparison:
    """Run each recommender over the same trials, in a folder of its own in `out`; arguments as for `run`."""
    scenario = as_scenario(environment, ratings=ratings, steps=steps)
    if not recommenders:
        raise InputError("recommenders", received="none", expected='at least one, by name: {"ALS": ra.models.ALS()}')
    make = partial(
        Loop,
        retrain=retrain,
        warm=warm,
        audits=dict(audits or {}),
        audit_every=audit_every,
        population_every=population_every,
        same_people=same_people,
        rng=rng,
    )
    return Comparison(run_loops(each_loop(make, scenario, recommenders, policy), trials, out, engine))


def each_loop(
    make: Callable[..., Loop], scenario: Scenario, recommenders: Mapping[str, WithPolicy], policy: ListPolicy | None
) -> dict[str, Loop]:
    """The loop of each recommender, with its own policy or else `policy`."""
    pairs = {name: each if isinstance(each, tuple) else (each, policy or Top1()) for name, each in recommenders.items()}
    return {name: make(scenario=scenario, recommender=each, policy=own) for name, (each, own) in pairs.items()}


@contextmanager
def kept(
    path: Path | None,
    kind: Kind,
    settings: Mapping[str, Any],
    folders: list[str],
    *,
    owned: tuple[str, ...] = (),
    nested: bool = False,
    **record: object,
) -> Iterator[Folder | None]:
    """Begin or resume a folder with `folders` inside, complete at the end; nothing is kept without a path."""
    if path is None:
        yield None
        return
    plan, inside = {"settings": dict(settings)}, dict.fromkeys(folders)
    new = Manifest(kind=kind, recaudit=__version__, plan=plan, record=record, folders=inside)
    with claimed(path, new, owned=owned, nested=nested) as folder:
        yield folder
        folder.complete()


def run_loops(
    loops: Mapping[str, Loop],
    trials: int,
    out: str | Path | None,
    engine: Engine | None,
    *,
    kind: Literal["simulation", "comparison"] = "comparison",
    nested: bool = False,
) -> dict[str, Simulation]:
    """Run each loop over the same trials: in `out` itself for a simulation, under its name in it for a comparison."""
    if not 1 <= trials <= MOST_TRIALS:
        raise InputError("trials", received=trials, expected=f"a whole number from 1 to {MOST_TRIALS:,}")
    root, alone = None if out is None else Path(out), kind == "simulation"
    folders = {name: root if root is None or alone else root / folder_name(name) for name in loops}
    settings = {name: as_data(loop) for name, loop in loops.items()}
    pieces = [(name, trial) for name in loops for trial in range(trials)]
    inside = [trial_name(trial) if alone else f"{name}/{trial_name(trial)}" for name, trial in pieces]
    with kept(root, kind, settings[""] if alone else settings, inside, nested=nested):
        records = (engine or Serial()).map(partial(run_trial, loops, folders), pieces, "trials")
        found = dict(zip(pieces, records, strict=True))
        if root is not None:
            for folder in inside:
                check_written(root / folder)

    def simulation(name: str) -> Simulation:
        steps, audits = (pl.concat([found[name, trial][table] for trial in range(trials)]) for table in (0, 1))
        return Simulation(settings[name], steps, audits, folders[name])

    return {name: simulation(name) for name in loops}


def as_scenario(
    environment: Environment | Scenario | str, *, ratings: int | None = None, steps: int | None = None
) -> Scenario:
    """What is to be run, with a beginning and an end, and its people ready."""
    wanted = {"ratings": ratings, "steps": steps}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if isinstance(environment, Environment):
        for name in wanted:
            if name not in changes:
                raise InputError(
                    name,
                    received="nothing, with an environment of your own",
                    expected="how many ratings there are at the beginning, and how many steps follow",
                    remedy="Say ratings=..., steps=..., or hand over a Scenario.",
                )
        scenario = Scenario(name=type(environment).__name__, environment=environment, **changes)
    else:
        scenario = paper(environment, **changes) if isinstance(environment, str) else environment.changed(**changes)
    scenario.environment.prepare()
    return scenario


def folder_name(name: str) -> str:
    """The name, if a folder can have it."""
    if not name or name.startswith(".") or any(character in '/\\:*?"<>|' or ord(character) < 32 for character in name):
        raise InputError("recommenders", received=name, expected='names that can be folders: no / \\ : * ? " < > |')
    return name

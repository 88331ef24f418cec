"""`run`: a recommender in an environment, over some trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from recaudit.arguments import checked
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError
from recaudit.folders import Kind, Manifest, claimed
from recaudit.models.base import Recommender
from recaudit.policies import ListPolicy, Top1
from recaudit.simulate.loop.observers import Observer
from recaudit.simulate.loop.simulation import Simulation
from recaudit.simulate.loop.trial import Loop, RunTrial, TrialRecord
from recaudit.simulate.loop.trial_folder import trial_name
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import Scenario, paper
from recaudit.version import __version__

MOST_TRIALS = 1_000_000


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
    audits: Mapping[str, Observer] | None = None,
    audit_every: int = 0,
    population_every: int = 0,
    same_people: bool = True,
    out: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Simulation:
    """A closed loop: people are shown what the recommender picks, it learns from what they rate, and so on.

    `environment` is a description, a scenario, or the name of one of the paper's ("topics-dynamic"). `ratings` is how
    many ratings the recommender begins with, `steps` how many steps follow; a scenario has its own. At each step the
    users online get a slate by `policy` (default: what scores highest), and the recommender is fitted anew every
    `retrain` steps (0: never), from scratch or, with `warm`, from the model before.

    `audits` are asked about the model every `audit_every` steps and at the last: functions such as `ra.folding` or
    `functools.partial(ra.calibration, k=20)`. The error over the whole population is measured every `population_every`
    steps and at the last.

    Trials differ in everything that happens after the start; with `same_people=False` in people and items too. Who is
    online at a step, how their ratings scatter and how a policy draws follows from `rng`, trial and step, so that two
    recommenders meet the same chance: see `compare`.

    With `out`, everything shown is kept there as Parquet, with its propensity, and an interrupted simulation goes on
    where it stopped, with the numbers of one that never was. Files that are no longer as they were written are told
    by name, and what they held is worked out again; nothing in the folder is ever run.
    """
    scenario = as_scenario(environment, ratings=ratings, steps=steps)
    loop = checked_loop(
        scenario, recommender, policy, retrain, warm, audits, audit_every, population_every, same_people, rng
    )
    check_trials(trials)
    folder = None if out is None else Path(out)
    work = RunTrial(loop, folder)

    def carried_out() -> list[TrialRecord]:
        return list((engine or Serial()).map(work, range(trials), "trials"))

    if folder is None:
        return simulation_of(loop, carried_out(), None)
    names = [trial_name(trial) for trial in range(trials)]
    with claimed(folder, planned("simulation", loop.signature.splitlines(), names)) as kept:
        records = carried_out()
        kept.complete()
        return simulation_of(loop, records, folder)


def planned(kind: Kind, settings: list[str], folders: list[str], **record: object) -> Manifest:
    """The manifest that a simulation of any kind begins with; `folders` are those inside it, in their order."""
    return Manifest(
        kind=kind, recaudit=__version__, plan={"settings": settings}, record=record, folders=dict.fromkeys(folders)
    )


def as_scenario(
    environment: Environment | Scenario | str, *, ratings: int | None = None, steps: int | None = None
) -> Scenario:
    """What is to be run, with a beginning and an end."""
    wanted = {"ratings": ratings, "steps": steps}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if isinstance(environment, str):
        return paper(environment, **changes)
    if isinstance(environment, Scenario):
        return environment.changed(**changes)
    for name in ("ratings", "steps"):
        if name not in changes:
            raise InputError(
                name,
                received="nothing, with an environment of your own",
                expected="how many ratings there are at the beginning, and how many steps follow",
                remedy="Say ratings=..., steps=..., or hand over a Scenario.",
            )
    return Scenario(name=type(environment).__name__, environment=environment, **changes)


def checked_loop(
    scenario: Scenario,
    recommender: Recommender,
    policy: ListPolicy | None,
    retrain: int,
    warm: bool,
    audits: Mapping[str, Observer] | None,
    audit_every: int,
    population_every: int,
    same_people: bool,
    rng: int,
) -> Loop:
    """The loop, or what is wrong with its settings."""
    for name, value in {"retrain": retrain, "audit_every": audit_every, "population_every": population_every}.items():
        if value < 0:
            raise InputError(name, received=value, expected="a whole number of 0 or more: every so many steps")
    if not isinstance(recommender, Recommender):
        raise InputError(
            "recommender",
            received=type(recommender).__name__,
            expected="a recommender, such as ra.models.ALS()",
            remedy="Wrap your own: a subclass of ra.models.Recommender with fit(data, rng).",
        )
    return Loop(
        scenario=scenario,
        recommender=recommender,
        policy=policy or Top1(),
        steps=scenario.steps,
        retrain=retrain,
        warm=warm,
        audits=dict(audits or {}),
        audit_every=audit_every,
        population_every=population_every,
        rng=rng,
        same_people=same_people,
    )


def check_trials(trials: int) -> None:
    """At least one, and as many as can ever be run."""
    if not 1 <= trials <= MOST_TRIALS:
        raise InputError("trials", received=trials, expected=f"a whole number from 1 to {MOST_TRIALS:,}")


def simulation_of(loop: Loop, records: list[TrialRecord], folder: Path | None) -> Simulation:
    """The records of all trials in one."""
    settings = {
        "environment": loop.scenario.name,
        "users_per_step": loop.scenario.environment.users_per_step,
        "ratings": loop.scenario.ratings,
        "recommender": repr(loop.recommender),
        "policy": repr(loop.policy),
        "retrain": loop.retrain,
        "warm": loop.warm,
        "rng": loop.rng,
    }
    steps = pl.concat([record.steps for record in records])
    return Simulation(settings, steps, pl.concat([record.audits for record in records]), folder)

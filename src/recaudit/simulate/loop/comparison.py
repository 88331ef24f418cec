"""`compare`: several recommenders before the same people and the same chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import polars as pl

from recaudit.arguments import checked
from recaudit.arrays import FloatArray
from recaudit.audits.audit import Audit
from recaudit.engines import Engine
from recaudit.errors import InputError, did_you_mean
from recaudit.models.base import Recommender
from recaudit.policies import Policy, Top1
from recaudit.simulate.loop.run import as_scenario, check_trials, kept, run_trials
from recaudit.simulate.loop.simulation import Simulation, interval, written
from recaudit.simulate.loop.trial import Loop
from recaudit.simulate.loop.trial_folder import trial_name
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import Scenario
from recaudit.specification import as_data

WithPolicy = Recommender | tuple[Recommender, Policy]
"""A recommender, with a policy of its own where it has one."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Simulations by name, over the same trials."""

    simulations: Mapping[str, Simulation]

    def __getitem__(self, name: str) -> Simulation:
        if name not in self.simulations:
            remedy = did_you_mean(name, self.simulations)
            raise InputError("name", received=name, expected="a name that was compared", remedy=remedy)
        return self.simulations[name]

    @property
    def models(self) -> list[str]:
        """The names that count where a log is asked, which knows models and not policies.

        Of one recommender under several policies that is the one that shows the highest scores, else the first.
        """
        counted = [own.settings["recommender"] for own in self.simulations.values() if not own.explores]
        found: list[str] = []
        for name, own in self.simulations.items():
            if not own.explores or own.settings["recommender"] not in counted:
                found.append(name)
                counted.append(own.settings["recommender"])
        return found

    def overall(self, measure: str = "mean_rating", *, last: int | None = None) -> pl.DataFrame:
        """One row a recommender, best (highest) first: name, value, lower, upper, trials."""
        return _best_first({name: own.by_trial(measure, last=last) for name, own in self.simulations.items()})

    def differences(self, baseline: str, measure: str = "mean_rating", *, last: int | None = None) -> pl.DataFrame:
        """One row for each other recommender: it minus the baseline, trial by trial, with Student's interval.

        Trials are paired: both met the same people and the same chance, so that intervals are narrower than those of
        the two means. An interval that leaves out 0 is a difference.
        """
        reference = self[baseline].by_trial(measure, last=last)
        others = {name: own for name, own in self.simulations.items() if name != baseline}
        return _best_first({name: own.by_trial(measure, last=last) - reference for name, own in others.items()})

    def summary(self) -> str:
        """Mean ratings with their intervals, a line each."""
        width = max(map(len, self.simulations))
        rows = self.overall().iter_rows(named=True)
        lines = (f"  {row['name'].ljust(width)}  {written(row, digits=4)}" for row in rows)
        return "\n".join(["mean rating received", *lines])

    __repr__ = summary


def _best_first(values: Mapping[str, FloatArray]) -> pl.DataFrame:
    schema = {"name": pl.String, "value": pl.Float64, "lower": pl.Float64, "upper": pl.Float64, "trials": pl.Int64}
    rows = [{"name": name, **interval(own)} for name, own in values.items()]
    return pl.DataFrame(rows, schema).sort("value", descending=True, nulls_last=True, maintain_order=True)


@checked
def compare(
    environment: Environment | Scenario | str,
    recommenders: Mapping[str, WithPolicy],
    policy: Policy | None = None,
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
    """Run each recommender over the same trials; arguments as for `run`, and `policy` for those without their own.

    With `out`, each has a folder in it under its name. An engine spreads trials of all recommenders together.
    """
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
    return run_all(each_loop(make, scenario, recommenders, policy), trials, None if out is None else Path(out), engine)


def each_loop(
    make: Callable[..., Loop], scenario: Scenario, recommenders: Mapping[str, WithPolicy], policy: Policy | None
) -> dict[str, Loop]:
    """The loop of each recommender, with its own policy or else `policy`."""
    pairs = {name: each if isinstance(each, tuple) else (each, policy or Top1()) for name, each in recommenders.items()}
    return {name: make(scenario=scenario, recommender=each, policy=own) for name, (each, own) in pairs.items()}


def run_all(
    loops: Mapping[str, Loop], trials: int, out: Path | None, engine: Engine | None, *, nested: bool = False
) -> Comparison:
    """Run each loop over the same trials; `nested`: in a folder inside that of a study, which answers for it."""
    check_trials(trials)
    folders = {name: None if out is None else out / folder_name(name) for name in loops}
    inside = [f"{name}/{trial_name(trial)}" for name in loops for trial in range(trials)]
    with kept(out, "comparison", {name: as_data(loop) for name, loop in loops.items()}, inside, nested=nested):
        return Comparison(run_trials(loops, trials, folders, engine))


def folder_name(name: str) -> str:
    """The name, if a folder can have it."""
    if not name or name.startswith(".") or any(character in '/\\:*?"<>|' or ord(character) < 32 for character in name):
        raise InputError("recommenders", received=name, expected='names that can be folders: no / \\ : * ? " < > |')
    return name

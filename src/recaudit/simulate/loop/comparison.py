"""`compare`: several recommenders before the same people and the same chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from recaudit.arguments import checked
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError, did_you_mean
from recaudit.folders import claimed
from recaudit.models.base import Recommender
from recaudit.policies import ListPolicy
from recaudit.simulate.loop.observers import Observer
from recaudit.simulate.loop.run import as_scenario, check_trials, checked_loop, planned, simulation_of
from recaudit.simulate.loop.simulation import Simulation, interval
from recaudit.simulate.loop.trial import Loop, RunTrial, TrialRecord
from recaudit.simulate.loop.trial_folder import trial_name
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import Scenario

Contender = Recommender | tuple[Recommender, ListPolicy]
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
        recommenders = {name: str(own.settings.get("recommender")) for name, own in self.simulations.items()}
        counted = {recommenders[name] for name, own in self.simulations.items() if not own.explores}
        found: list[str] = []
        for name, own in self.simulations.items():
            if not own.explores or recommenders[name] not in counted:
                found.append(name)
                counted.add(recommenders[name])
        return found

    def overall(self, measure: str = "mean_rating", *, last: int | None = None) -> pl.DataFrame:
        """One row a recommender, best (highest) first: name, value, lower, upper, trials."""
        rows = [
            {"name": name, **interval(simulation.by_trial(measure, last=last))}
            for name, simulation in self.simulations.items()
        ]
        return pl.DataFrame(rows, _INTERVALS).sort("value", descending=True, nulls_last=True, maintain_order=True)

    def differences(self, baseline: str, measure: str = "mean_rating", *, last: int | None = None) -> pl.DataFrame:
        """One row for each other recommender: it minus the baseline, trial by trial, with Student's interval.

        Trials are paired: both met the same people and the same chance, so that intervals are narrower than those of
        the two means. An interval that leaves out 0 is a difference.
        """
        reference = self[baseline].by_trial(measure, last=last)
        rows = [
            {"name": name, **interval(simulation.by_trial(measure, last=last) - reference)}
            for name, simulation in self.simulations.items()
            if name != baseline
        ]
        return pl.DataFrame(rows, _INTERVALS).sort("value", descending=True, nulls_last=True, maintain_order=True)

    def summary(self) -> str:
        """Mean ratings with their intervals, a line each."""
        width = max(map(len, self.simulations))
        lines = ["mean rating received"]
        for row in self.overall().iter_rows(named=True):
            ends = "" if row["lower"] is None else f"  [{row['lower']:.4f}, {row['upper']:.4f}]"
            value = "nothing rated" if row["value"] is None else f"{row['value']:.4f}"
            lines.append(f"  {row['name'].ljust(width)}  {value}{ends}")
        return "\n".join(lines)

    __repr__ = summary


_INTERVALS = {"name": pl.String, "value": pl.Float64, "lower": pl.Float64, "upper": pl.Float64, "trials": pl.Int64}


@checked
def compare(
    environment: Environment | Scenario | str,
    contenders: Mapping[str, Contender],
    policy: ListPolicy | None = None,
    steps: int | None = None,
    *,
    ratings: int | None = None,
    trials: int = 10,
    retrain: int = 1,
    warm: bool = False,
    audits: Mapping[str, Observer] | None = None,
    audit_every: int = 0,
    population_every: int = 0,
    same_people: bool = True,
    out: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Comparison:
    """Run each contender over the same trials; arguments as for `run`, and `policy` for those without their own.

    With `out`, each has a folder in it under its name. An engine spreads trials of all contenders together.
    """
    scenario = as_scenario(environment, ratings=ratings, steps=steps)
    if not contenders:
        raise InputError("contenders", received="none", expected='at least one, by name: {"ALS": ra.models.ALS()}')
    loops: dict[str, Loop] = {}
    for name, contender in contenders.items():
        recommender, own = contender if isinstance(contender, tuple) else (contender, policy)
        loops[name] = checked_loop(
            scenario, recommender, own, retrain, warm, audits, audit_every, population_every, same_people, rng
        )
    return compared(loops, trials, None if out is None else Path(out), engine)


def compared(
    loops: Mapping[str, Loop], trials: int, root: Path | None, engine: Engine | None, *, nested: bool = False
) -> Comparison:
    """Run each loop over the same trials; `nested`: in a folder inside that of a study, which answers for it."""
    check_trials(trials)
    folders = {name: None if root is None else root / folder_name(name) for name in loops}
    pieces = [(name, trial) for name in loops for trial in range(trials)]
    work = _RunContender({name: RunTrial(loop, folders[name]) for name, loop in loops.items()})

    def carried_out() -> Comparison:
        records = list((engine or Serial()).map(work, pieces, "trials"))
        of = {name: [r for (n, _), r in zip(pieces, records, strict=True) if n == name] for name in loops}
        return Comparison({name: simulation_of(loop, of[name], folders[name]) for name, loop in loops.items()})

    if root is None:
        return carried_out()
    settings = [f"{name}: {line}" for name, loop in loops.items() for line in loop.signature.splitlines()]
    names = [f"{folder_name(name)}/{trial_name(trial)}" for name, trial in pieces]
    with claimed(root, planned("comparison", settings, names), nested=nested) as kept:
        found = carried_out()
        kept.complete()
        return found


@final
@dataclass(frozen=True, eq=False)
class _RunContender:
    runs: Mapping[str, RunTrial]

    def __call__(self, piece: tuple[str, int]) -> TrialRecord:
        name, trial = piece
        return self.runs[name](trial)


def folder_name(name: str) -> str:
    """The name, if a folder can have it."""
    if not name or name.startswith(".") or any(character in '/\\:*?"<>|' or ord(character) < 32 for character in name):
        raise InputError("contenders", received=name, expected='names that can be folders: no / \\ : * ? " < > |')
    return name

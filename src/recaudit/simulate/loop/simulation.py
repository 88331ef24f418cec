"""What a simulation gives back: numbers by step and trial, averages with intervals, and what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.errors import InputError, did_you_mean
from recaudit.folders import Folder
from recaudit.metrics.inference import estimate_mean_of_refits
from recaudit.registry import POLICIES, Displayed
from recaudit.simulate.loop.trial_folder import TrialFolder, trial_name

MEASURES = {
    "mean_rating": "The mean of the ratings given at the step: what people think of what they are shown.",
    "rmse": "Root mean squared error of the scores of what was taken, against the ratings given; scores that predict "
    "ratings are cut to the scale, others count as they are.",
    "population_rmse": "The same over every pair of users and items, against the ratings without noise: how well the "
    "recommender knows people, not only what it shows them. Of a population of more than 2^30 pairs a sample of users "
    "with so many is measured, drawn anew each time.",
    "distinct_items": "How many different items were shown at the step.",
    "gini": "How unequally all that was shown so far is spread over the items: 0 evenly, towards 1 all on one.",
    "drift": "How far tastes have moved since the beginning: root mean square over all pairs, in rating points.",
}


MOST_PAIRS = 2**30
"""Of how many pairs at most the population's error is made."""


def measured_users(users: int, items: int) -> int:
    """How many of so many users the population's error stands on."""
    return min(users, max(1, MOST_PAIRS // items))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Displayed):
    """A recommender in an environment, over some trials; intervals over at least 4 trials by Student's t at 95%."""

    display = "simulation"

    settings: Mapping[str, Any]
    """The loop as plain values: scenario, recommender, policy and the rest."""
    steps: pl.DataFrame
    """One row a trial and step: `ratings` given, and the columns of `MEASURES`."""
    audits: pl.DataFrame
    """One row a trial, step, audit and metric, where audits were asked for."""
    folder: Path | None = None
    """Where what was shown is kept."""

    @property
    def trials(self) -> int:
        """How many trials there are."""
        return self.steps["trial"].n_unique()

    @property
    def explores(self) -> bool:
        """Whether its policy shows anything but the highest scores."""
        kind = self.settings["policy"]["kind"]
        return kind not in POLICIES or not POLICIES[kind].certain

    def __getitem__(self, measure: str) -> float:
        """The mean over all ratings (or steps) of all trials."""
        return float(self.by_trial(measure).mean())

    def by_trial(self, measure: str, *, last: int | None = None) -> FloatArray:
        """(trials,): the measure over a trial, or over its last `last` ratings.

        A mean rating weighs every rating alike, an error is pooled over them, distinct items are averaged over steps;
        what accumulates (gini, drift) or is known now and then (population_rmse) counts as it stands at the end.
        """
        check_measure(measure)
        if last is not None and last < 1:
            raise InputError("last", received=last, expected="a whole number of 1 or more, or None for all ratings")
        values = [_over(part, measure, last) for _, part in self.steps.group_by("trial", maintain_order=True)]
        return np.array(values, dtype=np.float64)

    def overall(self, *, last: int | None = None) -> pl.DataFrame:
        """One row a measure: value, lower, upper, trials."""
        rows = [{"measure": name, **interval(self.by_trial(name, last=last))} for name in MEASURES]
        return pl.DataFrame(rows)

    def curve(self, measure: str) -> pl.DataFrame:
        """One row a step: the mean over trials, with its interval."""
        check_measure(measure)
        table = self.steps.select("trial", "step", measure).drop_nulls()
        rows = [
            {"step": step, **interval(part[measure].to_numpy().astype(np.float64))}
            for (step,), part in table.group_by("step", maintain_order=True)
        ]
        return pl.DataFrame(rows, schema_overrides={"lower": pl.Float64, "upper": pl.Float64})

    def slates(self) -> pl.LazyFrame:
        """Every item shown: trial, step, user, item, place, score, propensity, rating, expected; read on demand."""
        if self.folder is None:
            received = "nothing: this simulation kept its numbers only"
            expected = "a folder"
            raise InputError("out", received=received, expected=expected, remedy="Run it again with out='some/folder'.")
        parts = [
            TrialFolder(Folder.open(self.folder / trial_name(trial), "trial", root=self.folder))
            .scan()
            .with_columns(trial=pl.lit(trial, pl.Int64))
            for trial in range(self.trials)
        ]
        return pl.concat(parts)

    def summary(self) -> str:
        """The measures with their intervals, a line each."""
        parts = (f"{name}={self.settings[name]['kind']}" for name in ("recommender", "policy"))
        head = ", ".join([f"environment={self.settings['scenario']['name']}", *parts])
        lines = [f"simulation ({head}), {self.trials} trials, {self.steps['step'].n_unique():,} steps"]
        for measure, *estimate, _ in self.overall().drop_nulls("value").iter_rows():
            lines.append(f"  {measure.ljust(16)} {written(*estimate, digits=4)}")
        users, items = (self.settings["scenario"]["environment"][name] for name in ("users", "items"))
        if measured_users(users, items) < users:
            lines.append(f"  population_rmse is of {measured_users(users, items):,} users drawn from {users:,}.")
        return "\n".join(lines)

    __repr__ = summary


@final
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    """Simulations by name, over the same trials."""

    display = "simulations"

    simulations: Mapping[str, Simulation]

    def __getitem__(self, name: str) -> Simulation:
        if name not in self.simulations:
            remedy = did_you_mean(name, self.simulations)
            raise InputError("name", received=name, expected="a name that was compared", remedy=remedy)
        return self.simulations[name]

    @property
    def models(self) -> list[str]:
        """One name a recommender: of several policies that which shows the highest scores, else the first."""
        counted = [own.settings["recommender"] for own in self.simulations.values() if not own.explores]
        found: list[str] = []
        for name, own in self.simulations.items():
            if not own.explores or own.settings["recommender"] not in counted:
                found.append(name)
                counted.append(own.settings["recommender"])
        return found

    def overall(self, measure: str = "mean_rating", *, last: int | None = None) -> pl.DataFrame:
        """One row a recommender, best (highest) first: name, measure, value, lower, upper, trials."""
        return _best_first(measure, {name: own.by_trial(measure, last=last) for name, own in self.simulations.items()})

    def differences(self, baseline: str, measure: str = "mean_rating", *, last: int | None = None) -> pl.DataFrame:
        """One row for each other recommender: it minus the baseline, trial by trial, with Student's interval.

        Columns: name, measure, value, lower, upper, trials.
        Trials are paired, both met the same people and the same chance: an interval without 0 is a difference. With
        fewer than 4 trials there is no interval.
        """
        reference = self[baseline].by_trial(measure, last=last)
        others = {name: own for name, own in self.simulations.items() if name != baseline}
        apart = {name: own.by_trial(measure, last=last) - reference for name, own in others.items()}
        return _best_first(measure, apart)

    def summary(self) -> str:
        """Mean ratings with their intervals, a line each."""
        width = max(map(len, self.simulations))
        rows = self.overall().drop("measure").iter_rows()
        lines = (f"  {name.ljust(width)}  {written(*estimate, digits=4)}" for name, *estimate, _ in rows)
        return "\n".join(["mean rating received", *lines])

    __repr__ = summary


def _best_first(measure: str, values: Mapping[str, FloatArray]) -> pl.DataFrame:
    numbers = dict.fromkeys(("value", "lower", "upper"), pl.Float64)
    schema = {"name": pl.String, "measure": pl.String, **numbers, "trials": pl.Int64}
    rows = [{"name": name, "measure": measure, **interval(own)} for name, own in values.items()]
    return pl.DataFrame(rows, schema).sort("value", descending=True, nulls_last=True, maintain_order=True)


def interval(values: FloatArray) -> dict[str, float | int | None]:
    """Compute the mean over trials and its interval; None for what is not known, and with too few trials."""
    known = values[~np.isnan(values)]
    estimate = estimate_mean_of_refits(known)
    value = estimate.value if len(known) else None
    return {"value": value, "lower": estimate.lower, "upper": estimate.upper, "trials": estimate.n}


def written(value: float | None, lower: float | None = None, upper: float | None = None, *, digits: int = 3) -> str:
    """A number with its interval, where it has one."""
    if value is None:
        return "n/a"
    return f"{value:.{digits}f}" + ("" if lower is None else f" [{lower:.{digits}f}, {upper:.{digits}f}]")


def check_measure(measure: str) -> None:
    """A measure that a simulation has."""
    if measure not in MEASURES:
        raise InputError(
            "measure", received=measure, expected="a measure of a simulation", remedy=did_you_mean(measure, MEASURES)
        )


def _over(part: pl.DataFrame, measure: str, last: int | None) -> float:
    """One measure of one trial's steps."""
    weights = part["ratings"].to_numpy().astype(np.float64)
    if last is not None:
        after = np.concatenate([np.cumsum(weights[::-1])[::-1][1:], [0.0]])
        weights = np.clip(last - after, 0, weights)
    values = part[measure].cast(pl.Float64).fill_null(np.nan).to_numpy()
    if measure in ("gini", "drift", "population_rmse"):
        known = values[~np.isnan(values)]
        return float(known[-1]) if len(known) else float("nan")
    counted = (weights > 0) & ~np.isnan(values)
    if not counted.any():
        return float("nan")
    values, weights = values[counted], weights[counted]
    if measure == "mean_rating":
        return float(np.average(values, weights=weights))
    if measure == "rmse":
        return float(np.sqrt(np.average(values**2, weights=weights)))
    return float(values.mean())

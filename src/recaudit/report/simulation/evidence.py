"""A simulation study as the page reads it: what is finished, every number with its interval, who is compared with whom.

A difference between two recommenders is taken trial by trial (fold by fold for what was measured on the log): both met
the same people and the same chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, factorial
from typing import final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.report.kit.numbers import Estimate, finite
from recaudit.report.simulation.finished import Finished, finished_parts
from recaudit.report.simulation.terms import OFFLINE, ONLINE, TERMS
from recaudit.simulate.loop.simulation import Comparison, Simulation, interval
from recaudit.simulate.offline.comparison import OfflineOnline
from recaudit.simulate.offline.rank_correlation import rank_correlation
from recaudit.status import Status

Published = Mapping[tuple[str, str], Mapping[str, float]]
"""Numbers to put beside ours, by environment and recommender: {"ndcg": ..., "rmse": ..., "mean_rating": ...}."""

CHANCE = 0.05
"""Below this p-value an order is called more than chance."""
LAST = 1000
"""How many ratings at the end of a trial are "final" (paper 003, Figure 5), at most half of them."""

_POINTS = 50
"""How many points a curve has, at most: more steps are taken together."""
_ORACLE = "Oracle"
_IMPERSONAL = ("TopPop", "Random")


@final
@dataclass(frozen=True)
class Correlation:
    """How well a metric on the log predicts the order that people give."""

    estimate: Estimate
    """Spearman; there is no interval with one trial or fold, nor of fewer than four recommenders."""
    p_value: float | None
    recommenders: int
    better: int
    """1 where higher is better, -1 where lower is."""
    published: float | None
    """The same of the published numbers of these recommenders."""

    @property
    def agreement(self) -> float:
        """1 for the same order, -1 for the opposite one, whatever the metric."""
        return self.better * (self.estimate.value or 0.0)

    @property
    def could_tell(self) -> bool:
        """Whether so many recommenders could be in an order that is more than chance."""
        return 2 / factorial(self.recommenders) < CHANCE

    @property
    def beyond_chance(self) -> bool:
        """Whether neither chance orders nor other recommenders of the kind could well have given it."""
        certain = self.estimate.above(0) or self.estimate.below(0)
        return certain and self.p_value is not None and self.p_value < CHANCE


@final
@dataclass(frozen=True, eq=False)
class Arena:
    """One environment: who was let loose in it, and what came of it."""

    name: str
    anchor: str
    """Where its section is on the page."""
    comparison: Comparison
    folds: int
    """How many there are of the log; 0 where nothing was measured on it."""
    recommenders: tuple[str, ...]
    """Whom people like most first; those that are there for comparison last."""
    references: tuple[str, ...]
    """The oracle and those that do not personalise."""
    values: Mapping[tuple[str, str], FloatArray]
    """(trials,) or (folds,) by recommender and measure; `final_*` are over the last ratings of a trial."""
    estimates: Mapping[tuple[str, str], Estimate]
    """Their means and intervals."""
    last: int
    """How many ratings are the last."""
    settings: Mapping[str, tuple[str, bool, str]]
    """How each recommender was set, whether that was tuned, and which settings ended at an edge of what was tried."""
    published: Mapping[str, Mapping[str, float]]
    """What was published, by recommender."""

    @cached_property
    def correlations(self) -> Mapping[str, Correlation]:
        """By metric on the log."""
        models = self.comparison.models
        return {metric: _correlation(metric, models, self.values, self.published) for metric in OFFLINE}

    def known(self, measure: str) -> dict[str, Estimate]:
        """The number of each recommender that has one, in their order."""
        found = {name: self.estimates[name, measure] for name in self.recommenders}
        return {name: estimate for name, estimate in found.items() if estimate.value is not None}

    def ranked(self, measure: str, *, oracle: bool = True) -> list[str]:
        """Those that have a value, best first."""
        found = self.known(measure)
        sign = 1 if TERMS[measure].better == "lower" else -1
        names = [name for name in found if oracle or name != self.oracle]
        return sorted(names, key=lambda name: sign * (found[name].value or 0.0))

    def difference(self, name: str, other: str, measure: str) -> Estimate:
        """One minus the other, paired."""
        one, two = self.values[name, measure], self.values[other, measure]
        return _estimate(measure, one - two if len(one) == len(two) else np.zeros(0))

    @property
    def trials(self) -> int:
        """How many trials stand behind every number."""
        return self._any.trials

    @property
    def steps(self) -> int:
        """How many steps a trial has."""
        return self._any.steps["step"].n_unique()

    @property
    def ratings_per_step(self) -> float:
        """How many ratings are given at a step."""
        return float(self._any.steps["ratings"].to_numpy().mean())

    @property
    def stride(self) -> int:
        """How many steps are taken together in a curve."""
        return ceil(self.steps / _POINTS)

    @property
    def _any(self) -> Simulation:
        return next(iter(self.comparison.simulations.values()))

    @property
    def oracle(self) -> str | None:
        """The recommender that knows the truth."""
        return next((name for name in self.references if self._kind(name) == _ORACLE), None)

    def _kind(self, name: str) -> str:
        return _kind(self.comparison[name])

    def policy(self, name: str) -> str:
        """How it turns scores into what is shown, in words."""
        return str(self.comparison[name].settings.get("policy", "Top1()"))

    def explores(self, name: str) -> bool:
        """Whether anything but the highest scores is shown."""
        return self.comparison[name].explores

    @cached_property
    def explorers(self) -> Mapping[str, list[str]]:
        """For each recommender that always shows the highest score: the same one with policies that explore."""
        same = {name: self.comparison[name].settings.get("recommender") for name in self.recommenders}
        greedy = [name for name in self.recommenders if not self.explores(name)]
        found = {
            name: [other for other in self.recommenders if self.explores(other) and same[other] == same[name]]
            for name in greedy
        }
        return {name: others for name, others in found.items() if others}

    @property
    def drifts(self) -> bool:
        """Whether anybody's tastes moved."""
        return any((estimate.value or 0.0) > 0 for estimate in self.known("drift").values())

    def curve(self, name: str, measure: str) -> pl.DataFrame:
        """A row for every `stride` steps: step (the middle one, from 1), value, lower, upper.

        Ratings of the steps count alike, errors are pooled over them; other measures are averaged over steps.
        """
        column, weight = pl.col(ONLINE[measure]), pl.col("ratings")
        mean = column.mean()
        if measure in ("mean_rating", "shown_rmse"):
            power = 2 if measure == "shown_rmse" else 1
            mean = ((column**power * weight).sum() / weight.filter(column.is_not_null()).sum()) ** (1 / power)
        part = pl.col("step") // self.stride
        by_trial = (
            self.comparison[name]
            .steps.group_by(part.alias("part"), "trial", maintain_order=True)
            .agg(mean.cast(pl.Float64).fill_null(np.nan).alias("value"), step=pl.col("step").mean() + 1)
        )
        rows = [
            {"step": group["step"].mean(), **interval(group["value"].to_numpy())}
            for _, group in by_trial.sort("part", "trial").group_by("part", maintain_order=True)
        ]
        kinds = dict.fromkeys(("step", "value", "lower", "upper"), pl.Float64)
        return pl.DataFrame(rows, {**kinds, "trials": pl.Int64}).drop_nulls("value")


@final
@dataclass(frozen=True, eq=False)
class Study:
    """All environments."""

    arenas: tuple[Arena, ...]
    recommenders: tuple[str, ...]
    """Everybody, in the order of the first environment: the order of colours and legends."""
    references: tuple[str, ...]
    k: int
    notes: tuple[str, ...]
    """What is not finished, and whose tuning ended at an edge, in sentences."""

    @classmethod
    def of(cls, result: OfflineOnline, published: Published | None = None) -> Study:
        """Take what is finished, and measure it."""
        parts = finished_parts(result)
        if not parts:
            raise InputError(
                "result",
                received="a study in which nothing is finished",
                expected="at least one finished trial",
                remedy="Let the study go on, and make the page then.",
            )
        arenas = tuple(_arena(place, part, result, published or {}) for place, part in enumerate(parts, start=1))
        begun = {arena.name for arena in arenas}
        names = dict.fromkeys(name for arena in arenas for name in arena.recommenders)
        references = dict.fromkeys(name for arena in arenas for name in arena.references)
        return cls(
            arenas=arenas,
            recommenders=(*(name for name in names if name not in references), *references),
            references=tuple(references),
            k=result.k,
            notes=(
                *(line for part in parts for line in part.left_out),
                *(f"{name}: no trial is finished yet." for name in result.comparisons if name not in begun),
                *(
                    f"{arena.name}: {name} was tuned to {edge}. It might do better beyond."
                    for arena in arenas
                    for name, (_, _, edge) in arena.settings.items()
                    if edge
                ),
            ),
        )

    @property
    def main(self) -> Arena:
        """The environment meant where the page speaks of one: the first."""
        return self.arenas[0]

    def label(self, measure: str) -> str:
        """What the measure is called, with the k of nDCG filled in."""
        return TERMS[measure].label.replace("@k", f"@{self.k}")


def _arena(place: int, part: Finished, result: OfflineOnline, published: Published) -> Arena:
    simulations = part.comparison.simulations
    folds = result.folds.filter(pl.col("environment") == part.environment)
    given = next(iter(simulations.values())).steps.group_by("trial").agg(pl.col("ratings").sum())["ratings"].min()
    last = max(1, min(LAST, int(given) // 2 if isinstance(given, int) else 1))
    values = {
        (name, measure): _values(simulation, folds, name, measure, last)
        for name, simulation in simulations.items()
        for measure in (*OFFLINE, *ONLINE, "final_mean_rating", "final_shown_rmse")
    }
    estimates = {(name, measure): _estimate(measure, own) for (name, measure), own in values.items()}
    references = [name for name, simulation in simulations.items() if _kind(simulation) in (_ORACLE, *_IMPERSONAL)]

    def liked(name: str) -> tuple[bool, bool, float]:
        value = estimates[name, "mean_rating"].value
        return name in references, value is None, -(value or 0.0)

    rows = result.recommenders.filter(pl.col("environment") == part.environment).iter_rows(named=True)
    told = {row["recommender"]: (str(row["settings"]), bool(row["tuned"]), str(row["edge"])) for row in rows}
    own = {name: (str(each.settings.get("recommender", "")), False, "") for name, each in simulations.items()}
    return Arena(
        name=part.environment,
        anchor=f"environment-{place}",
        comparison=part.comparison,
        folds=max((len(own) for (_, measure), own in values.items() if measure in OFFLINE), default=0),
        recommenders=tuple(sorted(simulations, key=liked)),
        references=tuple(sorted(references, key=liked)),
        values=values,
        estimates=estimates,
        last=last,
        settings=own | told,
        published={name: row for (where, name), row in published.items() if where == part.environment},
    )


def _kind(simulation: Simulation) -> str:
    return str(simulation.settings.get("recommender", "")).split("(", 1)[0]


def _values(simulation: Simulation, folds: pl.DataFrame, name: str, measure: str, last: int) -> FloatArray:
    """(folds,) or (trials,)"""
    if measure in OFFLINE:
        return folds.filter(pl.col("recommender") == name)[measure].cast(pl.Float64).fill_null(np.nan).to_numpy()
    if measure.startswith("final_"):
        return simulation.by_trial(ONLINE[measure.removeprefix("final_")], last=last)
    return simulation.by_trial(ONLINE[measure])


def _estimate(measure: str, values: FloatArray) -> Estimate:
    found = interval(values)
    value, lower, upper = (finite(found[name]) for name in ("value", "lower", "upper"))
    status = Status.NOT_APPLICABLE if value is None else Status.SOLVED
    return Estimate(measure, value, lower, upper, status, None, int(found["trials"] or 0), 0)


def _correlation(
    metric: str,
    models: list[str],
    values: Mapping[tuple[str, str], FloatArray],
    published: Mapping[str, Mapping[str, float]],
) -> Correlation:
    """Over the models that were measured on all folds, and rated in all trials."""
    offline = {name: values[name, metric][np.isfinite(values[name, metric])] for name in models}
    online = {name: values[name, "mean_rating"] for name in models}
    folds = max(map(len, offline.values()))
    names = [name for name in offline if folds and len(offline[name]) == folds and np.isfinite(online[name]).all()]
    found: dict[str, float | int | None] = dict.fromkeys(("value", "lower", "upper", "p_value"))
    if len(names) > 1:
        both = [np.stack([own[name] for name in names]) for own in (offline, online)]
        found = rank_correlation(both[0], both[1], rng=0)
    repeated = folds > 1 and all(len(online[name]) > 1 for name in names)
    value, p_value = finite(found["value"]), finite(found["p_value"])
    lower, upper = (finite(found[end]) if repeated else None for end in ("lower", "upper"))
    status = Status.NOT_APPLICABLE if value is None else Status.SOLVED
    return Correlation(
        estimate=Estimate("spearman", value, lower, upper, status, None, len(names), 0),
        p_value=p_value,
        recommenders=len(names),
        better=-1 if TERMS[metric].better == "lower" else 1,
        published=_published_correlation(metric, [published.get(name, {}) for name in names]),
    )


def _published_correlation(metric: str, rows: list[Mapping[str, float]]) -> float | None:
    """None unless all of these recommenders have published numbers."""
    if len(rows) < 3 or not all(metric in row and "mean_rating" in row for row in rows):
        return None
    offline, online = (stats.rankdata([row[measure] for row in rows]) for measure in (metric, "mean_rating"))
    if offline.std() == 0 or online.std() == 0:
        return None
    return float(np.corrcoef(offline, online)[0, 1])

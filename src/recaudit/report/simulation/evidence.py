"""A simulation study as the page reads it: what is finished, every number with its interval, who is compared with whom.

A difference between two recommenders is taken trial by trial (fold by fold for what was measured on the log): both met
the same people and the same chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.metrics.inference import adjust_by_holm, compute_refits_p_value
from recaudit.metrics.metric import Metric
from recaudit.registry import MODELS
from recaudit.report.kit.claims import LEVEL
from recaudit.report.kit.numbers import Estimate, finite, listing, plural, verb
from recaudit.report.simulation.terms import OFFLINE, ONLINE, term
from recaudit.runs.recommenders import IMPERSONAL
from recaudit.simulate.loop.simulation import Comparison, Simulation, interval
from recaudit.simulate.offline.comparison import OfflineOnline, rank_correlation
from recaudit.simulate.worlds.scenarios import Oracle

Published = Mapping[tuple[str, str], Mapping[str, float]]
"""Numbers to put beside ours, by environment and recommender: {"ndcg": ..., "rmse": ..., "mean_rating": ...}."""

CHANCE = 0.05
"""Below this p-value an order is called more than chance."""
LAST = 1000
"""How many ratings at the end of a trial are "final" (paper 003, Figure 5), at most half of them."""

TESTED = ("mean_rating", "final_mean_rating", "drift", *OFFLINE)
"""Measures in which every two recommenders are compared."""

_POINTS = 50
"""How many points a curve has, at most: more steps are taken together."""


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
    tuned: Mapping[str, str]
    """Which recommenders were tuned, and which of their settings ended at an edge of what was tried."""
    published: Mapping[str, Mapping[str, float]]
    """What was published, by recommender."""

    @cached_property
    def correlations(self) -> Mapping[str, Correlation]:
        """By metric on the log."""
        return {metric: _correlation(metric, self) for metric in OFFLINE}

    def known(self, measure: str) -> dict[str, Estimate]:
        """The number of each recommender that has one, in their order."""
        found = {name: self.estimates[name, measure] for name in self.recommenders}
        return {name: estimate for name, estimate in found.items() if estimate.value is not None}

    def ranked(self, measure: str, *, oracle: bool = True) -> list[str]:
        """Those that have a value, best first."""
        found = self.known(measure)
        sign = 1 if term(measure).better == "lower" else -1
        names = [name for name in found if oracle or name != self.oracle]
        return sorted(names, key=lambda name: sign * (found[name].value or 0.0))

    def difference(self, name: str, other: str, measure: str) -> Estimate:
        """One minus the other, paired."""
        one, two = self.values[name, measure], self.values[other, measure]
        return estimated(term(measure), one - two if len(one) == len(two) else np.zeros(0))

    @cached_property
    def adjusted(self) -> Mapping[tuple[str, str, str], float]:
        """P-values of all pairs of recommenders in all tested measures, corrected by Holm's method as one family.

        Trials, or folds of the log, are the sample: with fewer than `MIN_REFITS` of them there is no test.
        """
        found: dict[tuple[str, str, str], float] = {}
        left_out = {"final_mean_rating": not self.explorers, "drift": not self.drifts}
        for measure in (own for own in TESTED if not left_out.get(own)):
            for name, other in combinations(self.recommenders, 2):
                both = (self.values[own, measure] for own in (name, other))
                p = compute_refits_p_value(*(values[np.isfinite(values)] for values in both))
                if p is not None:
                    found[name, other, measure] = p
        return dict(zip(found, adjust_by_holm(list(found.values())).tolist(), strict=True))

    def p_value(self, name: str, other: str, measure: str) -> float | None:
        """Adjusted p-value of two recommenders in a measure; None if they were not tested."""
        return self.adjusted.get((name, other, measure), self.adjusted.get((other, name, measure)))

    def shows_above(self, name: str, other: str, measure: str) -> bool:
        """Whether one recommender is shown to have a higher number than the other."""
        p, value = self.p_value(name, other, measure), self.difference(name, other, measure).value
        return p is not None and p <= LEVEL and value is not None and value > 0

    @property
    def trials(self) -> int:
        """How many trials stand behind every number."""
        return self.first.trials

    @property
    def stride(self) -> int:
        """How many steps are taken together in a curve."""
        return ceil(self.first.steps["step"].n_unique() / _POINTS)

    @property
    def first(self) -> Simulation:
        """What is the same for all simulations, such as how long they are, is read from the first."""
        return next(iter(self.comparison.simulations.values()))

    @property
    def oracle(self) -> str | None:
        """The recommender that knows the truth."""
        kind = MODELS.kind_of(Oracle)
        return next((name for name in self.references if _kind(self.comparison[name]) == kind), None)

    @cached_property
    def explorers(self) -> Mapping[str, list[str]]:
        """For each recommender that always shows the highest score: the same one with policies that explore."""
        runs = {name: self.comparison[name] for name in self.recommenders}
        explorers = {name: run.settings.get("recommender") for name, run in runs.items() if run.explores}
        found = {
            name: [other for other, same in explorers.items() if same == run.settings.get("recommender")]
            for name, run in runs.items()
            if not run.explores
        }
        return {name: others for name, others in found.items() if others}

    @property
    def drifts(self) -> bool:
        """Whether anybody's tastes moved."""
        return any((own.value or 0.0) > 0 for own in self.known("drift").values())

    def curve(self, name: str, measure: str) -> pl.DataFrame:
        """A row for every `stride` steps: step (the middle one, from 1), value, lower, upper.

        Ratings of the steps count alike, errors are pooled over them; other measures are averaged over steps.
        """
        column, weight = pl.col(ONLINE[measure]), pl.col("ratings")
        mean = column.mean()
        if measure in ("mean_rating", "shown_rmse"):
            power = 2 if measure == "shown_rmse" else 1
            mean = ((column**power * weight).sum() / weight.filter(column.is_not_null()).sum()) ** (1 / power)
        parts = (
            self.comparison[name]
            .steps.group_by(pl.col("step") // self.stride * self.stride, "trial")
            .agg(mean.cast(pl.Float64).fill_null(np.nan).alias("value"), middle=pl.col("step").mean() + 1)
        )
        return with_intervals(parts.sort("step", "trial"), pl.col("middle")).drop_nulls("value")


@final
@dataclass(frozen=True, eq=False)
class SimulationStudy:
    """All environments."""

    arenas: tuple[Arena, ...]
    recommenders: tuple[str, ...]
    """Everybody, in the order of the first environment: the order of colours and legends."""
    references: tuple[str, ...]
    k: int
    notes: tuple[str, ...]
    """What is not finished, and whose tuning ended at an edge, in sentences."""

    @classmethod
    def of(cls, result: OfflineOnline, published: Published | None = None) -> SimulationStudy:
        """Take what is finished, and measure it."""
        found = {name: _finished(name, comparison) for name, comparison in result.comparisons.items()}
        parts = {name: part for name, part in found.items() if part is not None}
        if not parts:
            raise InputError(
                "result",
                received="a study in which nothing is finished",
                expected="at least one finished trial",
                remedy="Let the study go on, and make the page then.",
            )
        arenas = tuple(
            _arena(f"environment-{place}", name, comparison, result, published or {})
            for place, (name, (comparison, _)) in enumerate(parts.items(), start=1)
        )
        names = dict.fromkeys(name for arena in arenas for name in arena.recommenders)
        references = dict.fromkeys(name for arena in arenas for name in arena.references)
        return cls(
            arenas=arenas,
            recommenders=(*(name for name in names if name not in references), *references),
            references=tuple(references),
            k=result.k,
            notes=(
                *(line for _, left_out in parts.values() for line in left_out),
                *(f"{name}: no trial is finished yet." for name in found if name not in parts),
                *(
                    f"{arena.name}: {name} was tuned to {edge}. It might do better beyond."
                    for arena in arenas
                    for name in arena.comparison.simulations
                    if (edge := arena.tuned.get(name))
                ),
            ),
        )

    @property
    def main(self) -> Arena:
        """The environment meant where the page speaks of one: the first."""
        return self.arenas[0]

    def label(self, measure: str) -> str:
        """What the measure is called, with the k of nDCG filled in."""
        return term(measure).titled(self.k)


def _finished(environment: str, comparison: Comparison) -> tuple[Comparison, list[str]] | None:
    """The trials that all of some recommenders have run to the end, and what is missing, in sentences."""
    simulations = comparison.simulations
    lengths = {
        name: dict(simulation.steps.group_by("trial").agg(pl.col("step").n_unique()).iter_rows())
        for name, simulation in simulations.items()
    }
    whole = max((steps for trials in lengths.values() for steps in trials.values()), default=0)
    ended = {name: {trial for trial, steps in trials.items() if steps == whole} for name, trials in lengths.items()}
    times = Counter(trial for trials in ended.values() for trial in sorted(trials))
    if not times:
        return None
    # Trials are run in order: the one that most have finished is among the first of each of them.
    shared = times.most_common(1)[0][0]
    kept = [name for name, trials in ended.items() if shared in trials]
    common = sorted(set.intersection(*(ended[name] for name in kept)))
    begun = {trial for trials in lengths.values() for trial in trials}
    left_out = []
    if missing := [name for name in simulations if name not in kept]:
        who = f"{listing(missing)} {verb(missing, 'has', 'have')}"
        left_out.append(
            f"{environment}: {who} not finished the trials that the others have, and cannot be compared yet."
        )
    if len(common) < len(begun):
        which = f"the {plural(len(common), 'trial')} that everybody on this page has finished, of {len(begun)} begun"
        left_out.append(f"{environment}: numbers are those of {which}.")
    shared_trials, parts = pl.col("trial").is_in(common), {}
    for name in kept:
        steps, audits = (own.filter(shared_trials) for own in (simulations[name].steps, simulations[name].audits))
        parts[name] = replace(simulations[name], steps=steps.sort("trial", "step"), audits=audits)
    return Comparison(parts), left_out


def _arena(anchor: str, where: str, comparison: Comparison, result: OfflineOnline, published: Published) -> Arena:
    simulations = comparison.simulations
    folds = result.folds.filter(environment=where)
    given = next(iter(simulations.values())).steps.group_by("trial").agg(pl.col("ratings").sum())["ratings"].min()
    last = max(1, min(LAST, int(given) // 2 if isinstance(given, int) else 1))
    values: dict[tuple[str, str], FloatArray] = {}
    for name, simulation in simulations.items():
        log = folds.filter(recommender=name).select(pl.col(OFFLINE).cast(pl.Float64).fill_null(np.nan))
        values |= {(name, measure): log[measure].to_numpy() for measure in OFFLINE}
        values |= {(name, measure): simulation.by_trial(column) for measure, column in ONLINE.items()}
        final = ("mean_rating", "shown_rmse")
        values |= {(name, f"final_{own}"): simulation.by_trial(ONLINE[own], last=last) for own in final}
    estimates = {(name, measure): estimated(term(measure), own) for (name, measure), own in values.items()}
    beside = (MODELS.kind_of(Oracle), *IMPERSONAL)
    references = [name for name, simulation in simulations.items() if _kind(simulation) in beside]

    def liked(name: str) -> tuple[bool, bool, float]:
        value = estimates[name, "mean_rating"].value
        return name in references, value is None, -(value or 0.0)

    return Arena(
        name=where,
        anchor=anchor,
        comparison=comparison,
        folds=max((len(own) for (_, measure), own in values.items() if measure in OFFLINE), default=0),
        recommenders=tuple(sorted(simulations, key=liked)),
        references=tuple(sorted(references, key=liked)),
        values=values,
        estimates=estimates,
        last=last,
        tuned=dict(result.recommenders.filter(pl.col("tuned"), environment=where)["recommender", "edge"].iter_rows()),
        published={name: row for (place, name), row in published.items() if place == where},
    )


def _kind(simulation: Simulation) -> str:
    recommender = simulation.settings.get("recommender")
    return str(recommender["kind"]) if isinstance(recommender, Mapping) else ""


def with_intervals(values: pl.DataFrame, at: pl.Expr) -> pl.DataFrame:
    """The means over trials, a row a step in order: step (the mean of `at`), value, lower, upper."""
    rows = [
        {"step": part.select(at.mean()).item(), **interval(part["value"].to_numpy())}
        for _, part in values.sort("step", maintain_order=True).group_by("step", maintain_order=True)
    ]
    return pl.DataFrame(rows, dict.fromkeys(("step", "value", "lower", "upper"), pl.Float64))


def estimated(metric: Metric, values: FloatArray) -> Estimate:
    """The mean of what was measured in trials or folds, with Student's interval."""
    found = interval(values)
    return Estimate.around(metric, found, int(found["trials"] or 0))


def _correlation(metric: str, arena: Arena) -> Correlation:
    """Over the models that were measured on all folds, and rated in all trials."""
    models = arena.comparison.models
    measured = {name: arena.values[name, metric] for name in models}
    offline = {name: own[np.isfinite(own)] for name, own in measured.items()}
    online = {name: arena.values[name, "mean_rating"] for name in models}
    folds = max(map(len, offline.values()))
    names = [name for name in offline if folds and len(offline[name]) == folds and np.isfinite(online[name]).all()]
    found: dict[str, float | int | None] = dict.fromkeys(("value", "lower", "upper", "p_value"))
    if len(names) > 1:
        both = [np.stack([own[name] for name in names]) for own in (offline, online)]
        found = rank_correlation(both[0], both[1], rng=0)
    repeated = folds > 1 and all(len(online[name]) > 1 for name in names)
    ends = {} if repeated else {"lower": None, "upper": None}
    return Correlation(
        estimate=Estimate.around(term("spearman"), {**found, **ends}, len(names)),
        p_value=finite(found["p_value"]),
        recommenders=len(names),
        better=-1 if term(metric).better == "lower" else 1,
        published=_published_correlation(metric, [arena.published.get(name, {}) for name in names]),
    )


def _published_correlation(metric: str, rows: list[Mapping[str, float]]) -> float | None:
    """None unless all of these recommenders have published numbers."""
    if len(rows) < 3 or not all(metric in row and "mean_rating" in row for row in rows):
        return None
    offline, online = (stats.rankdata([row[measure] for row in rows]) for measure in (metric, "mean_rating"))
    if offline.std() == 0 or online.std() == 0:
        return None
    return float(np.corrcoef(offline, online)[0, 1])

"""What was measured, by environment, recommender and what was changed; as numbers with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.plugins import FloatArray, estimate_mean_of_refits, generator
from recaudit.report import plural
from recaudit.simulate import Simulation
from recaudit_papers.studies.reading import Published, Quantity
from recaudit_papers.studies.reclab.plan import slug
from recaudit_papers.studies.study import Results

_SAMPLES = 500


@final
@dataclass(frozen=True)
class Found:
    """The tables of a study, asked for by what they are of."""

    results: Results

    def trials(self, scenario: str, name: str, how: str = "plain") -> Simulation | None:
        """The trials of a recommender; None where there are none."""
        steps = self.results.under(f"{scenario}/{slug(name)}/{slug(how)}/")
        return None if steps.is_empty() else Simulation({}, steps.drop("experiment"), pl.DataFrame())

    def by_trial(
        self, scenario: str, name: str, measure: str = "mean_rating", how: str = "plain", last: int | None = None
    ) -> FloatArray:
        """(trials,): empty where there are none."""
        found = self.trials(scenario, name, how)
        return np.zeros(0) if found is None else found.by_trial(measure, last=last)

    def during(self, scenario: str, name: str, steps: slice, how: str = "plain") -> FloatArray:
        """(trials,): the mean rating of some steps."""
        found = self.trials(scenario, name, how)
        if found is None:
            return np.zeros(0)
        parts = found.steps.group_by("trial", maintain_order=True)
        return np.array([part["mean_rating"].to_numpy()[steps].mean() for _, part in parts])

    def folds(self, scenario: str, name: str, metric: str, how: str = "plain") -> FloatArray:
        """(folds,): rmse, uncut (RMSE of predictions that may lie outside the scale) or ndcg."""
        table = self.results.under(f"offline/{scenario}/{slug(name)}/{slug(how)}/")
        return np.zeros(0) if table.is_empty() else table[metric].to_numpy()

    def _settings(self, scenario: str, name: str, how: str) -> list[Mapping[str, Any]]:
        prefix = f"{scenario}/{slug(name)}/{slug(how)}/"
        return [own for one, own in self.results.settings.items() if one.startswith(prefix)]

    def every(self, scenario: str, name: str, how: str = "plain") -> int:
        """How often it was fitted anew."""
        settings = self._settings(scenario, name, how)
        return int(settings[0].get("retrain", 1)) if settings else 1

    def over(self, scenario: str, name: str, how: str = "plain") -> str:
        """What the interval of a mean over trials is over."""
        trials = plural(sum(len(own["trials"]) for own in self._settings(scenario, name, how)), "trial")
        every = self.every(scenario, name, how)
        return f"{trials}, {fitted(every)}"

    def printed(self, experiment: str, text: str, error: float | None = None) -> Published:
        """A printed number, where the experiment is of the paper's size."""
        if self.results.settings.get(experiment, {}).get("changes"):
            return Published.nothing(f"{text}, at another size")
        return Published.number(text, error)

    def rating(self, scenario: str, name: str, how: str = "plain") -> Quantity | None:
        """The mean rating over all steps."""
        return quantity(self.by_trial(scenario, name, how=how), self.over(scenario, name, how))

    def offline(self, scenario: str, name: str, metric: str, how: str = "plain") -> Quantity | None:
        """The mean over folds."""
        values = self.folds(scenario, name, metric, how)
        return quantity(values, plural(len(values), "fold"))


def fitted(every: int) -> str:
    """How often, in words."""
    return "fitted at each step" if every == 1 else f"fitted every {every} steps"


def quantity(values: FloatArray, over: str) -> Quantity | None:
    """The mean of independent values with Student's interval; None without values."""
    if not len(values):
        return None
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    found = estimate_mean_of_refits(known)
    return Quantity(float(found.value), found.lower, found.upper, over, single=len(values) == 1)


def one_more(values: FloatArray, over: str) -> Quantity | None:
    """The mean, and where one more value of the kind would lie in 95 of 100 cases, were they normal."""
    n = len(values)
    if n < 2:
        return quantity(values, over)
    half = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) * sqrt(1 + 1 / n))
    return Quantity(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half, over)


def scatter(values: FloatArray, trials: int = 10) -> float:
    """How far a mean over so many trials may be off, as ours scatter; 0 where that is unknown."""
    known = len(values) > 2
    return float(stats.t.ppf(0.975, trials - 1) * values.std(ddof=1) / sqrt(trials)) if known else 0.0


def rank_correlation(first: list[FloatArray], second: list[FloatArray], over: str) -> Quantity | None:
    """Spearman's, of the means of each recommender's values; the interval is over folds and trials drawn anew."""
    if len(first) < 3 or not all(len(values) for values in (*first, *second)):
        return None
    draw = generator(0, "reclab.spearman")

    def drawn(values: FloatArray) -> FloatArray:
        found: FloatArray = draw.choice(values, (_SAMPLES, len(values))).mean(axis=1)
        return found

    value = _spearman([values.mean() for values in first], [values.mean() for values in second])
    xs, ys = (np.stack([drawn(values) for values in side], axis=1) for side in (first, second))
    others = [_spearman(list(x), list(y)) for x, y in zip(xs, ys, strict=True)]
    lower, upper = np.quantile(others, [0.025, 0.975])
    return Quantity(value, min(float(lower), value), max(float(upper), value), over)


def _spearman(first: list[float], second: list[float]) -> float:
    return float(stats.spearmanr(first, second).statistic)


def difference(first: FloatArray, second: FloatArray, over: str) -> Quantity | None:
    """The first less the second: trial by trial where there are as many, which meet the same chance."""
    if not len(first) or not len(second):
        return None
    n = min(len(first), len(second))
    return quantity(first[:n] - second[:n], over)

"""Fidelity of a simulation: what an environment gets right and wrong about a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arguments import checked
from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import Recommender
from recaudit.models.factor.sgd import BiasedMF
from recaudit.seeding import derive
from recaudit.simulate.offline.portrait import Marginals, Portrait, correlation, portrait, rank_correlation
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.learning import MOST_LEVELS

if TYPE_CHECKING:
    import pandas as pd

_AGAIN = "falls short of that of two logs by the same people"


@final
@dataclass(frozen=True)
class Statistic:
    """One line of the report: what is compared, and from where on it is wrong."""

    definition: str
    """What `size`, which the limits speak of, is."""
    right: float
    """Right where the size is at most this, or at most twice what it is between two logs of the environment itself."""
    close: float
    """Close where it is at most this; above, wrong."""
    by_chance: bool = True
    """Whether two logs of the environment say what chance does; not where people are compared one by one."""


STATISTICS: Mapping[str, Statistic] = {
    "rating mean": Statistic("|difference| / sd of the real ratings", 0.1, 0.25),
    "rating sd": Statistic("|simulated / real - 1|", 0.05, 0.15),
    "rating levels": Statistic("total variation distance of how often each rating is given", 0.05, 0.15),
    "mean rating by user": Statistic("Wasserstein distance of the users' means / sd of the real ratings", 0.1, 0.25),
    "mean rating by item": Statistic("Wasserstein distance of the items' means / sd of the real ratings", 0.1, 0.25),
    "the same users' mean ratings": Statistic(f"how far the correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "the same items' mean ratings": Statistic(f"how far the correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "item popularity: Gini": Statistic("|difference|", 0.03, 0.1),
    "item popularity: distribution": Statistic("Kolmogorov-Smirnov distance of the items' counts", 0.1, 0.25),
    "the same items' popularity": Statistic(f"how far the rank correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "user activity: Gini": Statistic("|difference|", 0.03, 0.1),
    "user activity: distribution": Statistic("Kolmogorov-Smirnov distance of the users' counts", 0.1, 0.25),
    "the same users' activity": Statistic(f"how far the rank correlation {_AGAIN}", 0.05, 0.15, by_chance=False),
    "popular items are rated higher": Statistic(
        "|difference| of the rank correlation of an item's count and mean", 0.1, 0.2
    ),
    "held-out RMSE": Statistic("|simulated / real - 1| of the reference recommender", 0.05, 0.15),
    "held-out variance explained": Statistic(
        "|difference| of the share that the reference recommender explains", 0.05, 0.1
    ),
    "structure of tastes": Statistic(
        "|simulated / real - 1| of the share of the first five axes of ratings less means", 0.25, 0.5
    ),
    "structure of choices": Statistic(
        "|simulated / real - 1| of the share of the first five axes of who rated what", 0.25, 0.5
    ),
}
"""Every line of the report, in order, with its limits."""

MEANINGS: Mapping[str, tuple[str, str]] = {
    "rating mean": ("people rate lower than the real ones", "people rate higher than the real ones"),
    "rating sd": ("ratings scatter less than the real ones", "ratings scatter more than the real ones"),
    "rating levels": ("some ratings are given too often and others too rarely", ""),
    "mean rating by user": ("generous and strict users are not spread as the real ones", ""),
    "mean rating by item": ("liked and disliked items are not spread as the real ones", ""),
    "the same users' mean ratings": ("who is generous and who is strict is not as in the real log", ""),
    "the same items' mean ratings": ("which items are liked is not as in the real log", ""),
    "item popularity: Gini": (
        "ratings are spread over the items more evenly",
        "ratings are more concentrated on a few items",
    ),
    "item popularity: distribution": ("hits and niche items are not as common as in the real log", ""),
    "the same items' popularity": ("which items are popular is not as in the real log", ""),
    "user activity: Gini": ("users are more alike in how much they rate", "a few users give more of the ratings"),
    "user activity: distribution": ("busy and occasional users are not as common as in the real log", ""),
    "the same users' activity": ("who is busy is not as in the real log", ""),
    "popular items are rated higher": (
        "ratings are missing more at random: popular items are less liked than in the real log",
        "popular items are more liked than in the real log",
    ),
    "held-out RMSE": (
        "the simulated log is easier to predict: recommenders will look better than they are",
        "the simulated log is harder to predict: recommenders will look worse than they are",
    ),
    "held-out variance explained": (
        "less can be learnt from the simulated log than from the real one",
        "more can be learnt from the simulated log than from the real one",
    ),
    "structure of tastes": (
        "tastes have less in common than the real ones",
        "tastes lie on fewer axes than the real ones",
    ),
    "structure of choices": (
        "who rates what follows activity and popularity alone: real people rate what is near their interests",
        "who rates what lies on fewer axes than in the real log",
    ),
}
"""What a wrong statistic says: where the simulated number is the lower one or only a distance is known, and else."""

VERDICTS = ("right", "close", "wrong", "not measured")
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "statistic": pl.String,
    **dict.fromkeys(("real", "simulated", "difference", "chance"), pl.Float64()),
    "verdict": pl.Enum(VERDICTS),
    "meaning": pl.String,
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class SimulationFidelity:
    """How a log that an environment makes differs from a real one."""

    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a statistic, in the order of `STATISTICS`: its value in each log, null for a distance between the two
    (where people or items are compared one by one, `real` is the correlation to be expected of two logs by the same
    people); the difference, or distance; that of two logs of the environment; the verdict, and what it says."""

    def named(self, verdict: str) -> list[str]:
        """The statistics with this verdict: right, close, wrong or not measured."""
        return self.frame.filter(pl.col("verdict") == verdict)["statistic"].to_list()

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def summary(self) -> str:
        """The table, and in words what is right and what is not."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        width = max(map(len, STATISTICS))
        lines = [f"fidelity of the simulation ({settings})"]
        lines += [f"  {'':{width}}  {'real':>7}  {'simul.':>7}  {'differ.':>7}  {'chance':>7}"]
        for row in self.frame.iter_rows(named=True):
            values = (row[name] for name in ("real", "simulated", "difference", "chance"))
            cells = "  ".join(f"{'-':>7}" if value is None else f"{value:7.3f}" for value in values)
            lines.append(f"  {row['statistic']:{width}}  {cells}  {row['verdict']}")
        for verdict, label in (("right", "Right"), ("close", "Close"), ("wrong", "Wrong"), ("not measured", "Unknown")):
            said = self.frame.filter(pl.col("verdict") == verdict).select("statistic", "meaning").rows()
            between = "; " if verdict in ("close", "wrong") else ", "
            words = between.join(f"{name} ({meaning})" if meaning else name for name, meaning in said)
            if words:
                lines.append(f"  {label}: {words}.")
        return "\n".join(lines)

    __repr__ = summary


class Compared(NamedTuple):
    """One statistic of two logs; None where it has no value for one log alone, or cannot be computed."""

    real: float | None
    simulated: float | None
    difference: float | None
    size: float | None


@checked
def fidelity(
    environment: Environment, data: Interactions, rng: int = 0, *, reference: Recommender | None = None
) -> SimulationFidelity:
    """Have `environment` make an offline log of the size of `data`, and hold the two side by side.

    Users and items are compared one by one where both logs have the same ids. `reference` is the recommender whose
    held-out error is compared. Use data that the environment was not fitted to, too: it must look like its own.
    """
    recommender = reference or BiasedMF(factors=8, epochs=40, regularization=0.1)
    size = min(len(data), environment.present_users(0) * environment.present_items(0))
    made, again = (environment.offline(size, seed) for seed in (rng, derive(rng, "again")))
    real, first, second = (portrait(log, recommender, rng) for log in (data, made, again))
    by_chance = _compare(first, second)
    rows = [_row(name, found, by_chance[name]) for name, found in _compare(real, first).items()]
    settings = {
        "environment": type(environment).__name__,
        "users": environment.users,
        "items": environment.items,
        "ratings": size,
        "rng": rng,
    }
    return SimulationFidelity(settings, pl.DataFrame(rows, SCHEMA, orient="row"))


def _row(name: str, found: Compared, chance: Compared) -> tuple[object, ...]:
    statistic = STATISTICS[name]
    known = chance.difference if statistic.by_chance else None
    noise = 2 * chance.size if statistic.by_chance and chance.size is not None else 0.0
    if found.size is None or found.difference is None:
        verdict, meaning = "not measured", ""
    elif found.size <= max(statistic.right, noise):
        verdict, meaning = "right", ""
    else:
        verdict = "close" if found.size <= statistic.close else "wrong"
        low, high = MEANINGS[name]
        meaning = high if found.difference > 0 and high else low
    return name, found.real, found.simulated, found.difference, known, verdict, meaning


def _compare(real: Portrait, simulated: Portrait) -> dict[str, Compared]:
    """Every statistic, in the order of `STATISTICS`."""
    sd = float(real.ratings.std()) or 1.0
    users, items = (real.users, simulated.users), (real.items, simulated.items)
    return {
        "rating mean": _apart(float(real.ratings.mean()), float(simulated.ratings.mean()), unit=sd),
        "rating sd": _ratio(float(real.ratings.std()), float(simulated.ratings.std())),
        "rating levels": _distance(_total_variation(real.ratings, simulated.ratings)),
        "mean rating by user": _means(*users, sd),
        "mean rating by item": _means(*items, sd),
        "the same users' mean ratings": _same_means(*users),
        "the same items' mean ratings": _same_means(*items),
        "item popularity: Gini": _apart(items[0].gini, items[1].gini),
        "item popularity: distribution": _distance(_kolmogorov(*items)),
        "the same items' popularity": _same_counts(*items),
        "user activity: Gini": _apart(users[0].gini, users[1].gini),
        "user activity: distribution": _distance(_kolmogorov(*users)),
        "the same users' activity": _same_counts(*users),
        "popular items are rated higher": _apart(real.popularity_pull, simulated.popularity_pull),
        "held-out RMSE": _ratio(real.error, simulated.error),
        "held-out variance explained": _apart(real.explained, simulated.explained),
        "structure of tastes": _ratio(real.taste_axes, simulated.taste_axes),
        "structure of choices": _ratio(real.choice_axes, simulated.choice_axes),
    }


def _apart(real: float | None, simulated: float | None, unit: float = 1.0) -> Compared:
    if real is None or simulated is None:
        return Compared(real, simulated, None, None)
    return Compared(real, simulated, simulated - real, abs(simulated - real) / unit)


def _ratio(real: float | None, simulated: float | None) -> Compared:
    return _apart(real, simulated, unit=real or 1.0)


def _distance(value: float | None, unit: float = 1.0) -> Compared:
    return Compared(None, None, value, None if value is None else value / unit)


def _short_of(expected: float | None, found: float | None) -> Compared:
    """Only what a correlation falls short of counts: one that is higher is no fault."""
    compared = _apart(expected, found)
    return compared if compared.difference is None else compared._replace(size=max(0.0, -compared.difference))


def _means(real: Marginals, simulated: Marginals, sd: float) -> Compared:
    ours, theirs = real.means[real.firm], simulated.means[simulated.firm]
    if not len(ours) or not len(theirs):
        return _distance(None)
    return _distance(float(stats.wasserstein_distance(ours, theirs)), unit=sd)


def _same_means(real: Marginals, simulated: Marginals) -> Compared:
    if not real.ids.equals(simulated.ids):
        return _short_of(real.reliability, None)
    both = real.firm & simulated.firm
    return _short_of(real.reliability, correlation(real.means[both], simulated.means[both]))


def _same_counts(real: Marginals, simulated: Marginals) -> Compared:
    if not real.ids.equals(simulated.ids):
        return _short_of(real.count_reliability, None)
    return _short_of(real.count_reliability, rank_correlation(real.counts, simulated.counts))


def _kolmogorov(real: Marginals, simulated: Marginals) -> float:
    """Of the counts as multiples of their mean, so that logs of other sizes can be compared."""
    ours, theirs = (side.counts / side.counts.mean() for side in (real, simulated))
    return float(stats.ks_2samp(ours, theirs, method="asymp").statistic)


def _total_variation(real: FloatArray, simulated: FloatArray) -> float:
    """Over the real levels, what lies between them counting as wrong; over twenty bins where there are too many."""
    levels = np.unique(real)
    if len(levels) <= MOST_LEVELS:
        shares = [np.array([(ratings == level).mean() for level in levels]) for ratings in (real, simulated)]
        return float((np.abs(shares[0] - shares[1]).sum() + (1 - shares[1].sum())) / 2)
    edges = np.linspace(levels[0], levels[-1], MOST_LEVELS + 1)
    counts = [np.histogram(np.clip(ratings, levels[0], levels[-1]), edges)[0] for ratings in (real, simulated)]
    return float(np.abs(counts[0] / len(real) - counts[1] / len(simulated)).sum() / 2)

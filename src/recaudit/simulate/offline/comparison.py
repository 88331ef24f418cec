"""`offline_online`: do metrics on a log predict what people think of what they are then shown? (paper 003)"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arguments import checked
from recaudit.arrays import FloatArray
from recaudit.audits.audit import Audit
from recaudit.engines import Engine, track
from recaudit.errors import InputError
from recaudit.folders import Folder
from recaudit.models.base import Recommender
from recaudit.policies import ListPolicy
from recaudit.registry import SIMULATED_MODELS
from recaudit.seeding import generator
from recaudit.simulate.loop.room import check_room
from recaudit.simulate.loop.run import WithPolicy, as_scenario, each_loop, folder_name, kept, run_loops
from recaudit.simulate.loop.simulation import Comparison, interval, written
from recaudit.simulate.loop.trial import Loop
from recaudit.simulate.offline.cross_validation import GridSearch, Tuned, each_offline, tune
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import Scenario
from recaudit.specification import as_data

METRICS = ("ndcg", "rmse")
_SAMPLES = 2000


@final
@dataclass(frozen=True, eq=False, repr=False)
class OfflineOnline:
    """What was measured on the log, beside what happened in the loop, for every recommender and environment."""

    folds: pl.DataFrame
    """One row an environment, recommender and fold: rmse, ndcg."""
    comparisons: Mapping[str, Comparison]
    """The loops, by environment."""
    recommenders: pl.DataFrame
    """One row an environment and recommender: the settings that were used, as JSON, whether they were tuned, and which
    of them ended at an `edge` of what was tried."""
    k: int
    """The k of nDCG@k."""
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)
    """What was run, by environment."""

    def points(self, *, last: int | None = None) -> pl.DataFrame:
        """One row an environment and recommender: means over folds and trials, with columns `*_lower`, `*_upper`."""
        rows = []
        for environment, comparison in self.comparisons.items():
            for name, simulation in comparison.simulations.items():
                row: dict[str, object] = {"environment": environment, "recommender": name}
                measured = {metric: self._folds(environment, name, metric) for metric in METRICS}
                measured |= {each: simulation.by_trial(each, last=last) for each in ("mean_rating", "distinct_items")}
                for measure, values in measured.items():
                    found = interval(values)
                    row |= {measure: found["value"]} | {f"{measure}_{end}": found[end] for end in ("lower", "upper")}
                rows.append(row)
        return pl.DataFrame(rows, infer_schema_length=None)

    def spearman(self, *, rng: int = 0) -> pl.DataFrame:
        """One row an environment and metric: Spearman's rank correlation with the mean rating received.

        A recommender counts once (`Comparison.models`). `lower` and `upper` (95%) hold what other recommenders of the
        kind could have given; `p_value` asks whether so few could be ordered so by chance (two-sided).
        """
        rows = []
        for environment, comparison in self.comparisons.items():
            names = comparison.models
            online = np.stack([comparison[name].by_trial("mean_rating") for name in names])
            for metric in METRICS:
                offline = np.stack([self._folds(environment, name, metric) for name in names])
                rows.append({"environment": environment, "metric": metric, **rank_correlation(offline, online, rng)})
        return pl.DataFrame(rows, infer_schema_length=None)

    def _folds(self, environment: str, name: str, metric: str) -> FloatArray:
        return self.folds.filter(environment=environment, recommender=name)[metric].to_numpy()

    def summary(self) -> str:
        """The points, best first, and the correlations, a line each."""
        lines = []
        points, spearman = self.points(), self.spearman().drop_nulls("value")
        headings = ("Recommender", "Mean rating", f"nDCG@{self.k}", "RMSE", "Items a step")
        for environment in self.comparisons:
            here = points.filter(environment=environment).sort("mean_rating", descending=True, nulls_last=True)
            rows = [headings, *map(_cells, here.iter_rows(named=True))]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines.append(environment)
            for name, *cells in rows:
                numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
                lines.append("  ".join([name.ljust(widths[0]), *numbers]))
            for row in spearman.filter(environment=environment).iter_rows(named=True):
                name = f"nDCG@{self.k}" if row["metric"] == "ndcg" else "RMSE"
                value = written(row["value"], row["lower"], row["upper"], digits=2)
                lines.append(f"{name} offline against mean rating, rank correlation: {value}")
            for row in self.recommenders.filter(pl.col("edge") != "", environment=environment).iter_rows(named=True):
                lines.append(f"{row['recommender']}: tuned to {row['edge']}; a better value may lie beyond")
            lines.append("")
        return "\n".join(lines + ["In brackets: 95% intervals."] * (self.trials > 1)).rstrip()

    @property
    def trials(self) -> int:
        """How often the loops were run."""
        return max(each.trials for one in self.comparisons.values() for each in one.simulations.values())

    __repr__ = summary


@checked
def offline_online(
    environments: Sequence[Environment | Scenario | str],
    recommenders: Mapping[str, WithPolicy] | Mapping[str, Mapping[str, WithPolicy]],
    trials: int = 10,
    *,
    tuning: Mapping[str, GridSearch] | None = None,
    folds: int = 5,
    k: int = 20,
    policy: ListPolicy | None = None,
    ratings: int | None = None,
    steps: int | None = None,
    retrain: int = 1,
    warm: bool = False,
    audits: Mapping[str, Audit] | None = None,
    audit_every: int = 0,
    population_every: int = 0,
    out: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> OfflineOnline:
    """Measure each recommender on the log that it begins with, then let it loose, and compare.

    In every environment: tune those that have an entry in `tuning` by cross-validation; measure RMSE and nDCG@k over
    the same folds; run the loop over `trials`. `recommenders` maps names to recommenders (or recommender and policy);
    or environments' names to such maps, where their settings differ. Other arguments as for `compare`.
    """
    scenarios = [as_scenario(environment, ratings=ratings, steps=steps) for environment in environments]
    names = [scenario.name for scenario in scenarios]
    if not names or len(set(names)) != len(names):
        expected = "at least one environment, each under a name of its own"
        raise InputError("environments", received=names, expected=expected)
    for scenario in scenarios:
        check_room(scenario)
    make = partial(
        Loop,
        retrain=retrain,
        warm=warm,
        audits=dict(audits or {}),
        audit_every=audit_every,
        population_every=population_every,
        rng=rng,
    )
    loops = {one.name: each_loop(make, one, _recommenders_of(one.name, recommenders), policy) for one in scenarios}
    searches = tuning or {}
    settings = {
        "folds": folds,
        "k": k,
        "tuning": {name: as_data(how) for name, how in searches.items()},
        "loops": {where: {name: as_data(loop) for name, loop in each.items()} for where, each in loops.items()},
    }
    root = None if out is None else Path(out)
    inside = {one.name: f"loops/{folder_name(one.name)}" for one in scenarios}
    parts: list[pl.DataFrame] = []
    used: list[tuple[str, str, str, bool, str]] = []
    comparisons: dict[str, Comparison] = {}
    with kept(root, "study", settings, [*inside.values()], owned=("tuning", "offline"), trials=trials) as folder:
        for scenario in track(scenarios, "environments", len(scenarios)):
            bench, chosen_loops = _Bench(scenario, folds, k, rng, engine, folder), dict[str, Loop]()
            for name, loop in loops[scenario.name].items():
                recommender, edges = bench.tuned(name, loop.recommender, searches.get(name))
                chosen_loops[name] = loop.model_copy(update={"recommender": recommender})
                chosen = json.dumps(as_data(recommender, SIMULATED_MODELS))
                used.append((scenario.name, name, chosen, name in searches, "; ".join(edges)))
            parts.append(bench.measured({name: loop.recommender for name, loop in chosen_loops.items()}))
            where = None if root is None else root / inside[scenario.name]
            comparisons[scenario.name] = Comparison(run_loops(chosen_loops, trials, where, engine, nested=True))
    settled = pl.DataFrame(used, ("environment", "recommender", "settings", "tuned", "edge"), orient="row")
    return OfflineOnline(pl.concat(parts), comparisons, settled, k, {one.name: one for one in scenarios})


@final
@dataclass(frozen=True, eq=False)
class _Bench:
    """Offline measurements in one environment; each is made once and kept."""

    scenario: Scenario
    folds: int
    k: int
    rng: int
    engine: Engine | None
    folder: Folder | None

    def tuned(self, name: str, recommender: Recommender, how: GridSearch | None) -> tuple[Recommender, tuple[str, ...]]:
        """The recommender with its settings chosen, and those of them that ended at an edge."""
        if how is None:
            return recommender, ()
        tries = self._kept("tuning", name)
        if tries is None:
            data, _ = self.scenario.beginning(self.rng)
            tries = tune(recommender, data, how, n=self.folds, k=self.k, rng=self.rng, engine=self.engine).tries
            self._keep("tuning", name, tries)
        found = Tuned.of(recommender, how, tries)
        return found.recommender, found.edges

    def measured(self, recommenders: Mapping[str, Recommender]) -> pl.DataFrame:
        """A row a recommender and fold."""
        kept = {name: self._kept("offline", name) for name in recommenders}
        found = {name: frame for name, frame in kept.items() if frame is not None}
        left = {name: each for name, each in recommenders.items() if name not in found}
        data, people = self.scenario.beginning(self.rng)
        for name, frame in each_offline(
            left, data, n=self.folds, k=self.k, population=people, rng=self.rng, engine=self.engine
        ):
            self._keep("offline", name, frame)
            found[name] = frame
        who = pl.lit(self.scenario.name).alias("environment")
        return pl.concat([found[name].select(who, pl.lit(name).alias("recommender"), "*") for name in recommenders])

    def _kept(self, kind: str, name: str) -> pl.DataFrame | None:
        """What was measured before."""
        file = self._file(kind, name)
        if self.folder is None or file not in self.folder.manifest.files:
            return None
        return pl.read_parquet(self.folder.checked(file), glob=False)

    def _keep(self, kind: str, name: str, frame: pl.DataFrame) -> None:
        if self.folder is not None:
            self.folder.put({self._file(kind, name): frame.write_parquet})

    def _file(self, kind: str, name: str) -> str:
        return f"{kind}/{folder_name(self.scenario.name)}/{folder_name(name)}.parquet"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    rating = written(*(row[f"mean_rating{end}"] for end in ("", "_lower", "_upper")))
    items = written(row["distinct_items"], digits=1)
    return row["recommender"], rating, written(row["ndcg"]), written(row["rmse"]), items


def _recommenders_of(
    environment: str, recommenders: Mapping[str, WithPolicy] | Mapping[str, Mapping[str, WithPolicy]]
) -> dict[str, WithPolicy]:
    own = recommenders.get(environment)
    if isinstance(own, Mapping):
        return dict(own)
    plain = {name: each for name, each in recommenders.items() if not isinstance(each, Mapping)}
    if len(plain) != len(recommenders) or not plain:
        expected = f"recommenders by name, or a map of them for every environment, {environment!r} too"
        raise InputError("recommenders", received=f"{list(recommenders)}", expected=expected)
    return plain


def rank_correlation(offline: FloatArray, online: FloatArray, rng: int) -> dict[str, float | int | None]:
    """Of the means over folds and trials, (recommenders, folds) and (recommenders, trials); as in `OfflineOnline`.

    A recommender with a NaN (nobody rated anything) is left out; without an order there is no value.
    """
    known = np.isfinite(offline).all(axis=1) & np.isfinite(online).all(axis=1)
    offline, online = offline[known], online[known]
    n = len(offline)
    means = offline.mean(axis=1), online.mean(axis=1)
    if n < 2 or any(np.ptp(values) == 0 for values in means):
        return {"value": None, "lower": None, "upper": None, "p_value": None, "recommenders": n}
    value = float(_spearman(*means))
    draw = generator(rng, "spearman")
    lower, upper = _interval(value, n)
    orders = np.stack([draw.permutation(n) for _ in range(_SAMPLES)])
    extreme = int((abs(_spearman(means[0][None, :], means[1][orders])) >= abs(value) - 1e-12).sum())
    p_value = (extreme + 1) / (_SAMPLES + 1)
    return {"value": value, "lower": lower, "upper": upper, "p_value": p_value, "recommenders": n}


def _interval(value: float, n: int) -> tuple[float | None, float | None]:
    """The 95% interval of Bonett and Wright (2000); none for fewer than four, of which nothing can be said.

    On Fisher's scale, where an end of the range lies at infinity: there the value is taken half a step inside, steps
    being those in which the correlation of n ranks can change.
    """
    if n < 4:
        return None, None
    end = 1 - 6 / (n * (n**2 - 1))
    middle = np.arctanh(np.clip(value, -end, end))
    half = stats.norm.ppf(0.975) * np.sqrt((1 + value**2 / 2) / (n - 3))
    lower, upper = np.tanh([middle - half, middle + half])
    return min(float(lower), value), max(float(upper), value)


def _spearman(a: FloatArray, b: FloatArray) -> FloatArray:
    """(...,): of the last axis; 0 where one of the two is the same throughout."""
    x, y = (stats.rankdata(values, axis=-1) for values in (a, b))
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    norm = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    found: FloatArray = (x * y).sum(axis=-1) / np.where(norm > 0, norm, 1.0)
    return found

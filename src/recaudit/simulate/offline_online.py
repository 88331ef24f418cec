"""`offline_online`: do metrics on a log predict what people think of what they are then shown? (paper 003)"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, final

import numpy as np
import polars as pl

from recaudit import atomic
from recaudit.arguments import checked
from recaudit.engines import Engine, track
from recaudit.errors import InputError
from recaudit.models.base import Recommender
from recaudit.policies import Policy
from recaudit.simulate.comparison import Comparison, Contender, compare, folder_name
from recaudit.simulate.environment import Environment
from recaudit.simulate.loop_folder import claimed
from recaudit.simulate.observers import Observer
from recaudit.simulate.offline import each_offline
from recaudit.simulate.population import FloatArray
from recaudit.simulate.rank_correlation import rank_correlation
from recaudit.simulate.run import as_scenario
from recaudit.simulate.scenarios import Scenario
from recaudit.simulate.simulation import interval
from recaudit.simulate.tuning import Grid, Search, chosen, tune

METRICS: tuple[Literal["ndcg"], Literal["rmse"]] = ("ndcg", "rmse")


@final
@dataclass(frozen=True, eq=False, repr=False)
class OfflineOnline:
    """What was measured on the log, beside what happened in the loop, for every recommender and environment."""

    folds: pl.DataFrame
    """One row an environment, recommender and fold: rmse, ndcg."""
    comparisons: Mapping[str, Comparison]
    """The loops, by environment."""
    recommenders: pl.DataFrame
    """One row an environment and recommender: the settings that were used, in words, and whether they were tuned."""
    k: int
    """The k of nDCG@k."""
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)
    """What was run, by environment."""

    def points(self, *, last: int | None = None) -> pl.DataFrame:
        """One row an environment and recommender: each number with its interval.

        `ndcg` and `rmse` over folds; `mean_rating` and `distinct_items` over trials; columns `*_lower`, `*_upper`.
        """
        rows = []
        for environment, comparison in self.comparisons.items():
            for name, simulation in comparison.simulations.items():
                row: dict[str, object] = {"environment": environment, "recommender": name}
                for metric in METRICS:
                    row |= _named(metric, interval(self._folds(environment, name, metric)))
                for measure in ("mean_rating", "distinct_items"):
                    row |= _named(measure, interval(simulation.by_trial(measure, last=last)))
                rows.append(row)
        return pl.DataFrame(rows, infer_schema_length=None)

    def spearman(self, *, rng: int = 0) -> pl.DataFrame:
        """One row an environment and metric: Spearman's rank correlation with the mean rating received.

        `lower` and `upper` (95%) resample folds and trials, alike for all recommenders: what another measurement of
        these recommenders could have given. `p_value` asks whether so few recommenders could be ordered so by chance
        (all orders equally likely, two-sided).
        """
        rows = []
        for environment, comparison in self.comparisons.items():
            names = list(comparison.simulations)
            online = np.stack([comparison[name].by_trial("mean_rating") for name in names])
            for metric in METRICS:
                offline = np.stack([self._folds(environment, name, metric) for name in names])
                rows.append({"environment": environment, "metric": metric, **rank_correlation(offline, online, rng)})
        return pl.DataFrame(rows, infer_schema_length=None)

    def _folds(self, environment: str, name: str, metric: str) -> FloatArray:
        rows = self.folds.filter((pl.col("environment") == environment) & (pl.col("recommender") == name))
        return rows[metric].to_numpy()

    def summary(self) -> str:
        """The points and the correlations, a line each."""
        lines = []
        points, spearman = self.points(), self.spearman()
        width = max(map(len, points["recommender"]))
        for environment in self.comparisons:
            lines.append(environment)
            lines.append(f"  {''.ljust(width)}  {f'nDCG@{self.k}':>8} {'RMSE':>8}  {'rating':>8}")
            part = points.filter(pl.col("environment") == environment).sort("mean_rating", descending=True)
            for row in part.iter_rows(named=True):
                rating = "   nothing" if row["mean_rating"] is None else f"  {row['mean_rating']:8.4f}"
                lines.append(f"  {row['recommender'].ljust(width)}  {row['ndcg']:8.4f} {row['rmse']:8.4f}{rating}")
            for row in spearman.filter(pl.col("environment") == environment).iter_rows(named=True):
                ends = "" if row["lower"] is None else f" [{row['lower']:.3f}, {row['upper']:.3f}]"
                lines.append(f"  Spearman of {row['metric']} with mean rating: {row['value']:.3f}{ends}")
        return "\n".join(lines)

    __repr__ = summary


@checked
def offline_online(
    environments: Sequence[Environment | Scenario | str],
    recommenders: Mapping[str, Contender] | Mapping[str, Mapping[str, Contender]],
    trials: int = 10,
    *,
    tuning: Mapping[str, Grid | Search] | None = None,
    folds: int = 5,
    k: int = 20,
    policy: Policy | None = None,
    ratings: int | None = None,
    steps: int | None = None,
    retrain: int = 1,
    warm: bool = False,
    audits: Mapping[str, Observer] | None = None,
    audit_every: int = 0,
    population_every: int = 0,
    out: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> OfflineOnline:
    """Measure each recommender on the log that it begins with, then let it loose, and compare.

    For every environment: draw its log; tune those recommenders that have an entry in `tuning` by cross-validation;
    measure RMSE and nDCG@k over the same folds; run the loop over `trials`. `recommenders` maps names to recommenders
    (or recommender and policy); or environments' names to such maps, where their settings differ. Other arguments as
    for `compare`. With `out`, everything is kept, and an interrupted study goes on where it stopped.
    """
    scenarios = [as_scenario(environment, ratings=ratings, steps=steps) for environment in environments]
    _check(scenarios)
    by_environment = {scenario.name: _contenders(recommenders, scenario.name) for scenario in scenarios}
    root = None if out is None else Path(out)
    parts: list[pl.DataFrame] = []
    used: list[dict[str, object]] = []
    comparisons: dict[str, Comparison] = {}

    def carried_out() -> OfflineOnline:
        for scenario in track(scenarios, "environments", len(scenarios)):
            contenders: dict[str, Contender] = {}
            bench = _Bench(scenario, folds, k, rng, engine, root)
            for name, contender in by_environment[scenario.name].items():
                recommender, own = contender if isinstance(contender, tuple) else (contender, policy)
                how = (tuning or {}).get(name)
                recommender = recommender if how is None else bench.tuned(name, recommender, how)
                contenders[name] = recommender if own is None else (recommender, own)
                named = {"environment": scenario.name, "recommender": name}
                used.append({**named, "settings": repr(recommender), "tuned": how is not None})
            parts.append(bench.measured(contenders))
            comparisons[scenario.name] = compare(
                scenario,
                contenders,
                trials=trials,
                retrain=retrain,
                warm=warm,
                audits=audits,
                audit_every=audit_every,
                population_every=population_every,
                out=None if root is None else root / "loops" / folder_name(scenario.name),
                rng=rng,
                engine=engine,
            )
        run = {scenario.name: scenario for scenario in scenarios}
        return OfflineOnline(pl.concat(parts), comparisons, pl.DataFrame(used), k, run)

    if root is None:
        return carried_out()
    lines = [f"{scenario.signature} folds={folds} k={k} rng={rng}" for scenario in scenarios]
    lines += [f"{e}/{name}: {c!r}" for e, each in by_environment.items() for name, c in each.items()]
    lines += [f"tuning {name}: {how!r}" for name, how in (tuning or {}).items()]
    with claimed(root, "\n".join(lines)):
        return carried_out()


@final
@dataclass(frozen=True, eq=False)
class _Bench:
    """Offline measurements in one environment; each is made once and kept."""

    scenario: Scenario
    folds: int
    k: int
    rng: int
    engine: Engine | None
    root: Path | None

    def tuned(self, name: str, recommender: Recommender, how: Grid | Search) -> Recommender:
        """The recommender with its settings chosen."""
        path = self._path("tuning", name)
        if path is not None and path.is_file():
            return chosen(recommender, pl.read_parquet(path, glob=False))
        data = self.scenario.begin(self.rng)[0]
        found = tune(recommender, data, how, n=self.folds, k=self.k, rng=self.rng, engine=self.engine)
        _keep(path, found.tries)
        return found.recommender

    def measured(self, contenders: Mapping[str, Contender]) -> pl.DataFrame:
        """A row a recommender and fold."""
        plain = {name: each[0] if isinstance(each, tuple) else each for name, each in contenders.items()}
        paths = {name: self._path("offline", name) for name in plain}
        found = {
            name: pl.read_parquet(path, glob=False)
            for name, path in paths.items()
            if path is not None and path.is_file()
        }
        left = {name: each for name, each in plain.items() if name not in found}
        data, people = self.scenario.begin(self.rng)[0], self.scenario.population(self.rng)
        for name, frame in each_offline(
            left, data, n=self.folds, k=self.k, population=people, rng=self.rng, engine=self.engine
        ):
            _keep(paths[name], frame)
            found[name] = frame
        who = pl.lit(self.scenario.name).alias("environment")
        return pl.concat([found[name].select(who, pl.lit(name).alias("recommender"), "*") for name in plain])

    def _path(self, kind: str, name: str) -> Path | None:
        if self.root is None:
            return None
        return self.root / kind / folder_name(self.scenario.name) / f"{folder_name(name)}.parquet"


def _keep(path: Path | None, frame: pl.DataFrame) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        atomic.write(path, buffer.getvalue())


def _named(name: str, found: Mapping[str, float | int | None]) -> dict[str, object]:
    return {name: found["value"], f"{name}_lower": found["lower"], f"{name}_upper": found["upper"]}


def _contenders(
    recommenders: Mapping[str, Contender] | Mapping[str, Mapping[str, Contender]], environment: str
) -> dict[str, Contender]:
    own = recommenders.get(environment)
    if isinstance(own, Mapping):
        return dict(own)
    plain = {name: each for name, each in recommenders.items() if not isinstance(each, Mapping)}
    if len(plain) != len(recommenders) or not plain:
        raise InputError(
            "recommenders",
            received=f"{list(recommenders)}",
            expected=f"recommenders by name, or a map of them for every environment, {environment!r} too",
        )
    return plain


def _check(scenarios: list[Scenario]) -> None:
    names = [scenario.name for scenario in scenarios]
    if not names or len(set(names)) != len(names):
        raise InputError(
            "environments", received=names, expected="at least one environment, each under a name of its own"
        )

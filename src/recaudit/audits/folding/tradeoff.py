"""Accuracy against folding: over a grid of models (paper 002, section 4 and Figures 3 to 6), or searched for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Literal, final

import numpy as np
import polars as pl
from scipy.stats import rankdata

from recaudit.arguments import check_count, checked
from recaudit.audits.folding.audit import Folding
from recaudit.audits.folding.bench import VALUES, Bench, Row
from recaudit.audits.folding.fronts import Folded, MeasuredModels, ModelChoice
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.optuna_study import quiet_study
from recaudit.data.blocks import BlockWorld
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial, track
from recaudit.errors import InputError, did_you_mean
from recaudit.models.factor.wals import WALS
from recaudit.seeding import derive

_MODEL = {"factors": pl.Int64, "unobserved_weight": pl.Float64}
_SEARCHED = {"factors": pl.Int64, "unobserved_weight": pl.Float64, "regularization": pl.Float64}
CELLS = {"repetition": pl.Int64, **_MODEL, "relatedness": pl.String, **VALUES}


@checked
def folding_tradeoff(
    data: Interactions | BlockWorld | Sequence[BlockWorld],
    *,
    test: Interactions | None = None,
    factors: Sequence[int] = (8, 16, 32, 64),
    unobserved_weights: Sequence[float] = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    relatedness: Relatedness | Mapping[str, Relatedness] | None = None,
    recommender: WALS | None = None,
    similarity: Literal["cosine", "dot"] = "cosine",
    k: int = 10,
    repetitions: int = 1,
    cache: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Tradeoff:
    """RMSE and folding of WALS over a grid of dimensions and weights of unrated pairs.

    `data` is the log to learn from and `test` what is held out; without it a tenth of the log, at random. A
    `BlockWorld` brings both, and the true relatedness; of several worlds each is a repetition, as in the paper's
    section 4.1. `relatedness` is by default that of the training log; several, by name, are measured on the same
    models and compared. `recommender` has the settings that all models share.

    Each repetition after the first has another random start and, without `test`, another split. With a `cache` (a
    folder) every model measured is a small file there, found again by data, settings and version: an interrupted study
    continues where it stopped and gives the same numbers, and a larger grid measures only what is new.
    """
    check_count("repetitions", repetitions)
    if isinstance(data, Sequence) and repetitions > 1:
        raise InputError("repetitions", received=repetitions, expected="1 beside several worlds: each is a repetition")
    cases: list[Interactions | BlockWorld] = [*data] if isinstance(data, Sequence) else [data] * repetitions
    if not cases:
        raise InputError("data", received="no world at all", expected="at least one")
    seeds = [rng if number == 0 else derive(rng, "repetition", number) for number in range(len(cases))]
    asked = Folding(similarity=similarity, k=k)
    benches = [
        Bench.of(case, test, relatedness, asked, cache, seed, engine or Serial())
        for case, seed in zip(cases, seeds, strict=True)
    ]
    grid = [dict(zip(_MODEL, point, strict=True)) for point in product(factors, unobserved_weights)]
    if not grid:
        raise InputError("factors, unobserved_weights", received="an empty grid", expected="at least one of each")
    base = recommender or WALS()
    jobs = [(number, WALS(**(base.model_dump() | point))) for number in range(len(benches)) for point in grid]
    rows: list[Row] = []
    for number, model in track(jobs, "folding trade-off", len(jobs)):
        place = {"repetition": number, **{name: getattr(model, name) for name in _MODEL}}
        rows += [place | measured for measured in benches[number].measure(model, seeds[number])]
    return Tradeoff(pl.DataFrame(rows, CELLS), base)


@checked
def folding_tuning(
    data: Interactions,
    *,
    test: Interactions | None = None,
    relatedness: Relatedness | None = None,
    trials: int = 50,
    factors: tuple[int, int] = (4, 128),
    unobserved_weight: tuple[float, float] = (1e-4, 1.0),
    regularization: tuple[float, float] = (0.1, 100.0),
    metric: Folded = "folding",
    recommender: WALS | None = None,
    similarity: Literal["cosine", "dot"] = "cosine",
    k: int = 10,
    cache: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> MeasuredModels:
    """A search for settings of WALS that predict well and fold little: RMSE and folding, both to be low.

    `factors`, `unobserved_weight` and `regularization` are the lowest and highest value to try, all on a logarithmic
    scale. `metric` is folding over all pairs or, "shown_folding", over what would be shown. The rest is as in
    `folding_tradeoff`. Needs Optuna: the tree-structured Parzen estimator for several objectives proposes what to try,
    its choices a function of the seed and of what was measured before. With a `cache` (a folder) each trial is a small
    file: the same call after an interruption, or with more trials, continues where it stopped with the same numbers.
    """
    check_count("trials", trials)
    bounds = dict(zip(_SEARCHED, (factors, unobserved_weight, regularization), strict=True))
    for name, (low, high) in bounds.items():
        if not 0 < low <= high:
            expected = "the lowest and the highest value to try, both above 0"
            raise InputError(name, received=(low, high), expected=expected)
    asked = Folding(similarity=similarity, k=k)
    bench = Bench.of(data, test, relatedness, asked, cache, rng, engine or Serial())
    base = recommender or WALS()
    rows: list[Row] = []
    with quiet_study(rng, objectives=2, instead="folding_tradeoff measures a grid without it.") as study:
        for number in track(range(trials), "folding tuning", trials):
            trial = study.ask()
            settings = {
                "factors": trial.suggest_int("factors", *factors, log=True),
                "unobserved_weight": trial.suggest_float("unobserved_weight", *unobserved_weight, log=True),
                "regularization": trial.suggest_float("regularization", *regularization, log=True),
            }
            (measured,) = bench.measure(base.model_copy(update=settings), rng)
            study.tell(trial, [measured["rmse"], measured[metric]])
            rows.append({"trial": number, **settings, **{name: measured[name] for name in VALUES}})
    frame = pl.DataFrame(rows, {"trial": pl.Int64, **_SEARCHED, **VALUES})
    return MeasuredModels(frame, base, tuple(_SEARCHED), metric)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tradeoff:
    """Accuracy and folding of every model of a grid."""

    cells: pl.DataFrame
    """One row a repetition, model and relatedness: repetition, factors, unobserved_weight, relatedness, rmse, ndcg,
    folding, overshoot_share, shown_folding, spurious_share."""
    base: WALS
    """The settings that all models share."""

    @property
    def relatedness(self) -> list[str]:
        """The names of what folding was measured against."""
        return self.cells["relatedness"].unique(maintain_order=True).to_list()

    @property
    def frame(self) -> pl.DataFrame:
        """One row a model and relatedness: the mean over repetitions, and `_sd`, the standard deviation between them
        (null of a single one)."""
        means = [pl.col(name).mean() for name in VALUES]
        spreads = [pl.col(name).std().alias(f"{name}_sd") for name in VALUES]
        grouped = self.cells.group_by("relatedness", *_MODEL, maintain_order=True)
        return grouped.agg(*means, *spreads, repetitions=pl.len().cast(pl.Int64))

    def front(self, relatedness: str | None = None, *, metric: Folded = "folding") -> pl.DataFrame:
        """The rows of `frame` that no other beats in both, for one relatedness (else the first), lowest RMSE first."""
        return self._models(relatedness, metric).front

    def best(self, relatedness: str | None = None) -> ModelChoice:
        """The lowest RMSE, whatever it folds."""
        return self._models(relatedness).best()

    def knee(self, relatedness: str | None = None, *, metric: Folded = "folding") -> ModelChoice | None:
        """The model of the front after which a lower RMSE costs the most folding: see `MeasuredModels.knee`."""
        return self._models(relatedness, metric).knee()

    def correlations(self) -> pl.DataFrame:
        """Spearman's correlation of RMSE with folding, and with folding of lists, over the weights at fixed factors.

        A row for each relatedness and number of factors; null where there are fewer than three weights, or all are
        alike. Below 0: what predicts better folds more.
        """
        rows = [
            (*names, len(group), *(spearman(group["rmse"], group[metric]) for metric in ("folding", "shown_folding")))
            for names, group in self.frame.group_by("relatedness", "factors", maintain_order=True)
        ]
        kinds = {"relatedness": pl.String, "factors": pl.Int64, "weights": pl.Int64}
        return pl.DataFrame(rows, {**kinds, "folding": pl.Float64, "shown_folding": pl.Float64}, orient="row")

    def agreement(self) -> pl.DataFrame:
        """Whether two choices of relatedness put the models in the same order (paper 002, section 4.3).

        A row a pair: Spearman's correlation of folding over all models, and the lowest of those over models with the
        same factors; null where there are fewer than three models.
        """
        rows = []
        for first, second in combinations(self.relatedness, 2):
            models, others = self._models(first).frame, self._models(second).frame
            both = models.join(others, on=[*_MODEL], suffix="_second", maintain_order="left")
            whole, *within = (
                spearman(group["folding"], group["folding_second"])
                for group in (both, *both.partition_by("factors", maintain_order=True))
            )
            lowest = min((each for each in within if each is not None), default=None)
            rows.append((first, second, len(both), whole, lowest))
        kinds = {"first": pl.String, "second": pl.String, "models": pl.Int64, "spearman": pl.Float64}
        return pl.DataFrame(rows, {**kinds, "lowest_at_fixed_factors": pl.Float64}, orient="row")

    def summary(self) -> str:
        """The two choices that matter: the lowest RMSE, and the knee."""
        models = len(self._models(None).frame)
        lines = [f"folding trade-off ({models} models, relatedness: {', '.join(self.relatedness)})"]
        for name in self.relatedness:
            lines.append(f"  {name}, lowest RMSE: {self.best(name)}")
            lines.append(f"  {name}, knee: {self.knee(name) or 'none: every gain is paid for in full'}")
        return "\n".join(lines)

    __repr__ = summary

    def _models(self, relatedness: str | None, metric: Folded = "folding") -> MeasuredModels:
        name = self.relatedness[0] if relatedness is None else relatedness
        if name not in self.relatedness:
            remedy = did_you_mean(name, self.relatedness)
            raise InputError("relatedness", received=name, expected="one that was measured", remedy=remedy)
        return MeasuredModels(self.frame.filter(pl.col("relatedness") == name), self.base, tuple(_MODEL), metric)


def spearman(first: pl.Series, second: pl.Series) -> float | None:
    """The correlation of the ranks; None where there are fewer than three points, or one side is all alike."""
    if len(first) < 3 or min(first.n_unique(), second.n_unique()) == 1:
        return None
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])

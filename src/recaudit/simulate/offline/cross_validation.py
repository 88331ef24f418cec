"""Cross-validation on the log that a recommender begins with: error and ranking, and settings chosen by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Annotated, Any, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, Field

from recaudit.arguments import checked
from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.audits.optuna_study import quiet_study
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split, folds
from recaudit.engines import Engine, Serial, track
from recaudit.errors import InputError, did_you_mean
from recaudit.models.base import FittedModel, Recommender
from recaudit.seeding import derive
from recaudit.simulate.loop.trial import predictions
from recaudit.simulate.worlds.environment import Population
from recaudit.simulate.worlds.scenarios import Oracle
from recaudit.specification import Number, Specification, mistake

FOLD_SCHEMA = {"fold": pl.Int64, "rmse": pl.Float64, "ndcg": pl.Float64}


@checked
def offline_metrics(
    recommender: Recommender,
    data: Interactions,
    *,
    n: int = 5,
    k: int = 20,
    population: Population | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> pl.DataFrame:
    """One row a fold: RMSE and nDCG@k of the ratings held out (paper 003, section 5).

    Scores that predict ratings are cut to the scale for the RMSE; others count as they are. nDCG ranks each user's
    held-out items among themselves, with their ratings as gain (`rated_ndcg`). The oracle needs the `population`.
    """
    one = {"": recommender}
    return next(each_offline(one, data, n=n, k=k, population=population, rng=rng, engine=engine))[1]


def each_offline(
    recommenders: Mapping[str, Recommender],
    data: Interactions,
    *,
    n: int,
    k: int,
    population: Population | None,
    rng: int,
    engine: Engine | None,
) -> Iterator[tuple[str, pl.DataFrame]]:
    """`offline_metrics` of several, by name, as they become ready; an engine spreads the folds of all together."""
    work = partial(_measured, dict(recommenders), tuple(folds(data, n, rng)), k, population, rng)
    pieces = [(name, fold) for name in recommenders for fold in range(n)]
    rows = (engine or Serial()).map(work, pieces, "folds")
    for name in recommenders:
        yield name, pl.DataFrame(list(islice(rows, n)), FOLD_SCHEMA)


def _measured(
    recommenders: Mapping[str, Recommender],
    splits: tuple[Split, ...],
    k: int,
    population: Population | None,
    rng: int,
    piece: tuple[str, int],
) -> dict[str, float]:
    name, fold = piece
    recommender, (train, test) = recommenders[name], splits[fold]
    if isinstance(recommender, Oracle) and population is not None:
        model: FittedModel = recommender.of(population, train)
    else:
        model = recommender.fit(train, derive(rng, "fold", fold))
    scores = model.pair_scores(test.users.astype(np.int64), test.items.astype(np.int64))
    error = predictions(model, scores) - test.ratings
    ndcg = float(np.nanmean(rated_ndcg(scores, test, k)))
    return {"fold": fold, "rmse": float(np.sqrt((error**2).mean())), "ndcg": ndcg}


def _from_low_to_high(ends: tuple[float, float]) -> tuple[float, float]:
    if not 0 < ends[0] <= ends[1]:
        raise mistake((), list(ends), "the lowest and highest value to try, both above 0: [0.001, 1.0]")
    return ends


@final
class GridSearch(Specification):
    """Every combination of these values."""

    values: dict[str, tuple[Any, ...]] = Field(min_length=1)
    """Field by field what to try: {"factors": (10, 20), "regularization": (0.01, 0.1)}."""


@final
class OptunaSearch(Specification):
    """A search with Optuna (the extra `tune`)."""

    ranges: dict[str, Annotated[tuple[Number, Number], AfterValidator(_from_low_to_high)]] = Field(min_length=1)
    """Field by field the lowest and the highest value, on a logarithmic scale; whole numbers where both ends are."""
    tries: int = Field(default=30, ge=1)
    """How many settings are tried."""


_NEAR_END = 0.05
"""Which share of a range, on its logarithmic scale, counts as its end in a search."""


def _tried(how: GridSearch | OptunaSearch) -> Mapping[str, tuple[Any, ...]]:
    return how.values if isinstance(how, GridSearch) else how.ranges


@final
@dataclass(frozen=True, eq=False)
class Tuned:
    """What was chosen, and what it was chosen from."""

    recommender: Recommender
    tries: pl.DataFrame
    """One row for each setting tried: its fields, and the mean rmse and ndcg over the folds."""
    edges: tuple[str, ...]
    """Settings that ended at an end of what was tried, or nearly so in a search: a better value may lie beyond."""

    @classmethod
    def of(cls, recommender: Recommender, how: GridSearch | OptunaSearch, tries: pl.DataFrame) -> Tuned:
        """The recommender at the best of what was tried."""
        best = tries.drop("rmse", "ndcg").row(int(tries["rmse"].arg_min() or 0), named=True)
        found = []
        for name, values in _tried(how).items():
            if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
                low, high = min(values), max(values)
                near = 1.0 if isinstance(how, GridSearch) else (high / low) ** _NEAR_END
                at_end = "lowest" if best[name] <= low * near else "highest" if best[name] >= high / near else ""
                if at_end and low < high:
                    found.append(f"{name} = {best[name]:g}, the {at_end} tried")
        return cls(type(recommender)(**dict(recommender) | best), tries, tuple(found))


@checked
def tune(
    recommender: Recommender,
    data: Interactions,
    how: GridSearch | OptunaSearch,
    *,
    n: int = 5,
    k: int = 20,
    rng: int = 0,
    engine: Engine | None = None,
) -> Tuned:
    """The settings with the lowest mean RMSE over n folds (equal: the first tried), all checked before any fit."""
    known = type(recommender).model_fields
    for name in _tried(how):
        if name not in known:
            expected = f"a setting of {type(recommender).__name__}"
            raise InputError("tuning", received=name, expected=expected, remedy=did_you_mean(name, known))

    def measured(candidates: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Each with its mean rmse and ndcg; an engine spreads the folds of all of them together."""
        made = {str(at): type(recommender)(**dict(recommender) | changes) for at, changes in enumerate(candidates)}
        found = each_offline(made, data, n=n, k=k, population=None, rng=rng, engine=engine)
        for changes, (_, rows) in zip(candidates, found, strict=True):
            yield {**changes, "rmse": rows["rmse"].mean(), "ndcg": rows["ndcg"].mean()}

    if isinstance(how, GridSearch):
        tried = measured([dict(zip(how.values, values, strict=True)) for values in product(*how.values.values())])
    else:
        tried = _searched(how, rng, measured)
    return Tuned.of(recommender, how, pl.DataFrame(list(tried), strict=False))


def _searched(
    how: OptunaSearch, rng: int, measured: Callable[[list[dict[str, Any]]], Iterator[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    with quiet_study(rng, objectives=1, instead="a GridSearch needs none of it.") as study:
        for _ in track(range(how.tries), "tuning", how.tries):
            trial = study.ask()
            changes = {
                name: trial.suggest_int(name, int(low), int(high), log=True)
                if float(low).is_integer() and float(high).is_integer()
                else trial.suggest_float(name, low, high, log=True)
                for name, (low, high) in how.ranges.items()
            }
            (row,) = measured([changes])
            study.tell(trial, row["rmse"])
            yield row

"""Cross-validation on the log that a recommender begins with: error and ranking, and settings chosen by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any, final

import numpy as np
import polars as pl
from pydantic import Field

from recaudit.arguments import checked
from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split, folds
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError, did_you_mean
from recaudit.models.base import FittedModel, Recommender
from recaudit.seeding import derive
from recaudit.simulate.loop.trial import predictions
from recaudit.simulate.worlds.environment import Population
from recaudit.simulate.worlds.scenarios import Oracle
from recaudit.specification import Specification

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


@final
class GridSearch(Specification):
    """Every combination of these values."""

    values: dict[str, tuple[Any, ...]] = Field(min_length=1)
    """Field by field what to try: {"factors": (10, 20), "regularization": (0.01, 0.1)}."""


@final
@dataclass(frozen=True, eq=False)
class Tuned:
    """What was chosen, and what it was chosen from."""

    recommender: Recommender
    tries: pl.DataFrame
    """One row for each setting tried: its fields, and the mean rmse and ndcg over the folds."""
    edges: tuple[str, ...]
    """Settings whose best value is the lowest or the highest that was tried: a better value may lie beyond."""

    @classmethod
    def of(cls, recommender: Recommender, how: GridSearch, tries: pl.DataFrame) -> Tuned:
        """The recommender at the best of what was tried."""
        best = tries.drop("rmse", "ndcg").row(int(tries["rmse"].arg_min() or 0), named=True)
        found = []
        for name, values in how.values.items():
            if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
                low, high = min(values), max(values)
                at_end = "lowest" if best[name] == low else "highest" if best[name] == high else ""
                if at_end and low < high:
                    found.append(f"{name} = {best[name]:g}, the {at_end} tried")
        return cls(type(recommender)(**dict(recommender) | best), tries, tuple(found))


@checked
def tune(
    recommender: Recommender,
    data: Interactions,
    how: GridSearch,
    *,
    n: int = 5,
    k: int = 20,
    rng: int = 0,
    engine: Engine | None = None,
) -> Tuned:
    """The settings with the lowest mean RMSE over n folds (equal: the first tried), all checked before any fit."""
    known = type(recommender).model_fields
    for name in how.values:
        if name not in known:
            expected = f"a setting of {type(recommender).__name__}"
            raise InputError("tuning", received=name, expected=expected, remedy=did_you_mean(name, known))

    candidates = [dict(zip(how.values, values, strict=True)) for values in product(*how.values.values())]
    recommenders = {str(at): type(recommender)(**dict(recommender) | changes) for at, changes in enumerate(candidates)}
    measured = each_offline(recommenders, data, n=n, k=k, population=None, rng=rng, engine=engine)
    tries = [
        {**changes, "rmse": rows["rmse"].mean(), "ndcg": rows["ndcg"].mean()}
        for changes, (_, rows) in zip(candidates, measured, strict=True)
    ]
    return Tuned.of(recommender, how, pl.DataFrame(tries, strict=False))

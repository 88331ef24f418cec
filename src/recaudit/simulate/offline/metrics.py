"""What can be measured before anybody is shown anything: error and ranking of held-out ratings, fold by fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import final

import numpy as np
import polars as pl

from recaudit.arguments import checked
from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.data.interactions import Interactions
from recaudit.data.splits import Split, folds
from recaudit.engines import Engine, Serial
from recaudit.models.base import FittedModel, Recommender
from recaudit.seeding import derive
from recaudit.simulate.loop.measures import predictions
from recaudit.simulate.loop.oracle import Oracle
from recaudit.simulate.worlds.environment import Population

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
    work = _Fold(dict(recommenders), tuple(folds(data, n, rng)), k, population, rng)
    pieces = [(name, fold) for name in recommenders for fold in range(n)]
    rows = (engine or Serial()).map(work, pieces, "folds")
    for name in recommenders:
        yield name, pl.DataFrame(list(islice(rows, n)), FOLD_SCHEMA)


@final
@dataclass(frozen=True, eq=False)
class _Fold:
    recommenders: Mapping[str, Recommender]
    splits: tuple[Split, ...]
    k: int
    population: Population | None
    rng: int

    def __call__(self, piece: tuple[str, int]) -> dict[str, float]:
        name, fold = piece
        recommender, (train, test) = self.recommenders[name], self.splits[fold]
        if isinstance(recommender, Oracle) and self.population is not None:
            model: FittedModel = recommender.of(self.population, train)
        else:
            model = recommender.fit(train, derive(self.rng, "fold", fold))
        scores = model.pair_scores(test.users.astype(np.int64), test.items.astype(np.int64))
        error = predictions(model, scores) - test.ratings
        ndcg = float(np.nanmean(rated_ndcg(scores, test, self.k)))
        return {"fold": fold, "rmse": float(np.sqrt((error**2).mean())), "ndcg": ndcg}

"""What is shown: slates by a policy, from what may be shown, how likely they were, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.models.base import FittedModel
from recaudit.policies import ListPolicy


@final
@dataclass(frozen=True, eq=False)
class Slates:
    """What a recommender shows to some users."""

    items: IntArray
    """(users, slate): -1 where nothing is left to show."""
    scores: FloatArray
    """(users, slate): the recommender's scores; 0 where nothing is shown."""
    propensities: FloatArray
    """(users, slate): the probability of the item at its place, given the places before it; their product is that of
    the slate. 0 where nothing is shown."""


SLATE_SCHEMA = {
    "step": pl.Int64,
    "user": pl.Int64,
    "item": pl.Int64,
    "place": pl.Int64,
    "score": pl.Float64,
    "propensity": pl.Float64,
    "rating": pl.Float64,
    "expected": pl.Float64,
}
"""One row an item shown, by position. `rating` is null where it was not taken; `expected` is what it would have got
without noise when it was rated or, where it was not taken, when the slate was shown: only an auditor knows."""


def impressions(step: int, users: IntArray, slates: Slates, ratings: FloatArray, expected: FloatArray) -> pl.DataFrame:
    """What was shown at one step: `ratings` (users, slate), NaN where none; `expected` (users, slate)."""
    row, place = np.nonzero(slates.items >= 0)
    each = (slates.items, slates.scores, slates.propensities, ratings, expected)
    item, score, propensity, rating, truth = (values[row, place] for values in each)
    columns = (np.full(len(row), step), users[row], item, place, score, propensity, rating, truth)
    frame = pl.DataFrame(dict(zip(SLATE_SCHEMA, columns, strict=True)), SLATE_SCHEMA)
    return frame.with_columns(pl.col("rating").fill_nan(None))


def slates(
    model: FittedModel, policy: ListPolicy, users: IntArray, allowed: NDArray[np.bool_], n: int, rng: int
) -> Slates:
    """Slates of n allowed items (users, items) for these users; chance follows from `rng` and the ids."""
    scores, mask = model.scores(users), torch.from_numpy(allowed)
    items = policy.lister(model.data)(scores, mask, users, n, rng)
    propensities = policy.propensities(scores, mask, items)
    shown = items >= 0
    values = np.take_along_axis(scores.numpy(), np.maximum(items, 0), axis=1)
    return Slates(items, np.where(shown, values, 0.0), np.where(shown, propensities, 0.0))

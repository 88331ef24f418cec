"""What is measured at a step, and over all people."""

from __future__ import annotations

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.engines.base import BLOCK
from recaudit.models.base import FittedModel
from recaudit.simulate.worlds.environment import Population

MEASURES = {
    "mean_rating": "The mean of the ratings given at the step: what people think of what they are shown.",
    "rmse": "Root mean squared error of the scores of what was taken, against the ratings given; scores that predict "
    "ratings are cut to the scale, others count as they are.",
    "population_rmse": "The same over every pair of users and items, against the ratings without noise: how well the "
    "recommender knows people, not only what it shows them.",
    "distinct_items": "How many different items were shown at the step.",
    "gini": "How unequally all that was shown so far is spread over the items: 0 evenly, towards 1 all on one.",
    "drift": "How far tastes have moved since the beginning: root mean square over all pairs, in rating points.",
}


def predictions(model: FittedModel, scores: FloatArray) -> FloatArray:
    """Scores as predicted ratings: cut to the scale where they are some."""
    return np.clip(scores, *model.data.scale) if model.predicts_ratings else scores


def population_rmse(model: FittedModel, population: Population, users: int) -> float:
    """Over every pair of the first `users` users with all items."""
    total = 0.0
    for start in range(0, users, BLOCK):
        block: IntArray = np.arange(start, min(start + BLOCK, users))
        error = predictions(model, model.scores(block).numpy()) - population.expected(block)
        total += float((error**2).sum())
    return float(np.sqrt(total / (users * population.n_items)))


def root_mean_square(errors: FloatArray) -> float | None:
    """None of nothing."""
    return float(np.sqrt((errors**2).mean())) if len(errors) else None

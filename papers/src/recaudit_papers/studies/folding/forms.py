"""Readings of Equation 1: one change each to what the paper's Section 4.2 says is minimised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np

from recaudit.data import Interactions
from recaudit.models import WALS, FactorModel
from recaudit.plugins import FloatArray, generator

_DAMPING = 5.0
"""Ratings at the mean that each user and item has beside its own, where they are centred by user and item."""


@final
@dataclass(frozen=True)
class Form:
    """What is fitted, to what, and how much it weighs; as it stands, Section 4.2 with Equation 2."""

    center: Literal["mean", "none", "user and item"] = "mean"
    target: float | Literal["mean"] | None = None
    """What unrated pairs are fitted to, in stars; None is 0 after centring, as the paper has it."""
    weights: Literal["1 + alpha", "1", "squared"] = "1 + alpha"
    """Of a rated pair beside alpha: Equation 2, the observed pairs' own 1, or Equation 1 as printed, W inside the norm:
    (1 + alpha)^2 beside alpha^2."""
    times: float = 1.0
    """What alpha is multiplied by."""
    regularization: float = 10.0
    by_count: bool = False
    """Whether the penalty of a vector is in proportion to its number of ratings, the same on average."""
    rounds: int = 15

    def recommender(self, factors: int, alpha: float, mean: float) -> WALS:
        """The same minimiser in WALS' own weights, 1 + alpha beside alpha: all weights are divided by a number."""
        alpha *= self.times
        unit = {"1 + alpha": 1.0, "1": 1 - alpha, "squared": 1 + 2 * alpha}[self.weights]
        weight = alpha**2 if self.weights == "squared" else alpha
        return WALS(
            factors=factors,
            iterations=self.rounds,
            unobserved_weight=weight / unit,
            regularization=self.regularization / unit,
            center="mean" if self.center == "mean" else "none",
            prior=mean if self.target == "mean" else self.target,
        )

    def fit(self, data: Interactions, factors: int, alpha: float, rng: int) -> FactorModel:
        """The model of this log."""
        mean = float(data.ratings.mean())
        recommender = self.recommender(factors, alpha, mean)
        if self.center == "user and item":
            f, g = _biases(data, mean)
            rest = data.ratings - mean - f[data.users] - g[data.items]
            model = recommender.fit(replace(data, ratings=rest, scale=(float(rest.min()), float(rest.max()))), rng)
            return replace(model, data=data, user_bias=f, item_bias=g, mean=mean)
        if self.by_count:
            model = recommender.model_copy(update={"iterations": 1}).fit(data, rng)
            return self._by_count(model, recommender, rng)
        return recommender.fit(data, rng)

    @staticmethod
    def _by_count(model: FactorModel, recommender: WALS, rng: int) -> FactorModel:
        """The same rounds, with penalties in proportion to numbers of ratings."""
        data = model.data
        users, items, _ = recommender.problem(data)
        of_users, of_items = (
            recommender.regularization * counts / counts.mean() + 1e-9
            for counts in (data.user_counts, data.item_counts)
        )
        U = recommender.init_std * generator(rng, "wals").standard_normal((data.n_users, recommender.factors))
        for _ in range(recommender.iterations):
            V = items.solve(U, of_items)
            U = users.solve(V, of_users)
        return replace(model, user_factors=U, item_factors=V)


def _biases(data: Interactions, mean: float) -> tuple[FloatArray, FloatArray]:
    """(users,) and (items,): damped means of what is left after the mean, and after the items'."""
    totals = np.bincount(data.items, data.ratings, data.n_items)
    g = (totals + _DAMPING * mean) / (data.item_counts + _DAMPING) - mean
    rest = np.bincount(data.users, data.ratings - mean - g[data.items], data.n_users)
    return rest / (data.user_counts + _DAMPING), g

"""Studies made by hand: numbers trial by trial, without running anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from recaudit.simulate.loop.simulation import Comparison, Simulation
from recaudit.simulate.loop.trial import AUDIT_SCHEMA, STEP_SCHEMA
from recaudit.simulate.offline.comparison import OfflineOnline

STEPS = 4
ALS = {"kind": "als", "factors": 3}
TOP_1 = {"kind": "top-1"}


class Told:
    """One recommender: its numbers, trial by trial, the same at every step unless said otherwise."""

    def __init__(
        self,
        ratings: Sequence[float | None],
        ndcg: Sequence[float] = (0.8, 0.82),
        rmse: Sequence[float] = (1.0, 1.02),
        *,
        drift: float = 0.0,
        shown_rmse: float = 1.0,
        population: float | None = 1.0,
        settings: Mapping[str, Any] = ALS,
        policy: Mapping[str, Any] = TOP_1,
        steps: int = STEPS,
        climb: float = 0.0,
    ) -> None:
        self.ndcg, self.rmse, self.settings = ndcg, rmse, settings
        self.first = ratings[0] if ratings else None
        rows: list[dict[str, Any]] = [
            {
                "trial": trial,
                "step": step,
                "ratings": 0 if rating is None else 5,
                "mean_rating": None if rating is None else rating + climb * (step - (steps - 1) / 2),
                "rmse": None if rating is None else shown_rmse,
                "population_rmse": population if step == steps - 1 else None,
                "distinct_items": 3 + trial,
                "gini": 0.5,
                "drift": drift * (1 + trial / 100) * (step + 1) / steps,
            }
            for trial, rating in enumerate(ratings)
            for step in range(steps)
        ]
        told = {"recommender": settings, "policy": policy, "retrain": 1, "warm": False, "rng": 7}
        self.simulation = Simulation(told, pl.DataFrame(rows, STEP_SCHEMA), pl.DataFrame(schema=AUDIT_SCHEMA))


def study_of(
    *environments: Mapping[str, Told], tuned: bool = False, edge: str = "", place: str = "place"
) -> OfflineOnline:
    places = {f"{place} {number}": told for number, told in enumerate(environments, start=1)}
    folds = [
        {"environment": place, "recommender": name, "fold": fold, "rmse": rmse, "ndcg": ndcg}
        for place, told in places.items()
        for name, own in told.items()
        for fold, (rmse, ndcg) in enumerate(zip(own.rmse, own.ndcg, strict=True))
    ]
    used = [
        {"environment": place, "recommender": name, "settings": json.dumps(own.settings), "tuned": tuned, "edge": edge}
        for place, told in places.items()
        for name, own in told.items()
    ]
    kinds = {"environment": pl.String, "recommender": pl.String}
    return OfflineOnline(
        pl.DataFrame(folds, {**kinds, "fold": pl.Int64, "rmse": pl.Float64, "ndcg": pl.Float64}),
        {place: Comparison({name: own.simulation for name, own in told.items()}) for place, told in places.items()},
        pl.DataFrame(used, {**kinds, "settings": pl.String, "tuned": pl.Boolean, "edge": pl.String}),
        20,
    )


def graded(*, opposite: bool = False) -> dict[str, Told]:
    """Seven that nDCG and RMSE put in the order in which people do, or in the opposite one."""
    found = {}
    for grade in range(7):
        good = 6 - grade if opposite else grade
        found[f"M{grade}"] = Told(
            [3 + 0.2 * grade + 0.01 * place for place in range(-4, 4)],
            [0.80 + 0.02 * good, 0.801 + 0.02 * good],
            [2.0 - 0.1 * good, 2.01 - 0.1 * good],
        )
    return found

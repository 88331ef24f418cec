"""Recourse on MovieLens 1M: what is proved in which time, beside HiGHS and beside a ranking by influence.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/recourse.py [PAIRS]

First PAIRS (default 1,000) random pairs of users and items they have not seen: the least number of the next ten ratings
to change, in stars, that brings the item among the first ten; the share of pairs for which that, or that nothing does
it, is proved. Then a few of the same pairs as mixed-integer programs over the interval of ratings, which is an easier
question (fewer changes may do).

Then counterfactual explanations on their own ground, the top item replaced by changing ten ratings of the history, and
on that of recourse. They are made as ACCENT makes them: for each item of the list as a replacement, ratings are changed
in the order of their influence on the difference of the two scores, here without the error of an influence function,
until the outcome is there; the smallest of these sets is the explanation.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.audits.recourse.goals import Goal
from recaudit.interventions import Actions, HistoryEdits, Interval, NextK, Stars
from recaudit.models.base import FittedModel

PROGRAMS = 60
STARS = Stars(1, 5)


def cpu() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def by_influence(model: FittedModel, actions: Actions, goal: Goal, row: dict[str, Any]) -> float:
    """How many ratings a ranking by influence changes until the outcome is there; infinite where it never is."""
    data, at = model.data, model.data.users_at([row["user"]])
    items = actions.items(model, at, 0)
    now, target = actions.unchanged(model, at, items)[0], int(data.items_at([row["item"]])[0])
    response = model.own_responses(at, items)
    slope, intercept = response.slope[0], response.intercept[0]
    inside, n = isinstance(goal, ra.AmongFirst), goal.n  # type: ignore[attr-defined]
    left_out = np.union1d(np.flatnonzero(data.seen(at)[0]), items[0])

    def scores(ratings: np.ndarray) -> np.ndarray:
        values = np.asarray(intercept + slope @ ratings)
        values[np.setdiff1d(left_out, target)] = -np.inf
        return values

    best = np.inf
    shown = np.argsort(-scores(now))[:10]
    for other in shown[shown != target]:
        wanted = (slope[target] - slope[other]) * (1 if inside else -1)
        gains = wanted[:, None] * (STARS.values - now[:, None])
        ratings = now.copy()
        for changed, k in enumerate(np.argsort(-gains.max(axis=1)), 1):
            if gains[k].max() <= 0 or changed >= best:
                break
            ratings[k] = STARS.values[gains[k].argmax()]
            after = scores(ratings)
            if ((after > after[target]).sum() < n) == inside:
                best = changed
                break
    return best


def proved(models: Mapping[str, FittedModel], pairs: int) -> Table:
    table = Table("model", "ratings", "pairs", "proved", "within reach", "impossible", "seconds", "CPU s", "ms a pair")
    for name, model in models.items():
        for ratings, users in ((STARS, pairs // 10), (Interval(1, 5), PROGRAMS // 10)):
            start, used = time.perf_counter(), cpu()
            actions = NextK(10, ratings=ratings)
            found = ra.recourse(model, actions=actions, users=users, items=10, refits=0, budget=20_000)
            seconds, used = time.perf_counter() - start, cpu() - used
            counts, count = found.counts(), len(found.pairs)
            known = (counts["solved"] + counts["impossible"]) / count
            reached = found.pairs.filter(pl.col("value").is_not_null()).height / count
            table.add_row(
                name,
                type(ratings).__name__,
                f"{count:,}",
                f"{known:.1%}",
                f"{reached:.1%}",
                f"{counts['impossible'] / count:.1%}",
                f"{seconds:.1f}",
                f"{used:.1f}",
                f"{1000 * used / count:.1f}",
            )
    return table


def beside_influence(models: Mapping[str, FittedModel], pairs: int) -> Table:
    table = Table(
        "model", "goal", "proved least", "ranking: the same", "larger", "finds none", "mean, least to ranking"
    )
    grounds: list[tuple[str, Goal, Actions, int]] = [
        ("top item replaced", ra.OutOfFirst(1), HistoryEdits(10, ratings=STARS), 1),
        ("item among the first 10", ra.AmongFirst(10), NextK(10, ratings=STARS), 10),
    ]
    for label, model in models.items():
        for name, goal, actions, items in grounds:
            asked: dict[str, Any] = {"goal": goal, "actions": actions, "users": pairs // 10, "items": items}
            found = ra.recourse(model, refits=0, budget=20_000, **asked).pairs
            known = found.filter((pl.col("status") == "solved") & (pl.col("value") > 0))
            least = known["value"].to_numpy()
            other = np.array([by_influence(model, actions, goal, row) for row in known.iter_rows(named=True)])
            both = np.isfinite(other)
            table.add_row(
                label,
                name,
                f"{len(known):,} of {len(found):,}",
                f"{(other == least).mean():.1%}",
                f"{(both & (other > least)).mean():.1%}",
                f"{(~both).mean():.1%}",
                f"{least[both].mean():.2f} to {other[both].mean():.2f}",
            )
    return table


def main(pairs: int) -> None:
    data = ra.datasets.load("ml-1m")
    models = {"ALS": ra.models.ALS().fit(data), "BiasedMF": ra.models.BiasedMF(factors=64).fit(data)}
    for measured in (beside_influence, proved):
        Console(width=140).print(measured(models, pairs))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

"""What audits cost on a sparse log: few ratings a user, many items, so that many sequences of items can be shown next.

    python benchmarks/sparse.py future [K] [USERS]   # Future(K) of some users, all targets
    python benchmarks/sparse.py default [KIND]       # the default audits of one model: als, biased-mf, ...

The log is generated: 16,554 users, 10,506 items and 100,000 ratings from 0 to 10, activity and popularity skewed.
Seconds a user, the share of pairs that are solved, and how wide the bounds of the others are; or seconds an audit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.splits import leave_last
from recaudit.registry import MODELS

USERS, ITEMS, RATINGS, TASTES = 16_554, 10_506, 100_000, 8


def sparse_log(users: int = USERS, items: int = ITEMS, ratings: int = RATINGS, rng: int = 0) -> Interactions:
    """Everybody has a rating and so has everything; the rest falls on active users and famous items."""
    draw = np.random.default_rng(rng)
    activity, fame = np.exp(1.2 * draw.standard_normal(users)), np.exp(1.6 * draw.standard_normal(items))
    activity, fame = activity / activity.sum(), fame / fame.sum()
    more = 2 * ratings
    who = np.concatenate([np.arange(users), draw.integers(0, users, items), draw.choice(users, more, p=activity)])
    what = np.concatenate([draw.choice(items, users, p=fame), np.arange(items), draw.choice(items, more, p=fame)])
    first = np.sort(np.unique(who * items + what, return_index=True)[1])[:ratings]
    who, what = who[first], what[first]
    tastes, kinds = draw.standard_normal((users, TASTES)), draw.standard_normal((items, TASTES))
    quality, mood = draw.standard_normal(items), 1.2 * draw.standard_normal(users)
    liking = 6.5 + quality[what] + mood[who] + 0.5 * (tastes[who] * kinds[what]).sum(axis=1)
    given = np.clip(np.rint(liking + draw.standard_normal(len(who))), 0, 10)
    frame = pl.DataFrame({"user": who, "item": what, "rating": given, "time": draw.permutation(len(who))})
    return Interactions.from_frame(frame, time="time", scale=(0, 10))


def future(console: Console, data: Interactions, k: int, count: int) -> None:
    """Every target of some users after their next k ratings, on all cores."""
    model = ra.models.ALS().fit(data)
    ra.reachability(model, actions=ra.interventions.Future(2), users=1, rng=1)  # compiles
    start = time.perf_counter()
    found = ra.reachability(model, actions=ra.interventions.Future(k), users=count)
    seconds = time.perf_counter() - start
    counts = found.counts()
    answered = sum(counts.values()) - counts["not_applicable"]
    table = Table("k", "users", "seconds a user", "pairs", "solved", "widths of the bounded: median, 90%")
    widths = found.facts.get("widths")
    told = f"{widths['median']:.2f} {widths['90%']:.2f}" if widths else "none"
    table.add_row(
        f"{k}", f"{count}", f"{seconds / count:.2f}", f"{answered:,}", f"{counts['solved'] / answered:.1%}", told
    )
    console.print(table)


def default(console: Console, data: Interactions, kind: str) -> None:
    """The audits of the demonstration, with their own defaults; one after the other, each told as it ends."""
    recommender = MODELS[kind]()
    split = leave_last(data, 5)
    model = recommender.fit(split.train)
    asked: dict[str, Callable[[], object]] = {
        "fit": lambda: recommender.fit(split.train),
        "accuracy": lambda: ra.accuracy(model, split.test),
        "exposure": lambda: ra.exposure(model),
        "reachability": lambda: ra.reachability(model),
        "instability": lambda: ra.instability(model),
        "folding": lambda: ra.folding(model),
        "agency": lambda: ra.agency(recommender, data),
    }
    console.print(f"{kind}: seconds, seconds of all cores together")
    for name, ask in asked.items():
        wall, cores = time.perf_counter(), time.process_time()
        try:
            ask()
        except ra.errors.NotSupportedError as error:
            console.print(f"{name}: {error}")
            continue
        console.print(f"{name:14s}{time.perf_counter() - wall:8.1f}{time.process_time() - cores:8.1f}")


def main() -> None:
    console, data = Console(), sparse_log()
    asked = sys.argv[1:]
    if asked[:1] == ["default"]:
        default(console, data, asked[1] if len(asked) > 1 else "als")
    else:
        numbers = [int(number) for number in asked[1:]]
        future(console, data, *(numbers + [5, 4][len(numbers) :]))


if __name__ == "__main__":
    main()

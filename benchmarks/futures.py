"""What futures cost on a sparse log: few ratings a user, many items, so that many sequences of items can be shown next.

    python benchmarks/futures.py [K] [USERS]   # Future(K) of some users, all targets

The log is generated: 16,554 users, 10,506 items and 100,000 ratings from 0 to 10, activity and popularity skewed.
Seconds a user, the share of pairs that are solved, and how wide the bounds of the others are. What a whole run of
several models takes there: `estimates.py --data sparse`.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.data import Interactions

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


def main() -> None:
    numbers = [int(number) for number in sys.argv[1:]]
    future(Console(), sparse_log(), *(numbers + [5, 16][len(numbers) :]))


if __name__ == "__main__":
    main()

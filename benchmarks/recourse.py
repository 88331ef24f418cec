"""Recourse on MovieLens 1M: an item among the first ten by the next ten ratings, in stars, beside HiGHS.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/recourse.py [PAIRS]

PAIRS (default 1,000) random pairs of users and items they have not seen: the least number of ratings to change, and the
share of pairs for which that, or that nothing does it, is proved. Then some of the same pairs as mixed-integer programs
over the interval of ratings, which is an easier question (fewer changes may do): what HiGHS takes for each.
"""

from __future__ import annotations

import sys
import time

import polars as pl
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.interventions import Interval, NextK, Stars

PROGRAMS = 20


def main(pairs: int) -> None:
    data = ra.datasets.load("ml-1m")
    table = Table("model", "ratings", "pairs", "proved", "within reach", "impossible", "seconds", "ms a pair")
    for recommender in (ra.models.ALS(), ra.models.BiasedMF(factors=64)):
        model = recommender.fit(data)
        ra.recourse(model, users=1, items=1, refits=0)  # compiles
        for ratings, users in ((Stars(1, 5), pairs // 10), (Interval(1, 5), PROGRAMS // 10)):
            start = time.perf_counter()
            found = ra.recourse(model, actions=NextK(10, ratings=ratings), users=users, items=10, refits=0)
            seconds = time.perf_counter() - start
            counts, count = found.counts(), len(found.pairs)
            proved = (counts["solved"] + counts["impossible"]) / count
            reached = found.pairs.filter(pl.col("value").is_not_null()).height / count
            table.add_row(
                type(recommender).__name__,
                type(ratings).__name__,
                f"{count:,}",
                f"{proved:.1%}",
                f"{reached:.1%}",
                f"{counts['impossible'] / count:.1%}",
                f"{seconds:.1f}",
                f"{1000 * seconds / count:.1f}",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

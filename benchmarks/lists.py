"""Top-10 lists of a large catalogue: 105,283 users x 340,556 items, 16 factors, beside implicit's `recommend`.

    python benchmarks/lists.py [USERS] [ITEMS] [--against CHECKOUT] [--rounds N]

Vectors are drawn, offsets follow popularity, everybody has seen twenty items. Each row is a process of its own, whose
peak memory it prints beside what it took when the problem was made. implicit has no offsets: they are a 17th factor
there. Its vectors are in single precision, and so are its lists; ours are those of double precision. The last column
says how many users have the list that we give, by either.

With `--against`, the folder of another revision of recaudit, lists are made by both in turn, each time in a process of
its own, and the table has the ratio of the times: of scores that are products of vectors, of scores that are computed
one by one, and of scores with many ties.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from implicit.cpu.als import AlternatingLeastSquares
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.data import Interactions

USERS, ITEMS, FACTORS, SEEN, LENGTH = 105_283, 340_556, 16, 20, 10


def model_of(users: int, items: int) -> ra.models.FactorVectors:
    draw = np.random.default_rng(0)
    popularity = 1 / np.arange(10, items + 10)
    seen = draw.choice(items, (users, SEEN), p=popularity / popularity.sum())
    frame = pl.DataFrame({"user": np.repeat(np.arange(users), SEEN), "item": seen.ravel()}).unique(maintain_order=True)
    data = Interactions.from_frame(frame.with_columns(rating=pl.lit(1.0)), items=range(items))
    P, Q = (draw.normal(0, FACTORS**-0.25, (count, FACTORS)) for count in (users, items))
    return ra.models.from_factors(P, Q, data, item_bias=0.3 * np.log(popularity * items), predicts_ratings=False)


def recommend(model: ra.models.FactorVectors) -> Any:
    return ra.recommend(model, n=LENGTH)["item"].to_numpy().reshape(-1, LENGTH)


def exposure(model: ra.models.FactorVectors) -> Any:
    found = ra.exposure(model, k=LENGTH, by=())
    return found.table("lists")["item"].to_numpy().reshape(-1, LENGTH)


def of_implicit(model: ra.models.FactorVectors) -> Any:
    theirs = AlternatingLeastSquares(FACTORS + 1)
    ones = np.ones((model.data.n_users, 1))
    theirs.user_factors = np.hstack([model.user_factors, ones]).astype(np.float32)
    theirs.item_factors = np.hstack([model.item_factors, model.item_bias[:, None]]).astype(np.float32)
    return theirs.recommend(np.arange(model.data.n_users), model.data.matrix(), N=LENGTH)[0]


ROWS: dict[str, Callable[[ra.models.FactorVectors], Any]] = {
    "ra.recommend": recommend,
    "ra.exposure, with its intervals": exposure,
    "implicit, recommend": of_implicit,
}


def measure(name: str, users: int, items: int, answer: Connection) -> None:
    ROWS[name](model_of(300, 1000))  # compiled
    model = model_of(users, items)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    lists = ROWS[name](model)
    took = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.send((*took, before / 2**20, peak / 2**20, lists.astype(np.int64)))


class EveryScore(ra.models.FactorVectors):
    """The same model, whose scores are all computed before they are ranked."""

    def score_vectors(self) -> None:
        return None


class RoundedScores(EveryScore):
    """The same model with scores of few different values: most lists depend on ties."""

    def scores(self, users: Any) -> Any:
        return super().scores(users).round(decimals=1)


KINDS = {
    "products of vectors": ra.models.FactorVectors,
    "every score": EveryScore,
    "every score, most lists tied": RoundedScores,
}


def of_kind(kind: str, users: int, items: int) -> ra.models.FactorVectors:
    model = model_of(users, items)
    parts = model.user_factors, model.item_factors, model.user_bias, model.item_bias, model.mean
    return KINDS[kind](model.data, *parts, predicts_ratings=False)


def time_kind(kind: str, users: int, items: int) -> None:
    """Print the wall and CPU seconds of the lists, after the same for a small model."""
    recommend(of_kind(kind, 300, 1000))  # compiled
    model = of_kind(kind, users, items)
    start, cpu = time.perf_counter(), time.process_time()
    recommend(model)
    print(json.dumps([time.perf_counter() - start, time.process_time() - cpu]))


def compare(users: int, items: int, other: Path, rounds: int) -> None:
    """Print the times of both revisions, and the median of their ratios."""
    here = Path(__file__).resolve().parents[1]
    table = Table("scores", "other CPU s", "own CPU s", "ratio of CPU", "ratio of wall")
    for kind in KINDS:
        times: dict[Path, list[list[float]]] = {other: [], here: []}
        for turn in range(2 * rounds):
            root = (other, here)[(turn + turn // 2) % 2]  # neither is always the first
            environment = os.environ | {"PYTHONPATH": str(root / "src")}
            command = [sys.executable, __file__, str(users), str(items), "--time", kind]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
            times[root].append(json.loads(done.stdout.splitlines()[-1]))
        walls, cpus = (
            [own[which] / theirs[which] for own, theirs in zip(times[here], times[other], strict=True)]
            for which in (0, 1)
        )
        seconds = [f"{median(row[1] for row in times[root]):.2f}" for root in (other, here)]
        table.add_row(kind, *seconds, f"{median(cpus):.3f}", f"{median(walls):.3f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("users", type=int, nargs="?", default=USERS)
    parser.add_argument("items", type=int, nargs="?", default=ITEMS)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time", choices=list(KINDS))
    given = parser.parse_args()
    users, items = given.users, given.items
    if given.time is not None:
        time_kind(given.time, users, items)
    elif given.against is not None:
        compare(users, items, given.against.resolve(), given.rounds)
    else:
        beside_implicit(users, items)


def beside_implicit(users: int, items: int) -> None:
    console, context = Console(), multiprocessing.get_context("spawn")
    found = {}
    for name in ROWS:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=measure, args=(name, users, items, there))
        process.start()
        there.close()
        found[name] = here.recv()
        process.join()
    seconds, ours = found["implicit, recommend"][0], found["ra.recommend"][-1]
    columns = ("lists of ten", "s", "CPU s", "x implicit", "GB before", "GB at most", "lists as ours")
    table = Table(*columns, title=f"{users:,} users x {items:,} items, {FACTORS} factors")
    for name, (wall, cpu, before, peak, lists) in found.items():
        same = f"{(lists == ours).all(axis=1).mean():.3%}"
        table.add_row(name, f"{wall:.1f}", f"{cpu:.1f}", f"{wall / seconds:.2f}", f"{before:.2f}", f"{peak:.2f}", same)
    console.print(table)
    console.print_json(json.dumps({name: row[:4] for name, row in found.items()}))


if __name__ == "__main__":
    main()

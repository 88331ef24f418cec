"""Two runs of MovieLens 1M side by side: 6,040 users, five models, every number, beside the obvious way.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/compare.py [FOLDER]

The runs (five models each, all with other settings in the second) are made once in FOLDER, or in
runs/compare, and read back: a few minutes. The obvious way is what one writes by hand: for each metric that users have
a value of, overall and by group, the users' own values of both runs joined, and `scipy.stats.bootstrap` on the paired
differences, with as many draws.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from scipy import stats

import recaudit as ra

CONFIGURATION = """
[data]
name = "ml-1m"
[split]
kind = "leave-last"
k = 5
[[model]]
kind = "als"
factors = {factors}
[[model]]
kind = "biased-mf"
factors = {factors}
[[model]]
kind = "wals"
factors = {factors}
[[model]]
kind = "item-knn"
neighbours = {factors}
[[model]]
kind = "ease"
regularization = {factors}
[audits.accuracy]
[audits.exposure]
[audits.calibration]
tested = 200
[audits.folding]
relatedness = ["genre"]
[audits.reachability]
users = 20
targets = 100
refits = 0
"""
FACTORS = (32, 24)
SAMPLES = 1000


def main(folder: Path) -> None:
    """Make the runs where they are not there, and compare them both ways."""
    runs = []
    for name, factors in zip(("before", "after"), FACTORS, strict=True):
        text = CONFIGURATION.format(factors=factors)
        config = ra.runs.parse(text, source="compare.toml", folder=Path())
        runs.append(ra.runs.execute(config, folder / name))
    start = time.perf_counter()
    before, after = runs
    found = ra.compare(before, after)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    questions, largest = by_hand(before, after, found.frame)
    theirs = time.perf_counter() - start
    table = Table("", "questions", "seconds", "ms a question")
    for label, count, seconds in (("ra.compare", len(found.frame), ours), ("by hand, of these", questions, theirs)):
        table.add_row(label, f"{count:,}", f"{seconds:.1f}", f"{1000 * seconds / count:.1f}")
    console = Console()
    console.print(table)
    console.print(f"largest difference between the standard errors: {100 * largest:.1f}%")
    console.print(repr(found))


def by_hand(before: ra.runs.Run, after: ra.runs.Run, frame: pl.DataFrame) -> tuple[int, float]:
    """How many questions scipy was asked, and how far its standard errors are from ours at most, as a share."""
    questions, largest = 0, 0.0
    for model in before.models:
        sides = [run.table(model, "accuracy", "users") for run in (before, after)]
        people = before.table(model, "accuracy", "people")
        both = sides[0].join(sides[1], on="user", suffix="_after").join(people, on="user")
        asked = frame.filter(model=model, audit="accuracy", metric="ndcg").filter(
            pl.col("by").is_in(["", *people.columns])
        )
        for row in asked.iter_rows(named=True):
            own = both if not row["by"] else both.filter(pl.col(row["by"]) == row["group"])
            gains = (own["ndcg_after"] - own["ndcg"]).drop_nulls().to_numpy()
            if len(gains) < 2 or not np.ptp(gains):
                continue
            peer = stats.bootstrap((gains,), np.mean, n_resamples=SAMPLES, method="percentile", rng=0)
            questions += 1
            largest = max(largest, abs(float(peer.standard_error) / row["error"] - 1))
    return questions, largest


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/compare"))

"""A file of lists re-ranked on the way from Parquet to Parquet: time and peak memory.

    python benchmarks/rerank_file.py [USERS]

USERS (default: a million) with a pool of 100 items each out of 5,000, 20 genres, 20 ratings a user; lists of 50 at
weight 0.99. The log and the file are made first and are not timed.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import recaudit as ra

ITEMS, POOL, RATED = 5_000, 100, 20


def main(users: int) -> None:
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "lists.parquet", Path(folder) / "calibrated.parquet"
        data = _log(draw, users)
        _write_lists(draw, users, source)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        done = ra.rerank_file(source, data, out)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = source.stat().st_size
    each = 1e3 * seconds / users
    print(f"{done.users:,} lists of {POOL} to {done.rows:,} places: {seconds:.0f} s, {each:.2f} ms a user")
    print(f"file {size / 2**30:.2f} GiB; peak memory {peak / 2**20:.2f} GiB, {before / 2**20:.2f} with the log alone")


def _log(draw: np.random.Generator, users: int) -> ra.Interactions:
    # Steps through the catalogue from a random start: distinct items for each user, without a draw for each.
    items = (draw.integers(0, ITEMS, (users, 1)) + 7 * np.arange(RATED)) % ITEMS
    frame = pl.DataFrame({"user": np.repeat(np.arange(users), RATED), "item": items.ravel(), "rating": 1.0})
    genres = [[f"genre {g}" for g in draw.choice(20, draw.integers(1, 5), replace=False)] for _ in range(ITEMS)]
    data = ra.Interactions.from_frame(frame)
    return data.with_items(
        pl.DataFrame({"item": np.arange(ITEMS), "genre": genres}), categories={"genre": "genre"}, unknown="ignore"
    )


def _write_lists(draw: np.random.Generator, users: int, path: Path) -> None:
    parts = path.parent / "parts"
    parts.mkdir()
    for number, start in enumerate(range(0, users, 50_000)):
        count = min(50_000, users - start)
        items = (draw.integers(0, ITEMS, (count, 1)) + 13 * np.arange(POOL) + 3) % ITEMS
        columns = {
            "user": np.repeat(np.arange(start, start + count), POOL),
            "item": items.ravel(),
            "score": draw.gamma(2.0, 0.1, count * POOL),
        }
        pl.DataFrame(columns).write_parquet(parts / f"{number:04d}.parquet")
    pl.scan_parquet(parts / "*.parquet").sink_parquet(path, row_group_size=1_000_000)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

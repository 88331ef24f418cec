"""Twenty-five million ratings: a log of the shape of MovieLens 25M, generated once, audited stage by stage.

    python benchmarks/scale.py FOLDER [SHARE] [MODEL ...]

FOLDER keeps the log (ratings.parquet, items.parquet), the configuration (audit.toml) and the run; SHARE of its users
and items (default: all, 1). MODEL names the models to audit (als item-knn ease top-pop; default: all). The table has
the seconds of every stage, as the run folder has them, and the most memory that was seen until its end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

USERS, ITEMS, RATINGS = 162_541, 59_047, 25_000_095
FEWEST = 20
"""Ratings of everybody; half of the users have 71 or more, a few have tens of thousands."""
RANKS = (1, 100, 1_000, 3_000, 10_000, 20_000, 30_000, 45_000, 59_047)
COUNTS = (80_000.0, 35_000.0, 6_500.0, 1_500.0, 110.0, 20.0, 6.0, 2.0, 1.0)
"""How often the item of such a rank is rated; in between, a straight line in logarithms."""
GENRES = (
    "Action",
    "Adventure",
    "Animation",
    "Children",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "IMAX",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
ENOUGH = 0.005
"""The share of ratings that may be lacking in the end: those who draw what they have already draw no more."""
LIKING = 4.0
"""How many times likelier an item is taken by those who like its first genre."""
TRAITS = 8
ALONE = 50
"""Users with more than this part of the items rated draw from all at once; the others draw until they have enough."""

CONFIG = """# Written by benchmarks/scale.py
seed = 0

[data]
file = "ratings.parquet"
time = "time"
scale = [0.5, 5.0]
items = {file = "items.parquet", id = "item"}
categories = {genre = "genres"}

[split]
kind = "leave-last"
k = 5
MODELS
[audits.accuracy]
[audits.exposure]
[audits.calibration]
[audits.folding]
[audits.reachability]
targets = 500
refits = 0
[audits.instability]
refits = 0
"""
MODELS = {
    "als": "factors = 32",
    "item-knn": "",
    "ease": "items = 20000",
    "top-pop": "",
}


def popularity(share: float) -> NDArray[np.float64]:
    """(items,): how likely each is to be taken."""
    ranks = np.linspace(1, ITEMS, max(200, round(share * ITEMS)))
    return np.exp(np.interp(np.log(ranks), np.log(RANKS), np.log(COUNTS)))


def activity(draw: np.random.Generator, share: float, n_items: int) -> NDArray[np.int64]:
    """(users,): how many items each rates; lognormal above the fewest, as the log's median and mean have it."""
    users = max(200, round(share * USERS))
    extra = np.exp(draw.normal(np.log(51.0), 1.39, users))
    counts: NDArray[np.int64] = (FEWEST + extra * (RATINGS / USERS - FEWEST) / extra.mean()).astype(np.int64)
    return counts.clip(max=n_items // 2)


def taken(draw: np.random.Generator, chances: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(ratings,): user * items + item, ascending: so many different items for each user, by their chances."""
    n_items = len(chances)
    alone, logs = counts > n_items // ALONE, np.log(chances)
    whole = [  # the largest of Gumbel's draws are a sample without replacement
        user * n_items + np.argpartition(logs + draw.gumbel(size=n_items), -counts[user])[-counts[user] :]
        for user in np.flatnonzero(alone)
    ]
    cumulated = np.cumsum(chances) / chances.sum()
    lacking = np.where(alone, 0, counts)
    found = np.empty(0, dtype=np.int64)
    while lacking.sum() > ENOUGH * counts.sum():
        users = np.repeat(np.arange(len(counts)), lacking)
        items = np.minimum(np.searchsorted(cumulated, draw.random(len(users))), n_items - 1)
        found = np.unique(np.concatenate([found, users * n_items + items]))
        lacking = np.where(alone, 0, counts) - np.bincount(found // n_items, minlength=len(counts))
    together: NDArray[np.int64] = np.sort(np.concatenate([found, *whole]))
    return together


def generate(folder: Path, share: float) -> None:
    """Write the log: half stars that follow eight traits, times, and one to three genres an item."""
    draw = np.random.default_rng(25)
    chances = popularity(share)
    n_items = len(chances)
    counts = activity(draw, share, n_items)
    first = draw.choice(len(GENRES), n_items, p=(weights := 1.0 / np.arange(2, 2 + len(GENRES))) / weights.sum())
    liked = draw.integers(0, len(GENRES), len(counts))
    keys = []
    for genre in range(len(GENRES)):
        own = np.flatnonzero(liked == genre)
        key = taken(draw, np.where(first == genre, LIKING, 1.0) * chances, counts[own])
        keys.append(own[key // n_items] * n_items + key % n_items)
    users, items = np.divmod(np.sort(np.concatenate(keys)), n_items)
    of_users, of_items = (draw.normal(0, 0.45, (n, TRAITS)).astype(np.float32) for n in (len(counts), n_items))
    of_users[:, 0] += 1.0  # what everybody values: items differ in quality
    stars = 3.55 + draw.normal(0, 0.35, len(counts)).astype(np.float32)[users]
    for trait in range(TRAITS):
        stars += of_users[users, trait] * of_items[items, trait]
    stars += draw.normal(0, 0.7, len(stars)).astype(np.float32)
    start = draw.integers(800_000_000, 1_500_000_000, len(counts))
    pl.DataFrame(
        {
            "user": (users + 1).astype(np.int32),
            "item": (items + 1).astype(np.int32),
            "rating": np.clip(np.round(2 * stars) / 2, 0.5, 5.0).astype(np.float32),
            "time": start[users] + draw.integers(0, 30_000_000, len(users)),
        }
    ).write_parquet(folder / "ratings.parquet")
    further = draw.integers(0, len(GENRES), (n_items, 2))
    kinds = [sorted({int(first[i]), *map(int, further[i, : i % 3])}) for i in range(n_items)]
    genres = ["|".join(GENRES[kind] for kind in own) for own in kinds]
    pl.DataFrame({"item": np.arange(1, n_items + 1, dtype=np.int32), "genres": genres}).write_parquet(
        folder / "items.parquet"
    )


def write(folder: Path, models: list[str]) -> Path:
    """The configuration of these models."""
    tables = "".join(f'\n[[model]]\nkind = "{kind}"\n{MODELS[kind]}\n' for kind in models)
    path = folder / "audit.toml"
    path.write_text(CONFIG.replace("MODELS\n", f"{tables}\n"), encoding="utf-8")
    return path


def memory_of(process: int) -> int:
    """Bytes that a process holds."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def watched(config: Path, out: Path) -> tuple[float, dict[tuple[str, str], int]]:
    """Run `recaudit audit`: the seconds it took, and the most memory seen until each (model, audit) was finished."""
    start, most, peaks = time.perf_counter(), 0, dict[tuple[str, str], int]()
    command = [sys.executable, "-m", "recaudit", "audit", str(config), "--out", str(out), "--fresh"]
    manifest, began = out / "manifest.json", time.time()
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            most = max(most, memory_of(process.pid))
            if manifest.exists() and manifest.stat().st_mtime > began:
                for step in json.loads(manifest.read_text(encoding="utf-8"))["record"]["steps"]:
                    if (name := (step["model"], step["audit"])) not in peaks:
                        peaks[name], most = most, 0
            time.sleep(0.2)
    if process.returncode:
        sys.exit(process.returncode)
    return time.perf_counter() - start, peaks


def main() -> None:
    folder, share, *models = [*sys.argv[1:], "1"][: max(2, len(sys.argv) - 1)]
    place, out = Path(folder), Path(folder) / "run"
    console = Console()
    if not (place / "items.parquet").exists():
        place.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        generate(place, float(share))
        console.print(f"generated in {time.perf_counter() - start:.0f} s")
    seconds, peaks = watched(write(place, models or [*MODELS]), out)
    record = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["record"]
    data = record["data"]
    title = f"{data['users']:,} users, {data['items']:,} items, {data['ratings']:,} ratings"
    table = Table("model", "stage", "seconds", "GB held", title=title)
    for model in record["models"]:
        table.add_row(model["label"], "fit", f"{model['fit_seconds'] or 0:.1f}", "")
        for step in record["steps"]:
            if step["model"] == model["label"]:
                held = peaks.get((step["model"], step["audit"]), 0)
                table.add_row("", step["audit"], f"{step['seconds']:.1f}", f"{held / 1e9:.2f}" if held else "")
    console.print(table)
    console.print(f"all together {seconds:.0f} s, of which {record['seconds']:.0f} s from the first stage on")


if __name__ == "__main__":
    main()

"""What an engine costs: over a run, to start, and for each block; against Threads, in one process.

    python benchmarks/engines.py [SECONDS]     # of the run, by Threads; 60 by default, 300 in docs/guides/ray.md

The run is reachability of every item on MovieLens 1M, where RECAUDIT_DATA has it, else on a log of its size, for as
many users as take so long; several times, where all of them once are too few. Ray starts within its run, imports
included. CPU seconds are those of this process and all that it started: they say what was spent, whoever else is at
work on the machine.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.engines import Engine, Ray, Threads
from recaudit.errors import DataError, DownloadError

CORES = 2
BLOCKS = 400
PILOT = 160


def nothing(piece: int) -> int:
    return piece


def megabyte(piece: int) -> FloatArray:
    return np.full(2**17, float(piece))


def seconds(work: Callable[[], object]) -> float:
    since = time.perf_counter()
    work()
    return time.perf_counter() - since


def drained(answers: Iterator[object]) -> None:
    for _ in answers:
        pass


def cpu_seconds() -> float:
    """Of this process and of all that descend from it, the ended ones included."""
    times, parents = dict[int, float](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
        times[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, found = 0.0, [os.getpid()]
    while found:
        one = found.pop()
        total += times.get(one, 0.0)
        found += [pid for pid, parent in parents.items() if parent == one]
    return total


def cost(name: str, engine: Engine) -> None:
    """Seconds to start, for an empty block, and for one that answers with a megabyte."""
    start = seconds(lambda: drained(engine.map(nothing, range(CORES))))
    empty, large = (seconds(partial(drained, engine.map(work, range(BLOCKS)))) / BLOCKS for work in (nothing, megabyte))
    print(f"{name:<10} {start:9.2f} {empty * 1e3:16.2f} {large * 1e3:15.2f}", flush=True)


def log() -> ra.Interactions:
    try:
        return ra.datasets.load("ml-1m")
    except (DataError, DownloadError):
        return ra.data.synthetic.demo_world(users=6000, items=3700).data


def main(wanted: float) -> None:
    data = log()
    model = ra.models.ALS(factors=32).fit(data)

    def run(engine: Engine, users: int, times: int = 1) -> tuple[float, float]:
        def work() -> None:
            for rng in range(times):
                _ = ra.reachability(model, users=users, refits=0, engine=engine, rng=rng).frame

        spent = cpu_seconds()
        return seconds(work), cpu_seconds() - spent

    run(Threads(CORES), 2 * 16)  # compiles, or loads what was compiled
    count = PILOT * wanted / run(Threads(CORES), PILOT)[0]
    times = math.ceil(count / data.n_users)
    users = int(count / times)
    print(f"reachability of {data.n_items:,} items, {users:,} users, {times} times", flush=True)
    found = {}
    for name, engine in (("threads", Threads(CORES)), ("ray", Ray(workers=CORES))):
        found[name] = run(engine, users, times)
        print(f"{name:<10} {found[name][0]:9.1f} s {found[name][1]:9.1f} s of CPU", flush=True)
    wall, cpu = (after / before for before, after in zip(found["threads"], found["ray"], strict=True))
    print(f"ray, its start included: {wall:.3f} times the seconds of threads, {cpu:.3f} times the CPU seconds")
    print(f"{'engine':<10} {'start, s':>9} {'empty block, ms':>16} {'1 MB block, ms':>15}")
    cost("threads", Threads(CORES))
    cost("ray", Ray(workers=CORES))  # has started


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)

"""What an engine costs: to start, for each block, and over a run; against Threads, by turns in one process.

    python benchmarks/engines.py [SECONDS]     # of the run, by Threads; 60 where nothing is said

The run is cut to about a minute. What it would be over five minutes is the fixed cost and the cost of a block, which
are measured by themselves, over the seconds and blocks of five minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.audits.reachability.audit import USERS
from recaudit.engines import Engine, Processes, Ray, Threads

CORES = 2
BLOCKS = 400
FIVE_MINUTES = 300.0


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


def main(wanted: float) -> None:
    engines: dict[str, Engine] = {"threads": Threads(CORES), "processes": Processes(CORES), "ray": Ray(workers=CORES)}
    print(f"{'engine':<10} {'start, s':>9} {'empty block, ms':>16} {'1 MB block, ms':>15}")
    starts, blocks = dict[str, float](), dict[str, float]()
    for name, engine in engines.items():
        starts[name] = seconds(lambda engine=engine: drained(engine.map(nothing, range(CORES))))  # type: ignore[misc]
        again = starts[name] if name == "processes" else 0.0  # which start for every map
        cost = [
            (seconds(lambda work=work, engine=engine: drained(engine.map(work, range(BLOCKS)))) - again) / BLOCKS * 1e3  # type: ignore[misc]
            for work in (nothing, megabyte)
        ]
        blocks[name] = cost[0] / 1e3
        print(f"{name:<10} {starts[name]:9.2f} {cost[0]:16.2f} {cost[1]:15.2f}", flush=True)

    data = ra.data.synthetic.demo_world(users=6000, items=2000).data
    model = ra.models.ALS(factors=32).fit(data)

    def run(engine: Engine, users: int) -> float:
        return seconds(lambda: ra.reachability(model, users=users, targets=20, samples=20, engine=engine))

    run(engines["threads"], 64)  # compiles
    pilot = run(engines["threads"], 200)
    users = int(min(6000, max(400, 200 * wanted / 2 / pilot)))
    run(engines["ray"], 64)
    ratios = []
    for turn in range(2):
        took = {name: run(engines[name], users) for name in ("threads", "ray")}
        ratios.append(took["ray"] / took["threads"])
        print(f"reachability of {users:,} users, turn {turn + 1}: {took}: ray / threads {ratios[-1]:.3f}", flush=True)
    fixed, per_block = starts["ray"] - starts["threads"], blocks["ray"] - blocks["threads"]
    count = FIVE_MINUTES / took["threads"] * users / USERS
    extra = (fixed + count * per_block) / FIVE_MINUTES
    each = f"{per_block * 1e3:.2f} ms for each of {count:,.0f} blocks"
    print(f"over five minutes: {fixed:.1f} s once and {each}: {extra:.1%} more than threads")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)

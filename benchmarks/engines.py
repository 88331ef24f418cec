"""What an engine costs: to start, for each block, and over a run; against Threads, by turns in one process.

    python benchmarks/engines.py [SECONDS]     # of the run, by Threads; 60 where nothing is said

The run is cut to about a minute. What it would be over five minutes is the fixed cost and the cost of a block, which
are measured by themselves, over the seconds and blocks of five minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.audits.reachability.audit import USERS
from recaudit.engines import Engine, Ray, Threads

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


def cost(name: str, engine: Engine) -> tuple[float, float]:
    """Seconds to start, and for an empty block; printed, with those of a block that answers with a megabyte."""
    start = seconds(lambda: drained(engine.map(nothing, range(CORES))))
    empty, large = (seconds(partial(drained, engine.map(work, range(BLOCKS)))) / BLOCKS for work in (nothing, megabyte))
    print(f"{name:<10} {start:9.2f} {empty * 1e3:16.2f} {large * 1e3:15.2f}", flush=True)
    return start, empty


def main(wanted: float) -> None:
    threads, ray = Threads(CORES), Ray(workers=CORES)
    print(f"{'engine':<10} {'start, s':>9} {'empty block, ms':>16} {'1 MB block, ms':>15}")
    (start, block), (ray_start, ray_block) = cost("threads", threads), cost("ray", ray)
    data = ra.data.synthetic.demo_world(users=6000, items=2000).data
    model = ra.models.ALS(factors=32).fit(data)

    def run(engine: Engine, users: int) -> float:
        return seconds(lambda: ra.reachability(model, users=users, targets=20, samples=20, engine=engine))

    for engine in (threads, ray):
        run(engine, 64)  # compiles, or loads what was compiled
    users = int(min(6000, max(200, 100 * wanted / 2 / run(threads, 100))))
    for turn in range(2):
        took, ray_took = run(threads, users), run(ray, users)
        ratio = f"{took:.1f} s by threads, {ray_took:.1f} s by ray, {ray_took / took:.3f} times"
        print(f"reachability of {users:,} users, turn {turn + 1}: {ratio}", flush=True)
    count = FIVE_MINUTES / took * users / USERS
    fixed, each = ray_start - start, ray_block - block
    more = f"{fixed:.1f} s once and {each * 1e3:.2f} ms for each of {count:,.0f} blocks"
    print(f"over five minutes: {more}, {(fixed + count * each) / FIVE_MINUTES:.1%} more than threads", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)

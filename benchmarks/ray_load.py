"""How many cores one driver keeps busy: its tasks a second, measured, and a cluster of any size, simulated.

    python benchmarks/ray_load.py

Measured on this machine: blocks a second that the driver hands out and reads, empty ones and ones with a megabyte of
answer. Simulated, for cores that are not here: the driver hands out a block each 1/rate seconds, in order, with at most
`ahead` blocks a core under way, and reads answers in order; blocks take a gamma-distributed time, with half of its mean
as its standard deviation. Printed is which part of the cores' time is work.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.engines import Ray

BLOCKS = 1000
SPREAD = 0.5


def nothing(piece: int) -> int:
    return piece


def megabyte(piece: int) -> FloatArray:
    return np.full(2**17, float(piece))


def rate(work: Callable[[int], object], blocks: int) -> float:
    """Blocks a second."""
    engine = Ray(ahead=50)
    for _ in engine.map(work, range(20)):
        pass
    since = time.perf_counter()
    for _ in engine.map(work, range(blocks)):
        pass
    return blocks / (time.perf_counter() - since)


def busy(cores: int, ahead: int, seconds: float, per_second: float, blocks: int) -> float:
    """Which part of the cores' time is work, over so many blocks of so many seconds on average."""
    takes = np.random.default_rng(0).gamma(1 / SPREAD**2, seconds * SPREAD**2, blocks)
    free = [0.0] * cores  # when each core has nothing to do
    window = ahead * cores
    done = np.zeros(blocks)
    driver = read = 0.0
    for block, long in enumerate(takes):
        if block >= window:  # the answer that leaves the window must be there
            read = max(read, done[block - window])
        driver = max(driver, read) + 1 / per_second
        start = max(driver, heapq.heappop(free))
        done[block] = start + long
        heapq.heappush(free, done[block])
    return float(takes.sum() / (cores * done.max()))


def main() -> None:
    empty, large = rate(nothing, BLOCKS), rate(megabyte, BLOCKS // 4)
    print(f"measured: {empty:,.0f} empty blocks a second, {large:,.0f} with 1 MB of answer")
    print("simulated: work as a part of the cores' time, 50 blocks a core")
    print(f"{'answers':>8} {'block, s':>9} {'ahead':>6}" + "".join(f"{cores:>8,} cores" for cores in (16, 256, 4096)))
    for name, per_second in (("empty", empty), ("1 MB", large)):
        for seconds in (0.1, 1.0, 10.0):
            for ahead in (2, 8):
                shares = [busy(cores, ahead, seconds, per_second, 50 * cores) for cores in (16, 256, 4096)]
                print(f"{name:>8} {seconds:9.1f} {ahead:6}" + "".join(f"{share:14.0%}" for share in shares))


if __name__ == "__main__":
    main()

"""The folding metric over all pairs at MovieLens 10M's shape, beside the two matrix products that it needs at least.

    python benchmarks/folding_metric.py

Random vectors: 71,567 users x 10,681 items, 50 factors, relatedness of rank 30. Prints seconds; the ratio to the
products alone (numpy, in the same blocks and precision, results thrown away), both in processor seconds, so that it
holds on a busy machine too; the most memory taken; and how far a user's mean is from a plain one.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from recaudit.arithmetic import core_count
from recaudit.arrays import FloatArray
from recaudit.audits import Relatedness
from recaudit.audits.folding.metric import PIECE, STRIPE, Overshoot, overshoot
from recaudit.engines import Serial

USERS, ITEMS, FACTORS, RANK = 71_567, 10_681, 50, 30
ROUNDS = 3


def unit(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def best(work: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds of the quickest of a few rounds: the others waited for something else."""
    seconds = []
    for _ in range(ROUNDS):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        seconds.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(seconds)


def products(U: FloatArray, V: FloatArray, X: FloatArray, Y: FloatArray) -> None:
    pairs = [(U, V.T.copy()), (X, Y.T.copy())]
    for user in range(0, len(U), PIECE):
        for item in range(0, len(V), STRIPE):
            for rows, columns in pairs:
                left, right = rows[user : user + PIECE], columns[:, item : item + STRIPE]
                left @ right


def main() -> None:
    draw = np.random.default_rng(0)
    U, V = unit(draw.standard_normal((USERS, FACTORS))), unit(draw.standard_normal((ITEMS, FACTORS)))
    relatedness = Relatedness.from_factors(
        draw.standard_normal((USERS, RANK)) + 0.3, draw.standard_normal((ITEMS, RANK)) + 0.3
    )
    everybody = np.arange(USERS)
    overshoot(U, V, relatedness, everybody[:PIECE], Serial())  # compiled

    tracemalloc.start()
    found: Overshoot = overshoot(U, V, relatedness, everybody, Serial())
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    ours, processor = best(lambda: overshoot(U, V, relatedness, everybody, Serial()))
    with threadpool_limits(1):  # threads that wait for each other would count as work
        _, alone = best(lambda: products(U, V, relatedness.user_vectors, relatedness.item_vectors))

    some = everybody[::100]
    twin = np.maximum(0, U[some] @ V.T - np.clip(relatedness.user_vectors[some] @ relatedness.item_vectors.T, 0, 1))
    error = np.abs(found.user_sums[some] / ITEMS - twin.mean(axis=1)).max()

    table = Table("folding over all pairs", "", title=f"{USERS:,} x {ITEMS:,}, {FACTORS} factors, rank {RANK}")
    table.add_row(f"metric, s on {core_count()} cores", f"{ours:.2f}")
    table.add_row("metric, processor seconds", f"{processor:.2f}")
    table.add_row("two matrix products alone, processor seconds", f"{alone:.2f}")
    table.add_row("ratio", f"{processor / alone:.2f}")
    table.add_row("most memory on top of the vectors it is given, MiB", f"{memory:.0f}")
    table.add_row("a users x items matrix would take, MiB", f"{USERS * ITEMS * 8 / 2**20:,.0f}")
    table.add_row("folding", f"{found.user_sums.sum() / USERS / ITEMS:.6f}")
    table.add_row("largest error of a user's mean against double", f"{error:.1e}")
    Console().print(table)


if __name__ == "__main__":
    main()

"""One iteration of WALS beside implicit's ALS on MovieLens 1M: time as ratios, in one run.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/folding.py

Needs the `bench` extra. Ours solves every vector exactly and weighs every pair; implicit's does the same in its exact
mode, and takes three steps of conjugate gradients towards it in its default one. The three take turns, and the quickest
round of each counts; processor seconds hold on a busy machine too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from rich.console import Console
from rich.table import Table
from scipy import sparse
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit.data import Interactions, synthetic
from recaudit.models.wals import WALS

FACTORS = 64
ROUNDS = 4


def clock(work: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def iteration(fit: Callable[[int], object]) -> tuple[float, float]:
    """Of one iteration, both half-steps: what two iterations more take, halved; the start is not counted."""
    short, long = clock(lambda: fit(1)), clock(lambda: fit(3))
    return (long[0] - short[0]) / 2, (long[1] - short[1]) / 2


def implicit_fit(counts: Any, use_cg: bool) -> Callable[[int], object]:
    def fit(iterations: int) -> None:
        model = AlternatingLeastSquares(factors=FACTORS, iterations=iterations, use_cg=use_cg, dtype=np.float64)
        model.fit(counts, show_progress=False)

    return fit


def wals(data: Interactions) -> Mapping[str, tuple[float, float]]:
    """Wall-clock and processor seconds of one iteration, by who."""
    counts = sparse.csr_matrix(data.csr)
    contestants = {
        "recaudit WALS (exact)": lambda iterations: WALS(factors=FACTORS, iterations=iterations).fit(data),
        "implicit ALS, conjugate gradient": implicit_fit(counts, use_cg=True),
        "implicit ALS, exact": implicit_fit(counts, use_cg=False),
    }
    WALS(factors=FACTORS, iterations=1).fit(synthetic.demo())  # compiles
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    with threadpool_limits(1, "blas"):  # as implicit asks for: its own threads are enough
        for round_ in range(ROUNDS):
            for name, fit in contestants.items():
                if round_ == 0 or not name.endswith(", exact"):  # far behind: one round is enough
                    taken[name].append(iteration(fit))
    return {name: (min(wall for wall, _ in each), min(cpu for _, cpu in each)) for name, each in taken.items()}


def main() -> None:
    measured = wals(ra.datasets.load("ml-1m"))
    ours = next(iter(measured.values()))
    table = Table(f"one iteration at {FACTORS} factors", "s", "ours / theirs", "processor s", "ours / theirs")
    for name, (wall, cpu) in measured.items():
        table.add_row(name, f"{wall:.2f}", f"{ours[0] / wall:.2f}", f"{cpu:.2f}", f"{ours[1] / cpu:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()

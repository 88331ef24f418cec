"""One iteration of WALS beside implicit's ALS on MovieLens 1M: time as ratios, in one run.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/folding.py

Needs the `bench` extra. Ours solves every vector exactly and weighs every pair; implicit's does the same in its exact
mode, and takes three steps of conjugate gradients towards it in its default one. The three take turns, and the
quickest of a few rounds counts; processor seconds hold on a busy machine too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from rich.console import Console
from rich.table import Table
from scipy import sparse
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit.data import Interactions, synthetic
from recaudit.models.factor.wals import WALS

FACTORS = 64
ROUNDS = 6


def clock(work: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def implicit_fit(counts: Any, use_cg: bool) -> Callable[[int], object]:
    def fit(iterations: int) -> None:
        model = AlternatingLeastSquares(factors=FACTORS, iterations=iterations, use_cg=use_cg, dtype=np.float64)
        model.fit(counts, show_progress=False)

    return fit


def wals(data: Interactions) -> Mapping[str, tuple[float, float]]:
    """Wall-clock and processor seconds of one iteration, both half-steps, by who: two more, halved."""
    counts = sparse.csr_matrix(data.csr)
    contestants = {
        "recaudit WALS (exact)": lambda iterations: WALS(factors=FACTORS, iterations=iterations).fit(data),
        "implicit ALS, conjugate gradient": implicit_fit(counts, use_cg=True),
        "implicit ALS, exact": implicit_fit(counts, use_cg=False),
    }
    WALS(factors=FACTORS, iterations=1).fit(synthetic.demo())  # compiles
    one, three = ({name: np.full(2, np.inf) for name in contestants} for _ in range(2))
    with threadpool_limits(1, "blas"):  # as implicit asks for: its own threads are enough
        for round_ in range(ROUNDS):
            for name, fit in contestants.items():
                if round_ < 2 or not name.endswith(", exact"):  # far behind: two rounds are enough
                    one[name] = np.minimum(one[name], clock(partial(fit, 1)))
                    three[name] = np.minimum(three[name], clock(partial(fit, 3)))
    return {name: tuple((three[name] - one[name]) / 2) for name in contestants}


def main() -> None:
    measured = wals(ra.datasets.load("ml-1m"))
    ours = next(iter(measured.values()))
    table = Table(f"one iteration at {FACTORS} factors", "s", "ours / theirs", "processor s", "ours / theirs")
    for name, (wall, cpu) in measured.items():
        table.add_row(name, f"{wall:.2f}", f"{ours[0] / wall:.2f}", f"{cpu:.2f}", f"{ours[1] / cpu:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()

"""Batches side by side on the cores of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from recaudit.arithmetic import core_count, one_thread
from recaudit.solvers.batches import Batch


def run_on_cores(work: Callable[[Batch], None], batches: Iterable[Batch], cores: int | None = None) -> None:
    """Call `work` for every batch, side by side on the cores (all there are), each call with torch on one thread.

    Splitting one batch's matrix products over the cores would cost more in waiting for each other than it wins.
    Which core does what has no influence on the answers.
    """

    def alone(batch: Batch) -> None:
        with one_thread():
            work(batch)

    with ThreadPoolExecutor(cores or core_count()) as pool:
        for _ in pool.map(alone, batches):
            pass

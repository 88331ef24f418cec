"""Batches side by side on the cores of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

from recaudit.solvers.batches import Batch


def run_on_cores(work: Callable[[Batch], None], batches: Iterable[Batch], cores: int) -> None:
    """Call `work` for every batch, each call in a thread whose torch operations stay on one core.

    Splitting one batch's matrix products over the cores would cost more in waiting for each other than it wins.
    Which core does what has no influence on the answers.
    """
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, batches):
                pass
    finally:
        # The initialiser sets it for its own thread, and as the default of threads that start later.
        torch.set_num_threads(before)

"""One piece of work, the same bits in any engine, and on no more cores than are its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numba
import torch

from recaudit.arithmetic import one_thread
from recaudit.engines.base import Answer, Piece


def steadily(function: Callable[[Piece], Answer], piece: Piece) -> Answer:
    """The answer of a piece, with one thread in matrix products: theirs is another order of sums for each number."""
    with one_thread(), _plain_products():
        return function(piece)


def own_cores(count: int) -> None:
    """Let kernels that this thread begins use so many cores at most, whatever the machine has."""
    there = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # set when numba is imported
    numba.set_num_threads(max(1, min(count, there)))


def own_process(count: int) -> None:
    """The same for a process that works for an engine and nobody else."""
    torch.set_num_threads(max(1, count))
    own_cores(count)


_entering = threading.Lock()
_inside = 0
_limit = ExitStack()


@contextmanager
def _plain_products() -> Iterator[None]:
    """Numpy's and scipy's matrix library on one thread: of the whole process, until the last piece in it is done."""
    global _inside  # noqa: PLW0603  what it sets is the process's too
    with _entering:
        _inside += 1
        if _inside == 1:
            _limit.enter_context(_libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _entering:
            _inside -= 1
            if not _inside:
                _limit.close()


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401, PLC0415  has a matrix library of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  reads which libraries are loaded

    return ThreadpoolController()

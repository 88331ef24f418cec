"""Engines on one machine."""

from __future__ import annotations

import signal
from abc import ABC
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from recaudit.arguments import check_argument, check_count
from recaudit.arithmetic import core_count
from recaudit.engines.base import Answer, Engine, Piece
from recaudit.engines.progress import track
from recaudit.engines.steady import one_blas_thread, own_cores, steadily
from recaudit.engines.workers import WorkerPool


@final
@dataclass(frozen=True)
class Serial(Engine):
    """One piece after the other, in this thread. The default: kernels and solvers use the cores within a piece."""

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order."""
        with one_blas_thread():
            yield from track(map(partial(steadily, function), pieces), label, len(pieces))


@dataclass(frozen=True)
class _Workers(Engine, ABC):
    workers: int = 2
    """How many pieces are worked on at a time."""
    ahead: int = 2
    """How many pieces for each worker may be under way; their answers wait in memory for the slowest before them."""

    def __post_init__(self) -> None:
        for name in ("workers", "ahead"):
            check_argument(name, getattr(self, name), int)
            check_count(name, getattr(self, name))

    @property
    def _share(self) -> int:
        """How many cores are a worker's own."""
        return max(1, core_count() // self.workers)


@final
@dataclass(frozen=True)
class Threads(_Workers):
    """Several pieces at a time, in threads: for work that spends its time in numpy or numba."""

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order."""
        pool = ThreadPoolExecutor(self.workers, "recaudit", initializer=own_cores, initargs=(self._share,))
        try:
            with one_blas_thread():
                steady = partial(steadily, function)
                yield from track(_windowed(pool, steady, pieces, self.ahead * self.workers), label, len(pieces))
        finally:
            pool.shutdown(cancel_futures=True)  # nobody waits for pieces that are not begun


@final
@dataclass(frozen=True)
class Processes(_Workers):
    """Several pieces at a time, in fresh processes: for work that holds Python's lock.

    The processes end when this one ends, however it ends. When one of them is killed, the others end too, and the map
    raises a `MachineError`.
    """

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order; the function travels to each worker once."""
        workers = min(self.workers, len(pieces))
        if not workers:
            yield from track(iter(()), label, 0)
            return
        with block_sigint():
            pool = WorkerPool(function, workers, self._share)
        with one_blas_thread(), pool:
            answers = _windowed(pool.threads, pool.compute, pieces, self.ahead * workers)
            yield from track(answers, label, len(pieces))


def _windowed(pool: Executor, function: Callable[[Any], Any], pieces: Sequence[Any], window: int) -> Iterator[Any]:
    """Ordered answers with a bounded number of pieces under way, so that answers do not pile up in memory."""
    under_way: deque[Future[Any]] = deque()
    for piece in pieces:
        if len(under_way) == window:
            yield under_way.popleft().result()
        under_way.append(pool.submit(function, piece))
    while under_way:
        yield under_way.popleft().result()


@contextmanager
def block_sigint() -> Iterator[None]:
    """What is started inside never hears Ctrl-C; here it waits until the block ends: who stops a run stops its workers.

    Where signals cannot be held back (Windows) workers hear it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)

"""Engines on one machine."""

from __future__ import annotations

import multiprocessing
import signal
from abc import ABC
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from recaudit.arguments import check_argument, check_count
from recaudit.arithmetic import core_count
from recaudit.engines.base import Answer, Engine, Piece
from recaudit.engines.progress import track
from recaudit.engines.steady import own_cores, own_process, steadily


@final
@dataclass(frozen=True)
class Serial(Engine):
    """One piece after the other, in this thread. The default: kernels and solvers use the cores within a piece."""

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order."""
        return track(map(partial(steadily, function), pieces), label, len(pieces))


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
    """Several pieces at a time, in threads: for work that spends its time in torch, numpy or numba."""

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order."""
        with ThreadPoolExecutor(self.workers, initializer=own_cores, initargs=(self._share,)) as pool:
            steady = partial(steadily, function)
            yield from track(_windowed(pool, steady, pieces, self.ahead * self.workers), label, len(pieces))


@final
@dataclass(frozen=True)
class Processes(_Workers):
    """Several pieces at a time, in fresh processes: for work that holds Python's lock."""

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order; the function travels to each worker once."""
        workers = min(self.workers, len(pieces))
        if not workers:
            yield from track(iter(()), label, 0)
            return
        pool = ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), _start_worker, (function, self._share)
        )
        try:
            with block_sigint():
                for _ in range(workers):
                    pool.submit(_start)
            yield from track(_windowed(pool, _run_in_worker, pieces, self.ahead * self.workers), label, len(pieces))
        except BaseException:
            # Nobody waits for their answers any more. (Python 3.14 has a public name for this.)
            for worker in list(pool._processes.values()):
                worker.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


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


def _start() -> None:
    """Work that only makes a worker start."""


_work: Callable[[Any], Any] | None = None


def _start_worker(function: Callable[[Any], Any], cores: int) -> None:
    own_process(cores)
    global _work  # noqa: PLW0603  one function a worker process, sent once
    _work = function


def _run_in_worker(piece: object) -> object:
    assert _work is not None
    return steadily(_work, piece)

"""One piece of work, the same bits in any engine, and on no more cores than are its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba

from recaudit.arithmetic import one_thread
from recaudit.engines.base import Answer, Piece


def steadily(function: Callable[[Piece], Answer], piece: Piece) -> Answer:
    """The answer of a piece, with one thread in matrix products: theirs is another order of sums for each number.

    The second limit is that of libraries which count threads for each thread that calls them (OpenMP, MKL).
    """
    with one_thread(), one_blas_thread(), _blas_libraries().limit(limits=1):
        return function(piece)


def own_cores(count: int) -> None:
    """Let kernels that this thread begins use so many cores at most, whatever the machine has."""
    there = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # set when numba is imported
    numba.set_num_threads(max(1, min(count, there)))


def own_process(count: int) -> None:
    """The same for a process that works for an engine and nobody else."""
    own_cores(count)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS libraries of this process to one thread, until the last such block is left in any thread.

    An engine holds this limit for a whole map: code that consumes its answers then computes with one thread too, in
    every engine, whichever pieces are still being computed.
    """
    _blas_limit.acquire()
    try:
        yield
    finally:
        _blas_limit.release()


class _BlasLimit:
    """A limit on BLAS threads that several threads hold together.

    `threadpoolctl` ties a limit of a library that has one pool for the process to the thread that sets it: any other
    thread that lifts it changes nothing, as long as the first one lives. So each limit has a thread of its own, which
    sets and lifts it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without a limit that is held."""
        self._lock = threading.Lock()
        self._holders = 0
        self._lift = threading.Event()
        self._keeper: threading.Thread | None = None

    def acquire(self) -> None:
        """Set the limit, if nobody holds it yet."""
        with self._lock:
            if self._holders == 0:
                limited, self._lift = threading.Event(), threading.Event()
                self._keeper = threading.Thread(target=self._keep, args=(limited, self._lift), daemon=True)
                try:
                    self._keeper.start()
                    limited.wait()
                except BaseException:  # Ctrl-C: nobody would lift the limit
                    self._lift.set()
                    raise
            self._holders += 1

    def release(self) -> None:
        """Lift the limit, if nobody else holds it."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._keeper is not None:
                self._lift.set()
                self._keeper.join()
                self._keeper = None

    @staticmethod
    def _keep(limited: threading.Event, lift: threading.Event) -> None:
        try:
            with _blas_libraries().limit(limits=1):
                limited.set()
                lift.wait()
        finally:
            limited.set()


_blas_limit = _BlasLimit()

if hasattr(os, "register_at_fork"):
    # The thread that holds the limit does not exist in the new process, and nobody there could lift it.
    os.register_at_fork(after_in_child=_blas_limit.forget)


@cache
def _blas_libraries() -> Any:
    import scipy.linalg  # noqa: F401, PLC0415  has a matrix library of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  reads which libraries are loaded

    return ThreadpoolController().select(user_api="blas")

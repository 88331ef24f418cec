"""Loops over all cores that may be begun from several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_turn = threading.Lock()


def parallel_njit(**options: Any) -> Callable[[Kernel], Kernel]:
    """`numba.njit(parallel=True, nogil=True, cache=True, ...)` for a kernel that Python calls, from whichever thread.

    Where numba finds neither TBB nor OpenMP its threads bear one kernel at a time, and a second ends the process:
    there kernels take turns. Compiled code must not call such a kernel. Other threads of Python go on meanwhile: they
    print progress, and see Ctrl-C.
    """

    def compiled(function: Kernel) -> Kernel:
        kernel: Kernel = numba.njit(parallel=True, nogil=True, cache=True, **options)(function)

        @wraps(function)
        def called(*arguments: Any) -> Any:
            if _bear_many():
                return kernel(*arguments)
            with _turn:
                return kernel(*arguments)

        return called  # type: ignore[return-value]  # it takes what the kernel takes

    return compiled


def _bear_many() -> bool:
    """Whether numba's threads are known to take several kernels at once; the first kernel makes them known."""
    try:
        return bool(numba.threading_layer() != "workqueue")  # type: ignore[attr-defined]  # it is public, but not listed
    except ValueError:
        return False

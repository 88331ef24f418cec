"""What a C library prints to standard output, left out; what Python prints is printed.

HiGHS has a line that no option of it switches off (`HighsMipSolverData::transformNewIntegerFeasibleSolution`): it would
stand amid the JSON of a command. Python writes to the file descriptor itself and not through C's `stdout`, so that it
is enough to let that point elsewhere, for all threads as long as one of them needs it. GNU's C library alone allows
`stdout` to be assigned; with others the line is printed.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

_lock, _inside = Lock(), 0


@contextmanager
def without_c_output() -> Iterator[None]:
    """What C prints meanwhile is dropped."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    """The first thread to come lets `stdout` point elsewhere, the last to leave puts it back."""
    global _inside  # it belongs to the process, as `stdout` does
    with _lock:
        before, _inside = _inside, _inside + change
        if (before == 0 or _inside == 0) and (ends := _ends()) is not None:
            stdout, printed, dropped = ends
            stdout.value = printed if _inside == 0 else dropped


@cache
def _ends() -> tuple[ctypes.c_void_p, int | None, int] | None:
    """C's `stdout`, what it points to, and a file that drops everything; None where it cannot be assigned."""
    if platform.libc_ver()[0] != "glibc":
        return None
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    dropped = libc.fopen(os.devnull.encode(), b"w")
    stdout = ctypes.c_void_p.in_dll(libc, "stdout")
    return None if dropped is None else (stdout, stdout.value, dropped)

"""One process at a time in a folder."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recaudit.errors import InputError

NAME = ".lock"

_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""How systems say that somebody else holds a lock; any other trouble is not somebody else."""

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        # Locks are mandatory there: one byte far behind the pid keeps the pid readable.
        os.lseek(handle, 1 << 20, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, or say which process does.

    The system lets go of it when the process ends: a lock file that a killed run left is taken over.
    """
    path = folder / NAME
    handle = _taken(path)
    try:
        os.truncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        # Away while still held, so that nobody takes a file that is about to vanish. Where an open file
        # cannot be removed it stays, and holds nothing.
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _taken(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(handle)
        except OSError as error:
            os.close(handle)
            if error.errno in _HELD:
                raise _busy(path) from None
            raise
        # Whoever held it may have removed the file between the opening and the locking: then try the new one.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def _busy(path: Path) -> InputError:
    pid = ""
    with suppress(OSError):
        pid = path.read_text(encoding="utf-8").strip()
    holder = f"process {pid}" if pid else "another process"
    return InputError(
        "out",
        received=f"{path.parent}, where {holder} is at work",
        expected="a folder that no other run is writing to",
        remedy="Wait for that run to end, stop it, or choose another folder.",
    )

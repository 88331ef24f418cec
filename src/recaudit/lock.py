"""One process at a time in a folder."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recaudit.errors import DamagedError, InputError

NAME = ".lock"

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CONTENT = re.compile(rb"(\d{0,10})\n?")
"""What a lock file holds: the number of the process that wrote it, or nothing yet."""

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

    The system lets go of it when the process ends: a lock file that a killed run left is taken over. A folder may
    come from a stranger: a link, a special file or a file that holds anything but a process number is left as it is.
    """
    path = folder / NAME
    handle = _taken(path)
    try:
        os.truncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
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
        handle = _opened(path)
        try:
            _check_own(path, handle)
            _take(handle)
        except OSError as error:
            held = _busy(path, handle) if error.errno in _HELD else error
            os.close(handle)
            raise held from None
        except BaseException:
            os.close(handle)
            raise
        # Whoever held it may have removed the file between the opening and the locking: then try the new one.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.lstat()):
                return handle
        os.close(handle)


def _opened(path: Path) -> int:
    """Open the lock file, or create it; never another file to which it leads."""
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise _not_own(path)
            return os.open(path, _FLAGS)
        # No link is followed here either, not even one that leads nowhere: it counts as a file that exists.
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:  # created since, by another process
        return _opened(path)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _not_own(path) from None
        raise


def _check_own(path: Path, handle: int) -> None:
    """Check that recaudit wrote the file: it is regular, has no other name, and holds a number or nothing."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or _CONTENT.fullmatch(_content(handle)) is None:
        raise _not_own(path)


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 64)


def _not_own(path: Path) -> DamagedError:
    return DamagedError(
        "path",
        received=f"{path}, which is a link, or is not the lock of a run",
        expected="a lock file as recaudit writes it, or none",
        remedy="Look where it leads and remove it. Do not trust the folder if it is not yours: recaudit never makes "
        "such a file.",
    )


def _busy(path: Path, handle: int) -> InputError:
    own = _CONTENT.fullmatch(_content(handle))
    pid = own[1].decode() if own else ""
    holder = f"process {pid}" if pid else "another process"
    return InputError(
        "out",
        received=f"{path.parent}, where {holder} is at work",
        expected="a folder that no other run is writing to",
        remedy="Wait for that run to end, stop it, or choose another folder.",
    )

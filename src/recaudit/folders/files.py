"""Open files of a run folder safely: regular files inside the folder, reached through no link.

A run folder may come from a stranger. A symbolic link in it could lead to any file of the reader, and a pipe, a socket
or a device could block the reader or do something when it is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, final

from recaudit.errors import DamagedError

Irregular = Literal["link", "special"]
"""What may be in the place of a regular file or a folder: a symbolic link, or a pipe, a socket, a device or (in the
place of a file) a folder."""

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Error numbers for a path at which there is nothing."""
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_HAS_DIR_FD = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd and bool(_NOFOLLOW and _DIRECTORY)


@final
@dataclass(frozen=True)
class StoredFile:
    """A file of a run, and the folder from which no link is followed on the way to it."""

    path: Path
    root: Path


def open_regular(path: Path, root: Path) -> BinaryIO:
    """Open a regular file inside the folder `root` for reading.

    Below `root` no part of the path may be a symbolic link. `root` itself is named by the caller and may be one.

    Args:
        path: The file. It begins with `root`.
        root: The folder that the caller named.

    Raises:
        FileNotFoundError: The file does not exist.
        DamagedError: The file, or a folder on the way to it, is a symbolic link, a pipe, a socket or a device, or the
            path leads out of `root`.
    """
    return os.fdopen(_opened(path, root), "rb")


def read_regular(path: Path, root: Path, limit: int | None = None) -> bytes:
    """Read a regular file inside the folder `root`; raises what `open_regular` raises, and a DamagedError if the file
    is longer than `limit` bytes.
    """
    with open_regular(path, root) as file:
        content = file.read() if limit is None else file.read(limit + 1)
    if limit is not None and len(content) > limit:
        raise DamagedError(
            "path",
            received=f"{path}, which is longer than {limit // 2**20} MiB",
            expected=f"a file of at most {limit // 2**20} MiB, as recaudit writes it",
            remedy="Do not trust this folder if it is not yours.",
        )
    return content


def open_input(path: Path) -> BinaryIO:
    """Open a regular file outside of run folders for reading, also through links; never a pipe or a device.

    Raises:
        FileNotFoundError: The file does not exist.
        DamagedError: It is not a regular file.
    """
    _check_regular(path, path.stat())
    handle = os.open(path, _FLAGS)
    try:
        _check_regular(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def irregularity(path: Path, root: Path) -> Irregular | None:
    """Return what is at the path, or on the way to it, instead of a regular file and folders.

    Returns:
        "link" or "special"; None if the file is regular, or does not exist.
    """
    parts = _parts(path, root)
    for length in range(1, len(parts) + 1):
        try:
            mode = root.joinpath(*parts[:length]).lstat().st_mode
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        if stat.S_ISLNK(mode):
            return "link"
        if length == len(parts) and not stat.S_ISREG(mode):
            return "special"
        if length < len(parts) and not stat.S_ISDIR(mode):
            return None if stat.S_ISREG(mode) else "special"
    return None


def _opened(path: Path, root: Path) -> int:
    parts = _parts(path, root)
    found = irregularity(path, root)
    if found is not None:
        raise not_regular(path, found)
    try:
        handle = _descend(root, parts) if _HAS_DIR_FD else os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # a link that appeared since
            raise not_regular(path, "link") from None
        if error.errno in _ABSENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        raise
    try:
        _check_regular(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _descend(root: Path, parts: tuple[str, ...]) -> int:
    """Open each folder from the one above it: a link is not followed even if it appears meanwhile."""
    folder = os.open(root, os.O_RDONLY | _DIRECTORY | getattr(os, "O_CLOEXEC", 0))
    try:
        for part in parts[:-1]:
            inside = os.open(part, os.O_RDONLY | _DIRECTORY | _NOFOLLOW | getattr(os, "O_CLOEXEC", 0), dir_fd=folder)
            os.close(folder)
            folder = inside
        return os.open(parts[-1], _FLAGS | _NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


def _parts(path: Path, root: Path) -> tuple[str, ...]:
    """The names from `root` to the file."""
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        parts = ()
    if not parts or ".." in parts:
        raise DamagedError(
            "path",
            received=f"{path}, which is not inside {root}",
            expected="a file inside the run folder",
            remedy="Do not trust this folder: no run of recaudit names such a file.",
        )
    return parts


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise not_regular(path, "special")


def not_regular(path: Path, found: Irregular) -> DamagedError:
    """Return the error about a file that is not opened."""
    what = "a symbolic link, or in a folder that is one" if found == "link" else "not a regular file"
    return DamagedError(
        "path",
        received=f"{path}, which is {what}",
        expected="a regular file: no links, pipes, sockets or devices are read",
        remedy="Do not trust this folder if it is not yours: recaudit writes regular files only. "
        "'recaudit verify' lists all such files. Replace links in your own folder by copies.",
    )

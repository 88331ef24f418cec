"""Files that are whole or not there: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".recaudit-"
"""How the names of unfinished files begin; whatever a killed run left behind under it may be swept away."""


def write(path: Path, content: bytes) -> None:
    """Put a file in place in one step; a reader sees the old one or the new one, whole."""
    with file(path) as aside:
        aside.write_bytes(content)


@contextmanager
def file(path: Path) -> Iterator[Path]:
    """Where to write a file, which takes the place of `path` in one step when the block ends well."""
    _sweep_dead(path.parent)
    aside = path.with_name(_fresh_name())
    try:
        yield aside
        with aside.open("rb+") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """A folder for work in progress in `parent`, gone when the block ends; one that a kill left goes with the next."""
    _sweep_dead(parent)
    aside = parent / _fresh_name()
    aside.mkdir()
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def discard(path: Path) -> None:
    """Remove a file or a folder; a folder leaves its name first, so that no half of it is ever seen."""
    if path.is_dir() and not path.is_symlink():
        aside = path.with_name(_fresh_name())
        path.rename(aside)
        shutil.rmtree(aside)
    else:
        path.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what a killed run left unfinished in a folder that nobody else writes to."""
    for left in path.glob(f"{PREFIX}*"):
        _remove(left)


@functools.lru_cache(maxsize=1024)
def _sweep_dead(path: Path) -> None:
    """The same, once a process, in a folder that others may write to: only what dead processes of this machine left."""
    for left in path.glob(f"{PREFIX}{_machine()}-*"):
        pid = re.fullmatch(r"(\d{1,9})-[0-9a-f]+", left.name.removeprefix(f"{PREFIX}{_machine()}-"))
        if pid and not _is_alive(int(pid[1])):
            _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere the question cannot be asked without harm
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush_folder(path: Path) -> None:
    """Make a rename last through a power cut, where the system lets a folder be flushed."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@functools.cache
def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _fresh_name() -> str:
    """Says whose it is: on a disk that machines share, a process number alone would not."""
    return f"{PREFIX}{_machine()}-{os.getpid()}-{secrets.token_hex(8)}"

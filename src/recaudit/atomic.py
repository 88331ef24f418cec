"""Files and folders that are whole or not there: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".recaudit-"
"""How the names of unfinished files begin; whatever a killed run left behind under it may be swept away."""


def write(path: Path, content: bytes) -> None:
    """Put a file in place in one step; a reader sees the old one or the new one, whole."""
    aside = _aside(path)
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `path` in one step when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(path)
    aside.mkdir()
    try:
        yield aside
        for file in aside.iterdir():
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        _flush_folder(aside)
        discard(path)
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    _flush_folder(path.parent)


def discard(path: Path) -> None:
    """Remove a file or a folder; a folder leaves its name first, so that no half of it is ever seen."""
    if path.is_dir() and not path.is_symlink():
        aside = _aside(path)
        path.rename(aside)
        shutil.rmtree(aside)
    else:
        path.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what a killed run left unfinished in a folder."""
    for left in path.glob(f"{PREFIX}*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)


def _flush_folder(path: Path) -> None:
    """Make a rename last through a power cut, where the system lets a folder be flushed."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _aside(path: Path) -> Path:
    """A fresh name beside `path`, on the same disk, so that a rename is one step."""
    return path.with_name(f"{PREFIX}{secrets.token_hex(8)}")

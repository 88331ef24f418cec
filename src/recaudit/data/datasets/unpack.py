"""The wanted files of an archive, in a folder that appears with all of them or not at all."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from recaudit.errors import DownloadError

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError)


def unpack(archive: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Put `files`, by their names, and the owner's README from a .zip or .tar.gz into `folder`.

    An archive with a member that points outside of it is refused. Checksums inside the archive are checked.
    """
    wanted = {name.lower() for name in (*files, "README", "README.txt")}
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        staged = Path(temporary, folder.name)
        staged.mkdir()
        try:
            for name, member in _members(archive):
                _check_inside(archive, name)
                base = PurePosixPath(name).name
                if member is not None and base.lower() in wanted and not (staged / base).exists():
                    with (staged / base).open("wb") as file:
                        shutil.copyfileobj(member, file)
        except _DAMAGED as error:
            raise DownloadError(f"{archive} is damaged: {error}. Delete it to start over.") from None
        missing = [name for name in files if not (staged / name).is_file()]
        if missing:
            raise DownloadError(f"{archive} lacks {', '.join(missing)}. Delete it to start over.")
        _move(staged, folder)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """The name of each member, and its contents if it is a plain file."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if entry.is_dir():
                    yield entry.filename, None
                else:
                    with zipped.open(entry) as contents:
                        yield entry.filename, contents
    else:
        with tarfile.open(archive, "r:*") as tarred:
            for member in tarred:
                yield member.name, tarred.extractfile(member) if member.isfile() else None


def _check_inside(archive: Path, name: str) -> None:
    windows = PureWindowsPath(name)
    if PurePosixPath(name).is_absolute() or windows.drive or windows.root or ".." in windows.parts:
        raise DownloadError(
            f"{archive} is refused: its member {name!r} points outside of the archive, as no data set's does."
        )


def _move(staged: Path, folder: Path) -> None:
    if not folder.exists():
        staged.rename(folder)
        return
    # Someone's own folder, with some of the files: each is replaced whole.
    for file in staged.iterdir():
        file.replace(folder / file.name)

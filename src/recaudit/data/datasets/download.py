"""Archives from the owners' sites: resumed where they broke off, verified, unpacked, in place only when complete."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import math
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from recaudit.engines.progress import track
from recaudit.errors import DownloadError

_CHUNK = 1 << 20
_TIMEOUT = 30.0
_RANGE_NOT_SATISFIABLE = 416


def download(url: str, target: Path, digest: str | None = None, *, label: str = "") -> None:
    """Put the file at `url` into `target`, which appears only when it is complete and verified.

    Until then the bytes are in `target`.part, where the next call goes on. `digest` is `md5:...` or
    `sha256:...`; without one, the owner's `url`.md5 says what to expect. Progress is reported in megabytes.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        expected = digest or _published_digest(f"{url}.md5")
        _complete(url, part, label)
        _verify(url, part, expected)
        part.replace(target)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{error.url} answered {error.code} {error.reason}.") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"{url}: {str(reason) or type(error).__name__}.{_kept(part)}") from None


def _complete(url: str, part: Path, label: str) -> None:
    """Fetch what `part` lacks."""
    start = part.stat().st_size if part.exists() else 0
    try:
        response = _open(url, start)
    except urllib.error.HTTPError as error:
        if error.code != _RANGE_NOT_SATISFIABLE or not start:
            raise
        error.close()
        # Nothing comes after `start`: all is there, which the digest will tell, or the file is another.
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return
        part.unlink()
        response = _open(url, start := 0)
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            start = 0
        remaining = int(response.headers.get("Content-Length", 0))
        with part.open("ab" if start else "wb") as file:
            # What is already there counts as done.
            done = start // _CHUNK
            chunks = chain(repeat(b"", done), iter(partial(response.read, _CHUNK), b""))
            for chunk in track(chunks, label, done + max(1, math.ceil(remaining / _CHUNK))):
                file.write(chunk)
    received, total = part.stat().st_size, start + remaining
    if received < total:
        raise DownloadError(f"{url} broke off after {received:,} of {total:,} bytes.{_kept(part)}")


def _open(url: str, start: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": "recaudit", **({"Range": f"bytes={start}-"} if start else {})}
    response: http.client.HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(url, headers=headers), timeout=_TIMEOUT
    )
    return response


def _published_digest(url: str) -> str:
    with _open(url, 0) as response:
        text = response.read(_CHUNK).decode("ascii", errors="replace")
    found = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    if found is None:
        raise DownloadError(f"{url} holds no MD5 checksum, so the archive beside it cannot be verified.")
    return f"md5:{found.group().lower()}"


def _verify(url: str, part: Path, expected: str) -> None:
    """Check the digest; a file that fails is removed, so that the next try starts over."""
    algorithm, _, value = expected.partition(":")
    with part.open("rb") as file:
        received = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    if received != value:
        size = part.stat().st_size
        part.unlink()
        raise DownloadError(
            f"{url} is not the file it should be: expected {algorithm} {value}, received {received} "
            f"({size:,} bytes). What was received is removed, and the next try starts over."
        )


def _kept(part: Path) -> str:
    size = part.stat().st_size if part.exists() else 0
    return f" {size / 1e6:,.1f} MB are kept: the next try goes on from there." if size else ""


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

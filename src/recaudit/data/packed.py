"""What stands between a file and its lines: gzip, zip, other encodings, separators of several characters."""

from __future__ import annotations

import codecs
import gzip
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, final

import numpy as np

from recaudit.errors import DataError
from recaudit.machine import machine_error

_PIECE = 1 << 24
"""Bytes that are held at a time."""
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_UNLIKELY = ("\x1f", "\x1e", "\x1d", "\x1c", "\x02", "\x01")
"""Characters that stand for a separator of several, as long as the file holds none of them."""


@final
@dataclass(frozen=True)
class Plain:
    """A file that is ready to be read: UTF-8, unpacked, one character between two columns."""

    path: Path
    separator: str
    lines: int
    """Those that are not empty."""
    blank: int
    """Those that are."""
    has_quotes: bool


@contextmanager
def plain_file(path: Path, encoding: str, separator: str, member: str | None = None) -> Iterator[Plain]:
    """The file as it is, where it is plain, or else a plain copy that is gone afterwards; in bounded memory."""
    with tempfile.TemporaryDirectory(prefix="recaudit-") as folder:
        with _unpacking(path):
            plain = _plain(path, encoding, separator, member, Path(folder) / "plain.txt")
        yield plain


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    """What is wrong with the packing of a file, told of the file; what the machine lacks is told as such."""
    try:
        yield
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        if machine_error(error) is not None:
            raise
        raise DataError(
            "path",
            received=f"{path}, which cannot be read: {error}",
            expected="a whole file: text, .gz or .zip",
            remedy="Check that it is whole, and not cut off on its way here.",
        ) from None


def _plain(path: Path, encoding: str, separator: str, member: str | None, copy: Path) -> Plain:
    with path.open("rb") as file:
        magic = file.read(4)
    packed = magic[:2] == _GZIP or magic == _ZIP
    if not packed and len(separator) == 1 and codecs.lookup(encoding).name in ("utf-8", "ascii"):
        return _counted(path, separator)
    for stand_in in _UNLIKELY if len(separator) > 1 else (separator,):
        with opened(path, member) as source, copy.open("wb") as out:
            if _copied(source, out, encoding, separator, stand_in):
                return _counted(copy, stand_in)
    raise DataError(
        "path",
        received=f"{path}, which holds every control character that could stand for {separator!r}",
        expected="a text file",
    )


def _copied(source: IO[bytes], out: IO[bytes], encoding: str, separator: str, stand_in: str) -> bool:
    """Write the source as UTF-8 with the stand-in for the separator; False where it has stand-ins already.

    Bytes that are no text in the encoding are written as they are, for the reader to find the line.
    """
    decoder = codecs.getincrementaldecoder(encoding)(errors="surrogateescape" if _bytewise(encoding) else "replace")
    rest = ""
    while piece := source.read(_PIECE):
        text = rest + decoder.decode(piece)
        end = text.rfind("\n") + 1
        text, rest = text[:end], text[end:]
        if not _written(text, out, separator, stand_in):
            return False
    return _written(rest + decoder.decode(b"", final=True), out, separator, stand_in)


def _written(text: str, out: IO[bytes], separator: str, stand_in: str) -> bool:
    if separator != stand_in:
        if stand_in in text:
            return False
        text = text.replace(separator, stand_in)
    out.write(text.encode("utf-8", errors="surrogateescape"))
    return True


def _bytewise(encoding: str) -> bool:
    return codecs.lookup(encoding).name not in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")


def _counted(path: Path, separator: str) -> Plain:
    counts, quotes, before = np.zeros(2, dtype=np.int64), False, b"\n"
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            quotes = quotes or b'"' in piece
            read = np.frombuffer(before + piece.replace(b"\r", b""), dtype=np.uint8) == ord("\n")
            counts += (read[1:] & ~read[:-1]).sum(), (read[1:] & read[:-1]).sum()
            before = piece.replace(b"\r", b"")[-1:] or before
    filled, blank = counts.tolist()
    return Plain(path, separator, filled + (before != b"\n"), blank, quotes)


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """The bytes inside a .gz or .zip file, or of the file itself."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == _GZIP:
        with gzip.open(path) as unpacked:
            yield unpacked  # type: ignore[misc]  # a GzipFile reads bytes
    elif magic == _ZIP:
        with zipfile.ZipFile(path) as archive, archive.open(_chosen(path, archive, member)) as inner:
            yield inner
    else:
        with path.open("rb") as file:
            yield file


def inner_name(path: Path, member: str | None = None) -> str:
    """What the file is called without the packing around it."""
    with _unpacking(path), path.open("rb") as file:
        magic = file.read(4)
    if magic == _ZIP:
        with _unpacking(path), zipfile.ZipFile(path) as archive:
            return _chosen(path, archive, member)
    return path.stem if magic[:2] == _GZIP else path.name


def _chosen(path: Path, archive: zipfile.ZipFile, member: str | None) -> str:
    """The file of the archive that is meant: the one named, or the only one."""
    names = [
        info.filename
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/") and Path(info.filename).name[:1] != "."
    ]
    if member in names:
        return member
    if member is None and len(names) == 1:
        return names[0]
    raise DataError(
        "path" if member is None else "member",
        received=f"{path} with {', '.join(map(repr, names[:10])) or 'no files'}",
        expected="an archive of one file, or to be told which one" if member is None else f"a file {member!r} in it",
        remedy="Say {}." if names else "",
        settings=[("member", names[0])] if names else [],
    )


def lines_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line numbers, from 1, lines without their ends, and whether they are text throughout."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n"), True
            except UnicodeDecodeError:
                yield number, raw.decode("utf-8", errors="replace").rstrip("\r\n"), False

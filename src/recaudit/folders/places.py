"""Where a file is: on a disk, or at an address that fsspec takes, such as `s3://bucket/run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from recaudit import atomic
from recaudit.errors import InputError, NotSupportedError

Place = Path | str
"""A path, or an address."""


def place_of(text: str | Path) -> Place:
    """The place that a person names: an absolute path, which `file://` is too, or an address."""
    if isinstance(text, Path) or "://" not in text:
        return Path(text).absolute()
    if "::" in text:  # fsspec would open one address through another
        raise InputError("parts", received=text, expected="a folder, or one address such as 's3://bucket/run'")
    if text.startswith("file://"):
        return Path(url2pathname(urlsplit(text).path))
    return text.rstrip("/")


def within(place: Place, name: str) -> Place:
    """A file or folder inside."""
    return place / name if isinstance(place, Path) else f"{place}/{name}"


def folder_of(place: Place) -> Place:
    """The folder that a file is in."""
    return place.parent if isinstance(place, Path) else place.rpartition("/")[0]


def size(place: Place) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        if isinstance(place, Path):
            return place.stat().st_size if place.is_file() else None
        system, path = _file_system(place)
        return int(system.info(path)["size"])
    except FileNotFoundError:
        return None


def opened(place: Place) -> BinaryIO:
    """A file, to be read."""
    if isinstance(place, Path):
        return place.open("rb")
    system, path = _file_system(place)
    file: BinaryIO = system.open(path, "rb")
    return file


def write(place: Place, content: bytes) -> None:
    """Put a file in place: on a disk in one step, at an address as its file system does."""
    if isinstance(place, Path):
        atomic.write(place, content)
    else:
        system, path = _file_system(place)
        system.makedirs(path.rpartition("/")[0], exist_ok=True)  # where folders are only names, this does nothing
        system.pipe_file(path, content)


def remove(place: Place) -> None:
    """A folder with all that is in it."""
    if isinstance(place, Path):
        atomic.discard(place)
    else:
        system, path = _file_system(place)
        system.rm(path, recursive=True)


def _file_system(address: str) -> tuple[Any, str]:
    """What fsspec reads and writes the address with, and the path there."""
    try:
        import fsspec  # noqa: PLC0415  optional: the extra `ray`

        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:  # its package is not installed, or nobody knows the protocol
        raise NotSupportedError(
            f"{address} cannot be opened: {error}. It needs the package for such addresses."
        ) from None
    return system, str(path)

"""Data sets by name: what one is; list them, find them, fetch them, load them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from recaudit.arguments import checked
from recaudit.data.datasets.download import download, unpack
from recaudit.data.interactions import Interactions
from recaudit.data.synthetic import demo
from recaudit.errors import DataError, DownloadError, InputError, did_you_mean
from recaudit.registry import DATASETS

VARIABLE = "RECAUDIT_DATA"
"""The environment variable with a folder that holds a sub-folder for each data set."""


def cache_folder() -> Path:
    """Where downloads go: `recaudit` in $XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "recaudit"


def data_folder() -> Path | None:
    """The folder that RECAUDIT_DATA names, or None where it is not set."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(
            VARIABLE,
            received=str(folder),
            expected="a folder that exists",
            remedy="Correct the environment variable, or unset it to use the cache and downloads only.",
        )
    return folder


@final
@dataclass(frozen=True)
class Archive:
    """A file on the owner's site."""

    url: str
    digest: str | None = None
    """`md5:...` or `sha256:...`; None where the owner replaces the file in place and publishes `url`.md5."""


@final
@dataclass(frozen=True)
class Dataset:
    """A data set that has a name: where it comes from, which files it needs, and what reads them."""

    name: str
    title: str
    about: str
    page: str
    """The owner's page, with the terms of use."""
    read: Callable[[Path], Interactions]
    """From the folder with the files to the log."""
    files: tuple[str, ...] = ()
    """What `read` needs; nothing for generated data."""
    folders: tuple[str, ...] = ()
    """What the folder is called: by its owner, and by us."""
    archive: Archive | None = None
    megabytes: float = 0.0
    """The size of the download."""

    @property
    def location(self) -> Path | None:
        """The folder on this machine that has the files, or None."""
        return self.locate()

    @property
    def ready(self) -> bool:
        """Whether it loads without a download."""
        return not self.files or self.location is not None

    def locate(self, path: str | Path | None = None) -> Path | None:
        """The folder with all the files: in `path` if given, else in RECAUDIT_DATA, else in the cache; or above it."""
        if not self.files:
            return None
        if path is not None:
            return self._inside(Path(path).expanduser(), any_name=True)
        parents = filter(None, (data_folder(), cache_folder()))
        return next((found for parent in parents if (found := self._inside(parent, any_name=False))), None)

    def _inside(self, parent: Path, *, any_name: bool) -> Path | None:
        """The folder itself or a sub-folder with the owner's name.

        Several data sets have files of the same names, so a folder is not taken for another's by its files alone.
        """
        candidates = [parent / name for name in self.folders]
        if parent.name in self.folders or (any_name and not self._other_owner(parent)):
            candidates.append(parent)
        complete = (folder for folder in candidates if all((folder / name).is_file() for name in self.files))
        return next(complete, None)

    def _other_owner(self, folder: Path) -> str | None:
        others = (name for name, other in DATASETS.items() if folder.name in other.folders and name != self.name)
        return next(others, None)

    def not_in(self, path: str | Path) -> DataError:
        """The error for a `path` that does not hold the data set: which files are missing where."""
        folder = Path(path).expanduser()
        named = next((folder / name for name in self.folders if (folder / name).is_dir()), folder)
        if not folder.is_dir():
            received = f"{folder}, which is no folder"
        elif other := self._other_owner(named):
            received = f"{folder}, which by its name holds {other!r}"
        else:
            missing = [name for name in self.files if not (named / name).is_file()]
            received = f"{named}, which lacks {', '.join(missing)}"
        return DataError(
            "path",
            received=received,
            expected=f"a folder with {', '.join(self.files)}, or the folder above {self.folders[0]}",
            remedy=f"Unpack the archive from {self.page} there, or leave out path= to have it downloaded.",
        )


DEMO = Dataset(
    name="demo",
    title="Demo",
    about="generated: 23,000 ratings of 400 films by 600 users, with genres, regions and age groups",
    page="",
    read=lambda _: demo(),
)


def names() -> list[str]:
    """The names of all data sets."""
    return list(DATASETS)


@checked
def info(name: str) -> Dataset:
    """What is known about this data set, and where its files are."""
    if name not in DATASETS:
        expected = "the name of a data set"
        raise InputError("name", received=repr(name), expected=expected, remedy=did_you_mean(name, DATASETS))
    found: Dataset = DATASETS[name]  # type: ignore[assignment]  # a value, not a class
    return found


def catalogue() -> list[Dataset]:
    """What is known about every data set."""
    return [info(name) for name in DATASETS]


@checked
def locate(name: str, path: str | Path | None = None) -> Path | None:
    """The folder with this data set's files, or None; see `Dataset.locate`."""
    return info(name).locate(path)


@checked
def fetch(name: str) -> Path:
    """The folder with this data set's files, downloaded from their owner if they are not on this machine."""
    dataset = info(name)
    if dataset.archive is None:
        raise InputError(
            "name",
            received=repr(name),
            expected="a data set with files",
            remedy=f"{dataset.title} is generated: load({name!r}) needs nothing else.",
        )
    if found := dataset.locate():
        return found
    url, digest = dataset.archive.url, dataset.archive.digest
    cache = cache_folder()
    target = cache / url.rpartition("/")[2]
    folder = cache / dataset.name
    try:
        if not target.is_file():
            download(url, target, digest, label=f"Downloading {name} (MB)")
        unpack(target, folder, dataset.files)
        target.unlink()
    except (DownloadError, OSError) as error:
        raise DownloadError(
            f"{name} could not be fetched: {error} To do it by hand, download {url} (see {dataset.page}) and "
            f"put {', '.join(dataset.files)} into {folder}, or into the sub-folder {dataset.folders[0]} of "
            f"the folder that the environment variable {VARIABLE} names."
        ) from None
    return folder


@checked
def load(name: str, path: str | Path | None = None) -> Interactions:
    """The log of this data set, with titles, categories and user attributes; files that are nowhere are downloaded."""
    dataset = info(name)
    if path is None:
        return _read(dataset, fetch(name) if dataset.archive else Path())
    if not dataset.files:
        raise InputError("path", received=str(path), expected=f"no path: {name!r} is generated and needs no files")
    folder = dataset.locate(path)
    if folder is None:
        raise dataset.not_in(path)
    return _read(dataset, folder)


def _read(dataset: Dataset, folder: Path) -> Interactions:
    try:
        return dataset.read(folder)
    except DataError as error:
        if str(folder) in error.argument:
            raise
        raise DataError(
            str(folder),
            received=f"files that make no log ({error})",
            expected=f"the files of {dataset.name} as their owner published them",
            remedy="Take them from the archive again.",
        ) from None

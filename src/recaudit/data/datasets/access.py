"""Data sets by name: list them, find them, fetch them, load them."""

from __future__ import annotations

from pathlib import Path

from recaudit.arguments import checked
from recaudit.data.datasets.dataset import VARIABLE, Dataset, cache_folder
from recaudit.data.datasets.download import download, unpack
from recaudit.data.interactions import Interactions
from recaudit.errors import DataError, DownloadError, InputError, did_you_mean
from recaudit.registry import DATASETS


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
    """The folder with this data set's files, or None.

    It is looked for in `path` if given, else in the folder that the environment variable RECAUDIT_DATA names,
    else in the cache. Each may be the folder with the files or the one above it.
    """
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
    """The log of this data set, with titles, categories and user attributes where it has them.

    The files come from `path`, from RECAUDIT_DATA or from the cache (see `locate`), else they are downloaded.
    """
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

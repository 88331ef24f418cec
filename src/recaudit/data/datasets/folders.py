"""Where a data set's files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from recaudit.data.datasets.registry import DATASETS, Dataset
from recaudit.errors import DataError

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


def locate(dataset: Dataset, path: str | Path | None = None) -> Path | None:
    """The folder with all the files: in `path` if given, else in RECAUDIT_DATA, else in the cache."""
    if not dataset.files:
        return None
    if path is not None:
        return _inside(Path(path).expanduser(), dataset, any_name=True)
    for parent in (data_folder(), cache_folder()):
        if parent is not None and (found := _inside(parent, dataset, any_name=False)):
            return found
    return None


def not_in(dataset: Dataset, path: str | Path) -> DataError:
    """The error for a `path` that does not hold the data set: which files are missing where."""
    folder = Path(path).expanduser()
    named = next((folder / name for name in dataset.folders if (folder / name).is_dir()), folder)
    if not folder.is_dir():
        received = f"{folder}, which is no folder"
    elif other := _other_owner(named, dataset):
        received = f"{folder}, which by its name holds {other!r}"
    else:
        missing = [name for name in dataset.files if not (named / name).is_file()]
        received = f"{named}, which lacks {', '.join(missing)}"
    return DataError(
        "path",
        received=received,
        expected=f"a folder with {', '.join(dataset.files)}, or the folder above {dataset.folders[0]}",
        remedy=f"Unpack the archive from {dataset.page} there, or leave out path= to have it downloaded.",
    )


def _inside(parent: Path, dataset: Dataset, *, any_name: bool) -> Path | None:
    """The folder itself or a sub-folder with the owner's name.

    Several data sets have files of the same names, so a folder is not taken for another's by its files alone.
    """
    candidates = [parent / name for name in dataset.folders]
    if parent.name in dataset.folders or (any_name and not _other_owner(parent, dataset)):
        candidates.append(parent)
    return next((folder for folder in candidates if _complete(folder, dataset)), None)


def _complete(folder: Path, dataset: Dataset) -> bool:
    return all((folder / name).is_file() for name in dataset.files)


def _other_owner(folder: Path, dataset: Dataset) -> str | None:
    others = (other.name for other in DATASETS.values() if folder.name in other.folders and other is not dataset)
    return next(others, None)

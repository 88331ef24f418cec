"""Vectors that a user already has, read from an .npz file."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import computed_field, field_serializer

from recaudit.data import Interactions
from recaudit.data.checks import same_type
from recaudit.errors import DataError, did_you_mean
from recaudit.models import FittedModel, Recommender, from_factors
from recaudit.specification import InputFile

_REQUIRED = ("user_factors", "item_factors")
_OPTIONAL = ("user_bias", "item_bias", "mean", "user_ids", "item_ids")


@final
class Factors(Recommender):
    """Vectors that you already have, from an .npz file: nothing is fitted.

    Arrays: `user_factors` (users, factors), `item_factors` (items, factors); where there are any, `user_bias`
    (users,), `item_bias` (items,) and `mean`. Rows follow `user_ids` (users,) and `item_ids` (items,) where
    these are in the file, else the ids of the data in ascending order.
    """

    path: InputFile
    """The .npz file."""
    predicts_ratings: bool | None = None
    """Whether scores estimate ratings; where nothing is said, if they do so on the training ratings."""

    @computed_field(return_type=str)  # type: ignore[prop-decorator]  # pydantic's documented order
    @cached_property
    def sha256(self) -> str:
        """What the file holds, so that a run is never resumed with other numbers under the same name."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @field_serializer("path")
    def _name_only(self, path: Path) -> str:
        return path.name

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """The vectors, in the order of the data's ids."""
        arrays = _read(self.path)
        users = _order(arrays, "user", data.user_ids)
        items = _order(arrays, "item", data.item_ids)
        return from_factors(
            arrays["user_factors"][users],
            arrays["item_factors"][items],
            data,
            user_bias=arrays["user_bias"][users] if "user_bias" in arrays else None,
            item_bias=arrays["item_bias"][items] if "item_bias" in arrays else None,
            mean=float(arrays["mean"].item()) if "mean" in arrays else 0.0,
            predicts_ratings=self.predicts_ratings,
        )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file, by name; numbers and ids only, nothing that could run code."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file):
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(
            "path",
            received=f"{path}, which cannot be read: {error}",
            expected="an .npz file of plain arrays",
            remedy="Write it with numpy.savez(path, user_factors=..., item_factors=...).",
        ) from None
    for name in _REQUIRED:
        if name not in arrays:
            given = ", ".join(arrays) or "nothing"
            raise DataError(f"array {name!r}", received=f"{path} with {given}", expected="that array")
    for name in arrays:
        if name not in (*_REQUIRED, *_OPTIONAL):
            remedy = did_you_mean(name, [*_REQUIRED, *_OPTIONAL])
            raise DataError(f"array {name!r}", received=str(path), expected="known arrays only", remedy=remedy)
    if "mean" in arrays and arrays["mean"].size != 1:
        raise DataError(
            "array 'mean'", received=f"shape {arrays['mean'].shape}", expected="one number, the global mean"
        )
    return arrays


def _ids(name: str, ids: NDArray[Any], known: pl.Series) -> pl.Series:
    """The ids of the file, which have the type of those in the data."""
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise DataError(
            f"array {name!r}",
            received=f"{ids.dtype} of shape {ids.shape}",
            expected="a list of ids, whole numbers or text as in the data",
        )
    return same_type(pl.Series(name, ids), known, f"array {name!r}")


def _order(arrays: Mapping[str, NDArray[Any]], who: str, known: pl.Series) -> NDArray[np.int64] | slice:
    """The file's row for each id of the data, in order; all rows as they are where the file has no ids."""
    name = f"{who}_ids"
    if name not in arrays:
        return slice(None)
    for other in (f"{who}_factors", f"{who}_bias"):
        if other in arrays and len(arrays[other]) != len(arrays[name]):
            raise DataError(
                f"array {name!r}",
                received=f"{len(arrays[name]):,} ids for {len(arrays[other]):,} rows of {other}",
                expected="an id for each row",
            )
    given = _ids(name, arrays[name], known)
    if given.is_duplicated().any():
        twice = given.filter(given.is_duplicated())[0]
        raise DataError(f"array {name!r}", received=f"{twice!r} more than once", expected="each id once")
    rows = pl.DataFrame({"id": given, "row": np.arange(len(given))})
    found = pl.DataFrame({"id": known}).join(rows, on="id", how="left", maintain_order="left")["row"]
    if found.null_count():
        lost = known.filter(found.is_null())
        first = ", ".join(map(repr, lost[:3]))
        raise DataError(
            f"array {name!r}",
            received=f"no row for {first} ({len(lost):,} of {len(known):,} ids)",
            expected="a row for every id in the data",
            remedy="Add the missing rows, or leave those ids out of the data.",
        )
    return found.to_numpy().astype(np.int64)

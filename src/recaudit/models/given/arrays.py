"""Models from arrays that you already have, in memory or in an .npz file."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from pydantic import computed_field, field_serializer
from scipy import sparse

from recaudit.arguments import checked
from recaudit.arrays import IntArray
from recaudit.data.checks import same_type
from recaudit.data.interactions import Interactions
from recaudit.errors import DataError, InputError, did_you_mean
from recaudit.models.base import Recommender
from recaudit.models.checks import checked_array
from recaudit.models.factor.model import FactorModel
from recaudit.models.linear.model import HeldWeights, LinearModel
from recaudit.models.updates import AlsSolve, SgdStep
from recaudit.specification import InputFile

_REQUIRED = ("user_factors", "item_factors")
_KNOWN = (*_REQUIRED, "user_bias", "item_bias", "mean", "user_ids", "item_ids")
"""The arrays of an .npz file."""


@checked
def from_factors(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    data: Interactions,
    *,
    user_bias: ArrayLike | None = None,
    item_bias: ArrayLike | None = None,
    mean: float = 0.0,
    update: SgdStep | AlsSolve | None = None,
    predicts_ratings: bool | None = None,
) -> FactorModel:
    """A model from arrays that you already have, rows in the order of `data.user_ids` and `data.item_ids`.

    `data` is the log that the model was trained on. `update` says how your system moves a vector when new ratings come
    in; by default one gradient step of 0.1. `predicts_ratings` says whether scores estimate ratings on the scale of
    `data`; by default, if they lie closer to its ratings, in squared error, than the mean of the ratings does.
    """
    P = checked_array("user_factors", user_factors, (data.n_users, "factors"))
    Q = checked_array("item_factors", item_factors, (data.n_items, P.shape[1]))
    f = np.zeros(data.n_users) if user_bias is None else checked_array("user_bias", user_bias, (data.n_users,))
    g = np.zeros(data.n_items) if item_bias is None else checked_array("item_bias", item_bias, (data.n_items,))
    if not np.isfinite(mean):
        raise InputError("mean", received=mean, expected="a finite number")
    model = FactorModel(data, P, Q, f, g, float(mean), update or SgdStep(), predicts_ratings is True)
    return replace(model, predicts_ratings=_is_near_ratings(model)) if predicts_ratings is None else model


def _is_near_ratings(model: FactorModel) -> bool:
    """Whether the scores of the log's pairs are closer to its ratings than the mean rating is."""
    ratings = model.data.ratings
    if len(ratings) == 0 or ratings.min() == ratings.max():
        return False
    scores = model.pair_scores(model.data.users.astype(np.int64), model.data.items.astype(np.int64))
    # By more than rounding: scores that are the mean itself have proved nothing.
    return bool(np.mean((scores - ratings) ** 2) < (1 - 1e-9) * np.var(ratings))


@checked
def from_weights(
    weights: ArrayLike | sparse.sparray | sparse.spmatrix,
    data: Interactions,
    *,
    offset: ArrayLike | None = None,
    predicts_ratings: bool = False,
) -> LinearModel:
    """A linear model from weights that you already have, rows and columns in the order of `data.item_ids`.

    `weights` (items, items), dense or sparse: `weights[j, i]` is what a rating of j adds to the score of i. `offset`
    (items,) is taken off the ratings and added to the scores. `predicts_ratings`: scores are on the scale of `data`.
    """
    sparse_ones = isinstance(weights, sparse.sparray | sparse.spmatrix)
    dense: ArrayLike = weights.toarray() if sparse_ones else weights  # type: ignore[union-attr, assignment]
    W = checked_array("weights", dense, (data.n_items, data.n_items))
    g = np.zeros(data.n_items) if offset is None else checked_array("offset", offset, (data.n_items,))
    return LinearModel(data, HeldWeights(W), g, predicts_ratings=predicts_ratings)


@final
class Factors(Recommender):
    """Vectors that you already have, from an .npz file: nothing is fitted.

    Arrays: `user_factors` (users, factors), `item_factors` (items, factors); where there are any, `user_bias`
    (users,), `item_bias` (items,) and `mean`. Rows follow `user_ids` (users,) and `item_ids` (items,) where
    these are in the file, else the ids of the data in ascending order.
    """

    given = True

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

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
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
        if name not in _KNOWN:
            remedy = did_you_mean(name, _KNOWN)
            raise DataError(f"array {name!r}", received=str(path), expected="known arrays only", remedy=remedy)
    if "mean" in arrays and arrays["mean"].size != 1:
        raise DataError(
            "array 'mean'", received=f"shape {arrays['mean'].shape}", expected="one number, the global mean"
        )
    return arrays


def _order(arrays: Mapping[str, NDArray[Any]], who: str, known: pl.Series) -> IntArray | slice:
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
    ids = arrays[name]
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise DataError(
            f"array {name!r}",
            received=f"{ids.dtype} of shape {ids.shape}",
            expected="a list of ids, whole numbers or text as in the data",
        )
    given = same_type(pl.Series(name, ids), known, f"array {name!r}")
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

"""Models from arrays that you already have, in memory or in an .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.checks import listed_ids
from recaudit.data.interactions import Interactions
from recaudit.errors import DataError, InputError, did_you_mean, reading_from
from recaudit.machine import check_memory
from recaudit.models.checks import checked_array
from recaudit.models.factor.model import FactorVectors
from recaudit.models.given.files import GivenFile
from recaudit.models.linear.model import LinearModel
from recaudit.models.linear.weights import HeldWeights
from recaudit.models.updates import Update, UpdateRule

_REQUIRED = ("user_factors", "item_factors")
_KNOWN = (*_REQUIRED, "user_bias", "item_bias", "mean", "user_ids", "item_ids")
"""The arrays of an .npz file."""


@checked
def from_factors(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    data: Interactions,
    *,
    predicts_ratings: bool,
    user_bias: ArrayLike | None = None,
    item_bias: ArrayLike | None = None,
    mean: float = 0.0,
    update: UpdateRule | None = None,
    user_ids: Iterable[object] | None = None,
    item_ids: Iterable[object] | None = None,
) -> FactorVectors:
    """A model from vectors that you already have: scores are `mean + user_bias + item_bias + user . item`.

    `data` is the log that the model was trained on. Rows follow `user_ids` and `item_ids`, in any order and perhaps
    more than the log has; without them, `data.user_ids` and `data.item_ids`. `predicts_ratings` says whether scores
    estimate ratings on the scale of `data`, or only rank. `update` says how your system moves a vector when new ratings
    come in (`SgdStep`, `AlsSolve`); without it nothing is assumed, and what depends on it is refused.
    """
    users, items = order_of("user_ids", user_ids, data.user_ids), order_of("item_ids", item_ids, data.item_ids)
    P = _rows("user_factors", user_factors, users, data.n_users, "factors")
    Q = _rows("item_factors", item_factors, items, data.n_items, P.shape[1])
    f = np.zeros(data.n_users) if user_bias is None else _rows("user_bias", user_bias, users, data.n_users)
    g = np.zeros(data.n_items) if item_bias is None else _rows("item_bias", item_bias, items, data.n_items)
    if not np.isfinite(mean):
        raise InputError("mean", received=mean, expected="a finite number")
    model = FactorVectors(data, P, Q, f, g, float(mean), predicts_ratings=predicts_ratings).from_elsewhere()
    return model if update is None else model.with_update(update)


@checked
def from_weights(
    weights: ArrayLike | sparse.sparray | sparse.spmatrix,
    data: Interactions,
    *,
    predicts_ratings: bool,
    offset: ArrayLike | None = None,
    item_ids: Iterable[object] | None = None,
) -> LinearModel:
    """A linear model from weights that you already have: scores are the user's ratings times the weights.

    `weights` (items, items), dense or sparse: `weights[j, i]` is what a rating of j adds to the score of i. `offset`
    (items,) is taken off the ratings and added to the scores. Rows and columns follow `item_ids`, or else
    `data.item_ids`. `predicts_ratings` says whether scores estimate ratings on the scale of `data`, or only rank.
    """
    sparse_ones = isinstance(weights, sparse.sparray | sparse.spmatrix)
    dense: ArrayLike = weights.toarray() if sparse_ones else weights  # type: ignore[union-attr, assignment]
    items = order_of("item_ids", item_ids, data.item_ids)
    rows = data.n_items if items is None else items.given
    W = checked_array("weights", dense, (rows, rows))
    W = W if items is None else np.ascontiguousarray(W[np.ix_(items.rows, items.rows)])
    g = np.zeros(data.n_items) if offset is None else _rows("offset", offset, items, data.n_items)
    return LinearModel(data, HeldWeights(W), g, predicts_ratings=predicts_ratings).from_elsewhere()


class RowOrder(NamedTuple):
    """Where the rows of an array are, for the ids of a log in their order."""

    rows: IntArray
    """(ids of the log,)"""
    given: int
    """How many rows there are."""


def order_of(argument: str, ids: Iterable[object] | None, known: pl.Series) -> RowOrder | None:
    """Where each of the log's ids is among those given, each once and none missing; None where none are given."""
    if ids is None:
        return None
    given = listed_ids(ids.tolist() if isinstance(ids, np.ndarray) else ids, known, argument)
    if given.is_duplicated().any():
        twice = given.filter(given.is_duplicated())[0]
        raise InputError(argument, received=f"{twice!r} more than once", expected="each id once")
    rows = pl.DataFrame({"id": given, "row": np.arange(len(given))})
    found = pl.DataFrame({"id": known}).join(rows, on="id", how="left", maintain_order="left")["row"]
    if found.null_count():
        lost = known.filter(found.is_null())
        first = ", ".join(map(repr, lost[:3]))
        raise InputError(
            argument,
            received=f"no row for {first} ({len(lost):,} of {len(known):,} ids)",
            expected="a row for every id in the data",
            remedy="Add the missing rows, or leave those ids out of the data.",
        )
    return RowOrder(found.to_numpy().astype(np.int64), len(given))


def _rows(name: str, values: ArrayLike, order: RowOrder | None, known: int, *shape: int | str) -> FloatArray:
    """The rows of an array in the order of the log's ids."""
    if order is None:
        return checked_array(name, values, (known, *shape))
    if (rows := len(np.atleast_1d(values))) != order.given:
        raise InputError(name, received=f"{rows:,} rows", expected=f"{order.given:,} rows, one for each id given")
    return np.ascontiguousarray(checked_array(name, values, (order.given, *shape))[order.rows])


@final
class Factors(GivenFile):
    """Vectors that you already have, from an .npz file: nothing is fitted.

    Arrays: `user_factors` (users, factors), `item_factors` (items, factors); where there are any, `user_bias`
    (users,), `item_bias` (items,) and `mean`. Rows follow `user_ids` (users,) and `item_ids` (items,) where
    these are in the file, else the ids of the data in ascending order.
    """

    predicts_ratings: bool
    """Whether scores estimate ratings on the log's scale, or only rank."""
    update: Update | None = None
    """How the system moves a vector when new ratings come in; without it, what depends on it is not audited."""

    def fit(self, data: Interactions, rng: int = 0) -> FactorVectors:
        """The vectors, in the order of the data's ids."""
        arrays: dict[str, Any] = _read(self.path)
        mean = float(arrays.pop("mean").item()) if "mean" in arrays else 0.0
        with reading_from(self.path.name):
            return from_factors(
                data=data, mean=mean, update=self.update, predicts_ratings=self.predicts_ratings, **arrays
            )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file, by name; numbers and ids only, nothing that could run code."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as members:
            size = sum(member.file_size for member in members.infolist())
            # A compressed file of some megabytes can hold arrays of many gigabytes.
            check_memory(2 * size, f"Reading {path}", "Use a machine with more memory, or arrays in single precision.")
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
    for name in ("user_ids", "item_ids"):
        if name in arrays and (arrays[name].ndim != 1 or arrays[name].dtype.kind not in "iuU"):
            raise DataError(
                f"array {name!r}",
                received=f"{arrays[name].dtype} of shape {arrays[name].shape}",
                expected="a list of ids, whole numbers or text as in the data",
            )
    return arrays

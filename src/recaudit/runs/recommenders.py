"""The recommenders that a configuration can name, and the user's own factors among them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import ValidationError, ValidationInfo, computed_field, field_serializer

from recaudit.data import Interactions
from recaudit.errors import DataError, did_you_mean
from recaudit.models import ALS, EASE, SLIM, BiasedMF, ItemKNN, Random, TopPop, UserKNN, from_factors
from recaudit.models.base import FittedModel, Recommender
from recaudit.runs.problems import problem, together
from recaudit.runs.sections import InputFile, build, take_kind

Arrays = Mapping[str, NDArray[Any]]

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
        users = _rows(arrays, "user_ids", data.user_ids)
        items = _rows(arrays, "item_ids", data.item_ids)
        return from_factors(
            _taken(arrays["user_factors"], users),
            _taken(arrays["item_factors"], items),
            data,
            user_bias=_taken(arrays["user_bias"], users) if "user_bias" in arrays else None,
            item_bias=_taken(arrays["item_bias"], items) if "item_bias" in arrays else None,
            mean=float(arrays["mean"].item()) if "mean" in arrays else 0.0,
        )


KINDS: Mapping[str, type[Recommender]] = MappingProxyType(
    {
        "als": ALS,
        "biased-mf": BiasedMF,
        "item-knn": ItemKNN,
        "user-knn": UserKNN,
        "ease": EASE,
        "slim": SLIM,
        "top-pop": TopPop,
        "random": Random,
        "factors": Factors,
    }
)


@final
@dataclass(frozen=True)
class Model:
    """One recommender of a run, under the label that tables and the report use."""

    label: str
    kind: str
    recommender: Recommender


LABEL_LENGTH = 60
"""A label names a folder: 60 characters of any script stay within what file systems take."""


def read_model(value: object, info: ValidationInfo) -> Model:
    """A `[[model]]` table; a label that is not given is left empty for `label_models`."""
    kind, table = take_kind(value, KINDS)
    wrong: list[ValidationError] = []
    label = table.pop("label", None)
    if label is not None and not (isinstance(label, str) and 0 < len(label.strip()) <= LABEL_LENGTH):
        wrong.append(problem(("label",), label, f"a text of 1 to {LABEL_LENGTH} characters"))
    elif isinstance(label, str) and not label.isprintable():
        wrong.append(problem(("label",), label, "a text without line breaks or control characters"))
    try:
        recommender = build(KINDS[kind], table, info, "kind", "label")
    except ValidationError as error:
        wrong.append(error)
    if wrong:
        raise together(wrong)
    return Model(str(label or "").strip(), kind, recommender)


def label_models(models: tuple[Model, ...]) -> tuple[Model, ...]:
    """Each model with a label of its own: as given, else the recommender's name, counted where it repeats."""
    taken: set[str] = set()
    for place, model in enumerate(models):
        if model.label and model.label.casefold() in taken:
            raise problem((place, "label"), model.label, "a label that no other model has")
        taken.add(model.label.casefold())
    labelled = []
    for model in models:
        label, count = model.label, 1
        while not label or (not model.label and label.casefold() in taken):
            name = type(model.recommender).__name__
            label, count = (name if count == 1 else f"{name} {count}"), count + 1
        taken.add(label.casefold())
        labelled.append(Model(label, model.kind, model.recommender))
    return tuple(labelled)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file, by name; numbers and ids only, nothing that could run code."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise DataError(
            "path",
            received=f"{path}, which cannot be read: {error}",
            expected="an .npz file of plain arrays",
            remedy="Write it with numpy.savez(path, user_factors=..., item_factors=...).",
        ) from None
    for name in _REQUIRED:
        if name not in arrays:
            raise DataError(
                f"array {name!r}",
                received=f"{path} with {', '.join(arrays) or 'nothing'}",
                expected="that array",
            )
    for name in arrays:
        if name not in (*_REQUIRED, *_OPTIONAL):
            remedy = did_you_mean(name, [*_REQUIRED, *_OPTIONAL])
            raise DataError(
                f"array {name!r}", received=str(path), expected="known arrays only", remedy=remedy
            )
    return arrays


def _rows(arrays: Arrays, name: str, known: pl.Series) -> NDArray[np.int64] | None:
    """For each id of the data, in order, its row in the file; None where the file has no ids."""
    if name not in arrays:
        return None
    given = pl.Series(name, arrays[name]).cast(known.dtype, strict=False)
    rows = pl.DataFrame({"id": given, "row": np.arange(len(given))})
    if given.is_duplicated().any():
        twice = given.filter(given.is_duplicated())[0]
        raise DataError(f"array {name!r}", received=f"{twice!r} more than once", expected="each id once")
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


def _taken(array: NDArray[Any], rows: NDArray[np.int64] | None) -> NDArray[Any]:
    return array if rows is None else array[rows]

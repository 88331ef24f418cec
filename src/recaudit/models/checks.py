"""What recommenders and fitted models refuse: logs, devices, settings, arrays and items that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recaudit.arguments import shown
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.torch_extra import require_torch

if TYPE_CHECKING:
    from recaudit.models.base import FittedModel

Kind = TypeVar("Kind", bound="FittedModel")

LARGEST_RATING = 1e100
"""In size: sums of the squares of larger ones would leave the finite numbers."""


def check_data(data: Interactions) -> None:
    """A log with at least one rating, and none whose square would be past the largest number."""
    if len(data) == 0:
        raise InputError(
            "data", received="a log without ratings", expected="at least one rating", remedy="Check the split."
        )
    if (largest := float(np.abs(data.ratings).max())) > LARGEST_RATING:
        raise InputError(
            "data",
            received=f"a log with ratings of up to {largest:g}",
            expected=f"ratings of at most {LARGEST_RATING:g}, so that sums of their squares are numbers",
            remedy="Divide the ratings by a constant.",
        )


def check_device(device: str) -> None:
    """That this machine has it."""
    if device == "cpu":
        return
    torch = require_torch(f"computations on the device {device!r}")
    gpus = [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    here = ["cpu", "cuda", *gpus] if gpus else ["cpu"]
    if device not in here:
        raise InputError(
            "device",
            received=device,
            expected=f"a device of this machine: {', '.join(here)}",
            remedy="Without a GPU that torch can use, stay on the CPU ('recaudit doctor' says what torch finds).",
        )


def check_fit(setting: str, received: object, remedy: str, *arrays: NDArray[np.floating[Any]]) -> None:
    """That a fit ended in finite numbers; `setting` is the one that decides it."""
    if not all(bool(np.isfinite(array).all()) for array in arrays):
        raise InputError(
            setting,
            received=received,
            expected="a value at which the fit ends in finite numbers; with this one it diverged or overflowed",
            remedy=remedy,
        )


def check_own_model(
    model: FittedModel, kind: type[Kind], data: Interactions, settings: Callable[[Kind], list[str]], own: list[str]
) -> Kind:
    """The model, if it is of this kind, of the log's users and items, and its `settings`, in words, are our `own`."""
    if not isinstance(model, kind):
        received = f"a {model.called}"
    elif not (model.data.user_ids.equals(data.user_ids) and model.data.item_ids.equals(data.item_ids)):
        received = "a model of other users or items than the log has"
    elif other := [setting for setting in settings(model) if setting not in own]:
        received = f"a model with {' and '.join(other)}"
    else:
        return model
    raise InputError(
        "model",
        received=received,
        expected=f"what a configuration with {' and '.join(own)} fitted to an earlier log of the same users and items",
        remedy="Fit from scratch with fit(data).",
    )


def check_actions(items: IntArray, n_items: int) -> IntArray:
    """Positions of acted-on items: inside the catalogue, each once."""
    items = np.asarray(items, dtype=np.int64)
    if items.ndim != 1 or len(np.unique(items)) != len(items) or ((items < 0) | (items >= n_items)).any():
        raise InputError(
            "items",
            received=items.tolist(),
            expected=f"a list of distinct item positions from 0 to {n_items - 1}",
            remedy="Turn ids into positions with data.items_at(ids).",
        )
    return items


def check_action_rows(items: IntArray, n_items: int) -> IntArray:
    """(users, actions): each row's acted-on items inside the catalogue, each once; -1 fills up."""
    items = np.asarray(items, dtype=np.int64)
    if items.ndim != 2:
        raise InputError(
            "items", received=f"shape {items.shape}", expected="(users, actions), -1 where there are fewer"
        )
    ordered = np.sort(items, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    outside = (items < -1) | (items >= n_items)
    for row in np.flatnonzero(again.any(axis=1) | outside.any(axis=1))[:1]:
        check_actions(items[row][items[row] != -1], n_items)  # which says what is wrong
    return items


def checked_array(name: str, values: ArrayLike, shape: tuple[int | str, ...]) -> FloatArray:
    """A copy of a user's array as finite numbers of this shape; a dimension given by name may be any size."""
    wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    try:
        array: FloatArray = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(name, received=f"{shown(values)} ({error})", expected=f"numbers of shape {wanted}") from None
    if array.ndim != len(shape) or any(
        isinstance(want, int) and size != want for size, want in zip(array.shape, shape, strict=True)
    ):
        raise InputError(
            name,
            received=f"an array of shape {array.shape}",
            expected=f"shape {wanted}",
            remedy="Put rows in the order of data.user_ids or data.item_ids.",
        )
    wrong = ~np.isfinite(array)
    if wrong.any():
        first = np.argwhere(wrong)[0].tolist()
        raise InputError(
            name,
            received=f"{int(wrong.sum()):,} values that are NaN or infinite, the first at {first}",
            expected="finite numbers",
            remedy="Check that the model did not diverge in training.",
        )
    return array

"""The arrays that models deal in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recaudit.arguments import shown
from recaudit.arrays import FloatArray
from recaudit.errors import InputError


def check_fit(setting: str, received: object, remedy: str, *arrays: NDArray[np.floating[Any]]) -> None:
    """That a fit ended in finite numbers; `setting` is the one that decides it."""
    if not all(bool(np.isfinite(array).all()) for array in arrays):
        raise InputError(
            setting,
            received=received,
            expected="a value at which the fit ends in finite numbers; with this one it diverged or overflowed",
            remedy=remedy,
        )


def checked_array(name: str, values: ArrayLike, shape: tuple[int | str, ...]) -> FloatArray:
    """A copy of a user's array as finite numbers of this shape; a dimension given by name may be any size."""
    try:
        array: FloatArray = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            name, received=f"{shown(values)} ({error})", expected=f"numbers of shape {_written(shape)}"
        ) from None
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or size == want for size, want in zip(array.shape, shape, strict=False)
    )
    if not fits:
        raise InputError(
            name,
            received=f"an array of shape {array.shape}",
            expected=f"shape {_written(shape)}",
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


def _written(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"

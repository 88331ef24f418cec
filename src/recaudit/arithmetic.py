"""Arithmetic with the same bits in every engine.

Matrix libraries choose the order of a sum by the shape of the arrays, by the number of threads and by where in memory
an array begins. So work is cut into the same blocks in every engine, matrix libraries have one thread within a
block (cores work on different blocks, or in kernels that sum each number in one thread), and arrays begin on a
boundary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import FloatArray

if TYPE_CHECKING:
    import torch

    Floats = NDArray[np.floating[Any]] | torch.Tensor

_BOUNDARY = 64
"""Bytes of the widest registers and of a cache line; torch aligns its own arrays to it."""


def aligned(array: Floats) -> torch.Tensor:
    """Return the array as a tensor, copied if it does not begin on a boundary."""
    import torch  # noqa: PLC0415  an import of a second that solvers do without

    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    return tensor.clone() if tensor.data_ptr() % _BOUNDARY else tensor


def product(rows: Floats, columns: Floats) -> torch.Tensor:
    """Return `rows @ columns.T`, of (n, terms) and (m, terms), as a tensor of shape (n, m)."""
    return aligned(rows) @ aligned(columns).T


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread, in this thread, inside the block. Does nothing if torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@numba.njit(nogil=True, cache=True)
def copy_into(target: NDArray[Any], values: NDArray[Any]) -> None:
    """Copy `values` to `target`, both of shape (n,), in compiled code.

    numba takes seconds to compile `target[:] = values`, and its message of unequal lengths, in each kernel that has
    other options.
    """
    for at in range(len(target)):
        target[at] = values[at]


@numba.njit(nogil=True, cache=True)
def copy_rows(target: NDArray[Any], values: NDArray[Any]) -> None:
    """Copy `values` to `target`, both of shape (n, m), in compiled code."""
    for row in range(len(target)):
        copy_into(target[row], values[row])


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def summed(a: FloatArray) -> float:
    """Return the sum of `a`, shape (n,), in compiled code: added by vectors, in an order that the compiler chooses."""
    total = 0.0
    for at in range(len(a)):
        total += a[at]
    return total


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def summed_products(a: FloatArray, b: FloatArray) -> float:
    """Return the sum of `a * b`, both of shape (n,), in compiled code, as `summed` adds."""
    total = 0.0
    for at in range(len(a)):
        total += a[at] * b[at]
    return total


def core_count() -> int:
    """Return how many cores work in this thread may use: numba's number, which an engine sets in its workers."""
    count: int = numba.get_num_threads()
    return count

"""The same work gives the same bits: sums are made in one order, whoever makes them.

Matrix libraries choose the order of a sum by the shape of the arrays, by the number of threads and by where in memory
an array begins. So work is cut into the same blocks whoever computes them, torch has one thread within a block (cores
work on different blocks, or in kernels that sum each number in one thread), and arrays begin on a boundary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]] | torch.Tensor

_BOUNDARY = 64
"""Bytes: the widest registers and a cache line. Where torch puts its own arrays."""


def aligned(array: Floats) -> torch.Tensor:
    """The array as a tensor, copied where it does not begin on a boundary."""
    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    return tensor.clone() if tensor.data_ptr() % _BOUNDARY else tensor


def product(rows: Floats, columns: Floats) -> torch.Tensor:
    """`rows @ columns.T`: of (n, terms) and (m, terms), (n, m)."""
    return aligned(rows) @ aligned(columns).T


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread, in this thread, until the end of the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@numba.njit(nogil=True, cache=True)
def copy_into(target: NDArray[Any], values: NDArray[Any]) -> None:
    """In compiled code `target[:] = values`, both (n,): numba takes seconds to compile that, and its message of unequal
    lengths, in each kernel that has other options."""
    for at in range(len(target)):
        target[at] = values[at]


@numba.njit(nogil=True, cache=True)
def copy_rows(target: NDArray[Any], values: NDArray[Any]) -> None:
    """`copy_into` for (n, m)."""
    for row in range(len(target)):
        copy_into(target[row], values[row])


def core_count() -> int:
    """How many cores work in this thread may use: numba's number, which an engine sets in its workers."""
    count: int = numba.get_num_threads()
    return count

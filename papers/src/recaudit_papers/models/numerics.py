"""Types and small functions that the papers' compiled training loops share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from recaudit.plugins import FloatArray

Floats = NDArray[np.floating[Any]] | torch.Tensor
Singles = NDArray[np.float32]
Indices = NDArray[np.integer]

IN_ORDER = {"contract"}
"""The freedom that the compiler has with sums, in these functions and in those that call them."""
_BOUNDARY = 64
"""Bytes: the widest registers and a cache line. Where torch puts its own arrays."""


class SparseRows(NamedTuple):
    """A sparse matrix by rows: the entries of row r are `indptr[r]:indptr[r + 1]`, columns ascending."""

    indptr: Indices
    indices: Indices
    values: FloatArray

    @classmethod
    def of(cls, matrix: sparse.csr_array | sparse.csc_array, less: float = 0.0, unit: float = 1.0) -> SparseRows:
        """Copy the rows of a CSR matrix, or the columns of a CSC one, with entries `(entry - less) / unit`."""
        # One type for all: numba compiles a kernel again for every index type. Unsigned positions need no test for
        # negative ones, which halves the time of the inner loops.
        values = np.asarray((matrix.data - less) / unit, dtype=np.float64)
        return cls(matrix.indptr.astype(np.uint64), matrix.indices.astype(np.uint32), values)


def aligned(array: Floats) -> torch.Tensor:
    """Return the array as a tensor, copied if it does not begin on a boundary: sums then have one order."""
    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    return tensor.clone() if tensor.data_ptr() % _BOUNDARY else tensor


def product(rows: Floats, columns: Floats) -> torch.Tensor:
    """Compute `rows @ columns.T` of (n, terms) and (m, terms): (n, m)."""
    return aligned(rows) @ aligned(columns).T


@numba.njit(nogil=True, cache=True)
def copy_into(target: NDArray[Any], values: NDArray[Any]) -> None:
    """Assign `target[:] = values`, both (n,), in compiled code: numba takes seconds to compile the assignment."""
    for at in range(len(target)):
        target[at] = values[at]

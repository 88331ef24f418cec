"""Ratings row by row, as compiled loops read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray

Singles = NDArray[np.float32]
Indices = NDArray[np.integer]


class SparseRows(NamedTuple):
    """A sparse matrix by rows: the entries of row r are `indptr[r]:indptr[r + 1]`, columns ascending."""

    indptr: Indices
    indices: Indices
    values: FloatArray

    @classmethod
    def of(cls, matrix: sparse.csr_array | sparse.csc_array, less: float = 0.0, unit: float = 1.0) -> SparseRows:
        """A copy of the rows of a CSR matrix, or of the columns of a CSC one, the entries `(entry - less) / unit`."""
        # One type for all: numba compiles a kernel anew for every index type. Unsigned positions need no test for
        # "counted from the end", which halves the time of the inner loops.
        values = np.asarray((matrix.data - less) / unit, dtype=np.float64)
        return cls(matrix.indptr.astype(np.uint64), matrix.indices.astype(np.uint32), values)

    @property
    def counts(self) -> IntArray:
        """(rows,): how many entries each row has."""
        return (self.indptr[1:] - self.indptr[:-1]).astype(np.int64)

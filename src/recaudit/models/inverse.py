"""The inverse of a positive definite matrix."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from recaudit.arithmetic import one_thread
from recaudit.models.arrays import Tensor

_ALONE = 4096
"""Up to so many rows one thread inverts: a second or two at most, and the same numbers on any machine of a kind."""


def inverted(matrix: Tensor) -> Tensor:
    """(n, n): the inverse of a positive definite matrix (n, n), by Cholesky.

    LAPACK sums in another order on two threads than on one. Small matrices are therefore left to one thread, which also
    spends least; for large ones the last digits may depend on how many there are.
    """
    with one_thread() if len(matrix) <= _ALONE else nullcontext():
        return torch.cholesky_inverse(torch.linalg.cholesky(matrix))

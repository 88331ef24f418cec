"""The inverse of a positive definite matrix."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from recaudit.arithmetic import one_thread
from recaudit.errors import InputError

_ALONE = 4096
"""Up to so many rows one thread inverts: a second or two at most, and the same numbers on any machine of a kind."""


def inverted(matrix: Tensor) -> Tensor:
    """(n, n): the inverse of a positive definite matrix (n, n), by Cholesky.

    LAPACK sums in another order on two threads than on one. Small matrices are therefore left to one thread, which also
    spends least; for large ones the last digits may depend on how many there are.
    """
    with one_thread() if len(matrix) <= _ALONE else nullcontext():
        try:
            return torch.cholesky_inverse(torch.linalg.cholesky(matrix))
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # it is public, but not listed
            raise InputError(
                "regularization",
                received="a penalty that rounding loses beside these ratings",
                expected="one that makes their equations solvable",
                remedy="Make it larger, or the ratings smaller.",
            ) from None

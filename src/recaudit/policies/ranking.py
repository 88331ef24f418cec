"""The n best of each row, with ties broken by position."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray


def top_items(
    scores: torch.Tensor, allowed: torch.Tensor, n: int, tiebreak: torch.Tensor | None = None
) -> NDArray[np.int64]:
    """(rows, n): positions of the n highest allowed scores, best first; -1 where fewer are allowed.

    Equal scores are ordered by `tiebreak` (higher first) where given, then by position (lower first), so that
    a list never depends on the sorting routine.
    """
    first = scores.double().contiguous().numpy()
    second = first if tiebreak is None else tiebreak.double().contiguous().numpy()
    return _top(first, second, allowed.contiguous().numpy(), n)


@njit(nogil=True, cache=True)
def _top(
    first: NDArray[np.float64], second: NDArray[np.float64], allowed: NDArray[np.bool_], n: int
) -> NDArray[np.int64]:
    rows, columns = first.shape
    best = np.full((rows, n), -1, dtype=np.int64)
    for row in range(rows):
        filled = 0
        for column in range(columns):
            if not allowed[row, column]:
                continue
            a, b = first[row, column], second[row, column]
            # Positions ascend, so a later column must be strictly better to go before an earlier one.
            place = filled
            while place > 0:
                other = best[row, place - 1]
                if a > first[row, other] or (a == first[row, other] and b > second[row, other]):
                    place -= 1
                else:
                    break
            if place == n:
                continue
            filled = min(filled + 1, n)
            for position in range(filled - 1, place, -1):
                best[row, position] = best[row, position - 1]
            best[row, place] = column
    return best

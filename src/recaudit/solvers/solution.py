"""The solution that every solver gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.status import Status


@dataclass(frozen=True, eq=False)
class Solution:
    """The best found for each of n problems, with a certificate on the objective's own scale.

    For probabilities the objective is the log-probability. `lower <= maximum <= upper`, valid whatever the status.
    """

    value: FloatArray  # (n,): reached by `actions`; NaN where nothing was found
    lower: FloatArray  # (n,): `value` less what rounding may have added
    upper: FloatArray  # (n,): no action reaches more
    status: StatusArray  # (n,): solved where the bounds are within the tolerance, else bounded or failed
    actions: FloatArray  # (n, K): the actions that reach the values; (0, K) where they were not asked for
    evaluations: IntArray  # (n,): the work it took, in the solver's own unit

    @property
    def solved(self) -> BoolArray:
        """(n,): where the status is solved."""
        return np.asarray(self.status == Status.SOLVED.value)


AnySolution = TypeVar("AnySolution", bound=Solution)


def status_of(lower: FloatArray, upper: FloatArray, tol: float, failed: BoolArray | bool = False) -> StatusArray:
    """(n,): solved where the bounds are at most `tol` apart, bounded where they are not, failed where `failed`."""
    with np.errstate(invalid="ignore"):  # infinite bounds that are equal have no difference
        close = (upper - lower <= tol) | (upper == lower)
    if np.all(close) and not np.any(failed):  # mostly, and choosing strings is slow
        return np.full(close.shape, Status.SOLVED.value, dtype=f"<U{len(Status.BOUNDED.value)}")
    return np.where(failed, Status.FAILED.value, np.where(close, Status.SOLVED.value, Status.BOUNDED.value))


def lower_bounded(value: FloatArray, actions: FloatArray, evaluations: IntArray, largest: float = np.inf) -> Solution:
    """What a search found: nothing is claimed but that it was reached; `largest` is the most that any action can."""
    status = np.full(len(value), Status.BOUNDED.value)
    return Solution(value, value, np.full(len(value), largest), status, actions, evaluations)


def no_solutions(columns: int) -> Solution:
    """Of no problems, with actions of `columns` variables."""
    none = np.empty(0)
    return Solution(none, none, none, none.astype("<U14"), np.empty((0, columns)), none.astype(np.int64))


def concatenate(parts: Sequence[AnySolution]) -> AnySolution:
    """The solutions of `parts`, one or more of one type, in their order."""
    some = [part for part in parts if len(part.value)] or parts[:1]
    columns = ([getattr(part, field.name) for part in some] for field in fields(some[0]))
    return some[0] if len(some) == 1 else type(some[0])(*(np.concatenate(column) for column in columns))

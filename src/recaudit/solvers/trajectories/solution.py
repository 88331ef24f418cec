"""What the solvers of roll-outs give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.status import Status


@final
@dataclass(frozen=True, eq=False)
class TrajectorySolution:
    """The largest probability of each target after a roll-out, in the order the targets were given in.

    `log_lower <= log of the maximum <= log_upper`, whatever the status, unless the solver says otherwise.
    """

    target: IntArray
    """(targets,)"""
    log_value: FloatArray
    """(targets,): the log-probability that was reached; NaN where none was found."""
    log_lower: FloatArray
    log_upper: FloatArray
    status: NDArray[np.str_]
    """(targets,): solved, bounded, failed where no sequence was found that leaves the target to be recommended, and
    not_applicable where there is none."""
    items: IntArray
    """(targets, steps): what is shown and rated on the way; -1 where no value was found, or where it is chance."""
    ratings: FloatArray
    """(targets, steps): the ratings that reach the value; NaN where there are none to tell."""
    sequences: int
    """How many sequences of items were followed."""


def judged(
    log_lower: FloatArray, log_upper: FloatArray, tol: float, applicable: BoolArray, complete: bool
) -> NDArray[np.str_]:
    """(targets,): how each answer stands, solved where its bounds are within `tol`.

    `applicable` (targets,): whether some sequence leaves the target to be recommended; `complete`: whether every
    sequence was followed.
    """
    close = log_upper <= log_lower + tol
    status = np.where(close, Status.SOLVED.value, Status.BOUNDED.value).astype("<U14")
    status[~applicable] = Status.NOT_APPLICABLE.value if complete else Status.FAILED.value
    return status

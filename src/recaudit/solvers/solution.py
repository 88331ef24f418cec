"""What the solvers give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.status import Status


@dataclass(frozen=True, eq=False)
class Solution:
    """The best found for each of n problems, with a certificate on the objective's own scale.

    For probabilities the objective is the log-probability. `lower <= maximum <= upper`, valid whatever the status.
    """

    value: FloatArray
    """(n,): reached by `actions`; NaN where nothing was found."""
    lower: FloatArray
    """(n,)"""
    upper: FloatArray
    """(n,)"""
    status: StatusArray
    """(n,)"""
    actions: FloatArray
    """(n, K); (0, K) where they were not asked for."""
    evaluations: IntArray
    """(n,): the work it took, in the solver's own unit."""


@final
@dataclass(frozen=True, eq=False)
class SoftmaxSolution:
    """The largest probability of each target, in the order the targets were given in.

    The certificate is on the logarithm: `log_lower <= log of the maximum <= log_upper`, valid whatever the status.
    """

    problem: IntArray
    """(pairs,): the position of the target's problem in the batch; 0 for a single problem."""
    target: IntArray
    """(pairs,): the target's position among the problem's items."""
    log_value: FloatArray
    """(pairs,): the logarithm of the probability that was reached."""
    log_lower: FloatArray
    """(pairs,): `log_value` less what rounding may have added."""
    log_upper: FloatArray
    """(pairs,): no action in the box reaches more."""
    solved: BoolArray
    """(pairs,): whether `log_upper - log_lower` is within the tolerance asked for."""
    evaluations: IntArray
    """(pairs,): how often the scores of all items were computed for this target alone; 0 where a point found for
    another target of the problem was already the answer."""
    actions: FloatArray
    """(pairs, K): the actions that reach the values; (0, K) if they were not asked for."""

    @property
    def value(self) -> FloatArray:
        """(pairs,): the probability that was reached."""
        return np.exp(self.log_value)

    @property
    def lower(self) -> FloatArray:
        """(pairs,): a certified lower bound of the largest probability."""
        return np.exp(self.log_lower)

    @property
    def upper(self) -> FloatArray:
        """(pairs,): a certified upper bound of the largest probability."""
        return np.exp(self.log_upper)

    @property
    def status(self) -> NDArray[np.str_]:
        """(pairs,): solved, bounded, or failed where no finite value was found."""
        found = np.where(self.solved, Status.SOLVED.value, Status.BOUNDED.value)
        return np.where(np.isnan(self.log_value), Status.FAILED.value, found)

"""Some effort that brings an outcome about, where scores can only be asked for: an upper bound, and nothing more.

One change after the other, each time the one that helps most for its cost; once the outcome is there, whatever is not
needed is taken back, the costliest first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from recaudit.arrays import FloatArray
from recaudit.errors import BudgetSpentError
from recaudit.solvers.recourse.least import Certainty, Choices, LeastEffort


def searched_effort(height: Callable[[FloatArray], float], choices: Choices, budget: int, least: float) -> LeastEffort:
    """`height` of moves (ratings,): 0 or more where the outcome is there. `budget`: how often it is asked; `least`: no
    change takes less."""
    option, asked = choices.none.copy(), 0
    ratings = np.arange(len(option))

    def at(option: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
        nonlocal asked
        if asked == budget:
            raise BudgetSpentError(f"{budget:,} points were asked about.")
        asked += 1
        return height(np.where(option >= 0, choices.moves[ratings, option], 0.0))

    def cost(option: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
        return float(choices.costs[ratings, option][option >= 0].sum())

    here = at(option)
    if here >= 0:
        return LeastEffort(Certainty.LEAST, 0.0, 0.0, option, asked)
    try:
        while here < 0:
            best, gain = None, 0.0
            for k in ratings:
                for o in range(int(choices.counts[k])) if option[k] < 0 else ():
                    trial = option.copy()
                    trial[k] = o
                    value = at(trial)
                    worth = (min(value, 0.0) - here) / choices.costs[k, o]
                    if worth > gain:
                        best, gain, after = trial, worth, value
            if best is None:
                return LeastEffort(Certainty.NONE, np.inf, least, choices.none, asked)
            option, here = best, after
    except BudgetSpentError:
        return LeastEffort(Certainty.NONE, np.inf, least, choices.none, asked)
    try:
        for k in np.argsort(-np.where(option >= 0, choices.costs[ratings, option], 0.0), kind="stable"):
            without = option.copy()
            without[k] = -1
            if option[k] >= 0 and at(without) >= 0:
                option = without
    except BudgetSpentError:
        pass  # what is found is found
    value = cost(option)
    return LeastEffort(Certainty.LEAST if value <= least else Certainty.SOME, value, min(least, value), option, asked)

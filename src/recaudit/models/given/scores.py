"""Models of which only the scores are known: another library's own code gives them, user by user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel


@final
@dataclass(frozen=True, eq=False, repr=False)
class LibraryScores(FittedModel):
    """Scores that a library's own code gives; nothing says how new ratings move them."""

    data: Interactions
    score: Callable[[int], FloatArray]
    """The position of a user to a score of every item (items,), in the order of the log; it must pickle."""
    predicts_ratings: bool

    no_rule: ClassVar = "its library has no rule by which new ratings move its scores: it would train again"

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): what the library says."""
        distinct, row = np.unique(users, return_inverse=True)
        found = np.empty((len(distinct), self.data.n_items))
        for place, user in enumerate(distinct):
            found[place] = self.score(int(user))
        return found[row]

"""True refits: the recommender trained again on a log in which somebody rated otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.errors import RecauditError
from recaudit.models.base import Recommender


@final
@dataclass(frozen=True)
class Edit:
    """The ratings that a user writes into the log, by position."""

    user: int
    items: tuple[int, ...]
    ratings: tuple[float, ...]

    @classmethod
    def of(cls, log: Interactions, user: object, row: Mapping[str, Any]) -> Edit | None:
        """The best ratings of a pair's row, given by the user with this id; None where there are none."""
        if row["action_items"] is None:
            return None
        items = log.items_at(row["action_items"]).tolist()
        return cls(int(log.users_at([user])[0]), tuple(items), tuple(row["action_ratings"]))

    def written(self, log: Interactions) -> Interactions:
        """The log with these ratings; in a log of clicks, where every rating is the same, a 0 takes one away."""
        items, ratings = np.array(self.items, dtype=np.int64), np.array(self.ratings)
        gone = (ratings == 0) & (log.scale[0] == log.scale[1])
        if gone.any():
            log = log.subset((log.users != self.user) | ~np.isin(log.items, items[gone]))
        return log.with_ratings(self.user, items[~gone], ratings[~gone])


@final
@dataclass(frozen=True, eq=False)
class Refit:
    """An edit in, the scores of some users (users, items) after a refit out, or why there are none; picklable."""

    recommender: Recommender
    log: Interactions
    users: IntArray
    """Positions."""
    rng: int

    def __call__(self, edit: Edit) -> FloatArray | str:
        """The scores of all the users."""
        log = edit.written(self.log)
        try:
            scores = self.recommender.fit(log, self.rng).scores(self.users).numpy()
        except RecauditError as error:
            return str(error)
        return scores if np.isfinite(scores).all() else "the refitted model has scores that are NaN or infinite"

    def all(self, edits: Iterable[Edit | None], engine: Engine) -> dict[Edit, FloatArray | str]:
        """The scores after each distinct edit."""
        distinct = list(dict.fromkeys(edit for edit in edits if edit is not None))
        return dict(zip(distinct, engine.map(self, distinct, "fidelity"), strict=True))

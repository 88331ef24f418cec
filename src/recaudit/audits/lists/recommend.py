"""What is recommended to whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.arguments import checked
from recaudit.arrays import IntArray
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import BlackBox
from recaudit.policies import Lister, ListPolicy, Softmax, Top1

LONGEST = 1_000_000
"""Most places of a list."""


@final
@dataclass(frozen=True, eq=False)
class Recommend:
    """Block of users in, their lists out; picklable, and pure, so that any engine gives the same lists."""

    model: FittedModel
    policy: ListPolicy
    n: int
    rng: int

    def __call__(self, users: IntArray) -> tuple[IntArray, torch.Tensor]:
        """(users, n) item positions, -1 for none; and every score (users, items), NaN where a system gave lists."""
        model = self.model
        unseen = ~model.data.seen(users)
        if isinstance(model, BlackBox) and model.sampling is not None:
            return self._given(model, users, unseen)
        scores = model.scores(users)
        allowed = torch.from_numpy(unseen) & model.may_show(scores)
        return self._lister(scores, allowed, users, self.n, self.rng), scores

    def items(self, users: IntArray) -> IntArray:
        """The lists without the scores."""
        return self(users)[0]

    def rows(self, users: IntArray) -> pl.DataFrame:
        """The lists under the original ids, a row for each place."""
        data, (lists, scores) = self.model.data, self(users)
        row, rank = np.nonzero(lists >= 0)
        items = lists[row, rank]
        return pl.DataFrame(
            {
                "user": data.user_ids.gather(users[row]),
                "item": data.item_ids.gather(items),
                "rank": rank + 1,
                "score": pl.Series(scores[torch.from_numpy(row), torch.from_numpy(items)].numpy()).fill_nan(None),
            }
        )

    def _given(self, model: BlackBox, users: IntArray, unseen: NDArray[np.bool_]) -> tuple[IntArray, torch.Tensor]:
        """The system's own lists, in their order, without what was seen; they come without scores."""
        if self.policy not in (Top1(), Softmax(beta=1)):
            raise NotSupportedError(
                f"This system gives lists, which are taken as they are: {self.policy!r} has no scores to choose by. "
                "Leave out the policy, or build the system with scores=... or probabilities=..."
            )
        items = np.full((len(users), self.n), -1, dtype=np.int64)
        for row, user in enumerate(users):
            shown = model.own_list(int(user))
            new = shown[unseen[row, shown]][: self.n]
            items[row, : len(new)] = new
        return items, torch.full(unseen.shape, torch.nan, dtype=torch.float64)

    @cached_property
    def _lister(self) -> Lister:
        return self.policy.lister(self.model.data)  # once for all blocks


def lists_of(
    model: FittedModel,
    policy: ListPolicy,
    n: int,
    rng: int,
    engine: Engine,
    label: str,
    users: IntArray | None = None,
) -> IntArray:
    """(users, n): item positions, best first, -1 for none, for everybody in the model's log or `users` (positions)."""
    check_length(n, "k")
    asked = np.arange(model.data.n_users) if users is None else users
    return np.concatenate(list(engine.map(Recommend(model, policy, n, rng).items, blocks(asked), label)))


@checked
def recommend(
    model: FittedModel,
    *,
    n: int = 10,
    policy: ListPolicy | None = None,
    users: Iterable[object] | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> pl.DataFrame:
    """Lists of n items that each user has not seen, under the original ids: user, item, rank, score.

    `users` are ids. A stochastic policy draws without replacement. A system that gives lists is asked for one each:
    it comes in its own order, without what was seen and without scores, and where it is short it stays short.
    """
    check_length(n)
    positions = np.arange(model.data.n_users) if users is None else model.data.users_at(users)
    work = Recommend(model, policy or Top1(), n, rng)
    return pl.concat((engine or Serial()).map(work.rows, blocks(positions), "lists"))


def check_length(n: int, argument: str = "n") -> None:
    """A list has at least one place, and every user's is held in memory."""
    if not 1 <= n <= LONGEST:
        raise InputError(argument, received=n, expected=f"a list length of 1 or more, up to {LONGEST:,}")

"""What would really be shown: each user's list, and how its items stand to the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.engines import Engine
from recaudit.engines.base import blocks
from recaudit.models.base import FittedModel
from recaudit.policies import top_items


@final
@dataclass(frozen=True)
class Spurious:
    """When a shown item is called spurious: `r < unrelated` although `s > similar`.

    Relatedness below 0.1 is less than 95% of the rated pairs have, in MovieLens 1M and in the demo, whether it is
    taken from the log or from genres.
    """

    unrelated: float = 0.1
    similar: float = 0.3


@final
@dataclass(frozen=True, eq=False)
class Shown:
    """The unseen items with the highest scores, for some users; NaN where a list has no more items."""

    users: IntArray
    """(users,): positions."""
    items: IntArray
    """(users, k): positions, best first; -1 where none is left."""
    similarity: FloatArray
    """(users, k): s_ij."""
    relatedness: FloatArray
    """(users, k): r_ij."""

    @property
    def overshoot(self) -> FloatArray:
        """(users, k): max(0, s_ij - r_ij)."""
        return np.maximum(0.0, self.similarity - self.relatedness)

    def spurious(self, rule: Spurious) -> FloatArray:
        """(users, k): 1 where the rule calls the item spurious, else 0."""
        flags = (self.relatedness < rule.unrelated) & (self.similarity > rule.similar)
        return np.where(self.items >= 0, flags, np.nan)


def shown(
    model: FittedModel,
    user_vectors: FloatArray,
    item_vectors: FloatArray,
    relatedness: Relatedness,
    users: IntArray,
    k: int,
    engine: Engine,
) -> Shown:
    """The lists of `users` (positions); s is the product of the vectors, as in `overshoot`."""
    items = np.concatenate(list(engine.map(_Lists(model, k), blocks(users), "lists")))
    row, place = np.nonzero(items >= 0)
    people, films = users[row], items[row, place]
    s, r = np.full(items.shape, np.nan), np.full(items.shape, np.nan)
    s[row, place] = np.einsum("nd,nd->n", user_vectors[people], item_vectors[films])
    r[row, place] = relatedness.pairs(people, films)
    return Shown(users, items, s, r)


@final
@dataclass(frozen=True, eq=False)
class _Lists:
    """Users in, (users, k) positions out; picklable, and pure."""

    model: FittedModel
    k: int

    def __call__(self, users: IntArray) -> IntArray:
        allowed = torch.from_numpy(~self.model.data.seen(users))
        return top_items(self.model.scores(users), allowed, self.k)

"""The best calibrated list of all, for small catalogues: branch and bound over what comes at each rank.

A list that is begun cannot end above its value so far (with the final W in every term) plus the largest gains of as
many items as are missing, each at the weight of the next rank: gains only fall, and rank weights too. Scores are
shifted so that no gain is negative, which is the same for every list of the same length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.solvers.lists.objective import SMOOTHING, CategoryVectors, divergence, list_distribution


@final
@dataclass(frozen=True, eq=False)
class ExactList:
    """The best list, and what it is worth by Equation 6."""

    items: IntArray
    """(n,): item positions in order, as many as were asked for or are allowed."""
    value: float
    divergence: float
    """C_KL of the list."""
    nodes: int
    """How many beginnings of lists were looked at."""


def best_list(
    scores: FloatArray,
    allowed: BoolArray,
    vectors: CategoryVectors,
    interests: FloatArray,
    *,
    weight: float,
    size: int,
    rank_weights: FloatArray | None = None,
    smoothing: float = SMOOTHING,
    importance: FloatArray | None = None,
    caps: IntArray | None = None,
    must: BoolArray | None = None,
) -> ExactList:
    """The list of one user that maximises (1 - lambda) s(I) - lambda C_KL(p, q(I)); arguments as `calibrated_lists`.

    `scores`, `allowed`, `must` (items,); `interests` (genres,). About 30 allowed items and 6 ranks are
    quick.
    """
    candidates = np.flatnonzero(allowed)
    length = min(size, len(candidates))
    genres = vectors.n_genres
    w = np.ones(size) if rank_weights is None else rank_weights
    shares = vectors.shares().toarray()[vectors.vector_of[candidates]]
    due = np.zeros(len(candidates), dtype=bool) if must is None else must[candidates]
    search = _Search(
        scores[candidates] - scores[candidates].min(initial=0.0),
        shares,
        interests,
        np.ones(genres) if importance is None else importance,
        weight,
        w[:length],
        smoothing,
        np.full(genres, len(candidates) + 1) if caps is None else caps,
        due,
    )
    search.extend([], np.zeros(genres), ((shares > 0) & due[:, None]).sum(axis=0), 0.0)
    if search.best is None:
        raise InputError("caps", received=f"{caps}", expected=f"caps that leave room for a list of {length} items")
    items = candidates[search.best]
    q = list_distribution(vectors.vector_of[items][None].astype(np.int64), vectors.shares(), w[:length])
    apart = float(divergence(interests[None], q, smoothing, importance)[0])
    return ExactList(items, (1 - weight) * float(scores[items].sum()) - weight * apart, apart, search.nodes)


@final
@dataclass(eq=False)
class _Search:
    """Depth first, the best gain first; `best` is the best list of positions among the candidates so far."""

    relevance: FloatArray
    shares: FloatArray
    p: FloatArray
    importance: FloatArray
    weight: float
    w: FloatArray
    alpha: float
    caps: IntArray
    due: BoolArray
    best: list[int] | None = None
    highest: float = -np.inf
    nodes: int = 0
    _equal_ranks: bool = field(init=False)

    def __post_init__(self) -> None:
        self._equal_ranks = bool((self.w == self.w[:1]).all())

    def gains(self, held: FloatArray, rank: int) -> FloatArray:
        """(candidates,): what each would add at this rank, 0 or more."""
        before = (1 - self.alpha) * held + self.alpha * self.w.sum() * self.p
        added = (1 - self.alpha) * self.w[rank] * self.shares / np.where(self.p > 0, before, 1.0)
        sums: FloatArray = np.log1p(added) @ (self.importance * self.p)
        return (1 - self.weight) * self.relevance + self.weight * sums

    def extend(self, chosen: list[int], held: FloatArray, used: IntArray, value: float, after: int = -1) -> None:
        """Look at every list that begins with `chosen`, whose value is `value`.

        With equal rank weights the order does not matter: only items past `after` continue the list.
        """
        self.nodes += 1
        rank, left = len(chosen), len(self.w) - len(chosen)
        if not left:
            if value > self.highest:
                self.best, self.highest = list(chosen), value
            return
        open_ = np.ones(len(self.due), dtype=bool)
        open_[chosen] = False
        if self._equal_ranks:
            open_[: after + 1] = False
        due_left = int(self.due.sum() - self.due[chosen].sum())
        full = ((self.shares > 0) & (used >= self.caps)).any(axis=1)
        free = open_ & (self.due | (~full & (left > due_left)))
        gains = np.where(free, self.gains(held, rank), -np.inf)
        order = np.argsort(-gains, kind="stable")[: int(free.sum())]
        if len(order) < left or value + gains[order[:left]].sum() <= self.highest:
            return
        for item in order.tolist():
            taken = used + ((self.shares[item] > 0) & ~self.due[item])
            self.extend(
                [*chosen, item], held + self.w[rank] * self.shares[item], taken, value + float(gains[item]), item
            )

"""Instability where each rating moves the score of its own item and no other: exact, for every pair of users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.instability.question import InstabilityQuestion, Pairs, Part, masked
from recaudit.engines.base import blocks
from recaudit.interventions import Actions
from recaudit.models.response import EditedItems
from recaudit.solvers.distance.distances import LARGEST
from recaudit.solvers.distance.own_item import largest_distance

VIEWERS = 64
"""Viewers solved together: their scores of every editor's items stay in tens of megabytes."""
_SCORES = 8_000_000
"""Scores of edited items in memory at a time; editors are cut accordingly."""


@final
@dataclass(frozen=True, eq=False)
class Edits:
    """What the editors can do, worked out once for all viewers."""

    items: IntArray
    """(editors, actions): -1 for none."""
    grid: FloatArray
    """(ratings,): the ratings tried for each item."""
    exact: bool
    """Whether no other rating that may be given can do more than those of the grid."""
    changes: int | None
    edited: EditedItems
    """At every rating of the grid and, last, at the baseline's."""

    @classmethod
    def of(cls, ask: InstabilityQuestion, actions: Actions, rng: int) -> Edits:
        """What the editors of the question can do with these actions."""
        model, log = ask.model, ask.log
        items = np.concatenate([actions.items(model, part, rng, log) for part in blocks(ask.editors)])
        grid, exact = ask.tried(actions.ratings)
        before = ask.ratings_before(actions, items)
        last = np.full(items.shape, grid[0]) if before is None else before  # the model's own scores take its place
        spread = np.broadcast_to(grid, (*items.shape, len(grid)))
        edited = model.edited_items(ask.editors, items, np.concatenate([spread, last[..., None]], axis=2))
        return cls(items, grid, exact, actions.changes, edited)

    def scores(self, viewers: IntArray, part: slice) -> torch.Tensor:
        """(viewers, editors, actions, ratings + 1): of the items that the editors in `part` edit."""
        some = replace(self.edited, vectors=self.edited.vectors[part], offset=self.edited.offset[part])
        return some.scores(viewers)


@final
@dataclass(frozen=True, eq=False)
class SolveOwnItem:
    """A block of viewers in, their pairs with all editors out, by the exact solver; pure and picklable."""

    question: InstabilityQuestion
    edits: Edits
    members: FloatArray
    """(editors, groups): see `InstabilityQuestion.members`."""

    def __call__(self, viewers: IntArray) -> Part:
        """The pairs of these viewers (positions)."""
        ask, edits = self.question, self.edits
        scores = ask.model.scores(viewers)
        shown = masked(scores, ask.allowed(viewers))
        actions = edits.items.shape[1]
        values = np.empty((len(viewers), len(ask.editors)))
        best = np.full((*values.shape, actions), np.nan) if ask.best_ratings else None
        size = max(1, _SCORES // (VIEWERS * actions * (len(edits.grid) + 1)))
        for start in range(0, len(ask.editors), size):
            part = slice(start, start + size)
            items = edits.items[part]
            edited = edits.scores(viewers, part)
            if ask.baseline == "scores":
                edited[..., -1] = scores[:, torch.from_numpy(np.maximum(items, 0))]
            found = largest_distance(
                ask.distance, shown, items, edited, ask.beta, target=ask.target, changes=edits.changes
            )
            values[:, part] = found.value.reshape(len(viewers), -1)
            if best is not None:
                best[:, part] = self._ratings(found.choices(actions).reshape(edited.shape[:3]), edited[..., :-1])
        # A grid proves nothing between its points: there, only what no distance exceeds is known.
        upper = values if edits.exact else np.full_like(values, LARGEST[ask.distance])
        solved = np.full(values.shape, edits.exact)
        return Part.of(ask, Pairs(viewers, values, values, upper, solved, edits.items, best), self.members)

    def _ratings(self, choices: NDArray[np.int8], edited: torch.Tensor) -> FloatArray:
        """(viewers, editors, actions): the ratings that reach the value; NaN where a rating stays or does not matter.

        `choices` (viewers, editors, actions) as in VertexSolution, `edited` (..., actions, ratings).
        """
        lowest, highest = edited.argmin(dim=3).numpy(), edited.argmax(dim=3).numpy()
        at = np.where(choices == 1, lowest, highest)
        return np.where(choices > 0, self.edits.grid[at], np.nan)

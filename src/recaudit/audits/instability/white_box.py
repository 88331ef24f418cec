"""Instability of models that are known inside: exact where each rating moves its own item only, else pair by pair."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.instability.pairs import PairDistances, PairSolver
from recaudit.audits.reachability.search import search_distance
from recaudit.interventions import Stars
from recaudit.models.response import AffineResponse
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST
from recaudit.solvers.distance.maximize import maximize_distance
from recaudit.solvers.distance.own_item import largest_distance
from recaudit.status import Status

VIEWERS = 64
"""Viewers solved together: their scores of every editor's items stay in tens of megabytes."""
_SCORES = 8_000_000
"""Scores of edited items in memory at a time; editors are cut accordingly."""


@final
class OwnItemSolver(PairSolver):
    """Each rating moves the score of its own item and no other: exact, for every pair of users."""

    def prepare(self) -> None:
        """See `PairSolver`."""
        self._items = self.edited_items()
        self._grid, self._exact = self.grid()
        before = self.ratings_before(self.model, self.editors, self._items)
        last = np.full(self._items.shape, self._grid[0]) if before is None else before  # replaced by the scores below
        tried = np.broadcast_to(self._grid, (*self._items.shape, len(self._grid)))
        ratings = np.concatenate([tried, last[..., None]], axis=2)
        self._edited = self.model.edited_items(self.editors, self._items, ratings)

    def solve(self, viewers: IntArray) -> PairDistances:
        """See `PairSolver`."""
        audit, scores = self.audit, self.model.scores(viewers)
        shown = self.shown(scores, viewers)
        actions = self._items.shape[1]
        values = np.empty((len(viewers), len(self.editors)))
        best = np.full((*values.shape, actions), np.nan) if audit.best_ratings else None
        size = max(1, _SCORES // (VIEWERS * actions * (len(self._grid) + 1)))
        for start in range(0, len(self.editors), size):
            part = slice(start, start + size)
            items, whole = self._items[part], self._edited
            edited = replace(whole, vectors=whole.vectors[part], offset=whole.offset[part]).scores(viewers)
            if audit.baseline == "scores":
                edited[..., -1] = scores[:, torch.from_numpy(np.maximum(items, 0))]
            found = largest_distance(
                audit.distance, shown, items, edited, self.beta, target=self.target, changes=self.actions.changes
            )
            values[:, part] = found.value.reshape(len(viewers), -1)
            if best is not None:
                best[:, part] = self._ratings(found.choices(actions).reshape(edited.shape[:3]), edited[..., :-1])
        # A grid proves nothing between its points: there, only what no distance exceeds is known.
        upper = values if self._exact else np.full_like(values, LARGEST[audit.distance])
        return PairDistances(values, values, upper, np.full(values.shape, self._exact), self._items, best)

    def _ratings(self, choices: NDArray[np.int8], edited: torch.Tensor) -> FloatArray:
        """(viewers, editors, actions): the ratings that reach the value; NaN where a rating stays or does not matter.

        `choices` (viewers, editors, actions) as in VertexSolution, `edited` (..., actions, ratings).
        """
        lowest, highest = edited.argmin(dim=3).numpy(), edited.argmax(dim=3).numpy()
        at = np.where(choices == 1, lowest, highest)
        return np.where(choices > 0, self._grid[at], np.nan)


@final
class PairwiseSolver(PairSolver):
    """A rating may move the scores of many items: branch and bound over the box of ratings for an affine response,
    ascent for one that can be differentiated."""

    def prepare(self) -> None:
        """See `PairSolver`."""
        self._items = self.edited_items()
        self._before = self.ratings_before(self.model, self.editors, self._items)

    def solve(self, viewers: IntArray) -> PairDistances:
        """See `PairSolver`."""
        shape = (len(viewers), len(self.editors))
        value, upper, solved = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        best = np.full((*shape, self._items.shape[1]), np.nan)
        scores, allowed = self.model.scores(viewers), torch.from_numpy(self.allowed(viewers))
        acted = self._items >= 0
        wanted = (viewers[:, None] != self.editors) & acted.any(axis=1) & allowed.any(dim=1).numpy()[:, None]
        for row, column in np.argwhere(wanted):
            found = self._pair(int(viewers[row]), column, acted[column], scores[row], allowed[row])
            value[row, column], upper[row, column], solved[row, column], best[row, column, acted[column]] = found
        return PairDistances(value, value, upper, solved, self._items, best)

    def _pair(
        self, viewer: int, column: int, acted: BoolArray, scores: torch.Tensor, allowed: torch.Tensor
    ) -> tuple[float, float, bool, FloatArray]:
        """The value, what it is surely not above, whether that is the same, and the ratings (actions,)."""
        editor, ratings, distance = int(self.editors[column]), self.ratings, self.audit.distance
        response = self.model.respond(viewer, editor, self._items[column, acted])
        factual = None if self._before is None else self._before[column, acted]
        start = scores if factual is None else response.scores(factual)
        if not isinstance(response, AffineResponse):
            seed = derive(self.rng, "instability", self.log.user_ids[viewer], self.log.user_ids[editor])
            asked = response, start, allowed, self.beta, ratings, distance
            found = search_distance(*asked, start=factual, rng=seed)
            return found.value, found.upper, False, found.ratings
        solution = maximize_distance(
            response.slope[allowed],
            response.intercept[allowed],
            torch.log_softmax(self.beta * start[allowed], dim=0),
            self.beta,
            ratings.low,
            ratings.high,
            distance,
            values=ratings.values if isinstance(ratings, Stars) else None,
        )
        solved = bool(solution.status[0] == Status.SOLVED)
        return float(solution.value[0]), float(solution.upper[0]), solved, solution.actions[0]

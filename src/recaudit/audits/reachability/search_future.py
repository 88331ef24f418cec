"""Future-k reachability by search, for models without an exact solver: what is found is a lower bound.

A system that shows its top item is a function of the ratings it is given, so that a rating for each step is all there
is to choose, whatever items come: k numbers, not one for every step and item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import LOWEST
from recaudit.audits.reachability.search import SearchMethod, rating_box
from recaudit.models.response import DifferentiableResponse
from recaudit.policies import top_items
from recaudit.ranking import ranks
from recaudit.seeding import derive
from recaudit.solvers.search import EXHAUSTIVE, Box, Objective, ascend
from recaudit.solvers.solution import lower_bounded

_GRID = 243
"""Roll-outs of a user that are tried before any is climbed: every third of the way, for five steps."""
_STARTS = 4
"""The points of the grid that are the best for the most targets, from which all targets climb."""


@final
@dataclass(frozen=True, eq=False)
class SearchFuture(SearchMethod):
    """By gradient ascent.

    An item that came on the way in every roll-out that was tried has the value 0, and is bounded: another roll-out
    might leave it. It does not apply where it surely comes on the way: it is the first item that is shown, or every
    roll-out that there is was tried.
    """

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        k, shown, scores = self.future.k, ~self.log.seen(users), self.model.scores(users)
        candidates = self.candidates(users)
        solvable = self.asked(candidates) & candidates
        none = np.empty(0)
        parts: list[list[Any]] = [[none, np.empty((0, k)), np.empty((0, k), dtype=np.int64), none]]
        for row, user in enumerate(users):
            targets = np.flatnonzero(solvable[row])
            if shown[row].sum() < k or candidates[row].sum() <= k or not len(targets):
                solvable[row] = False
                continue
            *found, applies = self._search(int(user), scores[row], shown[row], candidates[row], targets)
            solvable[row, targets] = applies
            parts.append([column[applies] for column in found])
        log_value, ratings, items, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
        answer = lower_bounded(log_value, ratings, np.zeros(len(log_value), dtype=np.int64), largest=0.0)
        return self.frame(users, candidates, solvable, scores, answer, rank, items)

    def _search(
        self, user: int, start: Tensor, shown: BoolArray, candidates: BoolArray, targets: IntArray
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, BoolArray]:
        """The best roll-out found for each target of one user.

        `start` (items,): the scores before anything is rated; `shown` and `candidates` (items,) what may come on the
        way and at the end. Log-probabilities (targets,), ratings and items (targets, steps), ranks at the end, NaN and
        -1 where no roll-out left the target; and whether a target applies, that is does not surely come on the way.
        """
        policy, k = self.audit.policy, self.future.k
        box = rating_box(self.ratings, k)
        left = np.zeros(len(targets), dtype=bool)

        def step(items: tuple[int, ...], ratings: Tensor) -> Tensor:
            if not items:
                return start
            response = self.model.respond(user, user, np.array(items))
            assert isinstance(response, DifferentiableResponse)
            return response.batch_scores(ratings[None])[0]

        def follow(ratings: Tensor) -> tuple[tuple[int, ...], Tensor, Tensor, Tensor]:
            """The items that come, and at the end the scores, what is left and the log-probabilities, (items,) each."""
            items, scores = roll_out(step, self.model.may_show, shown, ratings)
            allowed = left_over(candidates, items)
            return items, scores, allowed, policy.log_probabilities(scores[None], allowed[None])[0]

        def objective(points: Tensor) -> Tensor:
            """(points, targets)"""
            rows = []
            for point in points:
                _, _, allowed, logs = follow(point)
                left[allowed.numpy()[targets]] = True
                rows.append(logs[targets].clamp(min=LOWEST))
            return torch.stack(rows)

        points = _climb(objective, box, derive(self.rng, "future search", self.log.user_ids[user]))
        items, ratings = np.full(points.shape, -1, dtype=np.int64), np.full(points.shape, np.nan)
        log_value, places = np.full(len(targets), -np.inf), np.full(len(targets), np.nan)
        for row, (target, point) in enumerate(zip(targets, points, strict=True)):
            with torch.no_grad():
                came, scores, allowed, logs = follow(aligned(point))
            if allowed[target]:
                log_value[row], items[row], ratings[row] = logs[target], came, point
                places[row] = ranks(scores[None], allowed[None])[0, target]
        first = int(top_items(start[None], torch.from_numpy(shown)[None], 1)[0, 0])
        return log_value, ratings, items, places, (left | (box.size > EXHAUSTIVE)) & (targets != first)


def _climb(objective: Objective, box: Box, seed: int) -> FloatArray:
    """(targets, steps): the best points of a coarse grid, and of ascent from there.

    Where other items come the objective jumps, and no gradient sees that coming: the grid finds the cells.
    """
    step = next(n for n in (5, 3, 2, 1) if n**box.coordinates <= _GRID)
    coarse = np.linspace(box.lower[0], box.upper[0], step) if step > 1 else np.array([box.centre[0]])
    grid = box.inside(Box.grid(coarse, box.coordinates).everything())
    with torch.no_grad():
        values = objective(aligned(grid)).numpy()
    best = values.argmax(axis=0)
    at_best = values[best, np.arange(values.shape[1])]
    most, counts = np.unique(best, return_counts=True)
    starts = grid[most[np.argsort(-counts, kind="stable")[:_STARTS]]]
    found = ascend(objective, box, starts=starts, restarts=0, steps=20, rng=seed)
    return np.where((found.value > at_best)[:, None], found.actions, grid[best])


def roll_out(
    scores: Callable[[tuple[int, ...], Tensor], Tensor],
    may_show: Callable[[Tensor], Tensor],
    shown: BoolArray,
    ratings: Tensor,
) -> tuple[tuple[int, ...], Tensor]:
    """The items that come when step t is rated `ratings[t]`, and the scores (items,) after all of them.

    `scores(items, ratings)`: after rating these items in this order; `shown` (items,): what may come on the way. Fewer
    items come where nothing is left that the system may show.
    """
    items: tuple[int, ...] = ()
    free = torch.from_numpy(shown.copy())
    for step in range(len(ratings)):
        with torch.no_grad():
            now = scores(items, ratings[:step].detach())
        top = int(top_items(now[None], (free & may_show(now))[None], 1)[0, 0])
        if top < 0:
            return items, now
        items, free[top] = (*items, top), False
    return items, scores(items, ratings)


def left_over(candidates: BoolArray, items: tuple[int, ...]) -> Tensor:
    """(items,): the candidates that did not come on the way."""
    allowed = torch.from_numpy(candidates.copy())
    allowed[list(items)] = False
    return allowed

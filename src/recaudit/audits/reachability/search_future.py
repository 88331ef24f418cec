"""Future-k reachability by search, for models without an exact solver: what is found is a lower bound.

A system that shows its top item is a function of the ratings it is given, so that a rating for each step is all there
is to choose, whatever items come: k numbers, not one for every step and item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import LOWEST
from recaudit.audits.candidates import candidate_items
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.audits.reachability.roll_outs import check_roll_outs, left_over, roll_out
from recaudit.audits.reachability.search import rating_box
from recaudit.interventions import Future
from recaudit.interventions.ratings import free_ratings
from recaudit.models.base import FittedModel
from recaudit.models.response import DifferentiableResponse
from recaudit.policies import Policy, top_items
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
class SearchFuture:
    """A block of users in, a row for each of their pairs out, by gradient ascent; pure and picklable.

    An item that came on the way in every roll-out that was tried has the value 0, and is bounded: another roll-out
    might leave it. It does not apply where it surely comes on the way: it is the first item that is shown, or every
    roll-out that there is was tried.
    """

    inquiry: Inquiry
    future: Future

    def __post_init__(self) -> None:
        check_roll_outs(self.inquiry, self.future)

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""
        ask, k = self.inquiry, self.future.k
        candidates = candidate_items(ask.log, users, np.empty((len(users), 0), dtype=np.int64), ask.candidates)
        asked, shown, scores = ask.asked(candidates), ~ask.log.seen(users), ask.model.scores(users)
        solvable, allowed = asked & candidates, torch.from_numpy(candidates)
        before = ranks(scores, allowed)
        found: list[_Found] = []
        for row, user in enumerate(users):
            targets = np.flatnonzero(solvable[row])
            if shown[row].sum() < k or candidates[row].sum() <= k or not len(targets):
                solvable[row] = False
                continue
            system = _System(ask.model, int(user), scores[row], shown[row], candidates[row], ask.policy)
            best = self._search(system, targets)
            solvable[row, targets] = best.applies
            found.append(best.where(best.applies, before[row, targets]))
        joined = _Found.joined(found, k)
        evaluations = np.zeros(len(joined.log_value), dtype=np.int64)  # roll-outs are not counted
        answer = lower_bounded(joined.log_value, joined.ratings, evaluations, largest=0.0)
        logs = ask.policy.log_probabilities(scores, allowed).numpy()
        choices = np.maximum(candidates.sum(axis=1) - k, 0)  # what is shown on the way is not recommended again
        return ask.frame(users, asked, solvable, logs, answer, joined.places, joined.items, choices)

    def _search(self, system: _System, targets: IntArray) -> _Found:
        box = rating_box(free_ratings(self.future.ratings, self.inquiry.log.scale), self.future.k)
        seed = derive(self.inquiry.rng, "future search", self.inquiry.log.user_ids[system.user])
        left = np.zeros(len(targets), dtype=bool)

        def objective(points: Tensor) -> Tensor:
            """(points, targets)"""
            rows = []
            for point in points:
                logs, allowed = system.log_probabilities(point)
                left[allowed.numpy()[targets]] = True
                rows.append(logs[targets].clamp(min=LOWEST))
            return torch.stack(rows)

        points = _climb(objective, box, seed)
        return system.told(targets, points, left | (box.size > EXHAUSTIVE))


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


@final
@dataclass(frozen=True, eq=False)
class _System:
    """One user's roll-outs."""

    model: FittedModel
    user: int
    start: Tensor
    """(items,): the scores before anything is rated."""
    shown: BoolArray
    """(items,): what may come on the way."""
    candidates: BoolArray
    """(items,): what may come at the end, but for what came on the way."""
    policy: Policy

    def follow(self, ratings: Tensor) -> tuple[tuple[int, ...], Tensor]:
        """The items that come when step t is rated `ratings[t]`, and the scores (items,) after all of them."""
        return roll_out(self._scores, self.model.may_show, self.shown, ratings)

    def log_probabilities(self, ratings: Tensor) -> tuple[Tensor, Tensor]:
        """(items,) at the end of the roll-out, and which items are left there; -inf for what is not."""
        items, scores = self.follow(ratings)
        allowed = left_over(self.candidates, items)
        return self.policy.log_probabilities(scores[None], allowed[None])[0], allowed

    def told(self, targets: IntArray, points: FloatArray, may_be_left: BoolArray) -> _Found:
        """What was found for `targets` (targets,), with the items that their ratings (targets, steps) lead through.

        `may_be_left` (targets,): whether some roll-out left the target, or one that was not tried might.
        """
        shape, first = points.shape, int(top_items(self.start[None], torch.from_numpy(self.shown)[None], 1)[0, 0])
        items, ratings = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
        log_value, places = np.full(len(targets), -np.inf), np.full(len(targets), np.nan)
        for row, (target, point) in enumerate(zip(targets, points, strict=True)):
            with torch.no_grad():
                followed, scores = self.follow(aligned(point))
            allowed = left_over(self.candidates, followed)
            if allowed[target]:
                log_value[row] = self.policy.log_probabilities(scores[None], allowed[None])[0, target]
                items[row], ratings[row] = followed, point
                places[row] = ranks(scores[None], allowed[None])[0, target]
        return _Found(log_value, ratings, items, places, may_be_left & (targets != first))

    def _scores(self, items: tuple[int, ...], ratings: Tensor) -> Tensor:
        """(items,): after rating `items` in this order."""
        if not items:
            return self.start
        response = self.model.respond(self.user, self.user, np.array(items))
        assert isinstance(response, DifferentiableResponse)
        return response.batch_scores(ratings[None])[0]


@final
@dataclass(frozen=True, eq=False)
class _Found:
    """The best roll-outs of some pairs."""

    log_value: FloatArray
    ratings: FloatArray
    """(pairs, steps): NaN where no roll-out left the target."""
    items: IntArray
    """(pairs, steps): -1 where no roll-out left the target."""
    places: FloatArray
    """(pairs,): the target's rank at the end; once joined, how many places it has climbed; NaN for neither."""
    applies: BoolArray
    """(pairs,): False where the target surely comes on the way."""

    def where(self, told: BoolArray, before: IntArray) -> _Found:
        """Only the pairs that are `told` of, with the places climbed from the ranks `before` (pairs,)."""
        climbed = before - self.places
        return _Found(self.log_value[told], self.ratings[told], self.items[told], climbed[told], self.applies[told])

    @classmethod
    def joined(cls, parts: list[_Found], steps: int) -> _Found:
        """One after the other."""
        none, pairs = np.empty(0), np.empty((0, steps))
        nothing = cls(none, pairs, pairs.astype(np.int64), none, none.astype(bool))
        columns = ([getattr(part, name) for part in (nothing, *parts)] for name in cls.__dataclass_fields__)
        return cls(*(np.concatenate(column) for column in columns))

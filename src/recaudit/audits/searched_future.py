"""Future-k reachability by search, for models without an exact solver: what is found is a lower bound.

A system that shows its top item is a function of the ratings it is given, so that a rating for each step is all there
is to choose, whatever items come: k numbers, not one for every step and item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.audits.best_response import Answer
from recaudit.audits.candidates import candidate_items
from recaudit.audits.inquiry import Inquiry, ranks
from recaudit.audits.searched_reachability import check_policy, rating_box
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future
from recaudit.interventions.ratings import free_ratings
from recaudit.models.base import FittedModel
from recaudit.models.black_box import LOWEST_LOG, BlackBox
from recaudit.models.response import DifferentiableResponse
from recaudit.policies import Policy, Top1, top_items
from recaudit.seeding import derive
from recaudit.solvers.ascent import Objective, ascend
from recaudit.solvers.box import Box
from recaudit.solvers.zeroth_order import maximize_black_box
from recaudit.status import Status

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Tensor = torch.Tensor

_GRID = 243
"""Roll-outs of a user that are tried before any is climbed: every third of the way, for five steps."""
_STARTS = 4
"""The points of the grid that are the best for the most targets, from which all targets climb."""


@final
@dataclass(frozen=True, eq=False)
class SearchFuture:
    """A block of users in, a row for each of their pairs out, by search; pure and picklable.

    A system that can only be asked is asked k times a roll-out, and there is one column more, `queries`: how many each
    pair needed. Roll-outs that pairs of the same user share are asked for once.
    """

    inquiry: Inquiry
    future: Future
    budget: int = 200
    """Queries that a pair may take, where the system can only be asked."""

    def __post_init__(self) -> None:
        ask, model = self.inquiry, self.inquiry.model
        check_policy(ask)
        if ask.slate > 1 or ask.baseline != "scores" or not isinstance(self.future.follows, Top1):
            raise NotSupportedError(
                f"{type(model).__name__} is audited by search, which follows the top item from the model's scores to "
                f"one recommendation: received slate={ask.slate}, baseline={ask.baseline!r}, "
                f"follows={self.future.follows!r}."
            )
        if isinstance(model, BlackBox) and model.sampling is not None:
            raise NotSupportedError("A system that gives random lists has no top item to follow. Audit Past(k).")
        if self._opaque and self._rollouts < 1:
            raise InputError("budget", received=self.budget, expected=f"{self.future.k} queries at least: one roll-out")

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""
        ask, k = self.inquiry, self.future.k
        candidates = candidate_items(ask.log, users, np.empty((len(users), 0), dtype=np.int64), ask.candidates)
        asked, shown, scores = ask.asked(candidates), ~ask.log.seen(users), ask.model.scores(users)
        solvable, allowed = asked & candidates, torch.from_numpy(candidates)
        before = ranks(scores, allowed).numpy()
        found: list[_Found] = []
        for row, user in enumerate(users):
            targets = np.flatnonzero(solvable[row])
            if shown[row].sum() < k or candidates[row].sum() <= k or not len(targets):
                solvable[row] = False
                continue
            system = _System(ask.model, int(user), scores[row], shown[row], candidates[row], ask.policy, k)
            best = self._search(system, targets)
            solvable[row, targets] = best.log_value > LOWEST_LOG  # else it was always shown on the way
            found.append(best.where(best.log_value > LOWEST_LOG, before[row, targets]))
        joined = _Found.joined(found, k)
        status = np.full(len(joined.log_value), Status.BOUNDED.value, dtype="<U14")
        answer = Answer(joined.log_value, joined.log_value, np.zeros(len(status)), status, joined.ratings)
        logs = ask.policy.log_probabilities(scores, allowed).numpy()
        choices = np.maximum(candidates.sum(axis=1) - k, 0)  # what is shown on the way is not recommended again
        frame = ask.frame(users, asked, solvable, logs, answer, joined.places, joined.items, choices)
        if not self._opaque:
            return frame
        queries = np.full(len(frame), np.nan)
        queries[solvable[asked]] = joined.queries
        return frame.with_columns(queries=pl.Series(queries).fill_nan(None).cast(pl.Int32))

    @property
    def _opaque(self) -> bool:
        return not issubclass(self.inquiry.model.response, DifferentiableResponse)

    @property
    def _rollouts(self) -> int:
        """How many roll-outs a pair's budget buys."""
        return self.budget // self.future.k

    def _search(self, system: _System, targets: IntArray) -> _Found:
        ratings = free_ratings(self.future.ratings, self.inquiry.log.scale)
        k = self.future.k
        box = rating_box(ratings, k)
        seed = derive(self.inquiry.rng, "future search", self.inquiry.log.user_ids[system.user])
        if not self._opaque:

            def objective(points: Tensor) -> Tensor:
                """(points, targets)"""
                return torch.stack([system.log_probabilities(point)[targets] for point in points])

            return system.told(targets, *_climb(objective, box, seed), np.zeros(len(targets), dtype=np.int64))
        values, points, queries = [], [], []
        for target in targets:

            def value(point: FloatArray, target: int = int(target)) -> float:
                return float(system.log_probabilities(torch.from_numpy(point))[target])

            item = self.inquiry.log.item_ids[int(target)]
            asked = maximize_black_box(value, box, self._rollouts, rng=derive(seed, item))
            values.append(asked.value)
            points.append(asked.point)
            queries.append(asked.queries * k)
        return system.told(targets, np.array(values), np.stack(points), np.array(queries))


def _climb(objective: Objective, box: Box, seed: int) -> tuple[FloatArray, FloatArray]:
    """Values (targets,) and points (targets, steps): the best of a coarse grid, and of ascent from there.

    Where other items come the objective jumps, and no gradient sees that coming: the grid finds the cells.
    """
    step = next(n for n in (5, 3, 2, 1) if n**box.coordinates <= _GRID)
    coarse = np.linspace(box.lower[0], box.upper[0], step) if step > 1 else np.array([box.centre[0]])
    grid = box.inside(Box.grid(coarse, box.coordinates).everything())
    with torch.no_grad():
        values = objective(torch.from_numpy(grid)).numpy()
    best = values.argmax(axis=0)
    at_best = values[best, np.arange(values.shape[1])]
    most, counts = np.unique(best, return_counts=True)
    starts = grid[most[np.argsort(-counts, kind="stable")[:_STARTS]]]
    found = ascend(objective, box, starts=starts, restarts=0, steps=20, rng=seed)
    higher = found.value > at_best
    return np.where(higher, found.value, at_best), np.where(higher[:, None], found.points, grid[best])


@final
@dataclass(frozen=True, eq=False)
class _System:
    """One user's roll-outs, each remembered by its ratings."""

    model: FittedModel
    user: int
    start: Tensor
    """(items,): the scores before anything is rated."""
    shown: BoolArray
    """(items,): what may come on the way."""
    candidates: BoolArray
    """(items,): what may come at the end, but for what came on the way."""
    policy: Policy
    steps: int
    known: dict[bytes, Tensor] = field(default_factory=dict)

    def follow(self, ratings: Tensor) -> tuple[tuple[int, ...], Tensor]:
        """The items that come when step t is rated `ratings[t]`, and the scores (items,) after all of them."""
        items: tuple[int, ...] = ()
        free = torch.from_numpy(self.shown.copy())
        for step in range(self.steps):
            with torch.no_grad():
                scores = self._scores(items, ratings[:step].detach())
            top = int(top_items(scores[None], free[None], 1)[0, 0])
            items, free[top] = (*items, top), False
        return items, self._scores(items, ratings)

    def log_probabilities(self, ratings: Tensor) -> Tensor:
        """(items,): at the end of the roll-out; LOWEST_LOG for what cannot come any more."""
        items, scores = self.follow(ratings)
        allowed = torch.from_numpy(self.candidates.copy())
        allowed[list(items)] = False
        return self.policy.log_probabilities(scores[None], allowed[None])[0].clamp(min=LOWEST_LOG)

    def told(self, targets: IntArray, log_value: FloatArray, points: FloatArray, queries: IntArray) -> _Found:
        """What was found for `targets` (targets,), with the items that their ratings (targets, steps) lead through."""
        items, places = np.empty(points.shape, dtype=np.int64), np.empty(len(targets), dtype=np.int64)
        for row, (target, point) in enumerate(zip(targets, points, strict=True)):
            followed, scores = self.follow(torch.from_numpy(point))
            allowed = torch.from_numpy(self.candidates.copy())
            allowed[list(followed)] = False
            items[row], places[row] = followed, ranks(scores[None], allowed[None])[0, target]
        return _Found(log_value, points, items, places, queries)

    def _scores(self, items: tuple[int, ...], ratings: Tensor) -> Tensor:
        """(items,): after rating `items` in this order."""
        if not items:
            return self.start
        response = self.model.respond(self.user, self.user, np.array(items))
        if isinstance(response, DifferentiableResponse):
            return response.batch_scores(ratings[None])[0]
        given = ratings.detach().numpy()
        key = np.array(items).tobytes() + given.tobytes()
        if key not in self.known:
            self.known[key] = response.scores(given)
        return self.known[key]


@final
@dataclass(frozen=True, eq=False)
class _Found:
    """The best roll-outs of some pairs."""

    log_value: FloatArray
    ratings: FloatArray
    """(pairs, steps)"""
    items: IntArray
    """(pairs, steps)"""
    places: IntArray
    """(pairs,): the target's rank at the end; once joined, how many places it has climbed."""
    queries: IntArray

    def where(self, told: BoolArray, before: IntArray) -> _Found:
        """Only the pairs that are `told` of, with the places climbed from the ranks `before` (pairs,)."""
        climbed = before - self.places
        return _Found(self.log_value[told], self.ratings[told], self.items[told], climbed[told], self.queries[told])

    @classmethod
    def joined(cls, parts: list[_Found], steps: int) -> _Found:
        """One after the other."""
        none = np.empty(0, dtype=np.int64)
        nothing = cls(np.empty(0), np.empty((0, steps)), np.empty((0, steps), dtype=np.int64), none, none)
        columns = ([getattr(part, name) for part in (nothing, *parts)] for name in cls.__dataclass_fields__)
        return cls(*(np.concatenate(column) for column in columns))

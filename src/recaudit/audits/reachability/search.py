"""Reachability and instability by gradient ascent, for models without an exact solver: paper 001, section 5.1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import LOWEST
from recaudit.audits.reachability.pairs import Method, ranks_at
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, Interval, Stars
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.policies import Softmax, Top1, top_items
from recaudit.policies.gradients import tensor_log_probabilities
from recaudit.ranking import ranks
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST, Distance, distance_between
from recaudit.solvers.search import EXHAUSTIVE, Box, ascend
from recaudit.solvers.solution import Solution, lower_bounded
from recaudit.ties import TieKeys
from recaudit.torch_extra import require_torch

if TYPE_CHECKING:
    from torch import Tensor

    from recaudit.solvers.search import Objective

MOST_PAIRS = 100_000
"""Each pair needs a search of its own."""
_GRADIENTS = "searches by gradient ascent"
"""Use of torch that its absence is reported with."""


@dataclass(frozen=True, eq=False)
class SearchMethod(Method):
    """For models without an exact solver: what is found is a lower bound, and never called solved."""

    def __post_init__(self) -> None:
        """Refuse what no search knows."""
        audit, model, name = self.audit, self.model, type(self.model).__name__
        if model.response is not OpaqueResponse:
            require_torch(_GRADIENTS)
        if isinstance(model, BlackBox) and model.gives_probabilities and audit.policy != Softmax(beta=1):
            raise NotSupportedError(
                "This system gives its own probabilities: they have no other policy than Softmax(beta=1), and "
                f"{audit.policy!r} was received. Build it with scores=... to audit it under another policy."
            )
        if not (model.response is OpaqueResponse or isinstance(audit.policy, Softmax)):
            raise NotSupportedError(f"{audit.policy!r} cannot be differentiated: gradient ascent takes Softmax.")
        if isinstance(audit.actions, Future):
            if audit.slate > 1 or audit.resolved_baseline != "scores" or not isinstance(audit.actions.follows, Top1):
                raise NotSupportedError(
                    f"{name} is audited by search, which follows the top item from the model's scores to one "
                    f"recommendation: received slate={audit.slate}, baseline={audit.resolved_baseline!r}, "
                    f"follows={audit.actions.follows!r}."
                )
            return
        if audit.slate > 1 or audit.actions.changes is not None:
            raise NotSupportedError(
                f"{name} is audited by search, which knows no slates and no limit on changes: received "
                f"slate={audit.slate}, changes={audit.actions.changes}."
            )
        if audit.resolved_baseline == "predicted" and not model.predicts_ratings:
            raise NotSupportedError(
                f"The scores of this {name} are not ratings: baseline='predicted' cannot be said. 'scores' can, and "
                "for rated items 'factual'."
            )

    def check_pairs(self, users: IntArray) -> None:
        """Refuse to search for too many pairs of these users (positions)."""
        log = self.log
        unseen = log.n_items - log.user_counts[users]
        each = unseen if self.audit.candidates == "unseen" else np.full(len(users), log.n_items)
        pairs = int(each.sum()) if self.targets is None else len(users) * len(self.targets)
        refuse_many(pairs, "users, targets", self.model)


@final
@dataclass(frozen=True, eq=False)
class SearchActions(SearchMethod):
    """By gradient ascent, for ratings of known items.

    The solver "gradient" is the paper's Algorithm 1: from the unchanged ratings, where there are any. Else there are
    three starts beside them, and vertices and moves of single ratings are tried as well.
    """

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        model, before = self.model, np.empty((len(users), self.log.n_items))
        items, candidates, solvable = self.action_pairs(users)
        given = self.ratings_before(model, users, items)
        parts: list[list[Any]] = [[np.empty(0), np.empty((0, items.shape[1])), np.empty(0, dtype=np.int64)]]
        for row, user in enumerate(users.tolist()):
            free = items[row] >= 0
            start = None if given is None else given[row, free]
            response = model.respond(user, user, items[row, free]) if free.any() else None
            if response is None or self.audit.resolved_baseline == "scores" or start is None:
                before[row] = model.scores(users[row : row + 1])[0]
            else:
                before[row] = response.scores(start)
            if response is not None and solvable[row].any():
                log_value, chosen, rank = self._search(user, response, candidates[row], solvable[row], start)
                ratings = np.zeros((len(log_value), len(free)))
                ratings[:, free] = chosen
                parts.append([log_value, ratings, rank])
        log_value, ratings, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
        answer = lower_bounded(log_value, ratings, np.zeros(len(log_value), dtype=np.int64), largest=0.0)
        acted = np.repeat(items, solvable.sum(axis=1), axis=0)
        return self.frame(users, candidates, solvable, before, answer, rank, acted)

    def _search(
        self, user: int, response: Response, candidates: BoolArray, targets: BoolArray, start: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """For each target of one user: the log-probability, the ratings (targets, actions) and the rank there."""
        among = np.flatnonzero(candidates)
        own = np.searchsorted(among, np.flatnonzero(targets))
        batch_scores, ties = _batch_scores(response), self.ties(np.array([user])).columns(among)
        paper = self.audit.solver == "gradient"

        def objective(points: Tensor) -> Tensor:
            """(points, targets): their log-probabilities."""
            scores = batch_scores(points)[:, among]
            return tensor_log_probabilities(self.audit.policy, scores, scores.new_ones(scores.shape).bool())[:, own]

        found = ascend(
            objective,
            rating_box(self.ratings, len(response.items)),
            starts=None if start is None else start[None],
            restarts=int(start is None) if paper else 3,
            polish=not paper,
            rng=derive(self.rng, "search", self.log.user_ids[user]),
        )
        shown = partial(_scores_at, batch_scores, among)
        return found.value, found.actions, ranks_at(shown, found.actions, own, ties)


def refuse_many(pairs: int, argument: str, model: FittedModel) -> None:
    """Refuse more pairs than anybody would wait for."""
    if pairs > MOST_PAIRS:
        expected = f"{MOST_PAIRS:,} pairs at most: {model.called} needs a search for each"
        raise InputError(argument, received=f"{pairs:,} pairs", expected=expected, remedy="Name fewer of them.")


def search_distance(
    response: Response,
    baseline_scores: FloatArray,
    allowed: BoolArray,
    beta: float,
    ratings: Interval | Stars,
    distance: Distance,
    *,
    start: FloatArray | None = None,
    restarts: int = 3,
    polish: bool = True,
    rng: int = 0,
) -> Solution:
    """How far from softmax(`beta` `baseline_scores`) the ratings were found to move a viewer's distribution, (1,).

    `baseline_scores` and `allowed`, True at the candidates, are (items,). At ratings that change nothing the distance
    is 0, its lowest, and there is no slope to follow: ascent from a `start` (actions,) that is the factual ratings, as
    in the paper's Algorithm 3, goes nowhere without restarts, the first of which is at the centre.
    """
    torch = require_torch(_GRADIENTS)
    among, batch_scores = np.flatnonzero(allowed), _batch_scores(response)
    before = torch.log_softmax(beta * torch.from_numpy(baseline_scores[among]), dim=0)

    def objective(points: Tensor) -> Tensor:
        """(points, 1): the distances."""
        after: Tensor = torch.log_softmax(beta * batch_scores(points)[:, among], dim=1)
        distances: Tensor = distance_between(distance, before, after)
        return distances[:, None]

    box, starts = rating_box(ratings, len(response.items)), None if start is None else start[None]
    found = ascend(objective, box, starts=starts, restarts=restarts, polish=polish, rng=rng)
    return replace(found, upper=np.full(1, LARGEST[distance]))


def rating_box(ratings: Interval | Stars, actions: int) -> Box:
    """What may be given to so many items."""
    if isinstance(ratings, Stars):
        return Box.grid(ratings.values, actions)
    return Box(np.full(actions, ratings.low), np.full(actions, ratings.high))


def _batch_scores(response: Response) -> Callable[[Tensor], Tensor]:
    """(batch, actions) to (batch, items), differentiable."""
    if isinstance(response, DifferentiableResponse):
        return response.batch_scores
    if isinstance(response, AffineResponse):
        torch = require_torch(_GRADIENTS)
        slope, intercept = torch.tensor(response.slope), torch.tensor(response.intercept)
        return lambda points: points @ slope.T + intercept
    raise NotSupportedError(f"{type(response).__name__} can be neither differentiated nor asked.")


def _scores_at(batch_scores: Callable[[Tensor], Tensor], columns: IntArray, points: FloatArray) -> FloatArray:
    """Return the scores of these columns at `points` (points, actions), shape (points, columns)."""
    torch = require_torch(_GRADIENTS)
    with torch.no_grad():
        scores: FloatArray = batch_scores(torch.from_numpy(points)).numpy()
    return scores[:, columns]


_GRID = 243
"""Roll-outs of a user that are tried before any is climbed: every third of the way, for five steps."""
_STARTS = 4
"""The points of the grid that are the best for the most targets, from which all targets climb."""


@final
@dataclass(frozen=True, eq=False)
class SearchFuture(SearchMethod):
    """By gradient ascent on the rating of each step: what is shown follows from them, and need not be chosen.

    An item that came on the way in every roll-out that was tried has the value 0, and is bounded: another roll-out
    might leave it. It does not apply where it surely comes on the way: it is the first item that is shown, or every
    roll-out that there is was tried.
    """

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        k, scores = self.future.k, self.model.scores(users)
        shown, candidates, solvable = self.future_pairs(users)
        none = np.empty(0)
        parts: list[list[Any]] = [[none, np.empty((0, k)), np.empty((0, k), dtype=np.int64), none]]
        for row in np.flatnonzero(solvable.any(axis=1)):
            targets = np.flatnonzero(solvable[row])
            *found, applies = self._search(int(users[row]), scores[row], shown[row], candidates[row], targets)
            solvable[row, targets] = applies
            parts.append([column[applies] for column in found])
        log_value, ratings, items, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
        answer = lower_bounded(log_value, ratings, np.zeros(len(log_value), dtype=np.int64), largest=0.0)
        return self.frame(users, candidates, solvable, scores, answer, rank, items)

    def _search(
        self, user: int, start: FloatArray, shown: BoolArray, candidates: BoolArray, targets: IntArray
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, BoolArray]:
        """The best roll-out found for each target of one user.

        `start` (items,): the scores before anything is rated; `shown` and `candidates` (items,) what may come on the
        way and at the end. Log-probabilities (targets,), ratings and items (targets, steps), ranks at the end, NaN and
        -1 where no roll-out left the target; and whether a target applies, that is does not surely come on the way.
        """
        torch, ties = require_torch(_GRADIENTS), self.ties(np.array([user]))
        box = rating_box(self.ratings, self.future.k)
        leaves = np.zeros(len(targets), dtype=bool)

        def step(items: tuple[int, ...], ratings: FloatArray) -> FloatArray:
            return self.model.respond_in_turn(user, np.array(items)).scores(ratings) if items else start

        def follow(ratings: Tensor) -> tuple[tuple[int, ...], Tensor, BoolArray, Tensor]:
            """The items that come, and at the end the scores, what is left and the log-probabilities, (items,) each."""
            values = ratings.detach().numpy()
            items, last = items_on_the_way(step, self.model.may_show, shown, values, ties)
            if last is None:
                response = self.model.respond_in_turn(user, np.array(items))
                assert isinstance(response, DifferentiableResponse)
                scores = response.batch_scores(ratings[None])[0]
            else:
                scores = torch.from_numpy(last)
            allowed = left_over(candidates, items)
            logs = tensor_log_probabilities(self.audit.policy, scores[None], torch.from_numpy(allowed)[None])[0]
            return items, scores, allowed, logs

        def objective(points: Tensor) -> Tensor:
            """(points, targets)"""
            rows = []
            for point in points:
                _, _, allowed, logs = follow(point)
                leaves[allowed[targets]] = True
                rows.append(logs[targets].clamp(min=LOWEST))
            stacked: Tensor = torch.stack(rows)
            return stacked

        points = _climb(objective, box, derive(self.rng, "future search", self.log.user_ids[user]))
        items, ratings = np.full(points.shape, -1, dtype=np.int64), np.full(points.shape, np.nan)
        log_value, places = np.full(len(targets), -np.inf), np.full(len(targets), np.nan)
        for row, (target, point) in enumerate(zip(targets, points, strict=True)):
            with torch.no_grad():
                came, scores, allowed, logs = follow(torch.tensor(point))
            if allowed[target]:
                log_value[row], items[row], ratings[row] = logs[target], came, point
                places[row] = ranks(scores[None].numpy(), allowed[None], ties)[0, target]
        first = int(top_items(start[None], shown[None], 1, ties)[0, 0])
        return log_value, ratings, items, places, (leaves | (box.size > EXHAUSTIVE)) & (targets != first)


def _climb(objective: Objective, box: Box, seed: int) -> FloatArray:
    """(targets, steps): the best points of a coarse grid, and of ascent from there.

    Where other items come the objective jumps, and no gradient sees that coming: the grid finds the cells.
    """
    step = next(n for n in (5, 3, 2, 1) if n**box.coordinates <= _GRID)
    coarse = np.linspace(box.lower[0], box.upper[0], step) if step > 1 else np.array([box.centre[0]])
    grid = box.inside(Box.grid(coarse, box.coordinates).everything())
    torch = require_torch(_GRADIENTS)
    with torch.no_grad():
        values = objective(torch.from_numpy(grid)).numpy()
    best = values.argmax(axis=0)
    at_best = values[best, np.arange(values.shape[1])]
    most, counts = np.unique(best, return_counts=True)
    starts = grid[most[np.argsort(-counts, kind="stable")[:_STARTS]]]
    found = ascend(objective, box, starts=starts, restarts=0, steps=20, rng=seed)
    return np.where((found.value > at_best)[:, None], found.actions, grid[best])


def roll_out(
    scores: Callable[[tuple[int, ...], FloatArray], FloatArray],
    may_show: Callable[[FloatArray], BoolArray],
    shown: BoolArray,
    ratings: FloatArray,
    ties: TieKeys,
) -> tuple[tuple[int, ...], FloatArray]:
    """The items that come when step t is rated `ratings[t]`, and the scores (items,) after all of them.

    `scores(items, ratings)`: after rating these items in this order; `shown` (items,): what may come on the way; `ties`
    has one row, that of the user. Fewer items come where nothing is left that the system may show.
    """
    items, last = items_on_the_way(scores, may_show, shown, ratings, ties)
    return items, scores(items, ratings) if last is None else last


def items_on_the_way(
    scores: Callable[[tuple[int, ...], FloatArray], FloatArray],
    may_show: Callable[[FloatArray], BoolArray],
    shown: BoolArray,
    ratings: FloatArray,
    ties: TieKeys,
) -> tuple[tuple[int, ...], FloatArray | None]:
    """Return the items of a `roll_out`, and the scores after them if nothing was left to show before its end."""
    items: tuple[int, ...] = ()
    free = shown.copy()
    for step in range(len(ratings)):
        now = scores(items, ratings[:step])
        top = int(top_items(now[None], (free & may_show(now))[None], 1, ties)[0, 0])
        if top < 0:
            return items, now
        items, free[top] = (*items, top), False
    return items, None


def left_over(candidates: BoolArray, items: tuple[int, ...]) -> BoolArray:
    """(items,): the candidates that did not come on the way."""
    allowed = candidates.copy()
    allowed[list(items)] = False
    return allowed

"""Reachability and instability by gradient ascent, for models without an exact solver: paper 001, section 5.1.

What is found is a lower bound. No value is ever called solved: the status is bounded, between the value found and what
nothing exceeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.reachability.pairs import Method, ranks_at
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, Interval, Stars
from recaudit.interventions.ratings import rating_range
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.policies import Softmax, Top1
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST, Distance, distance_between
from recaudit.solvers.search import Box, ascend
from recaudit.solvers.solution import lower_bounded

MOST_PAIRS = 100_000
"""Each pair needs a search of its own."""


@dataclass(frozen=True, eq=False)
class SearchMethod(Method):
    """For models without an exact solver: what is found is a lower bound."""

    def __post_init__(self) -> None:
        """Refuse what no search knows."""
        audit, model, name = self.audit, self.model, type(self.model).__name__
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

    def ratings_before(self, model: FittedModel, users: IntArray, items: IntArray) -> FloatArray | None:
        """(users, actions): the ratings from which a search starts and of which the baseline speaks, if any."""
        if self.audit.resolved_baseline == "predicted":
            scores = model.scores(users).gather(1, torch.from_numpy(np.maximum(items, 0)))
            return scores.clamp(*rating_range(self.log.scale)).numpy()
        if self.audit.resolved_baseline == "factual" or model.predicts_ratings:
            return self.actions.unchanged(model, users, items, self.log)
        return None


@final
@dataclass(frozen=True, eq=False)
class SearchActions(SearchMethod):
    """By gradient ascent, for ratings of known items.

    The solver "gradient" is the paper's Algorithm 1: from the unchanged ratings, where there are any. Else there are
    three starts beside them, and vertices and moves of single ratings are tried as well.
    """

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        model = self.model
        items, candidates, solvable = self.action_pairs(users)
        given = self.ratings_before(model, users, items)

        before = torch.empty(len(users), self.log.n_items, dtype=torch.float64)
        pairs = int(solvable.sum())
        log_value, rank = np.empty(pairs), np.empty(pairs, dtype=np.int64)
        ratings = np.zeros((pairs, items.shape[1]))
        done = 0
        for row, user in enumerate(users):
            free = items[row] >= 0
            start = None if given is None else given[row, free]
            response = model.respond(int(user), int(user), items[row, free]) if free.any() else None
            if response is None or self.audit.resolved_baseline == "scores" or start is None:
                before[row] = model.scores(users[row : row + 1])[0]
            else:
                before[row] = response.scores(start)
            if response is not None and solvable[row].any():
                part = slice(done, done + int(solvable[row].sum()))
                found = self._search(int(user), response, candidates[row], solvable[row], start)
                log_value[part], ratings[part, free], rank[part] = found
                done = part.stop

        answer = lower_bounded(log_value, ratings, np.zeros(pairs, dtype=np.int64), largest=0.0)
        acted = np.repeat(items, solvable.sum(axis=1), axis=0)
        return self.frame(users, candidates, solvable, before, answer, rank, acted)

    def _search(
        self, user: int, response: Response, candidates: BoolArray, targets: BoolArray, start: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """For each target of one user: the log-probability, the ratings (targets, actions) and the rank there.

        `candidates` and `targets` (items,) are True at theirs.
        """
        among = np.flatnonzero(candidates)
        own = torch.from_numpy(np.searchsorted(among, np.flatnonzero(targets)))
        columns, batch_scores, policy = torch.from_numpy(among), _batch_scores(response), self.audit.policy
        paper = self.audit.solver == "gradient"

        def shown(points: Tensor) -> Tensor:
            """(points, candidates): their scores."""
            return batch_scores(points).index_select(1, columns)

        def objective(points: Tensor) -> Tensor:
            """(points, targets): their log-probabilities."""
            scores = shown(points)
            return policy.log_probabilities(scores, torch.ones(scores.shape, dtype=torch.bool))[:, own]

        found = ascend(
            objective,
            rating_box(self.ratings, len(response.items)),
            starts=None if start is None else start[None],
            restarts=int(start is None) if paper else 3,
            polish=not paper,
            rng=derive(self.rng, "search", self.log.user_ids[user]),
        )
        return found.value, found.actions, ranks_at(shown, found.actions, own)


def refuse_many(pairs: int, argument: str, model: FittedModel) -> None:
    """Refuse more pairs than anybody would wait for."""
    if pairs > MOST_PAIRS:
        raise InputError(
            argument,
            received=f"{pairs:,} pairs",
            expected=f"{MOST_PAIRS:,} pairs at most: {type(model).__name__} needs a search for each",
            remedy="Name fewer of them.",
        )


@final
@dataclass(frozen=True, eq=False)
class FoundDistance:
    """How far edits were found to move a distribution."""

    value: float
    """A lower bound of the largest distance: it was reached."""
    upper: float
    """What no distance exceeds."""
    ratings: FloatArray
    """(actions,): the ratings that reach it."""


def search_distance(
    response: Response,
    baseline_scores: Tensor,
    allowed: Tensor,
    beta: float,
    ratings: Interval | Stars,
    distance: Distance,
    *,
    start: FloatArray | None = None,
    restarts: int = 3,
    polish: bool = True,
    rng: int = 0,
) -> FoundDistance:
    """How far from softmax(`beta` `baseline_scores`) the ratings were found to move a viewer's distribution.

    `baseline_scores` and `allowed`, True at the candidates, are (items,). At ratings that change nothing the distance
    is 0, its lowest, and there is no slope to follow: ascent from a `start` (actions,) that is the factual ratings, as
    in the paper's Algorithm 3, goes nowhere without restarts, the first of which is at the centre.
    """
    among, batch_scores = allowed.nonzero()[:, 0], _batch_scores(response)
    before = torch.log_softmax(beta * baseline_scores[among], dim=0)

    def objective(points: Tensor) -> Tensor:
        """(points, 1): the distances."""
        after = torch.log_softmax(beta * batch_scores(points)[:, among], dim=1)
        return distance_between(distance, before, after)[:, None]

    box, starts = rating_box(ratings, len(response.items)), None if start is None else start[None]
    found = ascend(objective, box, starts=starts, restarts=restarts, polish=polish, rng=rng)
    return FoundDistance(float(found.value[0]), LARGEST[distance], found.actions[0])


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
        return lambda points: product(points, response.slope) + response.intercept
    raise NotSupportedError(f"{type(response).__name__} can be neither differentiated nor asked.")

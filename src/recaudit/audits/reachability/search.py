"""Reachability and instability by gradient ascent, for models without an exact solver: paper 001, section 5.1.

What is found is a lower bound. No value is ever called solved: the status is bounded, between the value found and what
nothing exceeds. Systems that can only be asked are searched in `asked_reachability` and `asked_instability`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from recaudit.arithmetic import aligned, product
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.candidates import candidate_items
from recaudit.audits.reachability.best_response import Answer
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Interval, Stars
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.policies import Policy, Softmax
from recaudit.ranking import rank_of, ranks
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST, Distance, distance_between
from recaudit.solvers.search.ascent import ascend
from recaudit.solvers.search.box import Box
from recaudit.status import Status

MOST_PAIRS = 100_000
"""Each pair needs a search of its own."""
_ROWS = 256
"""Points whose scores of all items are computed together."""


@final
@dataclass(frozen=True, eq=False)
class Search:
    """A block of users in, a row for each of their pairs out, by gradient ascent; pure and picklable."""

    inquiry: Inquiry
    actions: Actions
    restarts: int = 3
    """How many starts there are beside the unchanged ratings."""
    polish: bool = True
    """Whether vertices, and moves of single ratings, are tried as well; without them and without restarts this is the
    paper's Algorithm 1."""

    def __post_init__(self) -> None:
        check_search(self.inquiry, self.actions)

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users."""
        ask, model, log = self.inquiry, self.inquiry.model, self.inquiry.log
        items = self.actions.items(model, users, ask.rng, log)
        candidates = candidate_items(log, users, items, ask.candidates)
        asked = ask.asked(candidates)
        solvable: BoolArray = asked & candidates & np.any(items >= 0, axis=1)[:, None]
        given = ratings_before(ask, model, self.actions, users, items)

        before = torch.empty(len(users), log.n_items, dtype=torch.float64)
        parts = [_Part.empty(items.shape[1])]
        for row, user in enumerate(users):
            free = items[row] >= 0
            start = None if given is None else given[row, free]
            response = model.respond(int(user), int(user), items[row, free]) if free.any() else None
            if response is None or ask.baseline == "scores" or start is None:
                before[row] = model.scores(users[row : row + 1])[0]
            else:
                before[row] = response.scores(start)
            if response is not None and solvable[row].any():
                found = self._search(int(user), response, candidates[row], solvable[row], start)
                actions = np.zeros((len(found.log_value), len(free)))
                actions[:, free] = found.actions
                parts.append(found._replace(actions=actions))
        found = _Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))

        allowed = torch.from_numpy(candidates)
        status = np.full(len(found.log_value), Status.BOUNDED.value)
        answer = Answer(found.log_value, found.log_value, np.zeros(len(status)), status, found.actions)
        gain = ranks(before, allowed)[solvable] - found.rank
        acted, choices = np.repeat(items, solvable.sum(axis=1), axis=0), candidates.sum(axis=1)
        logs = ask.policy.log_probabilities(before, allowed).numpy()
        return ask.frame(users, asked, solvable, logs, answer, gain, acted, choices)

    def _search(
        self, user: int, response: Response, candidates: BoolArray, targets: BoolArray, start: FloatArray | None
    ) -> _Part:
        """The best found for each target of one user; `candidates` and `targets` (items,) are True at theirs."""
        box = rating_box(free_ratings(self.actions.ratings, self.inquiry.log.scale), len(response.items))
        among = np.flatnonzero(candidates)
        at = _Targets(self.inquiry.policy, torch.from_numpy(among), np.searchsorted(among, np.flatnonzero(targets)))
        seed = derive(self.inquiry.rng, "search", self.inquiry.log.user_ids[user])
        batch_scores = _batch_scores(response)
        found = ascend(
            lambda points: at.log_probabilities(at.shown(batch_scores(points))),
            box,
            starts=None if start is None else start[None],
            restarts=max(self.restarts, 1) if start is None else self.restarts,
            polish=self.polish,
            rng=seed,
        )
        places = np.empty(len(found.points), dtype=np.int64)
        for first in range(0, len(places), _ROWS):
            with torch.no_grad():
                shown = at.shown(batch_scores(aligned(found.points[first : first + _ROWS])))
            places[first : first + _ROWS] = rank_of(shown, torch.from_numpy(at.wanted[first : first + _ROWS]))
        return _Part(found.value, found.points, places)


@final
@dataclass(frozen=True, eq=False)
class _Targets:
    """What is looked at of one user's scores."""

    policy: Policy
    among: Tensor
    """(candidates,): positions of the items that the policy chooses from."""
    wanted: IntArray
    """(targets,): positions of the targets among the candidates."""

    def shown(self, scores: Tensor) -> Tensor:
        """(n, candidates): of `scores` (n, items)."""
        return scores.index_select(1, self.among)

    def log_probabilities(self, shown: Tensor) -> Tensor:
        """(n, targets): of scores `shown` (n, candidates)."""
        everything = torch.ones(shown.shape, dtype=torch.bool)
        return self.policy.log_probabilities(shown, everything)[:, torch.from_numpy(self.wanted)]


class _Part(NamedTuple):
    """What was found for some pairs."""

    log_value: FloatArray
    actions: FloatArray
    """(pairs, actions)"""
    rank: IntArray
    """(pairs,): the target's rank at these ratings."""

    @classmethod
    def empty(cls, actions: int) -> _Part:
        none = np.empty(0)
        return cls(none, np.empty((0, actions)), none.astype(np.int64))


def check_pairs(inquiry: Inquiry, users: IntArray) -> None:
    """Refuse to search for too many pairs: `users` are positions, with the targets of the inquiry."""
    log = inquiry.log
    each = log.n_items - log.user_counts[users] if inquiry.candidates == "unseen" else np.full(len(users), log.n_items)
    pairs = int(each.sum()) if inquiry.targets is None else len(users) * len(inquiry.targets)
    refuse_many(pairs, "users, targets", inquiry.model)


def refuse_many(pairs: int, argument: str, model: FittedModel) -> None:
    """Refuse more pairs than anybody would wait for."""
    if pairs > MOST_PAIRS:
        raise InputError(
            argument,
            received=f"{pairs:,} pairs",
            expected=f"{MOST_PAIRS:,} pairs at most: {type(model).__name__} needs a search for each",
            remedy="Name fewer of them.",
        )


def check_search(inquiry: Inquiry, actions: Actions) -> None:
    """Refuse what no search knows."""
    check_policy(inquiry)
    name = type(inquiry.model).__name__
    if inquiry.slate > 1 or actions.changes is not None:
        raise NotSupportedError(
            f"{name} is audited by search, which knows no slates and no limit on changes: received "
            f"slate={inquiry.slate}, changes={actions.changes}."
        )
    if inquiry.baseline == "predicted" and not inquiry.model.predicts_ratings:
        raise NotSupportedError(
            f"The scores of this {name} are not ratings: baseline='predicted' cannot be said. 'scores' can, and for "
            "rated items 'factual'."
        )


def ratings_before(
    inquiry: Inquiry, model: FittedModel, actions: Actions, users: IntArray, items: IntArray
) -> FloatArray | None:
    """(users, actions): the ratings from which a search starts and of which the baseline speaks, if any."""
    if inquiry.baseline == "predicted":
        scores = model.scores(users).gather(1, torch.from_numpy(np.maximum(items, 0)))
        return scores.clamp(*rating_range(inquiry.log.scale)).numpy()
    if inquiry.baseline == "factual" or model.predicts_ratings:
        return actions.unchanged(model, users, items, inquiry.log)
    return None


def check_policy(inquiry: Inquiry) -> None:
    """Refuse policies that a search cannot follow, or that are not the system's own."""
    model, policy = inquiry.model, inquiry.policy
    if isinstance(model, BlackBox) and model.gives_probabilities and policy != Softmax(beta=1):
        raise NotSupportedError(
            f"This system gives its own probabilities: they have no other policy than Softmax(beta=1), and {policy!r} "
            "was received. Build it with scores=... to audit it under another policy."
        )
    if not (model.response is OpaqueResponse or isinstance(policy, Softmax)):
        raise NotSupportedError(f"{policy!r} cannot be differentiated: gradient ascent takes Softmax.")


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
    box = rating_box(ratings, len(response.items))
    among = allowed.nonzero()[:, 0]
    before = torch.log_softmax(beta * baseline_scores[among], dim=0)

    def outcome(scores: Tensor) -> Tensor:
        """(n,): the distances at `scores` (n, items)."""
        return distance_between(distance, before, torch.log_softmax(beta * scores[:, among], dim=1))

    batch_scores = _batch_scores(response)
    starts = None if start is None else start[None]
    found = ascend(
        lambda points: outcome(batch_scores(points))[:, None],
        box,
        starts=starts,
        restarts=restarts,
        polish=polish,
        rng=rng,
    )
    return FoundDistance(float(found.value[0]), LARGEST[distance], found.points[0])


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

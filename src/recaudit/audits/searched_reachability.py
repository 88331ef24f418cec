"""Reachability and instability by search, for models without an exact solver: what is found is a lower bound.

A response that can be differentiated is searched by gradient ascent, one that can only be asked by zeroth-order search
within a budget of queries (paper 001, sections 5.1 and 5.2). No value is ever called solved: the status is bounded,
between the value found and what nothing exceeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.audits.best_response import Answer
from recaudit.audits.candidates import candidate_items
from recaudit.audits.inquiry import Inquiry, ranks
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, Interval, Stars
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.models.base import FittedModel
from recaudit.models.black_box import LOWEST_LOG, BlackBox
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.policies import Softmax
from recaudit.seeding import derive
from recaudit.solvers.ascent import ascend
from recaudit.solvers.box import Box
from recaudit.solvers.distances import LARGEST, Distance, distance_between
from recaudit.solvers.zeroth_order import maximize_black_box
from recaudit.status import Status

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Tensor = torch.Tensor

MOST_PAIRS = 100_000
"""Each pair needs a search of its own."""
_ROWS = 256
"""Points whose scores of all items are computed together."""


@final
@dataclass(frozen=True, eq=False)
class Search:
    """A block of users in, a row for each of their pairs out, by search; pure and picklable.

    With an opaque response there is one column more, `queries`: how many each pair needed. Answers that pairs of the
    same user share are asked for once, so that the system may be asked less often than the column adds up to. Where a
    system gives lists, the point found is asked about afresh: `value` is what that estimates, and `lower` is what the
    probability is not below with 97.5% confidence.
    """

    inquiry: Inquiry
    actions: Actions
    budget: int = 200
    """Queries that a pair may take, where the response can only be asked; the baseline is not among them."""
    restarts: int = 3
    """How many starts there are beside the unchanged ratings, where the response can be differentiated."""
    polish: bool = True
    """Whether vertices, and moves of single ratings, are tried as well; without them and without restarts this is the
    paper's Algorithm 1."""

    def __post_init__(self) -> None:
        ask = self.inquiry
        check_policy(ask)
        if ask.slate > 1 or self.actions.changes is not None:
            raise NotSupportedError(
                f"{type(ask.model).__name__} is audited by search, which knows no slates and no limit on changes: "
                f"received slate={ask.slate}, changes={self.actions.changes}."
            )
        if ask.baseline == "predicted" and not ask.model.predicts_ratings:
            raise NotSupportedError(
                f"The scores of this {type(ask.model).__name__} are not ratings: baseline='predicted' cannot be said. "
                "'scores' can, and for rated items 'factual'."
            )
        if self._answers < 1:
            raise InputError(
                "budget",
                received=self.budget,
                expected="queries for one answer at least; for a system that gives lists, for two",
            )

    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users."""
        ask, model, log = self.inquiry, self.inquiry.model, self.inquiry.log
        items = self.actions.items(model, users, ask.rng, log)
        candidates = candidate_items(log, users, items, ask.candidates)
        asked = ask.asked(candidates)
        solvable: BoolArray = asked & candidates & np.any(items >= 0, axis=1)[:, None]
        given = self._given(users, items)

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
        answer = Answer(found.log_value, found.log_lower, np.zeros(len(status)), status, found.actions)
        gain = ranks(before, allowed)[torch.from_numpy(solvable)].numpy() - found.rank
        acted, choices = np.repeat(items, solvable.sum(axis=1), axis=0), candidates.sum(axis=1)
        logs = self.log_probabilities(before, allowed).numpy()
        frame = ask.frame(users, asked, solvable, logs, answer, gain, acted, choices)
        if not issubclass(model.response, OpaqueResponse):
            return frame
        queries = np.full(len(frame), np.nan)
        queries[solvable[asked]] = found.queries
        return frame.with_columns(queries=pl.Series(queries).fill_nan(None).cast(pl.Int32))

    @property
    def _answers(self) -> int:
        """How many answers a pair's budget buys, less the one with which a random answer is confirmed."""
        model = self.inquiry.model
        cost, random = (model.cost, model.sampling is not None) if isinstance(model, BlackBox) else (1, False)
        return self.budget // cost - int(random)

    def _given(self, users: IntArray, items: IntArray) -> FloatArray | None:
        """(users, actions): the ratings from which the search starts and of which the baseline speaks, if any."""
        ask = self.inquiry
        if ask.baseline == "predicted":
            scores = ask.model.scores(users).gather(1, torch.from_numpy(np.maximum(items, 0)))
            return scores.clamp(*rating_range(ask.log.scale)).numpy()
        if ask.baseline == "factual" or ask.model.predicts_ratings:
            return self.actions.unchanged(ask.model, users, items, ask.log)
        return None

    def log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """(n, items): log-probabilities of `scores` (n, items); what a system gives the probability 0 has it."""
        model = self.inquiry.model
        logs = self.inquiry.policy.log_probabilities(scores, allowed)
        if isinstance(model, BlackBox) and model.gives_probabilities:
            return logs.masked_fill(scores <= LOWEST_LOG, -torch.inf)
        return logs

    def _search(
        self, user: int, response: Response, candidates: BoolArray, targets: BoolArray, start: FloatArray | None
    ) -> _Part:
        """The best found for each target of one user; `candidates` and `targets` (items,) are True at theirs."""
        box = rating_box(free_ratings(self.actions.ratings, self.inquiry.log.scale), len(response.items))
        among = np.flatnonzero(candidates)
        at = _Targets(self, torch.from_numpy(among), np.searchsorted(among, np.flatnonzero(targets)))
        seed = derive(self.inquiry.rng, "search", self.inquiry.log.user_ids[user])
        if isinstance(response, OpaqueResponse):
            return self._ask(response, at, box, start, seed)
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
                shown = at.shown(batch_scores(torch.from_numpy(found.points[first : first + _ROWS]))).numpy()
            for row, scores in enumerate(shown, start=first):
                places[row] = _ranks(scores, at.wanted[row : row + 1])[0]
        return _Part(found.value, found.value, found.points, places, np.zeros_like(places))

    def _ask(self, response: OpaqueResponse, at: _Targets, box: Box, start: FloatArray | None, seed: int) -> _Part:
        """Target after target, each with its own budget; an answer serves all of them, and is asked for once."""
        model = self.inquiry.model
        known: dict[bytes, tuple[FloatArray, IntArray]] = {}

        def answer(point: FloatArray) -> tuple[FloatArray, IntArray]:
            """The targets' log-probabilities and ranks."""
            key = point.tobytes()
            if key not in known:
                shown = at.shown(response.scores(point)[None])
                logs = at.log_probabilities(shown)[0].clamp(min=LOWEST_LOG).numpy()
                known[key] = logs, _ranks(shown[0].numpy(), at.wanted)
            return known[key]

        parts = []
        for t, target in enumerate(at.among.numpy()[at.wanted]):
            item = self.inquiry.log.item_ids[int(target)]

            def log_probability(point: FloatArray, t: int = t) -> float:
                return float(answer(point)[0][t])

            found = maximize_black_box(log_probability, box, self._answers, start=start, rng=derive(seed, item))
            value, lower, queries, place = found.value, found.value, found.queries, answer(found.point)[1][t]
            if isinstance(model, BlackBox) and model.sampling is not None:
                # The best of many estimates is too high, being chosen for it: the point is asked about afresh.
                shown = at.shown(response.scores(found.point)[None])
                value, place = float(at.log_probabilities(shown)[0, t]), _ranks(shown[0].numpy(), at.wanted)[t]
                lower = _log(model.sampling.at_least(float(shown[0, at.wanted[t]].exp())))
                queries = (queries + 1) * model.cost
            value, lower = (-np.inf if log <= LOWEST_LOG else log for log in (value, lower))
            parts.append((value, min(lower, value), found.point, place, queries))
        values, lowers, points, places, counts = zip(*parts, strict=True)
        return _Part(np.array(values), np.array(lowers), np.stack(points), np.array(places), np.array(counts))


@final
@dataclass(frozen=True, eq=False)
class _Targets:
    """What is looked at of one user's scores."""

    search: Search
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
        return self.search.log_probabilities(shown, everything)[:, torch.from_numpy(self.wanted)]


def _ranks(shown: FloatArray, wanted: IntArray) -> IntArray:
    """(targets,): 1 + how many of the scores `shown` (candidates,) are higher, by more than rounding."""
    own = shown[wanted]
    higher = len(shown) - np.searchsorted(np.sort(shown), own + 1e-12 * np.abs(own), side="right")
    ranks: IntArray = higher + 1
    return ranks


class _Part(NamedTuple):
    """What was found for some pairs."""

    log_value: FloatArray
    log_lower: FloatArray
    actions: FloatArray
    """(pairs, actions)"""
    rank: IntArray
    """(pairs,): the target's rank at these ratings."""
    queries: IntArray

    @classmethod
    def empty(cls, actions: int) -> _Part:
        none = np.empty(0)
        return cls(none, none, np.empty((0, actions)), none.astype(np.int64), none.astype(np.int64))


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


def check_policy(inquiry: Inquiry) -> None:
    """Refuse policies that a search cannot follow, or that are not the system's own."""
    model, policy = inquiry.model, inquiry.policy
    if isinstance(model, BlackBox) and model.gives_probabilities and policy != Softmax(beta=1):
        raise NotSupportedError(
            f"This system gives its own probabilities: they have no other policy than Softmax(beta=1), and {policy!r} "
            "was received. Build it with scores=... to audit it under another policy."
        )
    if not (issubclass(model.response, OpaqueResponse) or isinstance(policy, Softmax)):
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
    queries: int
    """How often a response that can only be asked was asked; 0 for any other."""


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
    budget: int = 200,
    rng: int = 0,
) -> FoundDistance:
    """How far from softmax(`beta` `baseline_scores`) the ratings were found to move a viewer's distribution.

    `baseline_scores` and `allowed`, True at the candidates, are (items,). Gradient ascent where the response can be
    differentiated; else `budget` queries. At ratings that change nothing the distance is 0, its lowest, and there is no
    slope to follow: ascent from a `start` (actions,) that is the factual ratings, as in the paper's Algorithm 3, goes
    nowhere without restarts, the first of which is at the centre.
    """
    box = rating_box(ratings, len(response.items))
    among = allowed.nonzero()[:, 0]
    before = torch.log_softmax(beta * baseline_scores[among], dim=0)

    def outcome(scores: Tensor) -> Tensor:
        """(n,): the distances at `scores` (n, items)."""
        return distance_between(distance, before, torch.log_softmax(beta * scores[:, among], dim=1))

    upper = LARGEST[distance]
    if isinstance(response, OpaqueResponse):
        asked = maximize_black_box(
            lambda point: float(outcome(response.scores(point)[None])), box, budget, start=start, rng=rng
        )
        return FoundDistance(asked.value, upper, asked.point, asked.queries)
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
    return FoundDistance(float(found.value[0]), upper, found.points[0], 0)


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
        return lambda points: points @ response.slope.T + response.intercept
    raise NotSupportedError(f"{type(response).__name__} can be neither differentiated nor asked.")


def _log(probability: float) -> float:
    return float(np.log(probability)) if probability > 0 else -np.inf

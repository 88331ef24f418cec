"""Reachability of a system that can only be asked, within a budget of queries a pair (paper 001, section 5.2).

What is found is a lower bound. A pair's row has three columns more: `queries`, how many were asked on its behalf, the
choice of actions, the baseline and everything asked twice among them, and never more than the budget; `fresh`, 0 where
the system gave the same answer twice, so that the value is certain to be reached, else from how many fresh answers the
value and its lower limit are estimated; `failure`, why the pair has the status failed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import FAILURES, Asked, Best, Outcome, Visit, check_budget, expected_log
from recaudit.audits.candidates import candidate_items
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.audits.reachability.roll_outs import check_roll_outs, left_over, roll_out
from recaudit.audits.reachability.search import check_search, rating_box, ratings_before
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Future
from recaudit.interventions.ratings import free_ratings
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import OpaqueResponse
from recaudit.ranking import ranks
from recaudit.seeding import derive
from recaudit.solvers.solution import Solution
from recaudit.status import Status


@final
@dataclass(frozen=True, eq=False)
class _Start:
    """What is known of a user before the search: one user, and positions of items throughout."""

    user: int
    acted: IntArray
    """(actions,): whose ratings are free."""
    before: Tensor
    """(items,): the scores of the baseline."""
    ratings: FloatArray | None
    """(actions,): where the search starts, if anywhere."""
    candidates: BoolArray
    """(items,)"""


@final
@dataclass(frozen=True, eq=False)
class _Row:
    """A pair's answer; without a value, the pair failed."""

    asked: Asked
    status: Status = Status.FAILED
    log_value: float = np.nan
    log_lower: float = np.nan
    ratings: FloatArray | None = None
    acted: IntArray | None = None
    rank: float = np.nan
    """At the best ratings; NaN where the item is not among what is left."""


class _AskUsers(ABC):
    """A block of users in, a row for each of their pairs out; picklable, and pure if the system is."""

    inquiry: Inquiry
    budget: int

    @property
    @abstractmethod
    def _on_the_way(self) -> int:
        """How many candidates are shown before the recommendation, and not recommended again."""

    @final
    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""
        return pl.concat([self._user(int(user)) for user in users])

    @abstractmethod
    def _begin(self, visit: Visit, user: int) -> tuple[_Start, bool]:
        """What is asked once for all pairs of a user, and whether the user can do anything."""

    @abstractmethod
    def _pair(self, visit: Visit, start: _Start, target: int) -> _Row:
        """The answer for one target."""

    def _user(self, user: int) -> pl.DataFrame:
        ask = self.inquiry
        visit = Visit.of(ask.model, self.budget)
        none = np.empty(0, dtype=np.int64)
        unknown = torch.full((ask.log.n_items,), torch.nan, dtype=torch.float64)
        start, able = _Start(user, none, unknown, None, self._candidates(user, none)), True
        failure: str | None = None
        try:
            if ask.asked(start.candidates[None]).any():
                start, able = self._begin(visit, user)
        except FAILURES as error:
            failure = str(error)
        asked = ask.asked(start.candidates[None])[0]
        solvable = asked & start.candidates & able
        rows = [self._answer(visit, start, int(target), failure) for target in np.flatnonzero(solvable)]
        return self._frame(start, asked, solvable, rows, Asked(visit.queries.asked))

    def _answer(self, visit: Visit, start: _Start, target: int, failure: str | None) -> _Row:
        if failure is not None:
            return _Row(Asked(visit.queries.asked, failure=failure))
        pair = visit.pair()
        try:
            return self._pair(pair, start, target)
        except FAILURES as error:
            return _Row(Asked(pair.queries.asked, failure=str(error)))

    def _frame(
        self, start: _Start, asked: BoolArray, solvable: BoolArray, rows: list[_Row], before: Asked
    ) -> pl.DataFrame:
        """`asked` and `solvable` are (items,), `rows` those of the solvable; the others needed what came `before`."""
        ask, allowed = self.inquiry, torch.from_numpy(start.candidates)[None]
        told = solvable.copy()
        told[solvable] = [row.status != Status.NOT_APPLICABLE for row in rows]
        answers = [row for row in rows if row.status != Status.NOT_APPLICABLE]
        width = max([1, *(len(row.acted) for row in answers if row.acted is not None)])
        acted, ratings = np.full((len(answers), width), -1, dtype=np.int64), np.full((len(answers), width), np.nan)
        for place, row in enumerate(answers):
            if row.acted is not None:
                acted[place, : len(row.acted)], ratings[place, : len(row.acted)] = row.acted, row.ratings
        upper = np.array([np.nan if row.status == Status.FAILED else 0.0 for row in answers])
        status = np.array([row.status.value for row in answers], dtype="<U14")
        answer = Solution(
            np.array([row.log_value for row in answers], dtype=np.float64),
            np.array([row.log_lower for row in answers], dtype=np.float64),
            upper,
            status,
            ratings,
            np.array([row.asked.queries for row in answers], dtype=np.int64),
        )
        if start.before.isnan().any():
            rank, logs = np.full(int(told.sum()), np.nan), np.full((1, len(asked)), np.nan)
        else:
            rank = ranks(start.before[None], allowed)[0][told].astype(np.float64)
            logs = log_probabilities(ask, start.before[None], allowed).numpy()
        gain = rank - np.array([row.rank for row in answers])
        choices = np.array([max(0, int(start.candidates.sum()) - self._on_the_way)])
        frame = ask.frame(np.array([start.user]), asked[None], told[None], logs, answer, gain, acted, choices)
        own = dict(zip(np.flatnonzero(solvable).tolist(), rows, strict=True))
        spent = [own[item].asked if item in own else before for item in np.flatnonzero(asked).tolist()]
        return frame.with_columns(Asked.columns(spent))

    def _candidates(self, user: int, acted: IntArray) -> BoolArray:
        ask = self.inquiry
        allowed: BoolArray = candidate_items(ask.log, np.array([user]), acted[None], ask.candidates)[0]
        return allowed

    def _found(self, visit: Visit, start: _Start, target: int, best: Best, tell: tuple[IntArray, FloatArray]) -> _Row:
        """The row of the best point found; `tell`: which items were rated there, and how."""
        model, logs = visit.model, np.array([outcome.value for outcome in best.outcomes])
        value, lower = (float(logs[0]), float(logs[0])) if not best.fresh else expected_log(logs)
        if model.sampling is not None:
            share = model.sampling.at_least(float(best.outcomes[0].scores[target].exp()))
            lower = min(value, float(np.log(share)) if share > 0 else -np.inf)
        places = [self._place(start, target, outcome) for outcome in best.outcomes]
        middle = float(np.median(places)) if all(np.isfinite(places)) else np.nan
        asked = Asked(visit.queries.asked, best.fresh)
        return _Row(asked, Status.BOUNDED, value, lower, tell[1], tell[0], float(np.floor(middle)))

    def _place(self, start: _Start, target: int, outcome: Outcome) -> float:
        """The target's rank among what is left; NaN where it is not."""
        allowed = left_over(start.candidates, outcome.items)
        return float(ranks(outcome.scores[None], allowed[None])[0, target]) if allowed[target] else np.nan


@final
@dataclass(frozen=True, eq=False)
class Ask(_AskUsers):
    """For fixed actions: see the module."""

    inquiry: Inquiry
    actions: Actions
    budget: int = 200
    """Queries that a pair may take."""

    @property
    def _on_the_way(self) -> int:
        return 0

    def __post_init__(self) -> None:
        check_search(self.inquiry, self.actions)
        check_budget(self.inquiry.model, self.budget)

    def _begin(self, visit: Visit, user: int) -> tuple[_Start, bool]:
        ask, users = self.inquiry, np.array([user])
        items = self.actions.items(visit.model, users, ask.rng, ask.log)
        acted = items[0, items[0] >= 0]
        given = ratings_before(ask, visit.model, self.actions, users, acted[None])
        ratings = None if given is None else given[0]
        if ask.baseline == "scores" or ratings is None or not len(acted):
            before = visit.scores(lambda model: model.scores(users)[0])
        else:
            before = visit.scores(lambda model: model.respond(user, user, acted).scores(ratings))
        return _Start(user, acted, before, ratings, self._candidates(user, acted)), len(acted) > 0

    def _pair(self, visit: Visit, start: _Start, target: int) -> _Row:
        ask, user, acted = self.inquiry, start.user, start.acted
        allowed = torch.from_numpy(start.candidates)[None]

        @cache
        def response(model: BlackBox) -> OpaqueResponse:
            return model.respond(user, user, acted)

        def outcome(model: BlackBox, point: FloatArray) -> Outcome:
            scores = response(model).scores(point)
            return Outcome(float(log_probabilities(ask, scores[None], allowed)[0, target]), scores)

        box = rating_box(free_ratings(self.actions.ratings, ask.log.scale), len(acted))
        seed = derive(derive(ask.rng, "search", ask.log.user_ids[user]), ask.log.item_ids[target])
        best = visit.maximize(outcome, box, start=start.ratings, rng=seed)
        return self._found(visit, start, target, best, (acted, best.point))


@final
@dataclass(frozen=True, eq=False)
class AskFuture(_AskUsers):
    """For the next k items that the system shows: a roll-out, which takes k answers, for each point asked about.

    An item that came on the way in every roll-out that was tried has the value 0, and is bounded: another roll-out
    might leave it. It does not apply where it surely comes on the way: it is the first item that is shown, or every
    roll-out that there is was tried.
    """

    inquiry: Inquiry
    future: Future
    budget: int = 200
    """Queries that a pair may take."""

    def __post_init__(self) -> None:
        ask = self.inquiry
        check_roll_outs(ask, self.future)
        if isinstance(ask.model, BlackBox) and ask.model.sampling is not None:
            raise NotSupportedError("A system that gives random lists has no top item to follow. Audit Past(k).")
        check_budget(ask.model, self.budget, self._answers)

    @property
    def _on_the_way(self) -> int:
        return self.future.k

    @property
    def _answers(self) -> tuple[int, int]:
        """The first item is known, unless it is asked for afresh."""
        return self.future.k, self.future.k + 1

    def _begin(self, visit: Visit, user: int) -> tuple[_Start, bool]:
        users, none, k = np.array([user]), np.empty(0, dtype=np.int64), self.future.k
        candidates = self._candidates(user, none)
        before = visit.scores(lambda model: model.scores(users)[0])
        able = self.inquiry.log.n_items - self.inquiry.log.user_counts[user] >= k and candidates.sum() > k
        return _Start(user, none, before, None, candidates), bool(able)

    def _pair(self, visit: Visit, start: _Start, target: int) -> _Row:
        ask, user, k = self.inquiry, start.user, self.future.k
        shown = ~ask.log.seen(np.array([user]))[0]
        left = False

        def outcome(model: BlackBox, point: FloatArray) -> Outcome:
            nonlocal left
            items, scores = roll_out(_stepper(model, user), model.may_show, shown, torch.from_numpy(point))
            allowed = left_over(start.candidates, items)
            left |= bool(allowed[target])
            return Outcome(float(log_probabilities(ask, scores[None], allowed[None])[0, target]), scores, items)

        box = rating_box(free_ratings(self.future.ratings, ask.log.scale), k)
        seed = derive(derive(ask.rng, "future search", ask.log.user_ids[user]), ask.log.item_ids[target])
        best = visit.maximize(outcome, box, start=None, rng=seed, answers=self._answers)
        always = best.outcomes[0].items[:1] == (target,) or best.tried == box.size
        if not left and not best.fresh and always:
            return _Row(Asked(visit.queries.asked, best.fresh), Status.NOT_APPLICABLE)
        came = np.array(best.outcomes[0].items, dtype=np.int64) if not best.fresh and left else np.empty(0, np.int64)
        return self._found(visit, start, target, best, (came, best.point[: len(came)]))


def _stepper(model: BlackBox, user: int) -> Callable[[tuple[int, ...], Tensor], Tensor]:
    def scores(items: tuple[int, ...], ratings: Tensor) -> Tensor:
        return model.respond(user, user, np.array(items, dtype=np.int64)).scores(ratings.numpy())

    return scores


def log_probabilities(inquiry: Inquiry, scores: Tensor, allowed: Tensor) -> Tensor:
    """(n, items): log-probabilities of `scores` (n, items) among `allowed`; what is never shown has probability 0."""
    logs = inquiry.policy.log_probabilities(scores, allowed)
    return logs.masked_fill(~inquiry.model.may_show(scores), -torch.inf)

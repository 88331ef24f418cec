"""Reachability of a system that can only be asked, within a budget of queries a pair (paper 001, section 5.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import FAILURES, Asked, PointValue, Visit, check_budget, expected_log
from recaudit.audits.reachability.search import SearchMethod, left_over, rating_box, roll_out
from recaudit.errors import NotSupportedError
from recaudit.models.given.black_box import BlackBox, ListSystem
from recaudit.models.response import OpaqueResponse
from recaudit.policies import Top1
from recaudit.ranking import ranks
from recaudit.seeding import derive
from recaudit.solvers.solution import Solution
from recaudit.status import Status
from recaudit.ties import TieKeys

Answer = Callable[[BlackBox, FloatArray], tuple[tuple[int, ...], FloatArray]]
"""Ratings in, the items that come on the way and the scores (items,) after them out."""


@final
@dataclass(frozen=True, eq=False)
class _Start:
    """What is known of a user before the search: one user, and positions of items throughout."""

    user: int
    before: FloatArray  # (items,): the scores of the baseline
    candidates: BoolArray  # (items,)
    able: bool = True  # whether the user can do anything
    acted: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """(actions,): whose ratings are free, where that is known beforehand."""
    ratings: FloatArray | None = None  # (actions,): where the search starts, if anywhere


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
    rank: float = np.nan  # at the best ratings; NaN where the item is not among what is left


@dataclass(frozen=True, eq=False)
class AskMethod(SearchMethod, ABC):
    """By asking, user by user and pair by pair; pure if the system is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._ranked is not None and not isinstance(self.audit.policy, Top1):
            raise NotSupportedError(
                "This system gives lists, and the same one each time: items have places and no probabilities, and "
                f"{self.audit.policy!r} has nothing to go by. Audit it under Top1(), or build it with scores=... or "
                "probabilities=..., or with repeats=... if its lists are random after all."
            )
        check_budget(self.model, self.audit.budget, self._answers)

    @property
    def _answers(self) -> tuple[int, int]:
        """See `Visit.maximize`; the first item of a roll-out is known, unless it is asked for afresh."""
        return (self.steps, self.steps + 1) if self.steps else (1, 1)

    @property
    def _ranked(self) -> ListSystem | None:
        """How lists are read whose places are known, of a system that gives such."""
        return self.model.lists if isinstance(self.model, BlackBox) and self.model.gives_ranks else None

    @final
    def log_probabilities(self, scores: FloatArray, allowed: BoolArray, ties: TieKeys) -> FloatArray:
        """See `Method`; of ranked lists, what has one of the first places among `allowed` is shown."""
        if self._ranked is None:
            return super().log_probabilities(scores, allowed, ties)
        return np.where(self._heights(scores, allowed, ties) == 0, 0.0, -np.inf)

    def _heights(self, scores: FloatArray, allowed: BoolArray, ties: TieKeys) -> FloatArray:
        """(n, items): how many places below what is shown an item of ranked lists stands, as a negative number.

        What is not listed stands below everything else.
        """
        assert self._ranked is not None
        below = np.minimum(self._ranked.places - ranks(scores, allowed, ties), 0)
        return np.where(allowed & self.model.may_show(scores), below, -self.log.n_items).astype(np.float64)

    @final
    def __call__(self, users: IntArray) -> pl.DataFrame:
        """See `Method`."""
        return pl.concat([self._user(int(user)) for user in users])

    @abstractmethod
    def _begin(self, visit: Visit, user: int) -> _Start:
        """What is asked once for all pairs of a user."""

    @abstractmethod
    def _answering(self, start: _Start) -> Answer:
        """How the system is asked on behalf of one pair."""

    def _user(self, user: int) -> pl.DataFrame:
        visit = Visit.of(self.model, self.audit.budget)
        unknown = np.full(self.log.n_items, np.nan)
        start = _Start(user, unknown, self.candidates(np.array([user]))[0])
        failure: str | None = None
        try:
            if self.asked(start.candidates[None]).any():
                start = self._begin(visit, user)
        except FAILURES as error:
            failure = str(error)
        asked = self.asked(start.candidates[None])[0]
        before = Asked(visit.queries.asked, failure=failure)
        rows: dict[int, _Row] = {}
        for target in np.flatnonzero(asked & start.candidates & start.able).tolist():
            pair = visit.pair()
            try:
                rows[target] = self._pair(pair, start, target) if failure is None else _Row(before)
            except FAILURES as error:
                rows[target] = _Row(Asked(pair.queries.asked, failure=str(error)))
        return self._frame(start, asked, rows, Asked(visit.queries.asked))

    def _frame(self, start: _Start, asked: BoolArray, rows: dict[int, _Row], before: Asked) -> pl.DataFrame:
        """The rows of one user, by target; the other pairs in `asked` (items,) needed what came `before`."""
        answers = {target: row for target, row in rows.items() if row.status != Status.NOT_APPLICABLE}
        found = list(answers.values())
        solvable = np.zeros_like(asked)
        solvable[list(answers)] = True
        width = max([1, *(len(row.acted) for row in found if row.acted is not None)])
        acted, ratings = np.full((len(found), width), -1, dtype=np.int64), np.full((len(found), width), np.nan)
        for place, row in enumerate(found):
            if row.acted is not None:
                acted[place, : len(row.acted)], ratings[place, : len(row.acted)] = row.acted, row.ratings
        answer = Solution(
            np.array([row.log_value for row in found], dtype=np.float64),
            np.array([row.log_lower for row in found], dtype=np.float64),
            np.array([np.nan if row.status == Status.FAILED else 0.0 for row in found]),
            np.array([row.status.value for row in found], dtype="<U14"),
            ratings,
            np.array([row.asked.queries for row in found], dtype=np.int64),
        )
        rank, users = np.array([row.rank for row in found]), np.array([start.user])
        frame = self.frame(users, start.candidates[None], solvable[None], start.before[None], answer, rank, acted)
        spent = [rows[item].asked if item in rows else before for item in np.flatnonzero(asked).tolist()]
        return frame.with_columns(Asked.columns(spent))

    def _pair(self, visit: Visit, start: _Start, target: int) -> _Row:
        """The answer for one target."""
        answer, left, ties = self._answering(start), False, self.ties(np.array([start.user]))

        def outcome(model: BlackBox, point: FloatArray) -> PointValue:
            nonlocal left
            items, scores = answer(model, point)
            allowed = left_over(start.candidates, items)
            left |= bool(allowed[target])
            if self._ranked is None:
                value = float(self.log_probabilities(scores[None], allowed[None], ties)[0, target])
                return PointValue(value, scores, items)
            height = float(self._heights(scores[None], allowed[None], ties)[0, target])
            return PointValue(-np.inf if height < 0 else 0.0, scores, items, height)

        box = rating_box(self.ratings, self.steps or len(start.acted))
        label = "future search" if self.steps else "search"
        seed = derive(derive(self.rng, label, self.log.user_ids[start.user]), self.log.item_ids[target])
        best = visit.maximize(outcome, box, start=start.ratings, rng=seed, answers=self._answers)
        came, asked = best.outcomes[0].items, Asked(visit.queries.asked, best.fresh)
        if not left and not best.fresh and (came[:1] == (target,) or best.tried == box.size):
            return _Row(asked, Status.NOT_APPLICABLE)
        logs = np.array([told.value for told in best.outcomes])
        value, lower = (float(logs[0]), float(logs[0])) if not best.fresh else expected_log(logs)
        if visit.model.sampling is not None:
            share = visit.model.sampling.at_least(float(np.exp(best.outcomes[0].scores[target])))
            lower = min(value, float(np.log(share)) if share > 0 else -np.inf)
        places = []
        # An item that is not listed has no rank, before or after.
        listed = [told.scores for told in best.outcomes] + [start.before] if self._ranked is not None else []
        ranked = all(self.model.may_show(scores)[target] for scores in listed)
        for told in best.outcomes:
            allowed = left_over(start.candidates, told.items)
            has_rank = ranked and allowed[target]
            places.append(ranks(told.scores[None], allowed[None], ties)[0, target] if has_rank else np.nan)
        rank = float(np.floor(np.median(places))) if np.isfinite(places).all() else np.nan
        acted = start.acted
        if self.steps and left and not best.fresh:
            acted = np.array(came, dtype=np.int64)
        return _Row(asked, Status.BOUNDED, value, lower, best.point[: len(acted)], acted, rank)


@final
@dataclass(frozen=True, eq=False)
class AskActions(AskMethod):
    """For ratings of known items."""

    def _begin(self, visit: Visit, user: int) -> _Start:
        users = np.array([user])
        items = self.actions.items(visit.model, users, self.rng, self.log)
        acted = items[0, items[0] >= 0]
        given = self.ratings_before(visit.model, users, acted[None])
        ratings = None if given is None else given[0]
        if self.audit.resolved_baseline == "scores" or ratings is None or not len(acted):
            before = visit.scores(lambda model: model.scores(users)[0])
        else:
            before = visit.scores(lambda model: model.respond(user, user, acted).scores(ratings))
        return _Start(user, before, self.candidates(users, acted[None])[0], len(acted) > 0, acted, ratings)

    def _answering(self, start: _Start) -> Answer:
        @cache
        def response(model: BlackBox) -> OpaqueResponse:
            return model.respond(start.user, start.user, start.acted)

        return lambda model, point: ((), response(model).scores(point))


@final
@dataclass(frozen=True, eq=False)
class AskFuture(AskMethod):
    """For the next k items that the system shows: as `SearchFuture`, with a roll-out of k answers for each point."""

    def __post_init__(self) -> None:
        if isinstance(self.model, BlackBox) and self.model.sampling is not None:
            raise NotSupportedError("A system that gives random lists has no top item to follow. Audit Past(k).")
        super().__post_init__()

    def _begin(self, visit: Visit, user: int) -> _Start:
        users = np.array([user])
        _, candidates, solvable = self.future_pairs(users)
        before = visit.scores(lambda model: model.scores(users)[0])
        return _Start(user, before, candidates[0], bool(solvable.any()))

    def _answering(self, start: _Start) -> Answer:
        alone = np.array([start.user])
        shown, ties = ~self.log.seen(alone)[0], self.ties(alone)

        def answer(model: BlackBox, point: FloatArray) -> tuple[tuple[int, ...], FloatArray]:
            def step(items: tuple[int, ...], ratings: FloatArray) -> FloatArray:
                response = model.respond_in_turn(start.user, np.array(items, dtype=np.int64))
                return response.scores(ratings)

            return roll_out(step, model.may_show, shown, point, ties)

        return answer

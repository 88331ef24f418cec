"""Dealing with a system that can only be asked: a budget for each pair, and answers that may be chance or fail.

Whatever is asked on behalf of a pair is paid from its budget. Answers that pairs of the same user share are asked for
once, and each pair pays for them as if it were alone, so that no pair's answer depends on its company.

The best of many random answers is too high, being chosen for it. So the baseline is asked for twice, and so is the best
point: where the answers agree they are taken for certain. Where they do not, part of the budget is kept for asking
about the best point afresh, and what the pair is said to reach is the average of those answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import final

import numpy as np
import polars as pl
from scipy.special import logsumexp, stdtrit

from recaudit.arrays import FloatArray
from recaudit.errors import BudgetSpentError, InputError, SystemFailedError
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import BlackBox, as_black_box
from recaudit.models.given.queries import CONFIDENCE, PAIR_BUDGET_SPENT, Memory, Queries, binomial_at_least
from recaudit.solvers.search import Box, maximize_black_box

FAILURES = (SystemFailedError, BudgetSpentError)
"""What leaves a pair without an answer, and the others as they are."""
LOWEST = -1e6
"""What a search takes for an infinitely bad outcome: it goes by differences."""
_SAME = 1e-9
"""Answers that differ by less, relative to the largest score, are the same: rounding is no chance."""
_FRESH = 3, 20
"""How many fresh answers are asked for at least, and at most; between them, a quarter of what the budget buys."""
_SPARE = 2
"""Queries kept for a system that fails when the best point is asked about again."""


@final
@dataclass(frozen=True, eq=False)
class PointValue:
    """What an answer of the system comes to for a pair."""

    value: float  # what is to be as high as possible; -inf where there is nothing lower
    scores: FloatArray  # (items,), or more of them: what the system answered
    items: tuple[int, ...] = ()  # what was shown on the way to it, where something was
    height: float | None = None  # what a search climbs, where the value does not say which way is up; 0 at the top


@final
@dataclass(frozen=True, eq=False)
class Best:
    """The best point found for a pair, and what is known of it."""

    point: FloatArray
    outcomes: tuple[PointValue, ...]  # the answer there; where answers are chance, fresh ones
    fresh: int  # how many of them are fresh; 0 where the system gives the same answer twice
    tried: int  # how many points were asked about


@final
class Visit:
    """What is asked on behalf of one pair, or of a user before there are pairs."""

    def __init__(self, model: BlackBox, queries: Queries, memories: tuple[Memory, Memory], random: bool) -> None:
        self.queries = queries
        self.model = model.counting(queries, memories[0])  # asked each question once
        self.afresh = model.counting(queries)  # asked anew each time
        self._again = model.counting(queries, memories[1])
        self._memories = memories
        self.random = random  # whether the system is known to answer the same question differently

    @classmethod
    def of(cls, model: FittedModel, budget: int) -> Visit:
        """Before anything was asked."""
        system = model if isinstance(model, BlackBox) else as_black_box(model)
        return cls(system, Queries(budget, system.queries), (Memory(), Memory()), system.sampling is not None)

    def pair(self) -> Visit:
        """The visit of one pair, which has paid for what was asked so far, and knows it."""
        mine = self.queries
        queries = Queries(mine.limit, mine.within, mine.asked)
        first, second = self._memories
        return Visit(self.model, queries, (first.shared(), second.shared()), self.random)

    def scores(self, question: Callable[[BlackBox], FloatArray]) -> FloatArray:
        """(items,): the answer to a question. It is asked twice, to see whether the system repeats itself."""
        scores = question(self.model)
        if not self.random and not self.model.system.repeats_itself:
            self.random = not _same_scores(scores, question(self._again))
        return scores

    def maximize(
        self,
        outcome: Callable[[BlackBox, FloatArray], PointValue],
        box: Box,
        *,
        start: FloatArray | None,
        rng: int,
        answers: tuple[int, int] = (1, 1),
    ) -> Best:
        """The point of the box with the highest outcome found.

        `answers`: how many an outcome takes, of a system that is asked each question once, and of one asked afresh.
        """
        cost, anew = (self.model.cost * count for count in answers)
        left, certain = self.queries.left, self.model.system.repeats_itself
        fresh = 0 if certain else 1
        if self.random and self.model.sampling is None:
            least, most = _FRESH
            fresh = max(1, min(max(least, left // anew // 4), most, (left - cost) // anew))
        spare = 0 if certain else max(0, min(_SPARE, left - fresh * anew - cost))
        searched = (left - fresh * anew - spare) // cost
        if searched < 1:
            raise BudgetSpentError(
                f"{PAIR_BUDGET_SPENT} before the search: {self.queries.asked:,} of {self.queries.limit:,}, "
                f"and {cost + fresh * anew:,} more are needed."
            )
        at_top = False

        def climb(point: FloatArray) -> float:
            nonlocal at_top
            if at_top:
                raise BudgetSpentError("Nothing is higher than what was found: there is nothing more to ask.")
            told = outcome(self.model, point)
            at_top = told.height == 0
            return max(told.value if told.height is None else told.height, LOWEST)

        with self.queries.holding_back(fresh * anew + spare):
            found = maximize_black_box(climb, box, searched, start=start, rng=rng)
        point, tried = found.actions[0], int(found.evaluations[0])
        answer = outcome(self.model, point)
        again = [] if certain else [outcome(self.afresh, point)]
        if at_top:  # where a search stops, lucky or not: one answer that agrees would prove little
            more = min(_FRESH[0] - 1, self.queries.left // anew - _SPARE)
            again += [outcome(self.afresh, point) for _ in range(more)]
        same = [other.items == answer.items and _same_scores(answer.scores, other.scores) for other in again]
        if certain or (not self.random and all(same)):
            return Best(point, (answer,), 0, tried)
        wanted = fresh if self.random else _FRESH[1]
        while len(again) < wanted and self.queries.left >= anew:
            try:
                again.append(outcome(self.afresh, point))
            except BudgetSpentError:  # a system that fails now and then took the rest: what was answered is enough
                break
        return Best(point, tuple(again), len(again), tried)


def _same_scores(one: FloatArray, other: FloatArray) -> bool:
    return np.allclose(one, other, rtol=0, atol=_SAME * float(np.abs(one).max()))


def system_facts(model: FittedModel) -> dict[str, object]:
    """How many lists of a system of lists were an answer, and whether that was found out by asking twice."""
    lists = model.lists if isinstance(model, BlackBox) else None
    return {} if lists is None else {"repeats": lists.repeats, "asked_twice": lists.asked_twice}


def check_budget(model: FittedModel, budget: int, answers: tuple[int, int] = (1, 1)) -> None:
    """Refuse a budget that no pair can be answered with; `answers` as in `Visit.maximize`."""
    system = model if isinstance(model, BlackBox) else as_black_box(model)
    certain, known_random = system.system.repeats_itself, system.sampling is not None
    baseline = 1 if certain or known_random else 2
    least = system.cost * (baseline + answers[0] + (0 if certain else answers[1]))
    if budget < least:
        expected = f"{least:,} queries a pair at least: for the baseline, for one point, and to ask again"
        raise InputError("budget", received=budget, expected=expected)


def expected_log(logs: FloatArray) -> tuple[float, float]:
    """The logarithm of the average of random probabilities, exp(`logs`) (answers,), and what the expectation is not
    below with 97.5% confidence.

    Where they vary, the lower limit is Student's for the mean of the logarithms, which is not above the logarithm of
    the mean: it assumes that scores vary normally. Where there are two values at most, as with a top item that is or is
    not the target, how often the higher one came is binomial, and nothing is assumed of the other.
    """
    count, top = len(logs), float(logs.max())
    value = float(logsumexp(logs)) - float(np.log(count))
    if top == -np.inf:
        return value, value
    if len(np.unique(np.round(logs, 9))) <= 2:
        share = binomial_at_least(int((logs > top - _SAME).sum()), count)
        return value, min(value, top + float(np.log(share)))
    if not np.isfinite(logs).all():
        return value, -np.inf
    limit = logs.mean() - stdtrit(count - 1, CONFIDENCE) * logs.std(ddof=1) / np.sqrt(count)
    return value, min(value, float(limit))


@final
@dataclass(frozen=True)
class Asked:
    """What a pair's row says of the asking."""

    queries: int
    fresh: int | None = None
    failure: str | None = None

    @staticmethod
    def columns(rows: list[Asked]) -> list[pl.Series]:
        """`queries`, `fresh` and `failure`, of pairs in the order of their rows."""
        schema = {"queries": pl.Int32, "fresh": pl.Int32, "failure": pl.String}
        return pl.DataFrame([astuple(row) for row in rows], schema, orient="row").get_columns()

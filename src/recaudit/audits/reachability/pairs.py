"""What all ways to answer have in common: the audit with its ids resolved, and the rows in which answers are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.audits.reachability.result import STATUS
from recaudit.audits.samples import candidate_items
from recaudit.data.interactions import Interactions
from recaudit.interventions import Actions, Future, Interval, Stars
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.models.base import FittedModel
from recaudit.ranking import rank_of, ranks
from recaudit.solvers.solution import Solution
from recaudit.status import Status
from recaudit.ties import TieKeys

if TYPE_CHECKING:
    from recaudit.audits.reachability.audit import Reachability


@dataclass(frozen=True, eq=False)
class Method(ABC):
    """A way to answer: a block of users (positions) in, a row for each of their pairs out. Pure and picklable."""

    audit: Reachability
    model: FittedModel
    log: Interactions  # what was observed: the model's own log, or one with what came after (see `Past`)
    targets: IntArray | None  # positions of the items asked about; None for every candidate
    rng: int

    @abstractmethod
    def __call__(self, users: IntArray) -> pl.DataFrame:
        """The rows of these users (positions)."""

    @property
    def actions(self) -> Actions:
        """The ratings that are free, where it is known beforehand of which items."""
        assert isinstance(self.audit.actions, Actions)
        return self.audit.actions

    @property
    def future(self) -> Future:
        """The ratings that are free, where the items depend on them."""
        assert isinstance(self.audit.actions, Future)
        return self.audit.actions

    @property
    def steps(self) -> int:
        """How many items are shown and rated on the way, and not recommended again."""
        return self.audit.actions.k if isinstance(self.audit.actions, Future) else 0

    @property
    def ratings(self) -> Interval | Stars:
        """What a rating may be."""
        return free_ratings(self.audit.actions.ratings, self.log.scale)

    def candidates(self, users: IntArray, acted: IntArray | None = None) -> BoolArray:
        """(users, items): what the policy chooses from; `acted` (users, actions) are positions, -1 for none."""
        return candidate_items(self.log, users, acted, self.audit.candidates)

    def action_pairs(self, users: IntArray) -> tuple[IntArray, BoolArray, BoolArray]:
        """The acted-on items (users, actions), the candidates and the pairs that can be answered (users, items)."""
        items = self.actions.items(self.model, users, self.rng, self.log)
        candidates = self.candidates(users, items)
        return items, candidates, self.asked(candidates) & candidates & np.any(items >= 0, axis=1)[:, None]

    def future_pairs(self, users: IntArray) -> tuple[BoolArray, BoolArray, BoolArray]:
        """(users, items) each: what may come on the way, the candidates, and the pairs that can be answered."""
        shown, candidates = ~self.log.seen(users), self.candidates(users)
        # Who has seen too much for k items more has no answer.
        able = (shown.sum(axis=1) >= self.steps) & (candidates.sum(axis=1) > self.steps)
        return shown, candidates, self.asked(candidates) & candidates & able[:, None]

    def ratings_before(self, model: FittedModel, users: IntArray, items: IntArray) -> FloatArray | None:
        """(users, actions): the ratings from which a search starts and of which the baseline speaks, if any."""
        if self.audit.resolved_baseline == "predicted":
            scores: FloatArray = np.take_along_axis(model.scores(users), np.maximum(items, 0), axis=1)
            return scores.clip(*rating_range(self.log.scale))
        if self.audit.resolved_baseline == "factual" or model.predicts_ratings:
            return self.actions.unchanged(model, users, items, self.log)
        return None

    def asked(self, candidates: BoolArray) -> BoolArray:
        """(users, items): the pairs that get a row; `candidates` (users, items).

        Where no targets are named, the candidates; for a user without any, every item, none of which can be answered.
        """
        if self.targets is None:
            return candidates | ~candidates.any(axis=1, keepdims=True)
        asked = np.zeros_like(candidates)
        asked[:, self.targets] = True
        return asked

    def ties(self, users: IntArray) -> TieKeys:
        """What decides between tied items in the lists of these users (positions)."""
        return self.model.data.tie_keys(users)

    def log_probabilities(self, scores: FloatArray, allowed: BoolArray, ties: TieKeys) -> FloatArray:
        """(n, items): of `scores` (n, items) among `allowed`; what is never shown has probability 0."""
        logs = self.audit.policy.log_probabilities(scores, allowed, ties)
        return np.where(self.model.may_show(scores), logs, -np.inf)

    def frame(
        self,
        users: IntArray,
        candidates: BoolArray,
        solvable: BoolArray,
        before: FloatArray,
        answer: Solution,
        rank: IntArray | FloatArray,
        acted: IntArray,
    ) -> pl.DataFrame:
        """A row for each pair asked about; those that are not solvable have the status not_applicable.

        `candidates`, `solvable` and the baseline's scores `before` are (users, items). In the order of the solvable
        pairs: `answer`, the `rank` at it (pairs,) and the positions of the `acted` items (pairs, actions), -1 for none.
        NaN, what is not known, is null in the frame.
        """
        asked = self.asked(candidates)
        row, item = np.nonzero(asked)
        solved = solvable[asked]
        if np.isnan(before).any():
            start, gain = np.full(len(row), np.nan), np.full(len(rank), np.nan)
        else:
            ties = self.ties(users)
            start = self.log_probabilities(before, candidates, ties)[asked]
            gain = (ranks(before, candidates, ties)[solvable] - rank).astype(np.float64)
        if self.audit.slate > 1:
            with np.errstate(divide="ignore"):
                start = np.log(-np.expm1(self.audit.slate * np.log1p(-np.minimum(np.exp(start), 1 - 1e-16))))

        def spread(values: FloatArray) -> pl.Series:
            """Answers at the rows that have one, null elsewhere."""
            if len(values) == len(row):
                return _series(values)
            filled = np.full(len(row), np.nan)
            filled[solved] = values
            return _series(filled)

        codes = np.full(len(row), _CODES[Status.NOT_APPLICABLE.value], dtype=np.uint8)
        codes[solved] = status_codes(answer.status)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite where the baseline is 0
            lift = np.exp(answer.value - start[solved])
        columns = {
            "user": self.log.user_ids.gather(users[row]),
            "item": self.log.item_ids.gather(item),
            "value": spread(np.exp(answer.value)),
            "lower": spread(np.exp(answer.lower)),
            "upper": spread(np.exp(answer.upper)),
            "status": _STATUSES.gather(codes),
            "baseline": _series(np.exp(start)),
            "lift": spread(lift),
            "rank_gain": spread(gain).cast(pl.Int32),
            "candidates": np.maximum(candidates.sum(axis=1) - self.steps, 0)[row].astype(np.int32),
        }
        frame = pl.DataFrame(columns)
        if not self.audit.best_actions:
            return frame
        return frame.with_columns(action_columns(self.log.item_ids, solved, acted, answer.actions, acted >= 0))


_STATUSES = pl.Series(STATUS.categories, dtype=STATUS)
_CODES = {status: code for code, status in enumerate(STATUS.categories)}


def status_codes(statuses: StatusArray) -> NDArray[np.uint8]:
    """(n,): where each of these stands in STATUS; numbers are many times faster than strings."""
    codes = np.full(len(statuses), _CODES[Status.SOLVED.value], dtype=np.uint8)
    others = np.flatnonzero(statuses != Status.SOLVED.value)
    codes[others] = [_CODES[str(status)] for status in statuses[others]]
    return codes


def _series(values: FloatArray) -> pl.Series:
    """The numbers as a column, NaN being null."""
    series = pl.Series(values)
    return series.fill_nan(None) if np.isnan(values).any() else series


def action_columns(
    ids: pl.Series, known: BoolArray, items: IntArray, ratings: FloatArray, used: BoolArray
) -> list[pl.Series]:
    """`action_items` and `action_ratings`: of each row, (rows,), what was rated where its value is `known`, else null.

    In the order of the known rows: the positions of the `items`, their `ratings`, and which of them were `used`.
    """
    every, rows = ids.to_list(), zip(items, ratings, used, strict=True)
    pairs = [next(rows) if has else None for has in known]
    chosen = [pair and [every[item] for item in pair[0][pair[2]]] for pair in pairs]
    given = [pair and pair[1][pair[2]].tolist() for pair in pairs]
    return [
        pl.Series("action_items", chosen, pl.List(ids.dtype)),
        pl.Series("action_ratings", given, pl.List(pl.Float64)),
    ]


_ROWS = 256
"""Points whose scores of a few thousand items are computed together: they stay in the cache."""


def ranks_at(scores: Callable[[FloatArray], FloatArray], points: FloatArray, own: IntArray, ties: TieKeys) -> IntArray:
    """(pairs,): the rank of each pair's item, column `own` (pairs,) of the scores, at its `points` (pairs, actions).

    `ties` has one row, that of the user.
    """
    found = np.empty(len(points), dtype=np.int64)
    for first in range(0, len(points), _ROWS):
        part = slice(first, first + _ROWS)
        found[part] = rank_of(scores(points[part]), own[part], ties.repeated(len(points[part])))
    return found

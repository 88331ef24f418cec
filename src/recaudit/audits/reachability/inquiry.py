"""What an audit of reachability asks, however it is answered, and the rows in which every answer is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.candidates import Candidates
from recaudit.audits.reachability.result import STATUS
from recaudit.data.interactions import Interactions
from recaudit.interventions import Actions, Future
from recaudit.models.base import FittedModel
from recaudit.policies import Policy
from recaudit.solvers.solution import Solution
from recaudit.status import Status

Baseline = Literal["scores", "predicted", "factual"]


@final
@dataclass(frozen=True, eq=False)
class Inquiry:
    """The question: which probability, of which items, over which ratings. Picklable."""

    model: FittedModel
    log: Interactions
    """What was observed: the model's own log, or one with what came after (see `Past`)."""
    actions: Actions | Future
    policy: Policy
    targets: IntArray | None
    """Positions of the items asked about; None for every candidate."""
    candidates: Candidates
    baseline: Baseline
    slate: int
    tolerance: float
    best_actions: bool
    """Whether rows have the acted-on items and the ratings that reach the value."""
    rng: int
    device: str

    def asked(self, candidates: BoolArray) -> BoolArray:
        """(users, items): the pairs that get a row; `candidates` (users, items).

        Where no targets are named, the candidates; for a user without any, every item, none of which can be answered.
        """
        if self.targets is None:
            return candidates | ~candidates.any(axis=1, keepdims=True)
        asked = np.zeros_like(candidates)
        asked[:, self.targets] = True
        return asked

    def frame(
        self,
        users: IntArray,
        asked: BoolArray,
        solvable: BoolArray,
        log_baseline: FloatArray,
        answer: Solution,
        rank_gain: IntArray | FloatArray,
        acted: IntArray,
        choices: IntArray,
    ) -> pl.DataFrame:
        """A row for each pair asked about; those that are not solvable have the status not_applicable.

        What is NaN is not known, and null in the frame.

        `asked`, `solvable` and `log_baseline` are (users, items); `answer`, `rank_gain` (pairs,) and `acted`
        (pairs, actions), the positions of the acted-on items with -1 for none, are in the order of the solvable pairs.
        `choices` (users,): how many items the policy chooses from.
        """
        row, item = np.nonzero(asked)
        solved = solvable[asked]
        start = log_baseline[asked]

        def spread(values: FloatArray) -> pl.Series:
            """Answers at the rows that have one, null elsewhere."""
            filled = np.full(len(row), np.nan)
            filled[solved] = values
            return pl.Series(filled).fill_nan(None)

        status = np.full(len(row), Status.NOT_APPLICABLE.value, dtype="<U14")
        status[solved] = answer.status
        with np.errstate(invalid="ignore", over="ignore"):  # infinite where the baseline is 0
            lift = np.exp(answer.value - start[solved])
        columns = {
            "user": self.log.user_ids.gather(users[row]),
            "item": self.log.item_ids.gather(item),
            "value": spread(np.exp(answer.value)),
            "lower": spread(np.exp(answer.lower)),
            "upper": spread(np.exp(answer.upper)),
            "status": pl.Series(status).cast(STATUS),
            "baseline": pl.Series(np.exp(start)).fill_nan(None),
            "lift": spread(lift),
            "rank_gain": spread(rank_gain.astype(np.float64)).cast(pl.Int32),
            "candidates": choices[row].astype(np.int32),
        }
        frame = pl.DataFrame(columns)
        return frame.with_columns(*self._action_columns(solved, answer, acted)) if self.best_actions else frame

    def _action_columns(self, solved: BoolArray, answer: Solution, acted: IntArray) -> list[pl.Series]:
        """The acted-on items' ids, and the ratings that reach the value, as lists."""
        ids: list[list[object] | None] = []
        ratings: list[list[float] | None] = []
        given = zip(acted, answer.actions, strict=True)
        for has in solved:
            if not has:
                ids.append(None)
                ratings.append(None)
                continue
            items, values = next(given)
            ids.append(self.log.item_ids.gather(items[items >= 0]).to_list())
            ratings.append(values[items >= 0].tolist())
        return [
            pl.Series("action_items", ids, pl.List(self.log.item_ids.dtype)),
            pl.Series("action_ratings", ratings, pl.List(pl.Float64)),
        ]

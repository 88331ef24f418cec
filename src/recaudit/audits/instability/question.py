"""What an audit of instability asks, however it is answered, and the rows in which every answer is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import Asked
from recaudit.audits.candidates import Baseline, Candidates, candidate_items
from recaudit.audits.instability.result import PAIR_SCHEMA, user_groupings
from recaudit.audits.instability.tally import Tally
from recaudit.data.interactions import Interactions
from recaudit.engines.base import blocks
from recaudit.interventions import Actions, Interval, Stars
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse
from recaudit.solvers.distance.distances import Distance
from recaudit.status import Status

_GRID = 33
"""Ratings tried on an interval where scores are no affine function of them."""


@final
@dataclass(frozen=True, eq=False)
class InstabilityQuestion:
    """The question: which distance, before and after which edits. Picklable."""

    model: FittedModel
    log: Interactions
    editors: IntArray
    """Positions."""
    distance: Distance
    beta: float
    target: int | None
    """The position of the one item that the distance is about."""
    candidates: Candidates
    baseline: Baseline
    threshold: float
    keep_pairs: bool
    best_ratings: bool

    def tried(self, ratings: Interval | Stars | None) -> tuple[FloatArray, bool]:
        """(ratings,): the ratings to try, ascending; and whether no other that may be given can do more.

        A score that is affine in the rating is lowest at one end and highest at the other.
        """
        allowed = free_ratings(ratings, self.log.scale)
        values = allowed.values if isinstance(allowed, Stars) else np.linspace(allowed.low, allowed.high, _GRID)
        affine = self.model.response is AffineResponse
        return (values[[0, -1]] if affine else values), affine or isinstance(allowed, Stars)

    def allowed(self, viewers: IntArray) -> BoolArray:
        """(viewers, items): True at each viewer's candidates."""
        return candidate_items(self.log, viewers, np.zeros((len(viewers), 0), dtype=np.int64), self.candidates)

    def ratings_before(self, actions: Actions, items: IntArray) -> FloatArray | None:
        """(editors, actions): the editors' ratings of `items` that the baseline speaks of; None for the scores."""
        if self.baseline == "factual":
            parts = blocks(self.editors)
            own = np.split(items, np.cumsum([len(part) for part in parts])[:-1])
            known = [actions.unchanged(self.model, part, some, self.log) for part, some in zip(parts, own, strict=True)]
            return np.concatenate(known)
        if self.baseline == "predicted":
            who = np.repeat(self.editors, items.shape[1])
            scores = self.model.pair_scores(who, np.maximum(items, 0).ravel()).reshape(items.shape)
            return scores.clip(*rating_range(self.log.scale)) if self.model.predicts_ratings else scores
        return None

    def of_editors(self, model: FittedModel, editors: IntArray) -> InstabilityQuestion:
        """The same question about some editors (positions), asked of a `model` that gives the same answers."""
        return replace(self, model=model, editors=editors)

    def members(self) -> FloatArray:
        """(editors, groups): how much of each editor belongs to each group of users."""
        return np.column_stack([grouping.weights[self.editors] for grouping in user_groupings(self.log, None)])


@final
@dataclass(frozen=True, eq=False)
class Pairs:
    """The answers of a block of viewers, (viewers, editors) each."""

    viewers: IntArray
    value: FloatArray
    """NaN where there is none."""
    lower: FloatArray
    upper: FloatArray
    solved: BoolArray
    """Whether the value is the largest distance itself."""
    items: IntArray
    """(editors, actions): what the editors rate; -1 for none."""
    ratings: FloatArray | None
    """(viewers, editors, actions): the ratings that reach the value, NaN where a rating stays or does not matter."""
    asked: NDArray[np.object_] | None = None
    """(viewers, editors) of `Asked`, where a system was asked."""

    @property
    def failed(self) -> BoolArray:
        """(viewers, editors): whether the system failed."""
        if self.asked is None:
            return np.zeros(self.value.shape, dtype=bool)
        return np.array([pair.failure is not None for pair in self.asked.ravel()]).reshape(self.value.shape)


@final
@dataclass(frozen=True, eq=False)
class Part:
    """What a block of viewers comes to."""

    frame: pl.DataFrame
    """A row for each pair, or none where they are not kept."""
    tally: Tally
    failed: int
    """How many pairs have no value because the system failed."""

    @classmethod
    def of(cls, ask: InstabilityQuestion, found: Pairs, members: FloatArray) -> Part:
        """The sums of these pairs and, where they are kept, their rows; nobody is their own editor."""
        asked = found.viewers[:, None] != ask.editors[None, :]
        value = np.where(asked & (found.items >= 0).any(axis=1), found.value, np.nan)
        tally = Tally.of(value, found.solved, asked, members, ask.distance, ask.threshold)
        return cls(_frame(ask, found, value, asked), tally, int((asked & found.failed).sum()))


def _frame(ask: InstabilityQuestion, found: Pairs, values: FloatArray, asked: BoolArray) -> pl.DataFrame:
    row, column = np.nonzero(asked & ask.keep_pairs)
    value = values[row, column]
    known = ~np.isnan(value)
    status = np.where(found.solved[row, column], Status.SOLVED.value, Status.BOUNDED.value)
    absent = np.where(found.failed[row, column], Status.FAILED.value, Status.NOT_APPLICABLE.value)
    ids = ask.log.user_ids
    frame = pl.DataFrame(
        {
            "viewer": ids.gather(found.viewers[row]),
            "editor": ids.gather(ask.editors[column]),
            "value": pl.Series(value).fill_nan(None),
            "lower": pl.Series(np.where(known, found.lower[row, column], np.nan)).fill_nan(None),
            "upper": pl.Series(np.where(known, found.upper[row, column], np.nan)).fill_nan(None),
            "status": pl.Series(np.where(known, status, absent), dtype=pl.String).cast(PAIR_SCHEMA["status"]),
            "baseline": np.zeros(len(row)),
        }
    )
    if found.asked is not None:
        frame = frame.with_columns(Asked.columns(found.asked[row, column].tolist()))
    if found.ratings is None:
        return frame
    chosen: list[list[object] | None] = []
    ratings: list[list[float] | None] = []
    item_ids = ask.log.item_ids.to_list()
    for has, items, given in zip(known, found.items[column], found.ratings[row, column], strict=True):
        matters = np.flatnonzero(~np.isnan(given))
        chosen.append([item_ids[item] for item in items[matters]] if has else None)
        ratings.append(given[matters].tolist() if has else None)
    return frame.with_columns(
        pl.Series("action_items", chosen, pl.List(ask.log.item_ids.dtype)),
        pl.Series("action_ratings", ratings, pl.List(pl.Float64)),
    )


def masked(scores: torch.Tensor, allowed: BoolArray) -> torch.Tensor:
    """(viewers, items): -inf where an item is no candidate."""
    return scores.masked_fill(torch.from_numpy(~allowed), -torch.inf)

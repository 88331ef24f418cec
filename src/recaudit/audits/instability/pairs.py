"""What the solvers of instability have in common. Pairs are millions: they stream by, and their totals are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import Asked
from recaudit.audits.reachability.pairs import action_columns
from recaudit.audits.reachability.result import STATUS
from recaudit.audits.samples import candidate_items
from recaudit.audits.spill import Part, PartFolder, Rows, SpilledRows
from recaudit.data.interactions import Interactions
from recaudit.engines.base import blocks
from recaudit.interventions import Actions, Interval, Stars
from recaudit.interventions.ratings import free_ratings, rating_range
from recaudit.metrics.groupings import groupings
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse
from recaudit.policies import Softmax
from recaudit.solvers.distance.distances import LARGEST, Distance
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.instability.audit import Instability

_GRID = 33
"""Ratings tried on an interval where scores are no affine function of them."""
BINS = 1000
"""Equal steps from 0 to the largest value that a distance can have, into which values are counted."""


@final
@dataclass(frozen=True, eq=False)
class PairDistances:
    """The answers for a block of viewers, (viewers, editors) each."""

    value: FloatArray  # NaN where there is none
    lower: FloatArray
    upper: FloatArray
    solved: BoolArray  # whether the value is the largest distance itself
    items: IntArray  # (editors, actions): what the editors rate; -1 for none
    ratings: FloatArray | None = None
    """(viewers, editors, actions): the ratings that reach the value, NaN where a rating stays or does not matter."""
    asked: NDArray[np.object_] | None = None  # of `Asked`, where a system was asked


class PairSolver(ABC):
    """A block of viewers in, the totals of their pairs with all editors out; pure and picklable."""

    def __init__(self, audit: Instability, model: FittedModel, log: Interactions, editors: IntArray, rng: int) -> None:
        assert isinstance(audit.policy, Softmax)
        self.audit = audit  # with what it leaves open decided: `pairs` is not None
        self.model, self.log, self.rng = model, log, rng
        self.editors = editors  # positions, as is the one item that the distance is about
        self.target = None if audit.item is None else int(log.items_at([audit.item])[0])
        self.beta = audit.policy.fixed_beta
        groups = [grouping.weights[editors] for grouping in groupings(log, audit.by, audit.split_by)]
        self._members = np.concatenate([np.empty((len(editors), 0)), *groups], axis=1)
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Check what is asked, and work out once what serves all viewers."""

    @abstractmethod
    def _solve(self, viewers: IntArray) -> PairDistances:
        """The pairs of these viewers (positions) with all editors."""

    @final
    def __call__(self, viewers: IntArray) -> PairTotals:
        """The totals and, where they are kept, the rows of these viewers' pairs; nobody is their own editor."""
        found, threshold = self._solve(viewers), self.audit.threshold
        asked = viewers[:, None] != self.editors[None, :]
        failed = np.zeros(asked.shape, dtype=bool)
        if found.asked is not None:
            failed = asked & np.vectorize(lambda pair: pair.failure is not None, otypes=[bool])(found.asked)
        values = np.where(asked & (found.items >= 0).any(axis=1), found.value, np.nan)
        known = ~np.isnan(values)
        summed = known, np.where(known, values, 0.0), known & (values > threshold), known & ~found.solved
        return PairTotals(
            self._rows(viewers, found, values, failed, asked & bool(self.audit.pairs)),
            PersonTotals.of(values, summed, axis=1),
            PersonTotals.of(values, summed, axis=0),
            np.stack([part.astype(np.float64) @ self._members for part in summed]),
            bin_counts(values[known], self.audit.distance),
            np.array([failed.sum(), (asked & ~known & ~failed).sum()]),
        )

    @property
    def actions(self) -> Actions:
        """What editors do, where the items they rate do not depend on ratings or on chance."""
        assert isinstance(self.audit.edits, Actions)
        return self.audit.edits

    @property
    def ratings(self) -> Interval | Stars:
        """What a changed rating may be."""
        return free_ratings(self.audit.edits.ratings, self.log.scale)

    def grid(self) -> tuple[FloatArray, bool]:
        """(ratings,): the ratings to try, ascending; and whether no other that may be given can do more.

        A score that is affine in the rating is lowest at one end and highest at the other.
        """
        allowed = self.ratings
        values = allowed.values if isinstance(allowed, Stars) else np.linspace(allowed.low, allowed.high, _GRID)
        affine = self.model.response is AffineResponse
        return (values[[0, -1]] if affine else values), affine or isinstance(allowed, Stars)

    def allowed(self, viewers: IntArray) -> BoolArray:
        """(viewers, items): True at each viewer's candidates."""
        return candidate_items(self.log, viewers, None, self.audit.candidates)

    def shown(self, scores: FloatArray, viewers: IntArray) -> FloatArray:
        """(viewers, items): the scores, -inf where an item is no candidate."""
        return np.where(self.allowed(viewers), scores, -np.inf)

    def edited_items(self) -> IntArray:
        """(editors, actions): the items that each editor rates; -1 for none."""
        parts = blocks(self.editors)
        return np.concatenate([self.actions.items(self.model, part, self.rng, self.log) for part in parts])

    def ratings_before(self, model: FittedModel, editors: IntArray, items: IntArray) -> FloatArray | None:
        """(editors, actions): the ratings of `items` in the baseline; None where that is the model's scores."""
        if self.audit.resolved_baseline == "factual":
            own = [(editors[at], items[at]) for at in blocks(np.arange(len(editors)))]
            return np.concatenate([self.actions.unchanged(model, part, some, self.log) for part, some in own])
        if self.audit.resolved_baseline == "predicted":
            who = np.repeat(editors, items.shape[1])
            scores = model.pair_scores(who, np.maximum(items, 0).ravel()).reshape(items.shape)
            return scores.clip(*rating_range(self.log.scale)) if model.predicts_ratings else scores
        return None

    def _rows(
        self, viewers: IntArray, found: PairDistances, values: FloatArray, failed: BoolArray, kept: BoolArray
    ) -> pl.DataFrame:
        """A row for each pair in `kept`; like `values` and `failed` it is (viewers, editors)."""
        row, column = np.nonzero(kept)
        value = values[row, column]
        known = ~np.isnan(value)
        status = np.where(found.solved[row, column], Status.SOLVED.value, Status.BOUNDED.value)
        absent = np.where(failed[row, column], Status.FAILED.value, Status.NOT_APPLICABLE.value)
        ids = self.log.user_ids
        frame = pl.DataFrame(
            {
                "viewer": ids.gather(viewers[row]),
                "editor": ids.gather(self.editors[column]),
                "value": pl.Series(value).fill_nan(None),
                "lower": pl.Series(np.where(known, found.lower[row, column], np.nan)).fill_nan(None),
                "upper": pl.Series(np.where(known, found.upper[row, column], np.nan)).fill_nan(None),
                "status": pl.Series(np.where(known, status, absent), dtype=pl.String).cast(STATUS),
                "baseline": np.zeros(len(row)),
            }
        )
        if found.asked is not None:
            frame = frame.with_columns(Asked.columns(found.asked[row, column].tolist()))
        if found.ratings is None or not self.audit.best_ratings:
            return frame
        given = found.ratings[row, column][known]
        return frame.with_columns(
            action_columns(self.log.item_ids, known, found.items[column][known], given, ~np.isnan(given))
        )


@final
@dataclass(frozen=True, eq=False)
class WritesPairs:
    """The totals of some blocks of viewers, whose rows are written where they are worked out."""

    solver: PairSolver
    folder: PartFolder

    def __call__(self, piece: tuple[int, Sequence[IntArray]]) -> PairTotals:
        """Of a numbered part."""
        self.folder.check()
        number, viewers = piece
        totals = PairTotals.joined(map(self.solver, viewers))
        assert isinstance(totals.pairs, pl.DataFrame)
        return replace(totals, pairs=self.folder.write(number, totals.pairs))


@final
class PersonTotals(NamedTuple):
    """What the pairs of each viewer, or of each editor, come to."""

    sums: FloatArray  # (4, people): see `PairTotals.by_group`
    largest: FloatArray  # (people,): -inf without any value
    partner: IntArray
    """(people,): the place of the editor, or viewer, of the largest value, the first of equals; -1 without any."""

    @classmethod
    def of(cls, values: FloatArray, summands: Sequence[FloatArray | BoolArray], axis: int) -> PersonTotals:
        """Of `values` (viewers, editors), NaN where there is none, and what is summed of them, over an axis."""
        filled = np.where(np.isnan(values), -np.inf, values)
        largest = filled.max(axis=axis)
        partner = np.where(np.isfinite(largest), filled.argmax(axis=axis), -1)
        return cls(np.stack([part.sum(axis=axis) for part in summands]).astype(np.float64), largest, partner)

    def plus(self, more: PersonTotals, start: int) -> PersonTotals:
        """With the pairs of further partners, the first of whom has the place `start`."""
        better = more.largest > self.largest
        partner = np.where(better, start + more.partner, self.partner)
        return PersonTotals(self.sums + more.sums, np.where(better, more.largest, self.largest), partner)

    def metrics(self) -> dict[str, FloatArray]:
        """(people,) each: the metrics of instability for each person, NaN without any value."""
        known, total, above, _ = self.sums
        count = np.where(known > 0, known, np.nan)
        worst = np.where(known > 0, self.largest, np.nan)
        return {"instability": total / count, "max_instability": worst, "unstable_share": above / count}


@final
@dataclass(frozen=True, eq=False)
class PairTotals:
    """The sums over the pairs of a block of viewers, or of all."""

    pairs: Rows | Part  # a row for each pair, or none where they are not kept
    viewers: PersonTotals
    editors: PersonTotals
    by_group: FloatArray
    """(4, viewers, groups): of the viewer's pairs with editors of each group, who can be part members, how many have a
    value, their total, how many are above the threshold, how many are bounded."""
    bins: IntArray  # (BINS,): see `bin_counts`
    absent: IntArray
    """(2,): how many pairs have no value because the system failed, and how many because there is none."""

    @classmethod
    def joined(cls, parts: Iterable[PairTotals], table: SpilledRows | None = None) -> PairTotals:
        """The totals of all viewers from those of blocks of viewers, in their order; `table` takes in written rows."""
        pairs, viewers, by_group = list[pl.DataFrame](), [], []
        editors, bins, absent, start = None, np.zeros(BINS, dtype=np.int64), np.zeros(2, dtype=np.int64), 0
        for part in parts:
            if isinstance(part.pairs, pl.DataFrame):
                pairs.append(part.pairs)
            elif isinstance(part.pairs, Part) and table is not None:
                table.add(part.pairs)
            viewers.append(part.viewers)
            by_group.append(part.by_group)
            editors = part.editors if editors is None else editors.plus(part.editors, start)
            bins, absent, start = bins + part.bins, absent + part.absent, start + len(part.viewers.largest)
        assert editors is not None
        people = PersonTotals(*(np.concatenate(some, axis=-1) for some in zip(*viewers, strict=True)))
        rows = pl.concat(pairs, rechunk=False) if table is None else table
        return cls(rows, people, editors, np.concatenate(by_group, axis=1), bins, absent)

    def statuses(self) -> dict[str, int]:
        """How many pairs there are of each status, whether they were kept or not."""
        known, _, _, bounded = self.viewers.sums.sum(axis=1).tolist()
        counts = known - bounded, bounded, *self.absent
        order = Status.SOLVED, Status.BOUNDED, Status.FAILED, Status.NOT_APPLICABLE
        return {status.value: int(count) for status, count in zip(order, counts, strict=True)}


def bin_counts(values: FloatArray, distance: Distance) -> IntArray:
    """(BINS,): how many values are in each of equal steps up to the largest there can be; for KL of 1 - exp(-KL)."""
    share = -np.expm1(-values) if distance == "kl" else values / LARGEST[distance]
    return np.bincount(np.minimum((BINS * share).astype(np.int64), BINS - 1), minlength=BINS)

"""What millions of pairs add up to, kept while they stream by: for each viewer, each editor, each group of editors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.metrics.intervals import standing
from recaudit.solvers.distance.distances import LARGEST, Distance

BINS = 1000
"""Equal steps from 0 to the largest value that a distance can have, into which values are counted."""


@final
@dataclass(frozen=True, eq=False)
class Side:
    """The pairs of each person on one side, (people,) each."""

    count: IntArray
    """How many have a value."""
    total: FloatArray
    above: IntArray
    """How many are above the threshold."""
    largest: FloatArray
    """-inf without any."""
    partner: IntArray
    """With whom: the place on the other side, the first of equals; -1 without any."""
    bounded: IntArray
    """How many values are not known to be the largest distance itself, but are surely reached."""

    @classmethod
    def of(cls, values: FloatArray, solved: BoolArray, threshold: float) -> Side:
        """Of each row of `values` (people, others), NaN where there is no value; `solved` where it is the largest."""
        known = ~np.isnan(values)
        filled = np.where(known, values, -np.inf)
        partner = filled.argmax(axis=1)
        largest = np.take_along_axis(filled, partner[:, None], axis=1)[:, 0]
        return cls(
            known.sum(axis=1),
            np.where(known, values, 0.0).sum(axis=1),
            (filled > threshold).sum(axis=1),
            largest,
            np.where(np.isfinite(largest), partner, -1),
            (known & ~solved).sum(axis=1),
        )

    def mean(self) -> FloatArray:
        """(people,): NaN without any value."""
        return _divide(self.total, self.count)

    def statuses(self) -> StatusArray:
        """(people,): how their numbers stand."""
        return standing(self.bounded > 0, self.count > 0, np.zeros(len(self.count), dtype=bool))

    def share(self) -> FloatArray:
        """(people,): of their pairs above the threshold; NaN without any value."""
        return _divide(self.above, self.count)

    def worst(self) -> FloatArray:
        """(people,): the largest value; NaN without any."""
        return np.where(self.count > 0, self.largest, np.nan)


@final
@dataclass(frozen=True, eq=False)
class Tally:
    """The sums of a block of viewers, or of all."""

    viewers: Side
    editors: Side
    bins: IntArray
    """(BINS,): how many values fall into each; see `bin_edges`."""
    group_count: FloatArray
    """(viewers, groups): how many of the viewer's pairs are with editors of each group; editors can be part members."""
    group_total: FloatArray
    """(viewers, groups)"""
    group_above: FloatArray
    """(viewers, groups)"""
    group_bounded: FloatArray
    """(viewers, groups)"""
    absent: int
    """How many pairs have no value."""

    @classmethod
    def of(
        cls,
        values: FloatArray,
        solved: BoolArray,
        asked: BoolArray,
        members: FloatArray,
        distance: Distance,
        threshold: float,
    ) -> Tally:
        """Of a block of `values` (viewers, editors), NaN where there is none, and which pairs were `asked` about.

        `solved`: where a value is the largest distance itself. `members` (editors, groups): how much of each editor
        belongs to each group.
        """
        known = ~np.isnan(values)
        return cls(
            Side.of(values, solved, threshold),
            Side.of(values.T, solved.T, threshold),
            np.bincount(_bin_of(values[known], distance), minlength=BINS),
            known.astype(np.float64) @ members,
            np.where(known, values, 0.0) @ members,
            (known & (values > threshold)).astype(np.float64) @ members,
            (known & ~solved).astype(np.float64) @ members,
            int((asked & ~known).sum()),
        )

    @classmethod
    def joined(cls, parts: Iterable[Tally]) -> Tally:
        """The tally of all viewers from those of blocks of viewers, in their order, each let go once it is added."""
        whole: Tally | None = None
        viewers: list[Side] = []
        by_group: list[tuple[FloatArray, ...]] = []
        start = 0
        for part in parts:
            whole = part if whole is None else whole._plus(part, start)
            viewers.append(part.viewers)
            by_group.append((part.group_count, part.group_total, part.group_above, part.group_bounded))
            start += len(part.viewers.count)
        assert whole is not None
        count, total, above, bounded = (np.concatenate(columns) for columns in zip(*by_group, strict=True))
        return replace(
            whole,
            viewers=Side(*(np.concatenate([getattr(side, field.name) for side in viewers]) for field in fields(Side))),
            group_count=count,
            group_total=total,
            group_above=above,
            group_bounded=bounded,
        )

    def _plus(self, more: Tally, start: int) -> Tally:
        """With what does not belong to a viewer added; `start` is the place of the first viewer of `more`."""
        mine, new = self.editors, more.editors
        better = new.largest > mine.largest
        editors = Side(
            mine.count + new.count,
            mine.total + new.total,
            mine.above + new.above,
            np.where(better, new.largest, mine.largest),
            np.where(better, start + new.partner, mine.partner),
            mine.bounded + new.bounded,
        )
        return replace(self, editors=editors, bins=self.bins + more.bins, absent=self.absent + more.absent)


def bin_edges(distance: Distance, bins: int) -> FloatArray:
    """(bins + 1,): equal steps up to the largest value; for KL, which has none, equal steps of 1 - exp(-KL)."""
    steps = np.linspace(0.0, 1.0, bins + 1)
    with np.errstate(divide="ignore"):
        return -np.log1p(-steps) if distance == "kl" else LARGEST[distance] * steps


def _bin_of(values: FloatArray, distance: Distance) -> IntArray:
    share = -np.expm1(-values) if distance == "kl" else values / LARGEST[distance]
    return np.minimum((BINS * share).astype(np.int64), BINS - 1)


def _divide(total: FloatArray | IntArray, count: IntArray) -> FloatArray:
    return np.asarray(total / np.where(count > 0, count, np.nan), dtype=np.float64)

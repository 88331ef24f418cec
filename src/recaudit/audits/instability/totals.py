"""What millions of pairs add up to, kept while they stream by: for each viewer, each editor, each group of editors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray, StatusArray
from recaudit.metrics.intervals import standing
from recaudit.solvers.distance.distances import LARGEST, Distance
from recaudit.status import Status

BINS = 1000
"""Equal steps from 0 to the largest value that a distance can have, into which values are counted."""


@final
class PersonTotals(NamedTuple):
    """The pairs of each viewer, or of each editor, (people,) each."""

    count: IntArray
    """How many have a value."""
    total: FloatArray
    above: IntArray
    """How many are above the threshold."""
    largest: FloatArray
    """-inf without any."""
    partner: IntArray
    """The place of the editor, or viewer, of the largest value, the first of equals; -1 without any."""
    bounded: IntArray
    """How many values are not known to be the largest distance itself, but are surely reached."""

    @classmethod
    def of(cls, values: FloatArray, solved: BoolArray, threshold: float) -> PersonTotals:
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

    def plus(self, more: PersonTotals, start: int) -> PersonTotals:
        """With the pairs of further partners, the first of whom has the place `start`."""
        better = more.largest > self.largest
        return PersonTotals(
            self.count + more.count,
            self.total + more.total,
            self.above + more.above,
            np.where(better, more.largest, self.largest),
            np.where(better, start + more.partner, self.partner),
            self.bounded + more.bounded,
        )

    def metrics(self) -> dict[str, FloatArray]:
        """(people,) each: the metrics of instability for each person, NaN without any value."""
        count = np.where(self.count > 0, self.count, np.nan)
        return {
            "instability": self.total / count,
            "max_instability": np.where(self.count > 0, self.largest, np.nan),
            "unstable_share": self.above / count,
        }

    def statuses(self) -> StatusArray:
        """(people,): the weakest status of their pairs."""
        return standing(self.bounded > 0, self.count > 0, np.zeros(len(self.count), dtype=bool))


@final
@dataclass(frozen=True, eq=False)
class PairTotals:
    """The sums over the pairs of a block of viewers, or of all."""

    pairs: pl.DataFrame
    """A row for each pair, or none where they are not kept."""
    viewers: PersonTotals
    editors: PersonTotals
    bins: IntArray
    """(BINS,): see `bin_counts`."""
    by_group: FloatArray
    """(4, viewers, groups): of the viewer's pairs with editors of each group, who can be part members, how many have a
    value, their total, how many are above the threshold, how many are bounded."""
    failed: int
    """How many pairs have no value because the system failed."""
    not_applicable: int

    @classmethod
    def joined(cls, parts: Iterable[PairTotals]) -> PairTotals:
        """The totals of all viewers from those of blocks of viewers, in their order."""
        whole: PairTotals | None = None
        kept: list[tuple[pl.DataFrame, PersonTotals, FloatArray]] = []
        start = 0
        for part in parts:
            kept.append((part.pairs, part.viewers, part.by_group))
            whole = (
                part
                if whole is None
                else replace(
                    whole,
                    editors=whole.editors.plus(part.editors, start),
                    bins=whole.bins + part.bins,
                    failed=whole.failed + part.failed,
                    not_applicable=whole.not_applicable + part.not_applicable,
                )
            )
            start += len(part.viewers.count)
        assert whole is not None
        pairs, viewers, by_group = zip(*kept, strict=True)
        return replace(
            whole,
            pairs=pl.concat(pairs, rechunk=False),
            viewers=PersonTotals(*map(np.concatenate, zip(*viewers, strict=True))),
            by_group=np.concatenate(by_group, axis=1),
        )

    def statuses(self) -> dict[str, int]:
        """How many pairs there are of each status, whether they were kept or not."""
        bounded = int(self.viewers.bounded.sum())
        return {
            Status.SOLVED.value: int(self.viewers.count.sum()) - bounded,
            Status.BOUNDED.value: bounded,
            Status.FAILED.value: self.failed,
            Status.NOT_APPLICABLE.value: self.not_applicable,
        }


def bin_counts(values: FloatArray, distance: Distance) -> IntArray:
    """(BINS,): how many values are in each of equal steps up to the largest there can be; for KL of 1 - exp(-KL)."""
    share = -np.expm1(-values) if distance == "kl" else values / LARGEST[distance]
    return np.bincount(np.minimum((BINS * share).astype(np.int64), BINS - 1), minlength=BINS)

"""What millions of pairs add up to, kept while they stream by: for each viewer, each editor, each group of editors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.distance.distances import LARGEST, Distance
from recaudit.status import Status

BINS = 1000
"""Equal steps from 0 to the largest value that a distance can have, into which values are counted."""


@final
class PersonTotals(NamedTuple):
    """What the pairs of each viewer, or of each editor, come to."""

    sums: FloatArray
    """(4, people): see `PairTotals.by_group`."""
    largest: FloatArray
    """(people,): -inf without any value."""
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

    pairs: pl.DataFrame
    """A row for each pair, or none where they are not kept."""
    viewers: PersonTotals
    editors: PersonTotals
    by_group: FloatArray
    """(4, viewers, groups): of the viewer's pairs with editors of each group, who can be part members, how many have a
    value, their total, how many are above the threshold, how many are bounded."""
    bins: IntArray
    """(BINS,): see `bin_counts`."""
    absent: IntArray
    """(2,): how many pairs have no value because the system failed, and how many because there is none."""

    @classmethod
    def joined(cls, parts: Iterable[PairTotals]) -> PairTotals:
        """The totals of all viewers from those of blocks of viewers, in their order."""
        pairs, viewers, by_group = [], [], []
        editors, bins, absent, start = None, np.zeros(BINS, dtype=np.int64), np.zeros(2, dtype=np.int64), 0
        for part in parts:
            pairs.append(part.pairs)
            viewers.append(part.viewers)
            by_group.append(part.by_group)
            editors = part.editors if editors is None else editors.plus(part.editors, start)
            bins, absent, start = bins + part.bins, absent + part.absent, start + len(part.viewers.largest)
        assert editors is not None
        people = PersonTotals(*(np.concatenate(some, axis=-1) for some in zip(*viewers, strict=True)))
        return cls(pl.concat(pairs, rechunk=False), people, editors, np.concatenate(by_group, axis=1), bins, absent)

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

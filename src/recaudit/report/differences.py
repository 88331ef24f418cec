"""A difference between two runs as a person reads it: the numbers, the verdict, how large it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, log10, sqrt
from typing import final

from recaudit.audits.audit import definitions
from recaudit.metrics.inference import MIN_USERS
from recaudit.metrics.metric import Metric
from recaudit.metrics.numbers import minus
from recaudit.report.kit.claims import LARGEST
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate
from recaudit.runs.comparison import VERDICTS
from recaudit.status import Status

SIGNS = dict(zip(VERDICTS, "✗✓≠·=?", strict=True))
"""A sign for each verdict, so that none rests on colour alone."""
SHOWN = ("worse", "better", "changed")
"""The verdicts of differences that are larger than chance."""
_POINTS = ("share", "chance", "signed share")
"""Formats whose differences are percentage points."""
_DECIMALS = {"share": 1, "chance": 1, "signed share": 1, "times": 0, "bits": 2}
_UNITS = {"share": " points", "chance": " points", "signed share": " points", "bits": " bits"}


@final
@dataclass(frozen=True)
class Difference:
    """One number of both runs, and how they differ."""

    model: str
    """The name of the pair of models."""
    whose: str
    """The second of them, which the verdict is about."""
    audit: str
    label: str
    """What the metric is called."""
    who: str
    """The group in a sentence; empty where it is about everybody."""
    by: str
    group: str
    """What the group is called; the order of groups is no part of it."""
    metric: Metric
    before: float | None
    after: float | None
    change: Estimate
    """after - before, with its interval."""
    error: float | None
    """The standard error of the difference."""
    adjusted: float | None
    """p, corrected for how many questions are asked at once."""
    verdict: str
    """One of VERDICTS."""

    @property
    def sign(self) -> str:
        """The verdict as a sign."""
        return SIGNS[self.verdict]

    @property
    def question(self) -> tuple[str, str, str]:
        """Model, audit and metric: what a number about everybody and those by group have in common."""
        return self.model, self.audit, self.metric.name

    @property
    def users(self) -> int:
        """How many people both numbers stand on together."""
        return self.change.users

    @property
    def named(self) -> str:
        """What the number is of: `nDCG@10 of ALS for users with 8-16 ratings`."""
        return f"{self.label} of {self.whose}" + (f" for {self.who}" if self.who else "")

    @property
    def way(self) -> str:
        """`0.073 → 0.056`, on one line."""
        return f"{self.before_text}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{self.after_text}"

    @property
    def before_text(self) -> str:
        """The first number as a person reads it."""
        return self._number(self.before)

    @property
    def after_text(self) -> str:
        """The second."""
        return self._number(self.after)

    def _number(self, value: float | None) -> str:
        return NOT_AVAILABLE if value is None else self.metric.written(value)

    @property
    def bounded(self) -> bool:
        """Whether one of the two numbers, or both, are only bounds."""
        return self.change.status == Status.BOUNDED

    @property
    def text(self) -> str:
        """The difference with its sign, to as many digits as its error allows."""
        value = self.change.value
        return NOT_AVAILABLE if value is None else f"{self._written(value)}{_UNITS.get(self.metric.format, '')}"

    @property
    def interval(self) -> str:
        """`[lower, upper]` of the difference, or nothing where there is none, or no difference."""
        lower, upper = self.change.lower, self.change.upper
        if lower is None or upper is None or self.verdict == "same":
            return ""
        return f"[{self._written(lower)}, {self._written(upper)}]"

    @property
    def p(self) -> str:
        """The corrected p as a person reads it."""
        if self.adjusted is None:
            return NOT_AVAILABLE
        return "< 0.001" if self.adjusted < 0.001 else f"{self.adjusted:.3f}"

    def _written(self, value: float) -> str:
        factor = 100 if self.metric.format in _POINTS else 1
        decimals = self.metric.decimals if self.metric.format == "number" else _DECIMALS[self.metric.format]
        if scale := factor * (self.error or abs(self.change.value or 0.0)):
            decimals = min(8, max(decimals, (self.metric.format == "times") - floor(log10(scale))))
        text = minus(f"{factor * value:,.{decimals}f}")
        return f"+{text}" if value > 0 and text.strip("0.,") else text

    @property
    def spread(self) -> float:
        """How far people's differences lie apart: their standard deviation, as the standard error implies it."""
        return (self.error or 0.0) * sqrt(self.users)

    @property
    def size(self) -> float:
        """What is shown at least: the end of the interval that is nearest to none, in units of the spread.

        It grows with the difference, and with how many people show it.
        """
        lower, upper = self.change.lower, self.change.upper
        if lower is None or upper is None or lower <= 0 <= upper:
            return 0.0
        least = min(abs(lower), abs(upper))
        return min(LARGEST, least / self.spread) if self.spread else LARGEST

    @property
    def bar(self) -> tuple[float, float, float] | None:
        """Where the interval begins, the difference lies and the interval ends, in units of the spread.

        Better is positive, higher where the metric has no better. What lies beyond 1 is cut off there.
        """
        ends = (self.change.lower, self.change.value, self.change.upper)
        turn = -1 if self.metric.better == "lower" else 1
        if None in ends:
            return None
        if not self.spread:
            return (0.0, 0.0, 0.0) if self.verdict == "same" else None
        drawn = [max(-1.0, min(1.0, turn * (end or 0.0) / self.spread)) for end in ends]
        return min(drawn), drawn[1], max(drawn)


def metric_of(name: str) -> Metric:
    """The definition of a metric; of one that no installed audit defines, its name."""
    return definitions().get(name) or Metric(name, name, "", "", "", "neither")


def ranked(differences: Iterable[Difference], *verdicts: str) -> list[Difference]:
    """Those with one of these verdicts, what is shown to be largest first; those of too few people last."""
    found = (own for own in differences if own.verdict in verdicts)
    return sorted(found, key=lambda own: (own.users < MIN_USERS, -own.size))


def counted(differences: Iterable[Difference]) -> str:
    """How many there are of each verdict: `3 worse, 1 better`."""
    counts = Counter(own.verdict for own in differences)
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS if verdict in counts)

"""How numbers are said on every page: an estimate with its interval, and the words around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, final

from recaudit.metrics.inference import MIN_USERS
from recaudit.metrics.metric import Metric
from recaudit.specification import written
from recaudit.status import Status

NOT_AVAILABLE = "n/a"

_NAMED = 3
"""How many of a long list a sentence names."""


@final
@dataclass(frozen=True)
class Estimate:
    """One number of a result: its value, the interval around it, and what it stands on."""

    metric: Metric
    value: float | None
    lower: float | None
    upper: float | None
    status: str
    baseline: float | None
    users: int
    excluded: int

    @classmethod
    def of(cls, metric: Metric, row: Mapping[str, Any]) -> Estimate:
        """From a row with the columns of SUMMARY_SCHEMA; what is no finite number is none."""
        numbers = {name: finite(row[name]) for name in ("value", "lower", "upper", "baseline")}
        return cls(metric, status=row["status"], users=row["users"] or 0, excluded=row["excluded"] or 0, **numbers)

    @classmethod
    def around(cls, metric: Metric, found: Mapping[str, Any], n: int) -> Estimate:
        """From the value and the ends of an interval over n trials, folds or recommenders."""
        status = Status.NOT_APPLICABLE if finite(found["value"]) is None else Status.SOLVED
        return cls.of(metric, {**found, "status": status, "baseline": None, "users": n, "excluded": 0})

    @property
    def text(self) -> str:
        """The value as a person reads it, or `n/a`."""
        return NOT_AVAILABLE if self.value is None else self.metric.written(self.value)

    @property
    def interval(self) -> str:
        """The interval as `[lower, upper]`, or nothing where there is none."""
        if self.value is None or self.lower is None or self.upper is None:
            return ""
        return self.metric.interval(self.lower, self.upper)

    @property
    def compared(self) -> str:
        """The baseline as a person reads it, or `n/a`."""
        return NOT_AVAILABLE if self.baseline is None else self.metric.written(self.baseline)

    @property
    def before(self) -> str:
        """What a best case is compared with; nothing for what is none."""
        told = self.metric.best_case and self.value is not None and self.baseline is not None
        return self.compared if told else ""

    @property
    def full(self) -> str:
        """Value and interval in one text."""
        return f"{self.text} {self.interval}".rstrip()

    @property
    def signed(self) -> str:
        """A difference with its sign, and its interval."""
        positive = self.value is not None and self.value > 0 and self.text.strip("0.%")
        return f"+{self.full}" if positive and not self.text.startswith("+") else self.full

    @property
    def rests_on_enough(self) -> bool:
        """Whether there are enough users for an interval and a finding."""
        return self.users >= MIN_USERS

    def above(self, value: float) -> bool:
        """Whether the whole interval lies above this value."""
        return self.lower is not None and self.lower > value

    def below(self, value: float) -> bool:
        """Whether the whole interval lies below this value."""
        return self.upper is not None and self.upper < value

    def exceeds(self, other: Estimate) -> bool:
        """Whether the whole interval lies above the other's."""
        return other.upper is not None and self.above(other.upper)

    def apart_from(self, other: Estimate) -> bool:
        """Whether the two intervals do not overlap: the only case in which a difference is claimed."""
        return self.exceeds(other) or other.exceeds(self)


def finite(value: float | None) -> float | None:
    """The value, or None for what is no number: a missing value is never shown as 0 or NaN."""
    return value if value is not None and isfinite(value) else None


def count(value: int) -> str:
    """A size with thousands separators."""
    return f"{value:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 user`, `2,000 users`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listing(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def some(words: list[str]) -> str:
    """As `listing`, of many the first ones alone: `a, b, c and 17 others`."""
    others = len(words) - _NAMED
    return listing(words if others < 2 else [*words[:_NAMED], f"{others:,} others"])


def verb(subjects: list[str], one: str, many: str) -> str:
    """The form of a verb that agrees with its subjects."""
    return one if len(subjects) == 1 else many


def ordinal(place: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if 10 < place % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def standing(statuses: Mapping[str, int]) -> str:
    """How many there are of each status: `3 solved, 1 not applicable`."""
    return ", ".join(f"{number:,} {status.replace('_', ' ')}" for status, number in statuses.items() if number)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def settings_line(settings: Mapping[str, Any], *, facts: bool = False) -> str:
    """Settings in a line; those that are not set are left out.

    With `facts` among them, tables that are no part with a kind, such as how many pairs were solved, are no settings.
    """
    told = {
        name: value
        for name, value in settings.items()
        if not facts or not isinstance(value, Mapping) or "kind" in value
    }
    return ", ".join(f"{name} = {written(value)}" for name, value in told.items() if value is not None) or "none"

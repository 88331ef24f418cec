"""How numbers are said on every page: an estimate with its interval, the words around it, and how large a finding is.

Findings are put in order by one scale. A mean is set against a value, or against another mean, in units of the standard
deviation between users that its interval implies (Cohen's d); a share of things that were counted, which has no
interval, by the arcsine transformation that makes shares comparable with such distances (Cohen's h). Unlike a p-value,
neither grows with the number of users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import asin, inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import Any, final

from recaudit.metrics.metric import Metric
from recaudit.status import Status

NOT_AVAILABLE = "n/a"
FEWEST_USERS = 30
"""Nothing that rests on fewer users is a finding: a handful of people says little about others, and the interval
around their mean is too narrow or too wide by luck. Tables have the number all the same, with how many they are."""


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
        """Whether it may be spoken of as a finding; for numbers over users."""
        return self.users >= FEWEST_USERS

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


def settings_line(settings: Mapping[str, Any]) -> str:
    """Settings in a line; those that are not set are left out.

    Tables among them that are no part with a kind, such as how many pairs were solved, are no settings of the audit.
    """
    told = {name: value for name, value in settings.items() if not isinstance(value, Mapping) or "kind" in value}
    return ", ".join(f"{name} = {written(value)}" for name, value in told.items() if value is not None) or "none"


def written(value: Any) -> str:
    """A setting as plain data in words: a part such as {"kind": "softmax", "beta": 2.0} as `softmax(beta=2.0)`."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name}={written(own)}" for name, own in value.items() if name != "kind" and own is not None)
        kind = str(value.get("kind", "")).rsplit(":", 1)[-1]  # of a part that is not registered, its class
        return f"{kind}({inner})" if inner else kind
    return " ".join(map(written, value)) if isinstance(value, list | tuple) else str(value)


LARGEST = 10.0
"""Where everybody is the same there is no deviation to measure by; nothing counts as larger than this."""
_TINY = 1e-300


@final
@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: the claim, its numbers, and the section that shows them."""

    claim: str
    detail: str
    section: str
    effect: float = 0.0
    """How large it is, in standard deviations between users."""
    users: int | None = None
    """The fewest users that a number of the claim rests on; None where it is about no users, as what failed is."""


@final
@dataclass(frozen=True)
class Headline:
    """One number, and one sentence that says what it means."""

    label: str
    value: str
    meaning: str
    metric: str
    """The metric behind it, by its name."""
    interval: str = ""
    """`[lower, upper]` around the value (around both values of a gap), where there is one."""


def against(estimate: Estimate, value: float, confidence: float) -> float:
    """How far a mean lies from a value."""
    return 0.0 if estimate.value is None else _standardised(estimate.value - value, _deviation(estimate, confidence))


def between(one: Estimate, other: Estimate, confidence: float) -> float:
    """How far two means of different users lie apart, by the deviation that both have on average."""
    if one.value is None or other.value is None:
        return 0.0
    squares = _deviation(one, confidence) ** 2 + _deviation(other, confidence) ** 2
    return _standardised(one.value - other.value, sqrt(squares / 2))


def of_share(share: float, other: float = 0.0) -> float:
    """How far a share of things that were counted is from another; from nothing, where no other is named."""
    ends = (2 * asin(sqrt(min(1.0, max(0.0, part)))) for part in (share, other))
    return abs(next(ends) - next(ends))


def in_logs(lift: Estimate) -> Estimate:
    """A ratio as its logarithm, so that twice and half are equally far from 1."""
    ends = (lift.value, lift.lower, lift.upper)
    value, lower, upper = (None if end is None else log(max(end, _TINY)) for end in ends)
    return replace(lift, value=value, lower=lower, upper=upper)


def _deviation(estimate: Estimate, confidence: float) -> float:
    """The standard deviation between users that an interval of this level around their mean implies."""
    if estimate.lower is None or estimate.upper is None:
        return inf
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return (estimate.upper - estimate.lower) / 2 * sqrt(estimate.users) / z


def _standardised(difference: float, deviation: float) -> float:
    largest = 0.0 if difference == 0 else LARGEST
    return min(largest, abs(difference) / deviation) if deviation > 0 else largest

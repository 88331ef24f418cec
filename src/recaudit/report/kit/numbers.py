"""How numbers are written: the same metric looks the same in a card, a table, a sentence and a chart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from recaudit.status import Status

NOT_AVAILABLE = "n/a"
FEWEST_USERS = 30
"""Nothing that rests on fewer users is a finding: a handful of people says little about others, and the interval
around their mean is too narrow or too wide by luck. Tables have the number all the same, with how many they are."""
TIMES = "\N{MULTIPLICATION SIGN}"

_SHARES = frozenset(
    {
        "coverage",
        "share",
        "discovery",
        "past_doubled",
        "future_doubled",
        "past_unstable_share",
        "future_unstable_share",
        "overshoot_share",
        "spurious_share",
        "calibration_tv",
        "uncalibrated_share",
        "item_calibration_tv",
    }
)
_LIFTS = frozenset({"lift", "past_lift", "past_mean_lift", "future_lift", "future_mean_lift"})
_DECIMALS = {"past_instability": 4, "future_instability": 4, "distinct_items": 1}
"""Where three are not right: instability is often a few thousandths, numbers of items are tens and hundreds."""
_RATINGS = frozenset({"rmse", "mae"})
_BEST_CASES = frozenset({"discovery", "availability"})
"""What a user gets by doing the best for it; the baseline is what the same user gets without."""


@final
@dataclass(frozen=True)
class Estimate:
    """One number of a result: its value, the interval around it, and what it stands on."""

    metric: str
    value: float | None
    lower: float | None
    upper: float | None
    status: str
    baseline: float | None
    users: int
    excluded: int

    @property
    def text(self) -> str:
        """The value as a person reads it, or `n/a`."""
        return NOT_AVAILABLE if self.value is None else figure(self.metric, self.value)

    @property
    def interval(self) -> str:
        """The interval as `[lower, upper]`, or nothing where there is none."""
        if self.value is None or self.lower is None or self.upper is None:
            return ""
        return interval(self.metric, self.lower, self.upper)

    @property
    def before(self) -> str:
        """What a best case is compared with; nothing for what is none."""
        if self.metric not in _BEST_CASES or self.value is None or self.baseline is None:
            return ""
        return figure(self.metric, self.baseline)

    @property
    def full(self) -> str:
        """Value and interval in one text."""
        return f"{self.text} {self.interval}".rstrip()

    @property
    def signed(self) -> str:
        """A difference with its sign, and its interval."""
        if self.value is None:
            return NOT_AVAILABLE
        plus = "+" if self.value > 0 and self.text.strip("0.%") and not self.text.startswith("+") else ""
        return f"{plus}{self.full}"

    @property
    def rests_on_enough(self) -> bool:
        """Whether it may be spoken of as a finding; for numbers over users."""
        return self.users >= FEWEST_USERS

    @property
    def reason(self) -> str:
        """Why there is no value."""
        if self.status == Status.FAILED:
            return "the computation failed"
        if self.metric in _RATINGS:
            return "the model's scores rank items and are not ratings"
        return "there was nothing to measure"

    def above(self, value: float) -> bool:
        """Whether the whole interval lies above this value."""
        return self.lower is not None and self.lower > value

    def below(self, value: float) -> bool:
        """Whether the whole interval lies below this value."""
        return self.upper is not None and self.upper < value

    def apart_from(self, other: Estimate) -> bool:
        """Whether the two intervals do not overlap: the only case in which a difference is claimed."""
        below = other.lower is not None and self.below(other.lower)
        return below or (other.upper is not None and self.above(other.upper))


def finite(value: float | None) -> float | None:
    """The value, or None for what is no number: a missing value is never shown as 0 or NaN."""
    return value if value is not None and math.isfinite(value) else None


def figure(metric: str, value: float) -> str:
    """A value of this metric: shares as percentages, lifts with their sign, the rest with three decimals."""
    if metric in _SHARES:
        return percent(value)
    if metric == "availability":
        return chance(value)
    if metric in _LIFTS:
        return times(value)
    if metric == "popularity_lift":
        return signed_percent(value)
    if metric == "novelty":
        return f"{value:.2f} bits"
    return minus(f"{value:.{_DECIMALS.get(metric, 3)}f}")


def interval(metric: str, lower: float, upper: float) -> str:
    """`[lower, upper]` in the metric's own format."""
    if metric == "novelty":
        return f"[{lower:.2f}, {upper:.2f}]"
    return f"[{figure(metric, lower)}, {figure(metric, upper)}]"


def percent(value: float) -> str:
    """0.1234 as 12.3%; a share that is not zero never reads as zero, nor one below all as all."""
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 <= value < 1:
        return ">99.9%"
    return minus(f"{100 * value:.1f}%")


def chance(value: float) -> str:
    """A probability, however small, as a percentage with three digits that count: 0.00745 as 0.745%."""
    if value in (0, 1):
        return f"{100 * value:g}%"
    if value < 1e-6:
        return "<0.0001%"
    return ">99.9%" if value >= 0.9995 else f"{100 * value:#.3g}%"


def times(value: float) -> str:
    """How many times likelier, with three digits that count."""
    text = f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:,.0f}"
    return f"{TIMES}{text}"


def signed_percent(value: float) -> str:
    """0.85 as +85%."""
    text = f"{100 * value:+,.0f}%"
    return "0%" if text in ("+0%", "-0%") else minus(text)


def ratio(value: float) -> str:
    """A ratio as `times 2.4`, with the sign for times."""
    return f"{TIMES}{value:.2g}" if value < 100 else f"{TIMES}{value:,.0f}"


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


def minus(text: str) -> str:
    """With a true minus sign, and none before a zero."""
    if not text.startswith("-"):
        return text
    return text[1:] if not text.strip("-0.%") else "\N{MINUS SIGN}" + text[1:]


def ordinal(place: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if 10 < place % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"

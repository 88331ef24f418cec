"""What a metric is: a number's name, definition, formula, range, direction and format, stated by its audit alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final

from recaudit.metrics import numbers
from recaudit.metrics.inference import Average, Bounds

Format = Literal["number", "share", "chance", "times", "signed share", "bits"]
_WRITTEN: Mapping[Format, Callable[[float], str]] = MappingProxyType(
    {
        "share": numbers.percent,
        "chance": numbers.chance,
        "times": numbers.times,
        "signed share": numbers.signed_percent,
        "bits": numbers.bits,
    }
)


@final
@dataclass(frozen=True)
class Metric:
    """A metric's definition, for a person who has to defend the number."""

    name: str
    label: str
    """What people call it; `@k` stands for the length of the lists."""
    definition: str
    formula: str
    range: str
    """From where to where, and what the ends mean."""
    better: Literal["higher", "lower", "neither"]
    format: Format = "number"
    decimals: int = 3
    """Of a plain number."""
    best_case: bool = False
    """Whether it is what somebody gets by doing their best; the baseline is then what they get without."""
    least: bool = False
    """Whether it is the least of something, which is found from above: where the least is not proved, less may do. A
    bounded value of any other metric is a lower bound."""
    free_of: tuple[str, ...] = ()
    """Settings of its audit that it does not depend on: two runs that differ in these alone share the number."""
    still: float | None = None
    """What a recommender has that takes no ratings in, where the definition says so: nothing that anybody rates
    changes anything. It stands in for the floors, which are not asked what a change would do."""
    bounds: Bounds = (None, None)
    """Smallest and largest value that a user can have, which intervals rely on. None for an end that does not exist, or
    that users' values never come near: an interval towards a bound allows for one more user there."""

    average: Average = "arithmetic"
    """Mean over users. Users' values have a geometric mean where they are quotients."""

    @property
    def bound(self) -> str:
        """What a bounded value is."""
        return "less may do" if self.least else "a lower bound"

    def titled(self, k: object = None) -> str:
        """The label, for lists of k where they have a length."""
        return self.label.replace("@k", "" if k is None else f"@{k}")

    def written(self, value: float) -> str:
        """A value as a person reads it."""
        if self.format == "number":
            return numbers.minus(f"{value:.{self.decimals}f}")
        return _WRITTEN[self.format](value)

    def interval(self, lower: float, upper: float) -> str:
        """`[lower, upper]`, in the metric's format."""
        ends = (self.written(end).removesuffix(" bits") for end in (lower, upper))
        return f"[{', '.join(ends)}]"

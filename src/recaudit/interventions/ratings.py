"""Which values a changed rating may take."""

from __future__ import annotations

from typing import Annotated, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recaudit.errors import InputError
from recaudit.specification import Number

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@final
@dataclass(frozen=True, config=STRICT)
class Interval:
    """Any number from `low` to `high`: the convex relaxation that paper 000 uses."""

    low: Number = 1.0
    """The lowest rating."""
    high: Number = 5.0
    """The highest rating."""
    kind: Literal["interval"] = "interval"

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)


@final
@dataclass(frozen=True, config=STRICT)
class Stars:
    """Only `low`, `low + step`, ..., `high`: what people can really click, which an interval can badly overstate."""

    low: Number = 1.0
    """The lowest rating."""
    high: Number = 5.0
    """The highest rating."""
    step: Annotated[Number, Field(gt=0)] = 1.0
    """The distance between two ratings: 0.5 for half stars."""
    kind: Literal["stars"] = "stars"

    def __post_init__(self) -> None:
        _check_order(self.low, self.high)

    @property
    def values(self) -> NDArray[np.float64]:
        """(ratings,): every rating that can be given, ascending."""
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return np.asarray(self.low + self.step * np.arange(count), dtype=np.float64)


Ratings = Annotated[Interval | Stars, Field(discriminator="kind")]


def rating_range(scale: tuple[float, float]) -> tuple[float, float]:
    """The lowest and highest rating that can be given in a log with this scale.

    A scale of one rating, such as (1, 1), is that of clicks: there it is 0, for none, or that rating.
    """
    low, high = scale
    return scale if low < high else (min(0.0, low), max(0.0, high))


def free_ratings(ratings: Interval | Stars | None, scale: tuple[float, float]) -> Interval | Stars:
    """What a changed rating may be: as said, or any number on the log's scale; of clicks, one or none."""
    if ratings is not None:
        return ratings
    if scale[0] < scale[1]:
        return Interval(*scale)
    low, high = rating_range(scale)
    if low == high:
        raise InputError(
            "scale",
            received=scale,
            expected="ratings to choose from: in this log every rating is 0",
            remedy="Declare the scale when you build the log, or say ratings=Interval(low, high) in the actions.",
        )
    return Stars(low, high, step=high - low)


def _check_order(low: float, high: float) -> None:
    if low > high:
        raise InputError("low, high", received=(low, high), expected="the lowest rating first: this box is empty")

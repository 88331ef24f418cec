"""Which values a changed rating may take."""

from __future__ import annotations

from math import remainder
from typing import Annotated, final

import numpy as np
from pydantic import Field

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.specification import Number, OneOf, Parts, specified

_ROUNDING = 1e-9


@specified
class _Between:
    """Ratings from `low` to `high`."""

    low: Number = 1.0
    """The lowest rating."""
    high: Number = 5.0
    """The highest rating."""

    def __post_init__(self) -> None:
        if self.low > self.high:
            expected = "the lowest rating first: this box is empty"
            raise InputError("low, high", received=(self.low, self.high), expected=expected)


@final
@specified
class Interval(_Between):
    """Any number from `low` to `high`: the convex relaxation that paper 000 uses."""


@final
@specified
class Stars(_Between):
    """Only `low`, `low + step`, ..., `high`: what people can really click.

    Relaxing stars to an interval can badly overstate what a user can do.
    """

    step: Annotated[Number, Field(gt=0)] = 1.0
    """The distance between two ratings: 0.5 for half stars."""

    def __post_init__(self) -> None:
        super().__post_init__()
        span = self.high - self.low
        if abs(remainder(span, self.step)) > _ROUNDING * max(span, self.step):
            below = self.high - span % self.step
            received = f"{self.high:g}, which steps of {self.step:g} from {self.low:g} do not meet"
            remedy = f"The nearest are {below:g} and {below + self.step:g}; half stars have step=0.5."
            raise InputError("high", received=received, expected="a rating that they meet", remedy=remedy)

    @property
    def values(self) -> FloatArray:
        """(ratings,): every rating that can be given, ascending."""
        count = round((self.high - self.low) / self.step) + 1
        return np.asarray(self.low + self.step * np.arange(count), dtype=np.float64)


RATINGS = Parts("what a rating may be", interval=Interval, stars=Stars)
Ratings = Annotated[Interval | Stars, OneOf(RATINGS)]


def rating_range(scale: tuple[float, float]) -> tuple[float, float]:
    """The lowest and highest rating on this scale; of one rating (clicks, plays), 0 for none, or that one."""
    low, high = scale
    return scale if low < high else (min(0.0, low), max(0.0, high))


def observed_stars(ratings: FloatArray, scale: tuple[float, float]) -> Stars | None:
    """Find the ratings that users can give: all ratings of the dataset are whole or half steps of its scale.

    Args:
        ratings: Ratings of the dataset, shape (interactions,).
        scale: Lowest and highest rating.

    Returns:
        Whole steps if all ratings are, else half steps, else None: any number of the scale may be allowed.
    """
    low, high = scale
    for step in (1.0, 0.5):
        is_step = np.abs(np.remainder(np.append(ratings, high) - low + step / 2, step) - step / 2) <= _ROUNDING
        if low < high and is_step.all():
            return Stars(low, high, step)
    return None


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

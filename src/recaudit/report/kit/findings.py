"""What a finding is, and how large: on one scale for all of them, in standard deviations between users.

What findings are put in order by. A mean is set against a value, or against another mean, in units of the standard
deviation that its interval implies (Cohen's d); a share of things that were counted, which has no interval, by the
arcsine transformation that makes shares comparable with such distances (Cohen's h). Unlike a p-value, neither grows
with the number of users.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import asin, inf, log, sqrt
from statistics import NormalDist
from typing import final

from recaudit.report.kit.numbers import Estimate

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


def against(estimate: Estimate, value: float, confidence: float) -> float:
    """How far a mean lies from a value."""
    if estimate.value is None:
        return 0.0
    return _standardised(estimate.value - value, _deviation(estimate, confidence))


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
    value, lower, upper = (
        None if end is None else log(max(end, _TINY)) for end in (lift.value, lift.lower, lift.upper)
    )
    return replace(lift, value=value, lower=lower, upper=upper)


def _deviation(estimate: Estimate, confidence: float) -> float:
    """The standard deviation between users that an interval of this level around their mean implies."""
    if estimate.lower is None or estimate.upper is None:
        return inf
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return (estimate.upper - estimate.lower) / 2 * sqrt(estimate.users) / z


def _standardised(difference: float, deviation: float) -> float:
    if difference == 0:
        return 0.0
    return min(LARGEST, abs(difference) / deviation) if deviation > 0 else LARGEST

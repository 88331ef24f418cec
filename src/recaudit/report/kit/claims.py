"""What a page claims: findings, how large and how sure each is, which come first; and cautions about the evidence.

Findings are put in order by one scale. A mean is set against a value, or against another mean, in units of the standard
deviation between users that its interval implies (Cohen's d); a share of things that were counted, which has no
interval, by the arcsine transformation that makes shares comparable with such distances (Cohen's h). Unlike a p-value,
neither grows with the number of users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import asin, hypot, inf, log, pi, sqrt
from statistics import NormalDist
from typing import NamedTuple, Self, final

from recaudit.metrics.intervals import FEWEST_USERS
from recaudit.report.kit.numbers import Estimate, count, plural

LARGEST = pi
"""Cohen's h of everything against nothing. No distance counts as larger: where everybody is the same there is no
deviation to measure by, and means that lie further apart than this belong to people of whom hardly any overlap."""
SMALL = 0.2
"""What is smaller makes no difference that anybody would notice (Cohen 1988, a small effect)."""
_TINY = 1e-300


@final
@dataclass(frozen=True)
class Effect:
    """How large something is, in standard deviations between users, and the interval around that."""

    size: float = 0.0
    least: float = 0.0
    """The end of the interval that is nearest to no effect; below 0 where the interval holds none."""
    most: float = 0.0
    """The end that is farthest from it."""
    users: int | None = None
    """The fewest users that a number of the claim rests on; None where it is about no users."""
    equal: bool = False
    """Whether the claim is that there is no effect worth speaking of."""

    @classmethod
    def within(cls, size: float, error: float, users: int, *, equal: bool = False) -> Self:
        """One that is known to an error on either side; to none where things were counted, all of them."""
        return cls(size, size - error, size + error, users, equal)

    @property
    def sure(self) -> float:
        """How much of the claim is left in its worst case: of an effect the end nearest to none, of a claim that there
        is none the distance from the farthest end to what is SMALL."""
        return max(0.0, SMALL - self.most if self.equal else self.least)


@final
@dataclass(frozen=True)
class Measure:
    """The number of a finding, and what it is to be compared with."""

    metric: str
    """The metric behind it, by its name."""
    model: str
    label: str
    value: str
    interval: str = ""
    floors: Mapping[str, str] = field(default_factory=dict)
    """The same number of models that do not personalise, without strategy, or of a recommender that does not react."""


class Touched(NamedTuple):
    """How many people something is about, of those who were measured."""

    people: int
    of: int


@final
@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: the claim, its numbers, the section that shows them, and what one could do about it.

    It is told only where it `stands`: it rests on at least FEWEST_USERS users, and its interval bears the claim out.
    That something differs takes an interval that does not hold "no difference"; that it does not differ takes one that
    lies within a SMALL effect. What is neither is not known, and nothing is said of it.
    """

    claim: str
    detail: str
    section: str
    effect: Effect = field(default_factory=Effect)
    measure: Measure | None = None
    advice: str = ""
    touched: Touched | None = None
    """None where it is about everybody who was measured."""
    premise: bool = False
    """Whether everything else is a question only once this is answered."""
    among: int = 0
    """How many people there are, measured or not."""

    @property
    def stands(self) -> bool:
        """Whether there is enough evidence for it."""
        return (self.effect.users or 0) >= FEWEST_USERS and self.effect.sure > 0

    @property
    def share(self) -> float:
        """The share of people whom it touches."""
        return 1.0 if self.touched is None else self.touched.people / self.touched.of

    @property
    def weight(self) -> float:
        """How much it matters: what is sure of its effect, times the share of people whom it touches."""
        return self.effect.sure * self.share

    @property
    def whom(self) -> str:
        """Whom it touches, in words."""
        if self.touched is None:
            users = self.effect.users or 0
            return f"all {plural(users, 'user')} measured" + (f", of {count(self.among)}" if users < self.among else "")
        return f"{count(self.touched.people)} of {plural(self.touched.of, 'user')} measured"


@final
@dataclass(frozen=True)
class Caution:
    """What is to be known about the evidence: what failed, was left out, not checked, or may be memory."""

    claim: str
    detail: str
    section: str
    premise: bool = False
    """Whether everything else rests on it."""


Claim = Finding | Caution


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


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that stand, those that matter most first.

    A finding weighs what is sure of its effect (`Effect.sure`: the end of its interval nearest to no effect, in
    standard deviations between users) times the share of people whom it touches. So something large that is hardly
    known, or that few people meet, comes after something smaller that is certain and meets everybody.

    Two rules go with that. A premise comes first whatever it weighs: whether personalising is better than not is the
    question before all others. And each further finding of a section counts half of what the one before it did, so
    that the first few are about different things. Of findings that weigh the same, the one asked for first goes first.
    """
    left, ordered = [finding for finding in findings if finding.stands], list[Finding]()
    told: Counter[str] = Counter()
    while left:
        # Rounded, so that the last bits of another machine decide nothing.
        first = max(left, key=lambda own: (own.premise, round(own.weight / 2 ** told[own.section], 6)))
        left.remove(first)
        ordered.append(first)
        told[first.section] += 1
    return ordered


def against(estimate: Estimate, value: float, confidence: float, *, equal: bool = False) -> Effect:
    """How far a mean lies from a value; or, `equal`, that it lies nowhere else."""
    if estimate.value is None or estimate.lower is None or estimate.upper is None:
        return Effect(0.0, -inf, inf, estimate.users, equal)
    sign = -1.0 if estimate.value < value else 1.0
    near, far = sorted(sign * (end - value) for end in (estimate.lower, estimate.upper))
    deviation = _deviation(estimate, confidence)
    size, least, most = (_standardised(end, deviation) for end in (abs(estimate.value - value), near, max(-near, far)))
    return Effect(size, least, most, estimate.users, equal)


def between(one: Estimate, other: Estimate, confidence: float, *, equal: bool = False) -> Effect:
    """How far two means of different users lie apart, by the deviation that both have on average.

    The interval of the difference recovers the variances from those of the two (Zou and Donner 2008).
    """
    low, high = sorted((one, other), key=lambda own: own.value or 0.0)
    ends = (low.value, low.lower, low.upper, high.value, high.lower, high.upper)
    users = min(one.users, other.users)
    if None in ends:
        return Effect(0.0, -inf, inf, users, equal)
    a, a_lower, a_upper, b, b_lower, b_upper = (end or 0.0 for end in ends)
    gap, nearer, farther = b - a, hypot(b - b_lower, a_upper - a), hypot(b_upper - b, a - a_lower)
    deviation = hypot(_deviation(one, confidence), _deviation(other, confidence)) / sqrt(2)
    size, least, most = (_standardised(end, deviation) for end in (gap, gap - nearer, gap + farther))
    return Effect(size, least, most, users, equal)


def of_share(share: float, other: float = 0.0) -> float:
    """How far a share of things that were counted is from another; from nothing, where no other is named."""
    ends = (2 * asin(sqrt(min(1.0, max(0.0, part)))) for part in (share, other))
    return abs(next(ends) - next(ends))


def error_of_share(users: int, confidence: float) -> float:
    """How far `of_share` may be off for a share among so many users: at most, since no share varies more than yes or no
    does."""
    return _quantile(confidence) / sqrt(users) if users else inf


def in_logs(lift: Estimate) -> Estimate:
    """A ratio as its logarithm, so that twice and half are equally far from 1."""
    ends = (lift.value, lift.lower, lift.upper)
    value, lower, upper = (None if end is None else log(max(end, _TINY)) for end in ends)
    return replace(lift, value=value, lower=lower, upper=upper)


def _deviation(estimate: Estimate, confidence: float) -> float:
    """The standard deviation between users that an interval of this level around their mean implies."""
    if estimate.lower is None or estimate.upper is None:
        return inf
    return (estimate.upper - estimate.lower) / 2 * sqrt(estimate.users) / _quantile(confidence)


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _standardised(difference: float, deviation: float) -> float:
    if deviation > 0:
        return max(-LARGEST, min(LARGEST, difference / deviation))
    return LARGEST if difference > 0 else 0.0

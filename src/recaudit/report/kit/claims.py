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
from math import asin, inf, log, pi, sqrt
from statistics import NormalDist
from typing import NamedTuple, Self, final

from recaudit.metrics.inference import MIN_USERS
from recaudit.report.kit.numbers import Estimate, count, plural

LARGEST = pi
"""Cohen's h of everything against nothing. No distance counts as larger: where everybody is the same there is no
deviation to measure by, and means that lie further apart than this belong to people of whom hardly any overlap."""
LEVEL = 0.05
"""Largest adjusted p-value of a finding."""
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

    @classmethod
    def within(cls, size: float, error: float, users: int) -> Self:
        """One that is known to an error on either side; to none where things were counted, all of them."""
        return cls(size, size - error, size + error, users)

    @property
    def sure(self) -> float:
        """End of the interval that is nearest to no effect, 0 if the interval contains no effect."""
        return max(0.0, self.least)


@final
@dataclass(frozen=True, kw_only=True)
class ClaimNumber:
    """Number that a finding, a caution or a headline rests on. Fields that do not apply are None.

    Attributes:
        audit: Name of the audit.
        metric: Name of the metric.
        model: Label of the model.
        baseline: Label of the other model; then `value` is the difference to it.
        by: Name of the grouping.
        group: Name of the group, as in the tables of results.
        value: Value of the metric, or difference to the other model.
        lower: Lower end of the confidence interval of `value`.
        upper: Upper end of the confidence interval of `value`.
        reference: Number that `value` is compared with: that of all other users, a share of the ratings, or a constant.
        p: P-value, adjusted for the family of tests that it belongs to. None if nothing was tested.
        users: Number of users that `value` is measured on.
        trials: Number of trials of a simulation that `value` is measured on.
        reason: Code of the reason why there is no interval or no test.
    """

    audit: str | None = None
    metric: str | None = None
    model: str | None = None
    baseline: str | None = None
    by: str | None = None
    group: str | None = None
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    reference: float | None = None
    p: float | None = None
    users: int | None = None
    trials: int | None = None
    reason: str | None = None


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

    It is reported only if it `stands`: on at least MIN_USERS users, and with every number that was tested significant
    after the correction for its family of tests. A finding without a test stands if the interval of its effect does,
    or if it states what was counted.
    """

    code: str
    """Stable name of the statement, such as `accuracy.below-baseline`; the sentence may change, the code does not."""
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
    numbers: tuple[ClaimNumber, ...] = ()
    """Numbers that it rests on."""
    counted: bool = False
    """Whether it states a count of what was measured, and nothing about other users."""

    @property
    def stands(self) -> bool:
        """Whether there is enough evidence for it."""
        if (self.effect.users or 0) < MIN_USERS:
            return False
        p_values = [number.p for number in self.numbers if number.p is not None]
        if p_values:
            return max(p_values) <= LEVEL
        return self.counted or self.effect.sure > 0

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

    code: str
    """Stable name of the statement, such as `service.few-users`."""
    claim: str
    detail: str
    section: str
    premise: bool = False
    """Whether everything else rests on it."""
    numbers: tuple[ClaimNumber, ...] = ()
    """Numbers that it rests on."""


Claim = Finding | Caution


@final
@dataclass(frozen=True)
class Headline:
    """One number, and one sentence that says what it means."""

    code: str
    """Stable name of the headline, such as `headline.ranking-quality`."""
    label: str
    value: str
    meaning: str
    metric: str
    """The metric behind it, by its name."""
    interval: str = ""
    """`[lower, upper]` around the value, where there is one."""
    numbers: tuple[ClaimNumber, ...] = ()
    """Numbers that it rests on."""


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


def against(estimate: Estimate, value: float, confidence: float) -> Effect:
    """How far a mean lies from a value."""
    if estimate.value is None or estimate.lower is None or estimate.upper is None:
        return Effect(0.0, -inf, inf, estimate.users)
    sign = -1.0 if estimate.value < value else 1.0
    near, far = sorted(sign * (end - value) for end in (estimate.lower, estimate.upper))
    deviation = _deviation(estimate, confidence)
    size, least, most = (_standardised(end, deviation) for end in (abs(estimate.value - value), near, max(-near, far)))
    return Effect(size, least, most, estimate.users)


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
    return (estimate.upper - estimate.lower) / 2 * sqrt(estimate.users) / _quantile(confidence)


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _standardised(difference: float, deviation: float) -> float:
    if deviation > 0:
        return max(-LARGEST, min(LARGEST, difference / deviation))
    return LARGEST if difference > 0 else 0.0

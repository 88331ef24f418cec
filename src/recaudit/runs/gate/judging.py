"""From numbers to outcomes: one test a question, those of the gate's family corrected together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from scipy import stats

from recaudit.arrays import FloatArray
from recaudit.metrics.paired import ROUNDING, corrected
from recaudit.runs.gate.rules import Gate, Rule

Outcome = Literal["failed", "undecided", "passed"]
POWER = 0.8
"""How often the change that a gate is said to see would be caught."""


@final
@dataclass(frozen=True)
class GateQuestion:
    """One number that a rule is about, and what was found; why it cannot be decided about, where `lacking` says so."""

    rule: Rule
    place: int
    """Of the rule among the gate's, from 1."""
    model: str
    audit: str
    by: str = ""
    group: str = ""
    """Empty where it is about everybody."""
    value: float | None = None
    """The run's number; beside a baseline, over the people who are compared."""
    before: float | None = None
    """The baseline's number."""
    allowed: float | None = None
    """The bound, or by how much the number may change, in its own units."""
    excess: float | None = None
    """How far the number lies beyond what is allowed; negative where it keeps to it."""
    error: float | None = None
    """The standard error of the excess; None where the value itself is judged."""
    users: int | None = None
    bounded: bool = False
    """Whether the value is only a lower bound of the number, or is not proved to be the least."""
    least: bool = False
    """Whether the metric is the least of something."""
    lacking: str = ""

    @property
    def change(self) -> float | None:
        """By how much the number has gone the way that the rule forbids; negative where it went the other way."""
        return None if self.excess is None or not self.rule.has_margin else self.excess + (self.allowed or 0.0)

    @property
    def beyond(self) -> bool:
        """Whether the number lies beyond what is allowed by more than rounding."""
        size = max(abs(number) for number in (self.value, self.before, self.allowed, 0.0) if number is not None)
        return self.excess is not None and self.excess > ROUNDING * size

    @property
    def p(self) -> float:
        """How likely so large an excess is where there is none; NaN where nothing is tested."""
        if self.excess is None or self.error is None or self.users is None:
            return np.nan
        if not self.beyond or self.error == 0:  # nothing to show, or nothing that chance could have done
            return 0.0 if self.beyond else 1.0
        return float(stats.t.sf(self.excess / self.error, self.freedom))

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the test."""
        return max((self.users or 0) - 1, 1)

    @property
    def in_family(self) -> bool:
        """Whether it is judged together with the gate's others."""
        return self.rule.confidence in (None, "gate")


@final
@dataclass(frozen=True)
class Answer:
    """A question and its outcome."""

    question: GateQuestion
    outcome: Outcome
    reason: str = ""
    """Why it could not be decided."""
    adjusted: float | None = None
    """p, corrected for how many questions the gate asks; p itself of a rule that is judged alone."""
    detectable: float | None = None
    """The smallest change that would have been caught 8 times of 10, or more often, in the metric's units."""

    def __repr__(self) -> str:
        asked = self.question
        group = f", {asked.by} {asked.group}".rstrip() if asked.by else ""
        number = "" if asked.value is None else f" ({asked.value:.4g})"
        beside = "" if asked.before is None else f", baseline {asked.before:.4g}"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.outcome}: {asked.model}, {asked.rule.metric}{group}, {asked.rule.words}{number}{beside}{why}"


def judged(questions: Sequence[GateQuestion], gate: Gate) -> tuple[Answer, ...]:
    """The outcome of each question.

    What is tested and has no confidence of its own is one family with Holm's correction: where every rule is kept, the
    chance that any of them is called broken is at most 1 - confidence, however the numbers hang together.
    """
    p = np.array([np.nan if question.lacking else question.p for question in questions])
    family = np.array([question.in_family for question in questions], dtype=bool)
    adjusted = p.copy()
    adjusted[family] = corrected(p[family], "holm")
    size = int(np.isfinite(p[family]).sum())
    return tuple(_answers(questions, adjusted, gate, size))


def _answers(questions: Sequence[GateQuestion], adjusted: FloatArray, gate: Gate, size: int) -> Iterator[Answer]:
    for question, own in zip(questions, adjusted, strict=True):
        if question.lacking:
            yield Answer(question, "undecided", question.lacking)
            continue
        level = 1 - gate.confidence if question.in_family else 1 - float(question.rule.confidence or 0)
        tested = bool(np.isfinite(own))
        broken = own <= level if tested else question.beyond
        # What is known to be at least so much may still be enough, and may be too much. Of a mean of least efforts
        # neither is known: less may do, and what was not decided may take more.
        if question.bounded and (question.least or broken != question.rule.rising):
            known = (
                "was not proved to be the least"
                if question.least
                else "is at least this, and how much more is not known"
            )
            reason = f"{question.rule.metric} {known}"
            yield Answer(question, "undecided", reason, adjusted=float(own) if tested else None)
            continue
        seen = _detectable(question, level / size if question.in_family else level) if tested else None
        yield Answer(question, "failed" if broken else "passed", "", float(own) if tested else None, seen)


def _detectable(question: GateQuestion, level: float) -> float | None:
    """allowed + (t of the level + t of the power) * error, at the strictest level that Holm's correction may ask."""
    if not question.rule.has_margin or question.error is None or question.allowed is None:
        return None
    quantiles = stats.t.isf(level, question.freedom) + stats.t.ppf(POWER, question.freedom)
    return float(question.allowed + quantiles * question.error)

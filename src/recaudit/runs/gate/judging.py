"""From tests to outcomes: a rule passes or fails if this is shown, failures of the gate's rules corrected together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np

from recaudit.metrics.inference import adjust_by_holm
from recaudit.runs.gate.rules import Rule
from recaudit.runs.gate.testing import GateTest

Outcome = Literal["failed", "undecided", "passed"]

NOT_SHOWN = "not_shown"
"""Code of a rule that is neither shown to be satisfied nor shown to be violated."""

REASONS = {
    "too_few_users": "there are too few users for a test",
    "too_few_changes": "the values or lists of too few users changed for a test",
    "not_measured": "the number has no standard error",
    NOT_SHOWN: "neither more nor less than the rule allows is shown",
}


class Lacking(NamedTuple):
    """Why a question cannot be tested: a stable code, and the reason in words."""

    code: str
    text: str


@final
@dataclass(frozen=True)
class GateQuestion:
    """One number that a rule is about, its test, or why it has none."""

    rule: Rule
    place: int
    """Of the rule among the gate's, from 1."""
    model: str
    audit: str
    by: str = ""
    group: str = ""
    """Empty for all users."""
    value: float | None = None
    """The run's number; with a baseline, over the users that both runs measured."""
    before: float | None = None
    """The baseline's number."""
    allowed: float | None = None
    """The threshold, or the margin in the metric's units."""
    users: int | None = None
    test: GateTest | None = None
    bounded: bool = False
    """If True, the value is only a lower bound of the number, or is not proved to be the least."""
    least: bool = False
    """If True, the metric is the least of something."""
    lacking: Lacking | None = None
    level: float = 0.05
    """Level of the two tests."""

    @property
    def change(self) -> float | None:
        """By how much the number has gone in the direction that the rule forbids; negative for the other one."""
        if not self.rule.has_margin or self.value is None or self.before is None:
            return None
        return self.value - self.before if self.rule.rising else self.before - self.value

    @property
    def in_family(self) -> bool:
        """Whether a failure is corrected together with those of the gate's other rules."""
        return self.rule.confidence is None


@final
@dataclass(frozen=True)
class Answer:
    """A question and its outcome."""

    question: GateQuestion
    outcome: Outcome
    code: str = ""
    """Stable code of the reason why it could not be decided."""
    reason: str = ""
    """The same in words."""
    adjusted: float | None = None
    """`p_fail`, corrected for the number of questions; `p_fail` itself for a rule with its own confidence."""

    def __repr__(self) -> str:
        asked = self.question
        group = f", {asked.by} {asked.group}".rstrip() if asked.by else ""
        number = "" if asked.value is None else f" ({asked.value:.4g})"
        beside = "" if asked.before is None else f", baseline {asked.before:.4g}"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.outcome}: {asked.model}, {asked.rule.metric}{group}, {asked.rule.words}{number}{beside}{why}"


def judged(questions: Sequence[GateQuestion]) -> tuple[Answer, ...]:
    """Decide each question.

    A rule passes if `p_pass` is at most the level: the gate passes only if all rules do, so that a false pass of the
    gate needs a false pass of a violated rule, and nothing is corrected. It fails if `p_fail` is, after Holm's
    correction over the rules without a confidence of their own. Otherwise it is undecided.
    """
    p_fail = np.array([_p_fail(question) for question in questions])
    family = np.array([question.in_family for question in questions], dtype=bool)
    adjusted = p_fail.copy()
    adjusted[family] = adjust_by_holm(p_fail[family])
    return tuple(_answers(questions, adjusted.tolist()))


def _p_fail(question: GateQuestion) -> float:
    test = question.test
    return np.nan if question.lacking or test is None or test.p_fail is None else test.p_fail


def _answers(questions: Sequence[GateQuestion], adjusted: Sequence[float]) -> Iterator[Answer]:
    for question, own in zip(questions, adjusted, strict=True):
        if question.lacking:
            yield Answer(question, "undecided", question.lacking.code, question.lacking.text)
            continue
        test, level = question.test, question.level
        assert test is not None
        if test.p_pass is None or test.p_fail is None:
            code = test.reason or "not_measured"
            yield Answer(question, "undecided", code, REASONS[code])
            continue
        outcome: Outcome = "failed" if own <= level else "passed" if test.p_pass <= level else "undecided"
        if question.bounded and _is_open(question, outcome):
            known = "was not proved to be the least" if question.least else "is at least this, and may be more"
            yield Answer(question, "undecided", "only_a_bound", f"{question.rule.metric} {known}", own)
            continue
        code = NOT_SHOWN if outcome == "undecided" else ""
        yield Answer(question, outcome, code, REASONS[code] if code else "", own)


def _is_open(question: GateQuestion, outcome: Outcome) -> bool:
    """Whether the number that is bounded may have another outcome.

    A lower bound can pass "at least" and fail "at most". Of a mean of least efforts neither is known: an effort may be
    smaller, and those that were not found may be larger.
    """
    decides = "failed" if question.rule.rising else "passed"
    return question.least or outcome != decides

"""`check`: whether a run keeps to the rules of a gate, which rules it breaks, and what could not be decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from recaudit.arguments import checked
from recaudit.errors import InputError
from recaudit.registry import Displayed
from recaudit.runs.folder import Run
from recaudit.runs.gate.evidence import GateEvidence
from recaudit.runs.gate.judging import Answer, Outcome, judged
from recaudit.runs.gate.rules import Gate, read_gate

OUTCOMES: tuple[Outcome, ...] = ("failed", "undecided", "passed")
"""The weightiest first."""
ANSWER_SCHEMA = {
    "rule": pl.Int64,
    **dict.fromkeys(("model", "audit", "metric", "by", "group", "held_to", "outcome", "reason"), pl.String),
    **dict.fromkeys(("value", "before", "allowed", "change", "error", "p", "adjusted", "detectable"), pl.Float64),
    "users": pl.Int64,
}
"""`rule` is its place among the gate's, from 1; `value` the run's number, `before` the baseline's, `allowed` the bound
or the margin in the metric's units, `change` how far the number went the forbidden way, `error` the standard error of
the test, `detectable` the smallest change that would have been caught 8 times of 10."""


@final
@dataclass(frozen=True, eq=False)
class Decision(Displayed):
    """Whether a run may pass a gate, and the answer to each question."""

    display = "decision"

    run: Run
    baseline: Run | None
    gate: Gate
    answers: tuple[Answer, ...]
    """In the order of the rules."""
    notes: tuple[str, ...] = ()
    """What somebody who reads the answers should know."""

    @property
    def outcome(self) -> Outcome:
        """Failed where a rule is broken; else undecided where one could not be decided; else passed."""
        return next((outcome for outcome in OUTCOMES if self.having(outcome)), "passed")

    @property
    def passed(self) -> bool:
        """Whether every rule was decided about, and is kept."""
        return self.outcome == "passed"

    def having(self, outcome: Outcome) -> list[Answer]:
        """The answers with this outcome."""
        return [answer for answer in self.answers if answer.outcome == outcome]

    @property
    def frame(self) -> pl.DataFrame:
        """One row a question, columns as in ANSWER_SCHEMA."""
        rows = []
        for answer in self.answers:
            asked = answer.question
            own = {name: getattr(asked, name) for name in ("model", "audit", "by", "group", "value", "before")}
            own |= {name: getattr(asked, name) for name in ("allowed", "change", "error", "users")}
            own |= {name: getattr(answer, name) for name in ("outcome", "reason", "adjusted", "detectable")}
            tested = {"p": None if answer.adjusted is None else asked.p}
            rows.append(
                {"rule": asked.place, "metric": asked.rule.metric, "held_to": asked.rule.words, **own, **tested}
            )
        return pl.DataFrame(rows, ANSWER_SCHEMA)

    def __repr__(self) -> str:
        counts = Counter(answer.outcome for answer in self.answers)
        told = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES if counts[outcome])
        broken = [f"\n  {answer!r}" for answer in self.answers if answer.outcome != "passed"]
        asked = f"{len(self.answers):,} question{'s' * (len(self.answers) != 1)}"
        return f"<{self.run.path}: {self.outcome}; of {asked} {told}>{''.join(broken)}"


@checked
def check(run: Run | str | Path, rules: Gate | str | Path, baseline: Run | str | Path | None = None) -> Decision:
    """Whether a run keeps to the rules of a gate: a `Gate`, or the TOML file that has them.

    Rules about a change are held against a `baseline`, an earlier run: a rule is broken where it is shown that the
    number changed by more than the rule allows. All of them that have no confidence of their own are one family, so
    that a gate fails by chance in at most 1 - confidence of releases in which nothing has changed.

    What cannot be decided is never passed: too few people, failures, bounds, a number that a run does not have.
    """
    gate = rules if isinstance(rules, Gate) else read_gate(rules)
    after = run if isinstance(run, Run) else Run.open(run)
    before = baseline if isinstance(baseline, Run) or baseline is None else Run.open(baseline)
    if before is not None and before.folder.manifest == after.folder.manifest:
        raise InputError(
            "baseline",
            received=f"{before.path}, which is the run itself or a copy of it",
            expected="an earlier run",
            remedy="Every rule about a change would pass.",
        )
    evidence = GateEvidence(after, before)
    answers = judged(evidence.questions(gate), gate)
    return Decision(after, before, gate, answers, tuple(_notes(evidence, gate)))


def _notes(evidence: GateEvidence, gate: Gate) -> list[str]:
    if evidence.baseline is None:
        return []
    told = []
    if not evidence.same_data:
        told.append("The two runs looked at different data: people are compared who are in both.")
    if evidence.baseline.manifest.started > evidence.run.manifest.started:
        told.append("The baseline is the later of the two runs.")
    if not any(rule.has_margin for rule in gate.rules):
        told.append("No rule asks about a change: the baseline was not looked at.")
    return told + evidence.ungated(gate)

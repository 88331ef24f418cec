"""`check`: whether a run keeps to the rules of a gate, which rules it breaks, and what could not be decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from recaudit.arguments import checked
from recaudit.errors import InputError
from recaudit.registry import Displayed
from recaudit.runs.cautions import RunCaution
from recaudit.runs.folder import Run
from recaudit.runs.gate.evidence import GateEvidence
from recaudit.runs.gate.judging import Answer, Lacking, Outcome, judged
from recaudit.runs.gate.rules import Gate, read_gate
from recaudit.runs.gate.testing import GateTest
from recaudit.runs.services import shared_answers

OUTCOMES: tuple[Outcome, ...] = ("failed", "undecided", "passed")
"""The weightiest first."""
ANSWER_SCHEMA = {
    "rule": pl.Int64,
    **dict.fromkeys(("model", "audit", "metric", "by", "group", "held_to", "outcome", "code", "reason"), pl.String),
    **dict.fromkeys(("value", "before", "allowed", "change", "error"), pl.Float64),
    **dict.fromkeys(("p_pass", "p_fail", "adjusted", "detectable"), pl.Float64),
    **dict.fromkeys(("users", "users_needed"), pl.Int64),
    "has_bound": pl.Boolean,
}
"""Columns of the answers of a gate.

`rule` is the place of the rule in the gate, from 1; `value` the run's number, `before` the baseline's, `allowed` the
threshold, or the margin in the metric's units, `change` how far the number went in the forbidden direction. `p_pass` is
small if the rule is satisfied, `p_fail` if it is violated; `adjusted` is `p_fail` corrected for the number of rules.
`error` is the standard error of the test, `detectable` the distance from the threshold or margin at which the rule is
decided in 80% of samples, `users_needed` the number of users that an unchanged model needs to pass. `code` is the
reason of an undecided rule. `has_bound` is false if the metric declares no bound on the side of the loss: the error
rates of such a rule are not guaranteed."""


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
    cautions: tuple[RunCaution, ...] = ()
    """What a reader must know before the answers, most important first."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The cautions as sentences."""
        return tuple(caution.text for caution in self.cautions)

    @property
    def outcome(self) -> Outcome:
        """Failed if a rule failed, otherwise undecided if a rule is undecided, otherwise passed."""
        return next((outcome for outcome in OUTCOMES if self.having(outcome)), "passed")

    @property
    def passed(self) -> bool:
        """Whether every rule passed."""
        return self.outcome == "passed"

    def having(self, outcome: Outcome) -> list[Answer]:
        """The answers with this outcome."""
        return [answer for answer in self.answers if answer.outcome == outcome]

    @property
    def frame(self) -> pl.DataFrame:
        """One row a question, columns as in ANSWER_SCHEMA."""
        rows = []
        for answer in self.answers:
            asked, test = answer.question, answer.question.test or GateTest()
            own = {name: getattr(asked, name) for name in ("model", "audit", "by", "group", "value", "before")}
            own |= {name: getattr(asked, name) for name in ("allowed", "change", "users")}
            own |= {name: getattr(answer, name) for name in ("outcome", "code", "reason", "adjusted")}
            own |= {name: getattr(test, name) for name in ("p_pass", "p_fail", "detectable", "users_needed")}
            own |= {"error": test.standard_error, "has_bound": None if asked.test is None else test.has_bound}
            rows.append({"rule": asked.place, "metric": asked.rule.metric, "held_to": asked.rule.words, **own})
        return pl.DataFrame(rows, ANSWER_SCHEMA)

    def __repr__(self) -> str:
        counts = Counter(answer.outcome for answer in self.answers)
        told = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES if counts[outcome])
        broken = [f"\n  {answer!r}" for answer in self.answers if answer.outcome != "passed"]
        asked = f"{len(self.answers):,} question{'s' * (len(self.answers) != 1)}"
        return f"<{self.run.path}: {self.outcome}; of {asked} {told}>{''.join(broken)}"


@checked
def check(run: Run | str | Path, rules: Gate | str | Path, baseline: Run | str | Path | None = None) -> Decision:
    """Check a run against the rules of a gate: a `Gate`, or the TOML file that has them.

    Rules about a change are tested against a `baseline`, an earlier run. A rule passes if it is shown to be satisfied
    and fails if it is shown to be violated; otherwise, and with too few users, failures, bounds or missing numbers, it
    is undecided. Failures are corrected for the number of rules by Holm's method.
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
    answers = judged(evidence.questions(gate))
    return Decision(after, before, gate, answers, tuple(_cautions(evidence, gate, answers)))


def _cautions(evidence: GateEvidence, gate: Gate, answers: Sequence[Answer]) -> Iterator[RunCaution]:
    if evidence.baseline is not None:
        has_margin = any(rule.has_margin for rule in gate.rules)
        if has_margin and not isinstance(evidence.compared, Lacking):
            yield from evidence.compared.cautions
        models = {label: (label, label) for label in evidence.run.models if label in evidence.baseline.models}
        yield from (own.caution for own in shared_answers(evidence.baseline, evidence.run, models))
        if evidence.baseline.manifest.started > evidence.run.manifest.started:
            yield RunCaution("gate.later-baseline", "The baseline is the later of the two runs.")
        if not has_margin:
            yield RunCaution("gate.unused-baseline", "No rule is about a change: the baseline was not used.")
        yield from (RunCaution("gate.not-judged", text) for text in evidence.ungated(gate))
    for answer in answers:
        asked, needed = answer.question, answer.question.test and answer.question.test.users_needed
        if needed and asked.users is not None and needed > asked.users:
            group = f" for {asked.group}" if asked.group else ""
            yield RunCaution(
                "gate.margin-needs-users",
                f"Rule {asked.place}, {asked.rule.metric} of {asked.model}{group}: an unchanged model needs "
                f"{needed:,} users to pass a margin of {asked.allowed:.3g}; there are {asked.users:,}. Use a larger "
                "margin, or more users.",
                (asked.rule.metric,),
                needed,
            )

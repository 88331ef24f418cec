"""What a reader must know first: what was audited, on whom, the findings that matter most, and what to be wary of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from recaudit.report.evidence import Evidence
from recaudit.report.findings import claims_of, looked_for, refusal_lines
from recaudit.report.kit.claims import Caution, Finding
from recaudit.report.kit.numbers import plural, some, verb

FIRST_FINDINGS = 5
"""How many findings a verdict has at most."""


@final
@dataclass(frozen=True)
class RunVerdict:
    """The outcome of a run for somebody who reads nothing else."""

    audited: str
    """What was audited and on whom, in a sentence."""
    findings: list[Finding]
    """All that stand, those that matter most first (`in_order` says what that is)."""
    cautions: list[Caution]
    """What everything rests on first."""
    looked_for: bool = True
    """Whether anything was looked for among the numbers: only then does finding nothing say something."""
    measured: bool = True
    """Whether there is any number."""
    refused: list[str] = field(default_factory=list)
    """Which audits have no result of which models, and why."""

    @property
    def code(self) -> str:
        """Stable name of the outcome: whether there is any number, any test, and any finding."""
        if not self.measured:
            return "verdict.nothing-measured"
        if self.findings:
            return "verdict.findings"
        return "verdict.nothing-shown" if self.looked_for else "verdict.nothing-tested"

    @property
    def nothing(self) -> str:
        """What is true of a run without any finding."""
        if not self.measured:
            return "Nothing was measured: no audit of this run has a number."
        if self.looked_for:
            return "No finding: of the differences that were tested, none is significant after the correction."
        return "No findings are looked for among the numbers of these audits: read the tables."

    @property
    def first(self) -> list[Finding]:
        """The findings that matter most."""
        return self.findings[:FIRST_FINDINGS]

    @property
    def others(self) -> list[Finding]:
        """All the other findings."""
        return self.findings[FIRST_FINDINGS:]


def verdict_of(evidence: Evidence) -> RunVerdict:
    """Ask every question of a run."""
    return RunVerdict(
        audited(evidence),
        *claims_of(evidence),
        looked_for(evidence),
        any(own.value is not None for own in evidence.summaries.values()),
        refusal_lines(evidence),
    )


def audited(evidence: Evidence) -> str:
    """Which models, on which data, of how many people."""
    data, references = evidence.run.manifest.data, list(evidence.references)
    models = some(evidence.personalised or references)
    if evidence.personalised and references:
        models += f", beside {some(references)}, which {verb(references, 'does', 'do')} not personalise,"
    low, high = data.scale
    size = f"{plural(data.users, 'user')}, {plural(data.items, 'item')} and {plural(data.ratings, 'rating')}"
    return f"{models} on {data.name}: {size} from {low:g} to {high:g}."

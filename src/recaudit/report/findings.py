"""What the tables say, in plain sentences: computed, with numbers and intervals, or not said at all.

Each question looks at the evidence and answers with findings or with none. A difference is claimed only where
intervals do not overlap or, between two models on the same users, where the paired interval excludes zero. Nothing
that rests on fewer than FEWEST_USERS users is said.
"""

from __future__ import annotations

from recaudit.report.evidence import Evidence
from recaudit.report.gaps import failures, left_out
from recaudit.report.kit.findings import Finding
from recaudit.report.kit.numbers import FEWEST_USERS
from recaudit.report.sections.generic import sections_of


def findings_of(evidence: Evidence) -> list[Finding]:
    """Everything that the tables have to say: what failed, then the largest effects first."""
    questions = (failures, *(ask for section in sections_of(evidence) for ask in section.questions), left_out)
    found = [finding for question in questions for finding in question(evidence)]
    firm = [finding for finding in found if finding.users is None or finding.users >= FEWEST_USERS]
    return sorted(firm, key=lambda finding: -finding.effect)

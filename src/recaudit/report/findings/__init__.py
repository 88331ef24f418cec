"""What the tables say, in plain sentences: computed, with numbers and intervals, or not said at all.

Each question looks at the evidence and answers with findings or with none. A difference is claimed only where
intervals do not overlap or, between two models on the same users, where the paired interval excludes zero. Nothing
that rests on fewer than FEWEST_USERS users is said.
"""

from __future__ import annotations

from recaudit.report.evidence import Evidence
from recaudit.report.findings.agency import active_users_move, others_say, own_say, popular_items_move
from recaudit.report.findings.calibration import out_of_proportion, price_of_proportion
from recaudit.report.findings.exposure import catalogue, categories, popular_items
from recaudit.report.findings.finding import Finding
from recaudit.report.findings.folding import from_nowhere, precise_but_folded, what_was_left_unrated
from recaudit.report.findings.people import best_and_worst_served, no_gain, pushed_most, rare_items
from recaudit.report.findings.ranking import beats_reference, lead, two_orders
from recaudit.report.findings.reach import (
    least_discovery,
    not_applicable,
    out_of_reach,
    popular_within_reach,
    unsettled,
    users_say,
)
from recaudit.report.findings.trust import failures, left_out
from recaudit.report.kit.numbers import FEWEST_USERS

__all__ = ["Finding", "findings_of"]

_QUESTIONS = (
    failures,
    unsettled,
    beats_reference,
    two_orders,
    lead,
    catalogue,
    popular_items,
    users_say,
    out_of_reach,
    own_say,
    others_say,
    from_nowhere,
    out_of_proportion,
    no_gain,
    best_and_worst_served,
    categories,
    rare_items,
    pushed_most,
    least_discovery,
    popular_within_reach,
    popular_items_move,
    active_users_move,
    precise_but_folded,
    what_was_left_unrated,
    price_of_proportion,
    left_out,
    not_applicable,
)
"""Are the numbers there, does it work, what does it hide, what can users change, whom does it fail: the order of
findings that are equally large."""


def findings_of(evidence: Evidence) -> list[Finding]:
    """Everything that the tables have to say: what failed, then the largest effects first."""
    found = [finding for question in _QUESTIONS for finding in question(evidence)]
    firm = [finding for finding in found if finding.users is None or finding.users >= FEWEST_USERS]
    return sorted(firm, key=lambda finding: -finding.effect)

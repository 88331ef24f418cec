"""What a finding is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.report.evidence import Evidence, Group
from recaudit.report.kit.effects import between


@final
@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: the claim, its numbers, and the section that shows them."""

    claim: str
    detail: str
    section: str
    effect: float = 0.0
    """How large it is, in standard deviations between users: see `recaudit.report.kit.effects`."""
    users: int | None = None
    """The fewest users that a number of the claim rests on; None where it is about no users, as what failed is."""


def size_of_gap(evidence: Evidence, low: Group, high: Group) -> tuple[float, int]:
    """How far two groups lie apart, and how many users the smaller one has."""
    apart = between(low.estimate, high.estimate, evidence.confidence)
    return apart, min(low.estimate.users, high.estimate.users)

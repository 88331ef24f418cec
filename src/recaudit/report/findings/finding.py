"""What a finding is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: the claim, its numbers, and the section that shows them."""

    claim: str
    detail: str
    section: str

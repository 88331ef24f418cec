"""What a finding is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: the claim, the numbers behind it, and the section of the page that shows them."""

    claim: str
    detail: str
    section: str

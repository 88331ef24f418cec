"""What a reader must know before the numbers of a comparison or a gate, with a stable code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class RunCaution:
    """One caution.

    Attributes:
        code: Stable code, `comparison.other-data` for example.
        text: One or two sentences.
        metrics: Names of the metrics concerned, empty for all.
        users: Number of users concerned, or None.
        share: Share of users concerned, or None.
    """

    code: str
    text: str
    metrics: tuple[str, ...] = ()
    users: int | None = None
    share: float | None = None

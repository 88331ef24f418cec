"""How an answer stands: every result row carries one of these."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """A failure is never a zero and never silently averaged."""

    SOLVED = "solved"
    """The value is exact, to the stated tolerance."""
    BOUNDED = "bounded"
    """The truth lies between `lower` and `upper`; the value is the best found. An aggregate of such values is a lower
    bound itself; of efforts, of which the least is sought, less may do."""
    FAILED = "failed"
    """No value was found; the row counts as failed in every aggregate."""
    IMPOSSIBLE = "impossible"
    """It is proved that nothing allowed brings it about; only where that is the question."""
    NOT_APPLICABLE = "not_applicable"
    """The question has no answer here: nothing to measure, or the model cannot be asked."""

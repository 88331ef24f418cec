"""What a section of the page is, and how those of a run are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from recaudit.report.evidence import Evidence
from recaudit.report.kit.findings import Finding

Question = Callable[[Evidence], Iterator[Finding]]


class Section(ABC):
    """How an audit, or a few that belong together, are shown: a part of the page, and what is found in it.

    A section is registered by an entry point of the group "recaudit.sections". Its template gets `section`, which is
    what `content` gives, and `evidence`; what the content holds under `metrics` is defined on the page, and what it
    holds under `methods` is said among the methods.
    """

    audits: ClassVar[tuple[str, ...]]
    """The audits that it shows."""
    anchor: str
    """The id of its element on the page."""
    title: str
    """What it is called in the list of contents."""
    template: ClassVar[str]
    place: ClassVar[int] = 100
    """Sections stand in this order."""
    questions: ClassVar[tuple[Question, ...]] = ()
    """What is looked for among its numbers."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    @abstractmethod
    def content(self) -> dict[str, Any] | None:
        """What its template shows; None where the run has nothing to show."""

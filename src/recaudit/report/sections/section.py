"""What a section of the page is, how those of a run are found, and how an audit without one of its own is shown."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, final

from recaudit.registry import AUDITS, SECTIONS
from recaudit.report.evidence import Evidence
from recaudit.report.kit.claims import Claim
from recaudit.report.kit.comparisons import by_group, figures_by_model, overview
from recaudit.report.kit.notes import Note, notes
from recaudit.report.kit.numbers import standing

Question = Callable[[Evidence], Iterator[Claim]]


class Section(ABC):
    """How an audit, or a few that belong together, are shown: a part of the page, and what is found in it.

    Its template gets `section`, which is what `content` gives and its `notes`, and `evidence`; what the content holds
    under `metrics` is defined on the page, and what it holds under `methods` is said among the methods.
    """

    audits: tuple[str, ...]
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

    def notes(self) -> list[Note]:
        """What its numbers rest on, as its audits' results say it."""
        return [note for audit in self.audits for note in notes(self.evidence, audit)]


@final
class GenericSection(Section):
    """Metrics with intervals by model, by group where there are groups, and how they stand."""

    template = "generic.html.j2"

    def __init__(self, evidence: Evidence, audit: str) -> None:
        super().__init__(evidence)
        self.audit, self.audits = audit, (audit,)
        self.anchor = f"audit-{audit}"
        self.title = audit.replace("-", " ").capitalize()

    def content(self) -> dict[str, Any] | None:
        """Everything that any audit has."""
        evidence, audit = self.evidence, self.audit
        metrics = evidence.metrics(audit)
        if not metrics:
            return None
        ways = evidence.grouped.filter(audit=audit)["by"].unique(maintain_order=True).to_list()
        statuses = Counter(own.status for (_, name, _), own in evidence.summaries.items() if name == audit)
        return {
            "audit": audit,
            "anchor": self.anchor,
            "title": self.title,
            "about": (inspect.getdoc(AUDITS[audit]) or self.title).splitlines()[0],
            "overview": overview(evidence, audit, marked=True),
            "statuses": standing(statuses),
            "figures": figures_by_model(evidence, audit),
            "parts": [part for metric in metrics if (part := by_group(evidence, metric, ways, audit)) is not None],
            "metrics": metrics,
        }


def sections_of(evidence: Evidence) -> list[Section]:
    """Every registered section, in its place; then a generic one for each audit that none of them shows."""
    own = sorted(SECTIONS.values(), key=lambda section: section.place)
    shown = {audit for section in own for audit in section.audits}
    others = [audit for audit in evidence.settings if audit not in shown]
    return [*(section(evidence) for section in own), *(GenericSection(evidence, audit) for audit in others)]

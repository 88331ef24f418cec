"""What a notebook shows of an answer: its question, its numbers in a table, a chart, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from markupsafe import Markup

from recaudit.report.kit.charts import Figure
from recaudit.report.kit.document import drawing, fragment
from recaudit.report.kit.numbers import Estimate
from recaudit.status import Status

MOST_ROWS = 20
"""Of a table; the frame has all."""
_STANDS = {
    Status.FAILED: "could not be computed",
    Status.IMPOSSIBLE: "proved impossible",
    Status.NOT_APPLICABLE: "no answer here",
}
"""A status in words; what is solved goes without saying, and what a bound is says the metric."""


@final
@dataclass(frozen=True)
class CardTable:
    """Rows of text, the first cell of each its name; a column without anything in it is not shown."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: Sequence[str] = ()
    """Of the columns after the first, those that hold words rather than numbers, by heading."""

    @property
    def columns(self) -> list[int]:
        """Which columns are shown."""
        return [place for place, _ in enumerate(self.headings) if not place or any(row[place] for row in self.rows)]

    @property
    def shown(self) -> Sequence[Sequence[str]]:
        """The first rows."""
        return self.rows[:MOST_ROWS]

    @property
    def more(self) -> int:
        """How many rows are not shown."""
        return len(self.rows) - len(self.shown)


@final
@dataclass(frozen=True)
class Drawing:
    """A chart, and what its colours stand for: (colour, name)."""

    figure: Figure
    key: Sequence[tuple[str, str]] = ()

    @property
    def svg(self) -> Markup:
        """The chart itself."""
        return drawing(self.figure)


@final
@dataclass(frozen=True)
class Card:
    """Everything that is shown, in its order."""

    title: str
    question: str = ""
    asked: str = ""
    """The settings that matter."""
    verdict: str = ""
    tables: Sequence[CardTable] = ()
    drawings: Sequence[Drawing] = ()
    notes: Sequence[str] = ()
    terms: Sequence[tuple[str, str]] = ()
    """What is meant by each number, folded away."""

    @property
    def html(self) -> str:
        """A piece of a page, in which nothing that comes from data is markup."""
        return fragment("card.html.j2", card=self)


def number(estimate: Estimate) -> tuple[str, str]:
    """Value and interval, as cells."""
    return estimate.text, estimate.interval


def stands(estimate: Estimate) -> str:
    """A status in words; empty where there is nothing to say."""
    status = Status(estimate.status)
    return estimate.metric.bound if status == Status.BOUNDED else _STANDS.get(status, "")


def people(users: int) -> str:
    """A number of people, as a cell; empty where there are none."""
    return f"{users:,}" if users else ""

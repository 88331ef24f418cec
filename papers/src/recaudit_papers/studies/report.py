"""A finished study: its tables beside the paper's, what they were read from, and how many rows stand how."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import final

import polars as pl

from recaudit.errors import InputError, did_you_mean
from recaudit.folders import REPORT
from recaudit.registry import Displayed
from recaudit.report import plural
from recaudit_papers.studies.reading import Agreement, StudyTable, counted
from recaudit_papers.studies.study import Results, Study

STUDY_SCHEMA = {
    **dict.fromkeys(("table", "row", "published"), pl.String),
    **dict.fromkeys(("value", "lower", "upper"), pl.Float64),
    "over": pl.String,
    "difference": pl.Float64,
    **dict.fromkeys(("agreement", "why"), pl.String),
}
"""The columns of a study's rows."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class StudyReport(Displayed):
    """A finished study: its tables beside the paper's, and what they were read from."""

    display = "study"

    study: Study
    results: Results
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each experiment took, by name."""
    path: Path | None = None
    """Its folder."""

    @property
    def page(self) -> Path | None:
        """Where its page is."""
        return None if self.path is None else self.path / REPORT

    @property
    def command(self) -> str:
        """What makes it again."""
        size = f" --size {self.results.size}" if self.study.sized else ""
        return f"recaudit study {self.study.arguments}{size}"

    @cached_property
    def tables(self) -> list[StudyTable]:
        """A table or figure of the paper each."""
        return self.study.tables(self.results)

    @property
    def notes(self) -> list[str]:
        """What has to be known before any number is read."""
        needed = dict.fromkeys(self.results.missing.values())
        return [*self.study.notes(self.results), *(f"Not measured: {reason}." for reason in needed)]

    @cached_property
    def counts(self) -> dict[Agreement, int]:
        """How many rows agree, are explained, are open."""
        return counted(self.tables)

    def __getitem__(self, name: str) -> StudyTable:
        """One table or figure by its name."""
        found = {table.name: table for table in self.tables}
        if name not in found:
            raise InputError("name", received=name, expected="a table", remedy=did_you_mean(name, found))
        return found[name]

    def frame(self) -> pl.DataFrame:
        """One row a number or claim: printed, ours, interval, difference, how it stands and why."""
        rows = [
            {
                "table": table.name,
                "row": row.name,
                "published": row.published.text,
                "value": row.ours.value if row.ours else None,
                "lower": row.ours.lower if row.ours else None,
                "upper": row.ours.upper if row.ours else None,
                "over": row.ours.over if row.ours else "",
                "difference": row.difference,
                "agreement": row.agreement.value,
                "why": row.why,
            }
            for table in self.tables
            for row in table.rows
        ]
        return pl.DataFrame(rows, schema=STUDY_SCHEMA)

    def summary(self) -> str:
        """Every row in a line, and how many stand how."""
        head = f"{self.study.title} ({self.results.size})" if self.study.sized else self.study.title
        return "\n\n".join([head, *(table.summary() for table in self.tables), self.verdict])

    __repr__ = summary

    @property
    def verdict(self) -> str:
        """How many rows stand how, in a sentence."""
        known = [f"{mark} {n}" for mark, n in self.counts.items() if n]
        numbers = sum(len(table.rows) for table in self.tables if not table.compares)
        beside = f"{plural(sum(self.counts.values()), 'row')}: {'; '.join(known)}." if known else ""
        return f"{beside} {plural(numbers, 'number')} that no paper has.".strip() if numbers else beside

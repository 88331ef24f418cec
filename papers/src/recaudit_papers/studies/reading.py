"""Ours beside theirs: what is printed, what we measured, and which change makes the printed number come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from math import inf, isfinite, nextafter
from typing import final

import polars as pl

from recaudit.registry import Displayed
from recaudit.report import Figure


class Agreement(StrEnum):
    """How a row stands beside the paper."""

    AGREES = "agrees"
    EXPLAINED = "disagrees, explained"
    OPEN = "disagrees, open"
    TOO_FEW = "too few to tell"
    NOT_PUBLISHED = "not published"
    NOT_MEASURED = "not measured"


@final
@dataclass(frozen=True)
class Quantity:
    """A number and the interval around it."""

    value: float
    lower: float | None = None
    upper: float | None = None
    over: str = ""
    """What the interval is over, or how many the number stands on: "176 users", "10 trials"."""
    single: bool = False
    """Whether it is one draw of what varies, so that nobody knows how far off another would be."""

    @property
    def ends(self) -> tuple[float, float]:
        """The interval; the number itself where it has none."""
        known = (self.lower, self.upper) if self.known else (None, None)
        low, high = (self.value if end is None or not isfinite(end) else end for end in known)
        return low, high

    @property
    def known(self) -> bool:
        """Whether it is a number: what overflowed, or was never there, is none."""
        return isfinite(self.value)

    def short(self, digits: int) -> str:
        """The number as a person reads it."""
        return _written(self.value, digits) if self.known else "none"

    def interval(self, digits: int) -> str:
        """The interval, where there is one."""
        low, high = self.ends
        return f"[{_written(low, digits)}, {_written(high, digits)}]" if low < high else ""

    def told(self, digits: int) -> str:
        """Both."""
        return f"{self.short(digits)} {self.interval(digits)}".rstrip()


@final
@dataclass(frozen=True)
class Published:
    """What a paper prints: a number and how exact it is, or a direction; where its authors' number may lie."""

    text: str
    low: float = -inf
    high: float = inf
    value: float | None = None
    direction: bool = False
    """A claim about a region: ours has to lie inside it with its whole interval."""

    @classmethod
    def number(cls, text: str, error: float | None = None) -> Published:
        """A printed number, exact to `error`, or to half a unit of its last digit."""
        value = float(text)
        last = Decimal(text).as_tuple().exponent
        error = 0.5 * 10.0 ** int(last) if error is None else error
        return cls(text, value - error, value + error, value)

    @classmethod
    def interval(cls, text: str, low: float, high: float) -> Published:
        """A printed number with a printed interval."""
        return cls(f"{text} [{low:g}, {high:g}]", low, high, float(text))

    @classmethod
    def above(cls, low: float, text: str) -> Published:
        """A claim that a number is larger; the text says it in the paper's words."""
        return cls(text, low=nextafter(low, inf), direction=True)

    @classmethod
    def below(cls, high: float, text: str) -> Published:
        """A claim that a number is smaller."""
        return cls(text, high=nextafter(high, -inf), direction=True)

    @classmethod
    def between(cls, low: float, high: float, text: str) -> Published:
        """A claim that a number lies in a region, or one read off a plot."""
        return cls(text, low, high, direction=True)

    @classmethod
    def nothing(cls, why: str = "in no text that we have") -> Published:
        """No number to stand beside."""
        return cls(why, inf, -inf)

    @property
    def known(self) -> bool:
        """Whether there is anything to stand beside."""
        return self.low <= self.high

    @property
    def told(self) -> str:
        """The beginning of a sentence that goes on with ours; empty where there is nothing to stand beside."""
        said = f'claimed "{self.text}", ' if self.direction else f"published {self.text}, "
        return said if self.known else ""

    def holds(self, ours: Quantity) -> bool:
        """Whether ours agrees: the two intervals meet, or ours lies inside the region of a direction."""
        if self.direction and ours.single:
            return False
        low, high = ours.ends
        if not ours.known:
            return False
        return self.low <= low and high <= self.high if self.direction else low <= self.high and high >= self.low


@final
@dataclass(frozen=True)
class StudyRow:
    """One number or claim of a paper, and ours."""

    name: str
    published: Published
    ours: Quantity | None
    """By our protocol; None where it was not measured."""
    variants: Mapping[str, Quantity] = field(default_factory=dict)
    """The same with one thing changed, or with all changes up to one, by what was changed: the ladder."""
    note: str = ""
    """What else is known; why it was not measured."""
    digits: int = 3

    @property
    def explaining(self) -> list[str]:
        """The changes with which the printed number comes out."""
        return [change for change, found in self.variants.items() if self.published.holds(found)]

    @property
    def agreement(self) -> Agreement:
        """How it stands: an explanation is a change that was made, and with which the printed number came out."""
        if self.ours is None or not self.ours.known:
            return Agreement.NOT_MEASURED
        if not self.published.known:
            return Agreement.NOT_PUBLISHED
        if self.published.holds(self.ours):
            return Agreement.AGREES
        if self.explaining:
            return Agreement.EXPLAINED
        return Agreement.TOO_FEW if self.ours.single else Agreement.OPEN

    @property
    def difference(self) -> float | None:
        """Ours less the printed number."""
        if self.ours is None or not self.ours.known or self.published.value is None:
            return None
        return self.ours.value - self.published.value

    @property
    def difference_told(self) -> str:
        """The same as a person reads it; empty where there is none."""
        return "" if self.difference is None else _written(self.difference, self.digits, "+")

    @property
    def told(self) -> str:
        """Ours as a person reads it."""
        return "n/a" if self.ours is None else self.ours.told(self.digits)

    @property
    def why(self) -> str:
        """What explains a difference, and what else is known."""
        said = self.note
        if self.agreement is Agreement.EXPLAINED:
            change = self.explaining[0]
            made = f"all changes up to: {change.removeprefix('and ')}" if change.startswith("and ") else change
            said = f"{self.variants[change].told(self.digits)} with {made}. {said}"
        return said.strip()


@final
@dataclass(frozen=True)
class PlainTable:
    """Numbers and words that stand beside no paper: what each change does."""

    name: str
    """Of its anchor and files."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Quantity, ...], ...]
    """A cell for each column; a column of numbers has quantities only."""
    text: str = ""
    digits: int = 3

    def cells(self) -> list[list[str]]:
        """As a person reads them, row by row."""
        return [[cell if isinstance(cell, str) else cell.told(self.digits) for cell in row] for row in self.rows]

    def frame(self) -> pl.DataFrame:
        """The same as data: a column of numbers is followed by `lower` and `upper`."""
        columns: dict[str, list[str] | list[float | None]] = {}
        for place, name in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            columns[name] = [cell if isinstance(cell, str) else cell.value for cell in cells]  # type: ignore[assignment]
            if any(isinstance(cell, Quantity) for cell in cells):
                for end in ("lower", "upper"):
                    columns[f"{name}_{end}"] = [getattr(cell, end, None) for cell in cells]
        return pl.DataFrame(columns, infer_schema_length=None)


@final
@dataclass(frozen=True, repr=False)
class StudyTable(Displayed):
    """One table or figure of a paper: its rows, its charts, and the ladder of what was changed."""

    display = "study-table"

    name: str
    """Of its anchor and files: `table-4`."""
    title: str
    rows: tuple[StudyRow, ...]
    text: str = ""
    """What it is about, and what we did otherwise, in a few sentences."""
    figures: tuple[Figure, ...] = ()
    plain: tuple[PlainTable, ...] = ()
    """What stands below the rows."""

    @property
    def compares(self) -> bool:
        """Whether any of it stands beside something printed; else its rows are numbers of ours, and no more."""
        return any(row.published.known for row in self.rows)

    @property
    def changes(self) -> list[str]:
        """The rungs of its ladder, in order."""
        return list(dict.fromkeys(change for row in self.rows for change in row.variants))

    @property
    def climbed(self) -> list[StudyRow]:
        """The rows that have a ladder."""
        return [row for row in self.rows if row.variants]

    def summary(self) -> str:
        """Every row in a line."""
        told = (f"  {row.name}: {row.published.told}ours {row.told}: {row.agreement}" for row in self.rows)
        return "\n".join([self.title, *told])

    __repr__ = summary


_LONG = 1e7
"""Numbers from here on are written with a power of ten."""


def _written(value: float, digits: int, sign: str = "") -> str:
    """So many digits after the point; a number that rounds to 0 has no minus."""
    return f"{value:{sign}.{digits}e}" if abs(value) >= _LONG else f"{value:{sign}z.{digits}f}"


def counted(tables: Iterable[StudyTable]) -> dict[Agreement, int]:
    """How many rows stand how, in the order of the words; of tables that compare."""
    found = Counter(row.agreement for table in tables if table.compares for row in table.rows)
    return {mark: found[mark] for mark in Agreement}

"""The experiments by what they are about, and the changes that stand between our protocol and the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import polars as pl

from recaudit_papers.studies.agency.averages import Rows, average, contrast, only
from recaudit_papers.studies.reading import Published, Quantity, StudyRow
from recaudit_papers.studies.study import Results

When = Literal["past", "future"]
Of = Literal["own", "others", "error"]
Found = Callable[[str, float], Quantity | None]
"""A number for a model or change, by name, and a beta."""
Change = tuple[str, str, float]
"""What was changed, the experiments that have it, and the beta."""

FIRST, SECOND = 0.8, 5.0
"""The betas that the paper compares; ours is the first where it names none."""

OTHER_BETA: Change = ("beta = 5, the other that the paper names", "als", SECOND)
FUTURE_MOVES: tuple[Change, ...] = (
    OTHER_BETA,
    ("and items solved for anew without a penalty, as Equation 8 is printed", "als-free", SECOND),
    ("and Surprise's SVD with its defaults in place of ALS", "svd-free", SECOND),
    ("all that, at beta = 0.8", "svd-free", FIRST),
)
PAST_MOVES: tuple[Change, ...] = (
    *FUTURE_MOVES[:3],
    ("and the distance from the model's scores, as Algorithm 3 has it", "svd-free-scores", SECOND),
    ("all that, at beta = 0.8", "svd-free-scores", FIRST),
)
FUTURE_LIFTS: tuple[Change, ...] = (
    OTHER_BETA,
    ("Algorithm 2 in place of exact answers", "als-search", FIRST),
    ("items that were seen too, since Equation 5 is over all of V", "als-all", FIRST),
    ("users solved for anew without a penalty, as Equation 7 is printed", "als-free", FIRST),
    ("Surprise's SVD with its defaults in place of ALS", "svd", FIRST),
    ("SVD without a penalty", "svd-free", FIRST),
    ("SVD without a penalty, by Algorithm 2", "svd-free-search", FIRST),
    ("SVD without a penalty, by Algorithm 2, at beta = 5", "svd-free-search", SECOND),
)


class Answers:
    """The tables of the experiments, by what they are about."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def of(
        self, of: Of, when: When, name: str, beta: float | None, group: str | None = "drawn", *, short: bool = False
    ) -> Rows:
        """A row a user, of the longest horizon or, where there is another, of the shortest."""
        table = self.results.under(f"{when}/{name}/")
        if table.is_empty() or (short and table["k"].n_unique() == 1):
            return pl.DataFrame()
        where = {"beta": beta, "group": group, "k": table["k"].min() if short else table["k"].max()}
        return only(table, of=of, **{name: value for name, value in where.items() if value is not None})

    def moved(self, when: When, group: str = "drawn", column: str = "instability") -> Found:
        """The mean instability, or a share of pairs."""
        return lambda name, beta: average(self.of("others", when, name, beta, group), column)

    def longer_lift(self, when: When) -> Found:
        """How many times farther items can be lifted over the longest horizon than over the shortest."""
        return lambda name, beta: contrast(
            self.of("own", when, name, beta), self.of("own", when, name, beta, short=True), "log_lift", np.exp
        )

    def longer_move(self, when: When) -> Found:
        """How much larger instability is."""
        return lambda name, beta: contrast(
            self.of("others", when, name, beta), self.of("others", when, name, beta, short=True), "instability"
        )

    def between_betas(self, of: Of, column: str, first: float, second: float, when: When = "past") -> Found:
        """By model alone: what the second beta adds to the first, a ratio for logarithms."""
        scale = np.exp if column.startswith("log") else float
        return lambda name, _: contrast(self.of(of, when, name, second), self.of(of, when, name, first), column, scale)


def row(
    name: str,
    printed: Published,
    found: Found,
    changes: Sequence[Change] = (),
    *,
    ours: tuple[str, float] = ("als", FIRST),
    note: str = "",
    digits: int = 3,
) -> StudyRow:
    """A row with its ladder: each change that was measured."""
    climbed = {text: value for text, changed, beta in changes if (value := found(changed, beta)) is not None}
    return StudyRow(name, printed, found(*ours), climbed, note, digits)


def curve(points: Sequence[tuple[str, float, Quantity | None]]) -> pl.DataFrame:
    """Points of lines (series, x, number) as a chart takes them."""
    known = [
        {"series": series, "x": x, "y": found.value, "lower": found.ends[0], "upper": found.ends[1]}
        for series, x, found in points
        if found is not None
    ]
    return pl.DataFrame(known)

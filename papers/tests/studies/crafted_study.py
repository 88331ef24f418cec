"""A study with rows of every kind, under any name, and the shape of a page."""

from __future__ import annotations

from html.parser import HTMLParser

import polars as pl

from recaudit_papers.studies import (
    Experiment,
    PlainTable,
    Published,
    Quantity,
    Results,
    Size,
    Study,
    StudyRow,
    StudyTable,
    figures,
)

HOSTILE = "a|b *c* <script>alert(1)</script> & 50% $x_1^2$ \\end{tabular} `d` [e](f)"


def nothing(number: int) -> pl.DataFrame:
    return pl.DataFrame({"number": [number]})


class Crafted(Study):
    """Rows of every kind, under any name."""

    name, title, paper = "crafted", "A crafted study", "Nobody (2020)."

    def __init__(self, word: str = "plain") -> None:
        self.word = word

    def experiments(self, size: Size) -> list[Experiment]:
        return [Experiment("first", nothing, {"number": 1}), Experiment("second", nothing, {"number": 2})]

    def notes(self, results: Results) -> list[str]:
        return [f"Noted: {self.word}"]

    def tables(self, results: Results) -> list[StudyTable]:
        ladder = {f"box of {self.word}": Quantity(0.9), "and their model": Quantity(0.83, 0.82, 0.84, "9 users")}
        rows = (
            StudyRow(self.word, Published.number("0.827"), Quantity(0.96, 0.95, 0.97, "6 users"), ladder),
            StudyRow("a claim", Published.above(0, "it rises"), Quantity(0.2, 0.1, 0.3)),
            StudyRow("not here", Published.number("0.1"), None, note="no data"),
        )
        points = pl.DataFrame({"x": [1.0, 2.0] * 2, "y": [1.0, 2.0, 3.0, 4.0], "who": [self.word] * 2 + ["b"] * 2})
        drawn = figures.lines("Lines", points, "x", "y", "who", x_title="x", y_title="y", published={"b": [(1, 2)]})
        below = PlainTable(
            "sums", f"Sums of {self.word}", ("of", "sum"), ((self.word, Quantity(7.5, 7, 8)), ("b", Quantity(2.5)))
        )
        return [
            StudyTable("table-1", f"Table 1: {self.word}", rows, "About it.", (drawn,)),
            StudyTable("empty", "Empty", ()),
            StudyTable("below", "Below", (), plain=(below,)),
        ]


class Shape(HTMLParser):
    """The elements of a page, in order, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

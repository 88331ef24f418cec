"""Whatever names and numbers are in it, a study is drawn, read and written."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import vl_convert
from markdown_it import MarkdownIt

from recaudit.report.kit.charts import THEME, Figure
from recaudit.report.kit.document import picture, script_json
from recaudit_papers.studies import (
    Agreement,
    PlainTable,
    Published,
    Quantity,
    Results,
    StudyRow,
    StudyTable,
    figures,
    run,
)
from recaudit_papers.studies.pages import latex, markdown
from studies.crafted_study import HOSTILE, Crafted, Shape

NAMES = ["constructor", "__proto__", "", "a\nb", "x" * 500, HOSTILE, "datum.value\u202e"]
NO_NUMBERS = [math.nan, math.inf, -math.inf, None]
LARGE = [1e308, -1e308, 5e-324, -0.0]


def lines(name: str = "a", *, x: float | None = 2.0, y: float | None = 2.0, end: float | None = 3.0) -> Figure:
    numbers = {"x": [1.0, x, 3.0], "y": [1.0, y, 4.0], "lower": [0.0, 1.0, 2.0], "upper": [2.0, end, 5.0]}
    table = pl.DataFrame(numbers, dict.fromkeys(numbers, pl.Float64)).with_columns(who=pl.Series([name, name, "b"]))
    printed: dict[str, Any] = {name: [(1, 2), (1.5, y)], "b": [(x, 1.0)], "nobody": [(1.0, 1.0)]}
    return figures.lines("Lines", table, "x", "y", "who", x_title="x", y_title="y", log_x=True, published=printed)


def bars(name: str = "a", *, x: float | None = 2.0, y: float | None = 2.0, end: float | None = 3.0) -> Figure:
    numbers = {"value": [1.0, y], "lower": [0.5, 1.0], "upper": [2.0, end], "theirs": [x, 1.0]}
    table = pl.DataFrame(numbers, dict.fromkeys(numbers, pl.Float64)).with_columns(name=pl.Series([name, "b"]))
    return figures.bars("Bars", table, "name", "value", title="t", published="theirs")


def points(name: str = "a", *, x: float | None = 2.0, y: float | None = 2.0, end: float | None = 3.0) -> Figure:
    numbers = {"x": [1.0, x, end], "y": [1.0, y, 1.0]}
    table = pl.DataFrame(numbers, dict.fromkeys(numbers, pl.Float64)).with_columns(name=pl.Series([name, "b", "b"]))
    names = {"name": "name", "series": "name"}
    return figures.points("Points", table, "x", "y", x_title="x", y_title="y", log_x=True, log_y=True, **names)


CHARTS = (lines, bars, points)


def marks(figure: Figure) -> Counter[str]:
    """How often each colour and element is in the picture."""
    svg = vl_convert.vegalite_to_svg({**figure.spec, "width": 480}, config=THEME)
    return Counter(re.findall(r'(?:stroke|fill)="[^"]*"|<(?:path|text)', svg))


@pytest.mark.parametrize("chart", CHARTS)
class TestFigures:
    @pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
    def test_any_name_is_drawn_as_any_other(self, chart: Callable[..., Figure], name: str) -> None:
        assert marks(chart(name)) == marks(chart("a"))
        assert json.loads(script_json(chart(name).spec)) == chart(name).spec

    @pytest.mark.parametrize("value", NO_NUMBERS)
    @pytest.mark.parametrize("which", ["x", "y", "end"])
    def test_what_is_no_number_is_left_out(self, chart: Callable[..., Figure], which: str, value: float | None) -> None:
        figure = chart(**{which: value})
        assert "nan" not in figure.description
        assert "inf" not in figure.description
        script_json(figure.spec)
        assert picture(figure).startswith(b"\x89PNG")

    @pytest.mark.parametrize("value", LARGE)
    @pytest.mark.parametrize("which", ["x", "y", "end"])
    def test_any_number_is_drawn(self, chart: Callable[..., Figure], which: str, value: float) -> None:
        assert picture(chart(**{which: value})).startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", [pl.Float64, pl.Int64, pl.Null])
def test_empty_tables_say_so(kind: type[pl.DataType]) -> None:
    table = pl.DataFrame({name: pl.Series([], dtype=kind) for name in ("x", "y", "lower", "upper", "who")})
    for figure in (
        figures.lines("h", table, "x", "y", "who", x_title="x", y_title="y"),
        figures.bars("h", table, "who", "y", title="t"),
    ):
        assert figure.description == "h. There is nothing to draw."
        picture(figure)
    assert "0 points" in figures.points("h", table, "x", "y", x_title="x", y_title="y").description


def test_who_has_no_name_is_drawn() -> None:
    table = pl.DataFrame({"who": [None, "a"], "x": [1, 2], "y": [1, 2]})
    assert figures.bars("h", table, "who", "y", title="t").description == "h. : 1; a: 2."
    lines = figures.lines("h", table, "x", "y", "who", x_title="x", y_title="y")
    assert picture(lines).startswith(b"\x89PNG")
    assert lines.spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["", "a"]


class TestReading:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_what_is_no_number_neither_agrees_nor_explains(self, value: float) -> None:
        none = Quantity(value, 0.0, 1.0)
        assert none.told(3) == "none"
        for published in (Published.number("0.5"), Published.above(0, "rises"), Published.below(0, "falls")):
            row = StudyRow("row", published, none)
            assert row.agreement is Agreement.NOT_MEASURED
            assert row.difference is None
            assert row.difference_told == ""
            assert StudyRow("row", published, Quantity(9.0), {"c": none}).explaining == []

    def test_an_end_that_is_no_number_is_the_number(self) -> None:
        assert Quantity(0.5, -math.inf, math.nan).ends == (0.5, 0.5)
        assert Quantity(0.5, None, 0.7).told(2) == "0.50 [0.50, 0.70]"

    def test_numbers_of_any_size_are_short(self) -> None:
        assert Quantity(1e308, -1e308, 1e308).told(2) == "1.00e+308 [-1.00e+308, 1.00e+308]"
        assert Quantity(-0.0004).told(3) == "0.000"
        row = StudyRow("row", Published.number("0.5"), Quantity(0.49996))
        assert row.difference_told == "+0.000"

    @pytest.mark.parametrize(
        ("text", "error"), [("0.346", 0.0005), ("12", 0.5), ("1.50", 0.005), ("2e-05", 5e-6), ("-3.1", 0.05)]
    )
    def test_a_printed_number_is_exact_to_half_a_unit_of_its_last_digit(self, text: str, error: float) -> None:
        published = Published.number(text)
        assert (published.high - published.low) / 2 == pytest.approx(error)
        assert published.value == float(text)

    def test_a_plain_table_has_a_cell_for_each_column(self) -> None:
        table = PlainTable("t", "T", ("a", "b"), (("x", Quantity(math.nan)), (HOSTILE, Quantity(1.0, 0.5, 2.0))))
        assert table.cells() == [["x", "none"], [HOSTILE, "1.000 [0.500, 2.000]"]]
        assert table.frame().columns == ["a", "b", "b_lower", "b_upper"]
        assert PlainTable("t", "T", ("a",), ()).frame().is_empty()


class Extreme(Crafted):
    """Rows without numbers, under any name."""

    def tables(self, results: Results) -> list[StudyTable]:
        none = Quantity(math.nan, math.inf, -math.inf, self.word)
        rows = (
            StudyRow(self.word, Published.number("1"), none, {self.word: none}, note=self.word),
            StudyRow(self.word, Published.nothing(self.word), Quantity(math.inf), {self.word: Quantity(1e300)}),
            StudyRow(self.word, Published.between(0, 1, self.word), None),
        )
        plain = PlainTable("below", self.word, (self.word, "b"), ((self.word, none),), self.word)
        drawn = [chart(self.word, y=math.nan) for chart in CHARTS]
        own = StudyTable("table-1", self.word, rows, self.word, tuple(drawn), (plain,))
        return [own, *super().tables(results)[1:]]


MARKUP = [
    "# heading",
    "- item",
    "1. item",
    "2) item",
    "=====",
    "    code",
    "> quote",
    "~~gone~~",
    "&lt;b&gt;",
    "![a](b)",
    HOSTILE,
]


@pytest.mark.parametrize("word", ["plain", HOSTILE, "__proto__", ""])
def test_every_file_of_a_study_is_written(tmp_path: Path, word: str) -> None:
    report = run(Extreme(word), out=tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nan" not in re.findall(r'data-value="([^"]*)"', page)
    assert report.counts[Agreement.NOT_MEASURED] == 3
    assert pl.read_csv(tmp_path / "tables" / "table-1.csv").height == 3


@pytest.mark.parametrize("word", MARKUP)
def test_names_are_text_in_markdown(tmp_path: Path, word: str) -> None:
    parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    plain, hostile = (Shape(parser.render(markdown(run(Extreme(one), out=None)))) for one in ("plain", word))
    assert hostile.elements == plain.elements
    told = " ".join("".join(hostile.texts).split())
    assert told.count(" ".join(word.split())) >= "".join(plain.texts).count("plain") // 2


def test_a_line_of_latex_never_begins_with_an_argument() -> None:
    made = latex("caption", [("[2pt]", "a"), ("[3pt]", "1"), ("*", "2")])
    assert not re.search(r"(\\\\|rule)\s*[\[*]", made)

"""Tables and charts can be taken away: numbers in full, under names for programs, and no text that could be run."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recaudit import report
from recaudit.report.simulation.page import render_simulation
from report.crafted_runs import Model, accuracy, write_run
from report.crafted_simulations import graded, study_of
from report.test_page import PLAIN, Page, full_run

NODE = shutil.which("node")


class Cells(HTMLParser):
    """The cells of a page's tables, in order: tag, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._open: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th"):
            self._open.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][2].append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            kind, attributes, texts = self._open.pop()
            self.found.append((kind, attributes, " ".join("".join(texts).split())))

    @property
    def numbers(self) -> list[tuple[dict[str, str | None], str]]:
        """The cells that hold numbers."""
        return [
            (attributes, text)
            for kind, attributes, text in self.found
            if kind == "td" and "number" in (attributes.get("class") or "")
        ]

    @property
    def names(self) -> list[str | None]:
        """What programs call the columns."""
        return [attributes.get("data-name") for kind, attributes, _ in self.found if attributes.get("scope") == "col"]


@pytest.fixture(scope="module", params=["audit", "simulation"])
def html(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "simulation":
        return render_simulation(study_of(graded()))
    return report.render(full_run(tmp_path_factory.mktemp("run"), PLAIN))


class TestTables:
    def test_each_scrolls_by_keyboard_under_a_name(self, html: str) -> None:
        page = Page(html)
        frames = [own for tag, own in page.elements if (own.get("class") or "").split(" ")[0] == "table"]
        regions = [own for tag, own in page.elements if own.get("class") == "scroll"]
        assert len(frames) == len(regions) == [tag for tag, _ in page.elements].count("table") > 2
        assert all(own["tabindex"] == "0" and own["role"] == "region" and own["aria-label"] for own in regions)

    def test_every_number_that_is_written_is_there_in_full(self, html: str) -> None:
        numbers = Cells(html).numbers
        assert len(numbers) > 15
        for attributes, text in numbers:
            if re.search(r"\d", text):
                float(attributes["data-value"] or "none")
            else:
                assert "data-value" not in attributes, text

    def test_a_number_has_its_interval_and_its_users(self, tmp_path: Path) -> None:
        model = Model("A", [accuracy((0.123456789, 0.1, 0.2), None)])
        cells = Cells(report.render(write_run(tmp_path, [model])))
        full = {"data-value": "0.123456789", "data-lower": "0.1", "data-upper": "0.2", "data-users": "100"}
        found = next(own for own, text in cells.numbers if text.startswith("0.123"))
        assert {name: value for name, value in found.items() if name != "class"} == full
        assert cells.names[:4] == ["model", "rmse", "mae", "ndcg"]

    def test_a_number_that_is_only_bounded_says_so(self, tmp_path: Path) -> None:
        told = accuracy((0.3, 0.2, 0.4))
        bounded = told.tables["summary"].with_columns(status=pl.lit("bounded"))
        model = Model("A", [type(told)(told.kind, told.settings, {**told.tables, "summary": bounded})])
        found = [own for own, text in Cells(report.render(write_run(tmp_path, [model]))).numbers if "0.300" in text]
        assert {own["data-status"] for own in found} == {"bounded"}


def test_charts_under_the_same_heading_have_titles_of_their_own(tmp_path: Path) -> None:
    page = Page(report.render(full_run(tmp_path, PLAIN)))
    titles = [own.get("data-title") for _, own in page.elements if own.get("class") == "chart"]
    told = [title for title in titles if title]
    assert len(told) == len(set(told)) > 4


def test_the_policy_allows_what_downloads_need_and_no_more(html: str) -> None:
    policy = next(own["content"] for _, own in Page(html).elements if "http-equiv" in own) or ""
    assert re.sub("sha256-[^']+", "sha256", policy).split("; ") == [
        "default-src 'none'",
        "script-src 'sha256'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]


STUBS = """
const cell = ([tagName, textContent, dataset, reason]) => ({
  tagName, textContent, dataset, querySelector: () => (reason ? { title: reason } : null),
});
const row = (cells) => ({ cells: cells.map(cell) });
const [head, ...body] = JSON.parse(process.argv[1]);
process.stdout.write(csv(tableRows({ tHead: { rows: [row(head)] }, tBodies: [{ rows: body.map(row) }] })));
"""


def written(*rows: list[tuple[Any, ...]]) -> str:
    """The file of a table of these cells: tag, text, data attributes, and why there is no number."""
    script = (resources.files("recaudit.report") / "templates" / "downloads.js").read_text(encoding="utf-8")
    assert NODE is not None
    command = [NODE, "-e", script + STUBS, json.dumps(rows)]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()


def column(*texts: str) -> list[str]:
    """A column of text as a spreadsheet reads it back from the file."""
    lines = written([("TH", "title", {})], *([("TH", text, {})] for text in texts))
    return [line[0] for line in csv.reader(io.StringIO(lines, newline=""))][1:]


@pytest.mark.skipif(NODE is None, reason="needs node")
class TestFiles:
    def test_numbers_are_in_full_and_what_is_missing_is_empty_with_its_reason(self) -> None:
        text = written(
            [("TH", "Model", {"name": "model"}), ("TH", "RMSE", {"name": "rmse"})],
            [("TH", "A", {}), ("TD", "best 0.123 [0.1, 0.2]", {"value": "0.123456", "lower": "-0.1", "upper": "2e-7"})],
            [("TH", "B", {}), ("TD", "n/a", {}, "not measured")],
        )
        assert text.splitlines() == [
            "model,rmse,rmse_lower,rmse_upper,rmse_missing",
            "A,0.123456,-0.1,2e-7,",
            "B,,,,not measured",
        ]
        assert pl.read_csv(text.encode()).dtypes[1:4] == [pl.Float64] * 3

    @pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d"])
    def test_a_title_is_never_a_formula(self, start: str) -> None:
        title = f'{start}HYPERLINK("http://x","y")'
        assert column(title) == [f"'{title}"]

    def test_headings_that_are_names_are_never_formulas(self) -> None:
        assert written([("TH", "=A1", {})], [("TH", "x", {})]).splitlines()[0] == "'=A1"

    def test_numbers_among_the_names_stay_numbers(self) -> None:
        assert column("-5", "+1.5e-3", "-.5", "-1+1") == ["-5", "+1.5e-3", "-.5", "'-1+1"]

    def test_text_comes_back_as_it_was(self) -> None:
        titles = ['Say "when", he said', "a;b", "Am\N{LATIN SMALL LETTER E WITH ACUTE}lie", "2001: A Space Odyssey"]
        assert column(*titles) == titles

    def test_space_and_line_ends_within_a_cell_are_one_space(self) -> None:
        assert column("\n  a\r\n\t b  ") == ["a b"]

    def test_a_drawing_is_no_column(self) -> None:
        drawing: tuple[Any, ...] = ("TD", "", {})
        text = written([("TH", "item", {}), drawing], [("TH", "A", {}), drawing])
        assert text.splitlines() == ["item", "A"]

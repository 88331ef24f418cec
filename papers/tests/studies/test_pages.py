"""What a study leaves for readers says the same in every format, and is text whatever names are in it."""

from __future__ import annotations

import struct
from pathlib import Path

import polars as pl
import pytest

from recaudit_papers.studies import Results, StudyReport, StudyTable, run
from recaudit_papers.studies.pages import latex
from studies.crafted_study import HOSTILE, Crafted, Shape


def carried_out(path: Path, word: str = "plain") -> StudyReport:
    return run(Crafted(word), out=path)


def test_the_folder_has_everything(tmp_path: Path) -> None:
    report = carried_out(tmp_path)
    assert report.page == tmp_path / "report.html"
    tables = {path.name for path in (tmp_path / "tables").iterdir()}
    names = ("table-1", "table-1-ladder", "below-sums")
    assert tables == {f"{name}.{kind}" for name in names for kind in ("csv", "tex")}
    picture = (tmp_path / "pictures" / "table-1-1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">I", picture[16:20])[0] > 400


def test_numbers_are_numbers_in_the_files(tmp_path: Path) -> None:
    report = carried_out(tmp_path)
    rows = pl.read_csv(tmp_path / "tables" / "table-1.csv")
    assert rows["value"].to_list() == [0.96, 0.2, None]
    assert rows["agreement"].to_list() == ["disagrees, explained", "agrees", "not measured"]
    rungs = pl.read_csv(tmp_path / "tables" / "table-1-ladder.csv")
    assert rungs["value"].to_list() == [0.9, 0.83]
    assert rungs["upper"].to_list() == [None, 0.84]
    assert pl.read_csv(tmp_path / "tables" / "below-sums.csv").rows() == [
        ("plain", 7.5, 7, 8),
        ("b", 2.5, None, None),
    ]
    assert report.verdict == "3 rows: agrees 1; disagrees, explained 1; not measured 1."


@pytest.mark.parametrize("name", ["report.html", "study.md"])
def test_a_page_says_what_stands_beside_what(tmp_path: Path, name: str) -> None:
    carried_out(tmp_path)
    text = (tmp_path / name).read_text(encoding="utf-8").replace("\\", "").replace("\N{NO-BREAK SPACE}", " ")
    for said in (
        "0.827",
        "0.960",
        "[0.950, 0.970]",
        "+0.133",
        "it rises",
        "no data",
        "Noted: plain",
        "About it.",
        "Sums of plain",
        "7.500",
    ):
        assert said in text
    assert "0.830 [0.820, 0.840] with all changes up to: their model." in text
    assert "recaudit study crafted --size quick" in text
    assert "second" in text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    carried_out(tmp_path / "plain")
    carried_out(tmp_path / "hostile", HOSTILE)
    plain, hostile = (
        Shape((tmp_path / name / "report.html").read_text(encoding="utf-8")) for name in ("plain", "hostile")
    )
    assert hostile.elements == plain.elements
    assert HOSTILE in hostile.texts
    lines = [
        len(
            [
                line
                for line in (tmp_path / name / "study.md").read_text(encoding="utf-8").splitlines()
                if line.startswith("|")
            ]
        )
        for name in ("plain", "hostile")
    ]
    assert lines[0] == lines[1]
    assert "| <script" not in (tmp_path / "hostile" / "study.md").read_text(encoding="utf-8")
    assert pl.read_csv(tmp_path / "hostile" / "tables" / "table-1.csv")["row"][0] == HOSTILE


def test_latex_escapes_what_it_would_read() -> None:
    made = latex("caption", [("", "a"), (HOSTILE, "1")])
    assert r"a|b *c* $<$script$>$alert(1)$<$/script$>$ \& 50\% \$x\_1\textasciicircum{}2\$" in made
    assert made.count(r"\end{tabular}") == 1
    assert made.count("&") - made.count(r"\&") == 2


def test_what_is_no_longer_there_is_taken_away(tmp_path: Path) -> None:
    carried_out(tmp_path)

    class Shorter(Crafted):
        def tables(self, results: Results) -> list[StudyTable]:
            return super().tables(results)[1:]

    run(Shorter(), out=tmp_path)
    assert not (tmp_path / "tables" / "table-1.csv").exists()
    assert not list((tmp_path / "pictures").glob("*"))

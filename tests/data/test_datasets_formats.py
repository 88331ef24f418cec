from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from recaudit.data import datasets
from recaudit.data.datasets.formats import Layout, read_file
from recaudit.errors import DataError

NUMBERS = Layout(("user", "item", "rating"), keep={"user": pl.Int32, "rating": pl.Float64}, ranges={"rating": (1, 5)})
TEXT = Layout(
    ("id", "name", "note"),
    keep={"id": pl.Int32, "name": pl.String, "note": pl.String},
    optional=frozenset({"note"}),
)
QUOTED = replace(TEXT, separator=",", header=True, quoted=True)


def file(folder: Path, text: str | bytes) -> Path:
    path = folder / "a.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- what is read ---------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_characters='"\t:,\r\n\x00'), min_size=1, max_size=8)
NUMBER_ROWS = st.lists(
    st.tuples(st.integers(-9, 2**31 - 1), st.integers(0, 9), st.sampled_from([1, 2.5, 5])),
    min_size=1,
    max_size=9,
)
TEXT_ROWS = st.lists(st.tuples(st.integers(0, 99), WORDS, WORDS | st.just("")), min_size=1, max_size=9)


@given(rows=NUMBER_ROWS, separator=st.sampled_from(["\t", "::", "|"]), end=st.sampled_from(["\n", "\r\n"]))
def test_numbers_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, float]], separator: str, end: str
) -> None:
    path = file(tmp_path_factory.getbasetemp(), "".join(separator.join(map(str, r)) + end for r in rows))
    layout = replace(NUMBERS, separator=separator)
    expected = pl.DataFrame(
        {"user": [r[0] for r in rows], "rating": [float(r[2]) for r in rows]},
        schema_overrides={"user": pl.Int32},
    )
    assert_frame_equal(read_file(path, layout), expected)


@given(rows=TEXT_ROWS)
def test_text_is_read_as_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, str]]) -> None:
    path = file(tmp_path_factory.getbasetemp(), "".join("\t".join(map(str, r)) + "\n" for r in rows))
    assert read_file(path, TEXT).rows() == [(number, name, note or None) for number, name, note in rows]


def test_quotes_enclose_commas_quotes_and_lines(tmp_path: Path) -> None:
    path = file(tmp_path, 'id,name,note\n1,"a, ""b""",x\n2,"two\nlines",\n')
    assert read_file(path, QUOTED).rows() == [(1, 'a, "b"', "x"), (2, "two\nlines", None)]


def test_lines_without_text_are_passed_over(tmp_path: Path) -> None:
    path = file(tmp_path, "1\t2\t3\n\n4\t5\t5\n\n")
    assert read_file(path, NUMBERS).rows() == [(1, 3.0), (4, 5.0)]


def test_a_last_line_may_lack_its_end(tmp_path: Path) -> None:
    assert read_file(file(tmp_path, "1\t2\t3\n4\t5\t5"), NUMBERS).rows() == [(1, 3.0), (4, 5.0)]


# ---- an error names the file, the line and the remedy --------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "text", "line", "received"),
    [
        pytest.param(NUMBERS, "1\t2\t3\nx\t2\t3\n", 2, "'x'", id="text for a number"),
        pytest.param(NUMBERS, "1\t2\t3\n\n\t2\t3\n", 3, "''", id="nothing for a number, after an empty line"),
        pytest.param(NUMBERS, "1\t2\t3\n1\t2\t6\n", 2, "'6'; expected a rating from 1 to 5", id="out of range"),
        pytest.param(NUMBERS, "1\t2\t3\n4\t5\n6\t7\t1\n", 2, r"'4\\t5'; expected 3 columns", id="too few"),
        pytest.param(NUMBERS, "1\t2\t3\n1\t2\t3\t4\n", 2, r"'1\\t2\\t3\\t4'; expected 3", id="too many"),
        pytest.param(NUMBERS, "99999999999\t2\t3\n", 1, "'99999999999'", id="too large"),
        pytest.param(replace(NUMBERS, separator="::"), "1::2::3\n1:2::3::\n", 2, "'1:2'", id="one colon"),
        pytest.param(replace(NUMBERS, separator="::"), "1::2::3\n1:x:2::3\n", 2, "'1:x:2::3'", id="between"),
        pytest.param(TEXT, "1\ta\tb\n2\tc\td\n3\te", 3, r"'3\\te'; expected 3 columns", id="cut off"),
        pytest.param(TEXT, b"1\ta\tb\n2\t\xff\tb\n", 2, "text in utf-8", id="not UTF-8"),
        pytest.param(TEXT, "1\ta\tb\n2\t\tb\n", 2, "some text in the column 'name'", id="no text"),
        pytest.param(QUOTED, 'id,name,note\n1,a,b\n2,"a', 3, "quotes that open and close", id="open quote"),
        pytest.param(QUOTED, 'id,name,note\n1,"a\nb",c\n2,a\n', 4, "'2,a'", id="after a field of two lines"),
        pytest.param(QUOTED, "id;name;note\n1;a;b\n", 1, "the header 'id,name,note'", id="another header"),
        pytest.param(QUOTED, "", 1, "the header 'id,name,note'", id="no header"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, layout: Layout, text: str | bytes, line: int, received: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(DataError, match=rf"a\.txt, line {line}: received .*{received}.* from the archive again"):
        read_file(path, layout)


def test_a_wrong_line_far_down_is_named(tmp_path: Path) -> None:
    lines = ["1\t2\t3\n"] * 120_000
    lines[110_000] = "1\t2\t\n"
    with pytest.raises(DataError, match="line 110,001: "):
        read_file(file(tmp_path, "".join(lines)), NUMBERS)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"a\.txt: received no records"):
        read_file(file(tmp_path, text), NUMBERS)


def test_a_value_out_of_a_list_is_named(tmp_path: Path) -> None:
    layout = Layout(("id", "kind"), keep={"id": pl.Int32, "kind": pl.Enum(["0", "1"])})
    with pytest.raises(DataError, match=r"line 2: received '7'; expected one of 0, 1"):
        read_file(file(tmp_path, "5\t1\n6\t7\n"), layout)


# ---- in a data set -------------------------------------------------------------------------------------


def movielens(folder: Path, **files: str) -> Path:
    contents = {"ratings.dat": "1::1::5::9\n1::2::3::9\n", "movies.dat": "1::A::Drama\n2::B::Drama\n"}
    contents |= {"users.dat": "1::F::1::10::48067\n"}
    folder.mkdir(exist_ok=True)
    for name, text in {**contents, **{f"{stem}.dat": text for stem, text in files.items()}}.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ratings": "1::1::5::9\n1::2::3"}, r"ratings\.dat, line 2: received '1::2::3'"),
        ({"ratings": "1::1::5::9\n1::2::7::9\n"}, r"ratings\.dat, line 2: .* a rating from 1 to 5"),
        ({"movies": "1::A::Drama\n2::B"}, r"movies\.dat, line 2: received '2::B'"),
        ({"users": "1::F::1::21::48067\n"}, r"users\.dat, line 1: received '21'; expected one of 0, 1"),
        ({"ratings": "1::1::5::9\n1::1::3::9\n"}, r"ml-1m: received files that make no log \(.*rows 0 and 1"),
    ],
)
def test_a_damaged_data_set_says_where(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        datasets.load("ml-1m", movielens(tmp_path / "ml-1m", **files))


@pytest.mark.parametrize("shown", ["N1-0 N2", "N1-0 N2-1 N3-", "N1-0  N2-1"])
def test_a_mind_impression_without_a_label_is_named(tmp_path: Path, shown: str) -> None:
    (tmp_path / "news.tsv").write_text("N1\tnews\tpolitics\ttitle\tabout\turl\t[]\t[]\n")
    (tmp_path / "behaviors.tsv").write_text(f"1\tU1\ttime\tN1\tN1-1\n2\tU1\ttime\tN1\t{shown}\n")
    with pytest.raises(DataError, match=r"behaviors\.tsv, line 2: .* every article shown as N1-0"):
        datasets.load("mind-small", tmp_path)


def test_mind_files_that_do_not_belong_together_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "news.tsv").write_text("N1\tnews\tpolitics\ttitle\tabout\turl\t[]\t[]\n")
    (tmp_path / "behaviors.tsv").write_text("1\tU1\ttime\tN5\tN6-1\n")
    with pytest.raises(DataError, match=r"no click on any article of news\.tsv.* from the same archive"):
        datasets.load("mind-small", tmp_path)

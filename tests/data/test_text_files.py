"""Text files in any layout are read as they are; what cannot be read is named by its line, with the option for it."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions, read, records
from recaudit.errors import DataError, InputError

ROWS = [("ada", "café", 5.0), ("ada", "tea", 3.0), ("bob", "tea", 1.0)]


def text(separator: str = ",", header: str = "user,item,rating") -> str:
    lines = [separator.join(map(str, row)) for row in ROWS]
    return "\n".join([*([header.replace(",", separator)] if header else []), *lines]) + "\n"


@pytest.fixture
def expected() -> Interactions:
    return Interactions.from_frame(pl.DataFrame(ROWS, schema=["user", "item", "rating"], orient="row"))


NUMBERED: dict[str, Any] = {"header": False, "user": 0, "item": 1, "rating": 2}


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("log.csv", text(), {}),
        ("log.CSV", text(), {}),
        ("log.tsv", text("\t"), {}),
        ("log.dat", text("::"), {}),
        ("log.dat", text("::", ""), NUMBERED),
        ("log.txt", text(";"), {"separator": ";"}),
        ("log.txt", text(" "), {"separator": " "}),
        ("log", text("||"), {"separator": "||"}),
        ("log.csv", text("<=>"), {"separator": "<=>"}),
        ("log.csv", text(header=""), NUMBERED),
        ("log.csv", text(header="rating,user,user"), {"user": 0, "item": 1, "rating": 2}),
        ("log.csv", text().encode("latin-1"), {"encoding": "latin-1"}),
        ("log.csv", text().encode("utf-16"), {"encoding": "utf-16"}),
        ("log.csv", text().encode("utf-8-sig"), {}),
        ("log.dat", text("::").encode("cp1252"), {"encoding": "cp1252"}),
        ("log.csv", text().replace("café", '"café"').replace("ada", '"ada"'), {}),
        ("log.csv", text().replace("\n", "\r\n"), {}),
        ("log.csv", "\n" + text().replace("\n", "\n\n"), {}),
        ("log.csv", text().replace("5.0", " 5.0 "), {}),
        ("log.csv", text().replace("tea", '"tea"'), {}),
        ("log.csv", text().removesuffix("\n"), {}),
    ],
)
def test_every_layout_gives_the_same_log(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], expected: Interactions
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = read(path, **options)
    assert data.frame().rows() == expected.frame().rows()


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("1,2,3\n4,5\n", {}, r"line 3: received '4,5'; expected 3 columns.*not 2.*on_error = 'skip'"),
        ("1,2,3\n\n4,5,6,7\n", {}, r"line 4: received '4,5,6,7'; expected 3 columns"),
        ("1,2,3\n4,5,bad\n", {}, r"line 3: received '4,5,bad'; expected a finite number in column 'rating', not 'bad'"),
        ("1,2,3\n4,5,nan\n", {}, r"line 3: received '4,5,nan'; expected a finite number"),
        ("1,2,3\n4,5,\n", {}, r"line 3: received '4,5,'; expected a finite number"),
        ("1,2,3\n,5,6\n", {}, r"line 3: received ',5,6'; expected an id in column 'user'"),
        ("1,2,3\n4,\x07\x1b[1m,6,7\n", {}, r"line 3: received '4,\\x07\\x1b\[1m,6,7'"),
        (f"1,2,3\n4,{'x' * 500},6,7\n", {}, r"line 3: received '4,x{78}\.\.\.'"),
        ('1,2,3\n4,"x,6\n7,8,9\n', {}, r"line 3: received '4,\"x,6'.*Say quotes = false"),
        ('1,2,3\n4,"x" y,6\n', {}, r"line 3: .*Say quotes = false"),
        (b"1,2,3\n4,caf\xe9,6\n", {}, r"line 3: .*expected text in utf-8. Say encoding = 'latin-1'"),
        ("1,2,3,9\n4,5,6,soon\n", {"time": "time"}, r"line 3: .*expected a time in column 'time', not 'soon'"),
    ],
)
def test_what_cannot_be_read_is_named_by_line(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], told: str
) -> None:
    header = b"user,item,rating" + b",time" * ("time" in options) + b"\n"
    (tmp_path / "log.csv").write_bytes(header + (content if isinstance(content, bytes) else content.encode()))
    with pytest.raises(DataError, match=f"^log.csv, {told}"):
        read(tmp_path / "log.csv", **options)
    with pytest.warns(
        UserWarning, match=r"log.csv: 1 rows could not be read and were skipped, the first at line [34]\."
    ):
        data = read(tmp_path / "log.csv", on_error="skip", **options)
    assert data.facts == {"skipped_rows": 1}
    assert data.frame().rows()[0][:3] == (1, 2, 3.0) or data.frame().rows()[0][:3] == (1, "2", 3.0)


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("user;item;rating\n1;2;3\n", {}, r"column 'user'.*Say separator = ';'"),
        ("1,2,3\n4,5,6\n", {}, r"column 'user'.*say header = false"),
        ("1,2,3\n4,5,6\n", {"header": False}, r"column 'user'.*user = 0, item = 1"),
        ("1,2,3\n4,5,6\n", {"header": False, "user": 7}, r"column 7: .*expected a number below 3"),
        ("user,item,rating\n1,2,3\n", {**NUMBERED}, r"line 1: .*expected a finite number in column 2.*header = true"),
        ("user,item\n1,2\n", {}, r"column 'rating'.*rating = false"),
    ],
)
def test_a_layout_that_is_not_the_files_is_told_with_the_option(
    tmp_path: Path, content: str, options: dict[str, Any], told: str
) -> None:
    (tmp_path / "log.csv").write_text(content)
    with pytest.raises(DataError, match=told):
        read(tmp_path / "log.csv", **options)


def test_an_ending_that_says_nothing_asks_for_the_separator(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("user|item|rating\n1|2|3\n")
    with pytest.raises(DataError, match=r"log.txt, which begins 'user\|item\|rating'.*Say separator = '\|'"):
        read(tmp_path / "log.txt")


def zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("log.csv", content)
    return buffer.getvalue()


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
}


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("file", ["log.csv", "log.csv.gz", "log"])
def test_a_compressed_file_is_refused_with_the_remedy(tmp_path: Path, name: str, file: str) -> None:
    (tmp_path / file).write_bytes(COMPRESSED[name](text().encode()))
    with pytest.raises(DataError, match=f"a file compressed by {name}; expected a text file.*Decompress it first"):
        read(tmp_path / file)


def test_a_quoted_field_may_hold_separators_quotes_and_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text('user,item,rating\n1,"a, ""b""\nc",3\n2,plain,4\n')
    assert read(tmp_path / "log.csv").item_ids.to_list() == ['a, "b"\nc', "plain"]


def test_quotes_as_text(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text('user,item,rating\n1,"Weird Al,3\n2,plain,4\n')
    assert read(tmp_path / "log.csv", quotes=False).item_ids.to_list() == ['"Weird Al', "plain"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["3", "1"], [3, 1]),
        (["3.5", "1"], [3.5, 1.0]),
        (["3", "1.5"], [3.0, 1.5]),
        (["1970-01-01 00:00:01", "1970-01-01T00:00:00"], [1_000_000, 0]),
        (["1970-01-02", "1970-01-01"], [86_400_000_000, 0]),
    ],
)
def test_times_are_numbers_or_dates(tmp_path: Path, times: list[str], expected: list[float]) -> None:
    lines = [f"u,{i},1,{time}" for i, time in enumerate(times)]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,rating,when", *lines]))
    data = read(tmp_path / "log.csv", time="when")
    np.testing.assert_array_equal(data.times, expected)


def test_a_row_without_anything_that_is_wanted_is_no_blank_line(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,rating,note\n1,2,3,\n,,,forgotten\n")
    with pytest.raises(DataError, match="line 3: received ',,,forgotten'"):
        read(tmp_path / "log.csv")


def test_quotes_around_every_field_and_long_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, fields in plain quotes, fields that need the csv module, and times give what polars wrote."""
    draw = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "user": [f" {u}" for u in draw.integers(0, 9, 200)],
            "item": [f'i "{i}"' if i % 3 else f"i, {i}\nb" if i % 2 else f"i {i}" for i in range(200)],
            "rating": draw.normal(size=200),
            "when": [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in draw.integers(0, 99, 200)],
        }
    )
    monkeypatch.setattr(records, "_BLOCK", 7)
    expected = Interactions.from_frame(frame, time="when").fingerprint
    for style in ("necessary", "always", "non_numeric"):
        frame.write_csv(tmp_path / "log.csv", quote_style=style)
        assert read(tmp_path / "log.csv", time="when").fingerprint == expected


def test_the_lines_of_faulty_rows_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_BLOCK", 3)
    lines = [f"{n},i,1" for n in range(20)]
    lines[4], lines[9], lines[15] = '4,"a\nb",1', "9,i", "15,i,x"
    (tmp_path / "log.csv").write_text("\n".join(["user,item,rating", *lines]))
    with pytest.raises(DataError, match=r"log.csv, line 12: received '9,i' \(2 rows cannot be read\); expected 3 col"):
        read(tmp_path / "log.csv")
    with pytest.warns(UserWarning, match=r"2 rows could not be read and were skipped, the first at line 12\."):
        assert read(tmp_path / "log.csv", on_error="skip").user_ids.to_list() == [
            n for n in range(20) if n not in (9, 15)
        ]


def test_utf_16_is_proposed_where_the_file_has_its_mark(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(text().encode("utf-16"))
    with pytest.raises(DataError, match=r"Say encoding = 'utf-16'"):
        read(tmp_path / "log.csv")


@pytest.mark.parametrize(
    "options",
    [{"separator": ""}, {"encoding": "klingon"}, {"user": -1}, {"rating": True}, {"on_error": "hide"}],
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "log.csv").write_text(text())
    with pytest.raises(InputError, match=next(iter(options))):
        read(tmp_path / "log.csv", **options)

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recaudit.data import Interactions, read
from recaudit.errors import DataError

FRAME = pl.DataFrame({"u": ["x", "y", "x"], "i": [1, 1, 2], "r": [1.0, 2.0, 3.0], "junk": ["a", "b", "c"]})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_every_format_gives_the_same_log(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log{suffix}"
    if suffix == ".parquet":
        FRAME.write_parquet(path)
    else:
        FRAME.write_csv(path, separator="," if suffix == ".csv" else "\t")
    expected = Interactions.from_frame(FRAME, user="u", item="i", rating="r")
    assert read(path, user="u", item="i", rating="r").fingerprint == expected.fingerprint


def test_a_path_is_a_name_not_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "run[1]*"
    folder.mkdir()
    FRAME.write_csv(folder / "log.csv")
    assert len(read(folder / "log.csv", user="u", item="i", rating="r")) == 3


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a file that exists"):
        read(tmp_path / "no.csv")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    with pytest.raises(DataError, match="an empty file"):
        read(tmp_path / "log.csv")


def test_a_header_alone(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,rating\n")
    with pytest.raises(DataError, match="no rows"):
        read(tmp_path / "log.csv")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "log.csv")
    with pytest.raises(DataError, match="column 'user'"):
        read(tmp_path / "log.csv")


def test_another_ending(tmp_path: Path) -> None:
    (tmp_path / "log.xlsx").write_text("x")
    with pytest.raises(DataError, match=r"\.csv, \.tsv, \.dat or \.parquet, or to be told"):
        read(tmp_path / "log.xlsx")


def test_a_text_file_that_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_text("user,item,rating\n1,2,3\n")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        read(tmp_path / "log.parquet")


def test_a_parquet_file_that_is_not_text(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.parquet").rename(tmp_path / "log.csv")
    with pytest.raises(DataError, match=r"log.csv|column 'user'"):
        read(tmp_path / "log.csv")


def test_a_row_with_too_many_cells(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,rating\n1,2,3\n1,3,4,5,6\n")
    with pytest.raises(DataError, match=r"log\.csv, line 3: received .1,3,4,5,6.; expected 3 columns"):
        read(tmp_path / "log.csv")


def test_a_column_that_is_nearly_there_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,ratings,when\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"columns 'user', 'item', 'ratings', 'when'.*Did you mean 'ratings'"):
        read(tmp_path / "log.csv")


def test_a_panic_of_the_library_is_an_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.write_parquet(tmp_path / "log.parquet")

    def panics(*_: object, **__: object) -> pl.LazyFrame:
        raise pl.exceptions.PanicException("assertion failed: offset + length")

    monkeypatch.setattr(pl, "scan_parquet", panics)
    with pytest.raises(DataError, match=r"log.parquet, which cannot be read as parquet: assertion failed"):
        read(tmp_path / "log.parquet")

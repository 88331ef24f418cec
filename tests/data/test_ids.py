"""Ids stay what they are: no id is turned into another, wherever one is looked up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from recaudit.audits import rerank
from recaudit.audits.samples import resolve_users
from recaudit.data import Interactions, read
from recaudit.data.lists import given_lists
from recaudit.data.readers import read_table
from recaudit.errors import DataError, InputError
from recaudit.models import from_factors
from recaudit.models.given.arrays import Factors


@pytest.fixture
def numbered() -> Interactions:
    frame = pl.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 1, 3], "rating": [1.0, 2.0, 3.0, 4.0]})
    return Interactions.from_frame(frame)


OTHERS: list[Iterable[object]] = [
    [1.7],
    [1.0],
    [True],
    [np.bool_(True)],
    [np.float64(1)],
    [dt.date(1970, 1, 2)],
    [None],
    ["1"],
    [b"1"],
    [1, "2"],
    pl.Series([1.0]),
    pl.Series([True]),
    pl.Series(["1"]),
    pl.Series([dt.date(1970, 1, 2)]),
    np.array([1.0]),
]


@pytest.mark.parametrize("ids", OTHERS)
def test_another_type_than_the_logs_is_an_error_that_names_both(numbered: Interactions, ids: Iterable[object]) -> None:
    with pytest.raises(DataError, match=r"users: received .*type .*expected ids of the log's type, whole number"):
        numbered.users_at(ids)
    with pytest.raises(DataError, match=r"items: received .*type .*expected ids of the log's type, whole number"):
        numbered.items_at(ids)


def test_numbers_are_no_text(tiny: Interactions) -> None:
    with pytest.raises(DataError, match=r"users: received 1, an id of type int; expected .*text, such as 'ada'"):
        tiny.users_at([1])


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64])
def test_the_width_of_a_whole_number_does_not_matter(numbered: Interactions, kind: Any) -> None:
    assert numbered.users_at([kind(2), 1]).tolist() == [1, 0]
    assert numbered.users_at(np.array([2, 1], dtype=kind)).tolist() == [1, 0]
    assert numbered.users_at(pl.Series(np.array([2, 1], dtype=kind))).tolist() == [1, 0]


@pytest.mark.parametrize("ids", ["123", b"123", 1, None, {1: 2}])
def test_ids_come_in_a_list(numbered: Interactions, ids: Any) -> None:
    with pytest.raises(InputError, match=r"users: received .*expected a list"):
        numbered.users_at(ids)
    if ids not in (1, None):  # how many to draw, and all of them
        with pytest.raises(InputError, match=r"users: received"):
            resolve_users(ids, numbered, 0)


def test_a_number_is_how_many_and_a_truth_is_none(numbered: Interactions) -> None:
    some = resolve_users(2, numbered, 0)
    assert some.tolist() == resolve_users(np.int32(2), numbered, 0).tolist()  # type: ignore[arg-type]
    assert len(some) == 2
    with pytest.raises(InputError, match=r"users: received True"):
        resolve_users(True, numbered, 0)


def test_a_number_beyond_64_bits_is_in_no_log(numbered: Interactions) -> None:
    with pytest.raises(DataError, match=r"received 100000000000000000000; expected ids that are in the log"):
        numbered.users_at([10**20])


@pytest.mark.parametrize("column", [[1.7, 2.2], [1.0, 2.0], [True, False], ["1", "2"], [dt.date(1970, 1, 2)] * 2])
def test_what_is_known_about_items_and_users_comes_under_the_same_type(numbered: Interactions, column: Any) -> None:
    frame = pl.DataFrame({"id": column, "name": ["x", "y"]})
    expected = r"column 'id': received ids of type .*expected ids of the log's type, whole number"
    with pytest.raises(DataError, match=expected):
        numbered.with_items(frame, item="id", title="name", unknown="ignore")
    with pytest.raises(DataError, match=expected):
        numbered.with_users(frame, user="id", attributes=["name"], unknown="ignore")
    with pytest.raises(DataError, match=expected):
        numbered.with_categories("genre", frame, item="id", category="name", unknown="ignore")


def test_lists_come_under_the_same_type(numbered: Interactions) -> None:
    data = numbered.with_categories("genre", pl.DataFrame({"item": [1], "category": ["x"]}))
    lists = pl.DataFrame({"user": ["1"], "item": [1], "rank": [1]})
    with pytest.raises(DataError, match=r"column 'user': received ids of type text, such as '1'"):
        given_lists(lists, data)
    with pytest.raises(DataError, match=r"column 'user': received ids of type Float64, such as 1.0"):
        given_lists(lists.with_columns(user=1.0), data)
    with pytest.raises(DataError, match=r"column 'item': received ids of type text, such as 'x'"):
        rerank(lists.with_columns(user=1, item=pl.lit("x")), data)


def test_vectors_come_under_the_same_type(numbered: Interactions, tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "user_factors": np.ones((3, 2)),
        "item_factors": np.ones((3, 2)),
        "item_ids": np.array([1, 2, 3]),
    }
    for ids, told in ((np.array(["1", "2", "3"]), "str"), (np.array([1.0, 2.0, 3.0]), "float64")):
        np.savez(tmp_path / "m.npz", user_ids=ids, **parts)
        with pytest.raises(DataError, match=rf"user_ids'?: received .*{told}"):
            Factors(path=tmp_path / "m.npz", predicts_ratings=False).fit(numbered)
    np.savez(tmp_path / "m.npz", user_ids=np.array([3, 1, 2], dtype=np.int32), **parts)
    assert Factors(path=tmp_path / "m.npz", predicts_ratings=False).fit(numbered).scores(np.array([0])).shape == (1, 3)
    assert from_factors(np.ones((3, 2)), np.ones((3, 2)), numbered, predicts_ratings=False).mean == 0


class TestFrames:
    def test_floats_are_ids_only_where_no_two_could_be_one(self) -> None:
        frame = pd.DataFrame({"user": [1.0, 2.0], "item": [1, 2], "rating": [1, 2]})
        assert Interactions.from_frame(frame).user_ids.to_list() == [1, 2]
        for value in (1.5, 2.0**53 + 2, float("inf"), 1e308):
            with pytest.raises(DataError, match=r"column 'user': received row 1"):
                Interactions.from_frame(frame.assign(user=[1.0, value]))

    @pytest.mark.parametrize("ids", [pl.Series([2**63, 1], dtype=pl.UInt64), pl.Series([2**70, 1], dtype=pl.Int128)])
    def test_numbers_beyond_64_bits(self, ids: pl.Series) -> None:
        frame = pl.DataFrame({"user": ids, "item": [1, 2], "rating": [1, 2]})
        with pytest.raises(DataError, match=r"column 'user': received row 0: .*at most 64 bits"):
            Interactions.from_frame(frame)


class TestTextFiles:
    def write(self, path: Path, users: list[str], separator: str = ",") -> Path:
        rows = [separator.join((user, f"{item}", "3")) for item, user in enumerate(users)]
        path.write_text("\n".join([separator.join(("user", "item", "rating")), *rows]) + "\n")
        return path

    @pytest.mark.parametrize(
        ("users", "ids"),
        [
            (["007", "7"], ["007", "7"]),
            (["1", "1.0"], ["1", "1.0"]),
            (["1e5", "100000"], ["100000", "1e5"]),
            (["+1", "1"], ["+1", "1"]),
            (["-0", "0"], ["-0", "0"]),
            (["1.0", "2.0"], ["1.0", "2.0"]),
            (["true", "false"], ["false", "true"]),
            (["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
            (["99999999999999999999", "1"], ["1", "99999999999999999999"]),
            (["10", "9"], [9, 10]),
            (["-5", "0"], [-5, 0]),
        ],
    )
    @pytest.mark.parametrize("suffix", [".csv", ".tsv"])
    def test_ids_are_text_unless_all_are_plain_whole_numbers(
        self, tmp_path: Path, users: list[str], ids: list[object], suffix: str
    ) -> None:
        path = self.write(tmp_path / f"log{suffix}", users, "," if suffix == ".csv" else "\t")
        assert read(path).user_ids.to_list() == ids

    def test_other_files_follow_the_log(self, tmp_path: Path) -> None:
        log = read(self.write(tmp_path / "log.csv", ["007", "8"]))
        people = tmp_path / "people.csv"
        people.write_text("user,age\n8,30\n")
        data = log.with_users(read_table(people, {"user": log.user_ids}), attributes=["age"])
        assert data.attributes["age"].to_list() == [None, 30]

    def test_a_word_among_numbers_is_named(self, tmp_path: Path) -> None:
        log = read(self.write(tmp_path / "log.csv", ["7", "8"]))
        people = tmp_path / "people.csv"
        people.write_text("user,age\n7,20\nnobody,30\n")
        with pytest.raises(DataError, match=r"type text, such as 'nobody'; expected .*whole number"):
            log.with_users(read_table(people, {"user": log.user_ids}), attributes=["age"], unknown="ignore")

    def test_two_columns_of_one_name(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_text("user,item,rating,user\n1,2,3,4\n")
        with pytest.raises(DataError, match=r"log.csv, column 'user'.*Several columns have this name"):
            read(path)

"""Users and items without ratings are part of the log where they are said to be."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.data.catalogue import extended, joined
from recaudit.errors import DataError, InputError

FRAME = pl.DataFrame({"user": ["ada", "ada", "bob"], "item": [30, 10, 10], "rating": [5.0, 3.0, 1.0]})


@pytest.mark.parametrize(
    "items", [[20, 40], pl.Series([20, 40, 40]), pd.Series([10, 20, 40]), np.array([40, 20]), (i for i in (20, 40))]
)
def test_items_that_nobody_rated_are_in_the_catalogue(items: Iterable[object]) -> None:
    data = Interactions.from_frame(FRAME, items=items)
    assert data.item_ids.to_list() == [10, 20, 30, 40]
    assert data.item_counts.tolist() == [2, 0, 1, 0]
    assert data.frame().rows() == [("ada", 10, 3.0), ("ada", 30, 5.0), ("bob", 10, 1.0)]


def test_users_without_ratings_are_there_too() -> None:
    data = Interactions.from_frame(FRAME, users=["aaa", "bob", "zoe"])
    assert data.user_ids.to_list() == ["aaa", "ada", "bob", "zoe"]
    assert data.user_counts.tolist() == [0, 2, 1, 0]
    assert data.users_at(["zoe"]).tolist() == [3]


def test_the_rated_ones_alone_change_nothing() -> None:
    data = Interactions.from_frame(FRAME)
    assert Interactions.from_frame(FRAME, items=[10, 30], users=["ada"]).fingerprint == data.fingerprint


def test_an_id_of_another_type_or_none_at_all_is_refused() -> None:
    with pytest.raises(DataError, match=r"items: received '20', an id of type str; expected .*whole number"):
        Interactions.from_frame(FRAME, items=["20"])
    with pytest.raises(DataError, match=r"column 'users': received row 0: ''.*expected an id"):
        Interactions.from_frame(FRAME, users=[" ".strip()])
    with pytest.raises(InputError, match=r"items: received '20'; expected a list"):
        Interactions.from_frame(FRAME, items="20")


def described(data: Interactions) -> Interactions:
    films = pl.DataFrame({"item": [10, 30], "title": ["Alien", "Casablanca"], "genre": ["horror|sci-fi", "drama"]})
    people = pl.DataFrame({"user": ["bob", "ada"], "region": ["south", "north"]})
    data = data.with_items(films, title="title", categories={"genre": "genre"}, unknown="ignore")
    return data.with_users(people, attributes=["region"], unknown="ignore")


def test_what_is_known_about_users_and_items_stays_theirs() -> None:
    late = extended(described(Interactions.from_frame(FRAME)), items=[5, 20], users=["abe"])
    early = described(Interactions.from_frame(FRAME, items=[5, 20], users=["abe"]))
    assert late.fingerprint == early.fingerprint
    assert late.item_labels(np.arange(4)) == ["5", "Alien", "20", "Casablanca"]
    np.testing.assert_array_equal(late.categories["genre"].weights.toarray().sum(axis=1), [0, 1, 0, 1])


def test_two_logs_become_one_over_the_users_and_items_of_both() -> None:
    one = described(Interactions.from_frame(FRAME, scale=(1, 5)))
    rows = pl.DataFrame({"user": ["bob", "zoe"], "item": [30, 7], "rating": [2.0, 10.0]})
    films = pl.DataFrame({"item": [30, 7], "title": ["other", "Seven"], "genre": ["comedy", "crime"]})
    other = Interactions.from_frame(rows).with_items(films, title="title", categories={"genre": "genre"})
    whole, held = joined(one, other)
    assert whole.item_ids.to_list() == [7, 10, 30]
    assert whole.subset(~held).frame().rows() == one.frame().rows()
    assert whole.subset(held).frame().rows() == rows.rows()
    assert whole.scale == (1.0, 10.0)
    assert whole.titles is not None
    assert whole.titles.to_list() == ["Seven", "Alien", "Casablanca"]
    genre = whole.categories["genre"]
    assert genre.names == ("crime", "drama", "horror", "sci-fi")
    np.testing.assert_array_equal(genre.weights.toarray(), [[1, 0, 0, 0], [0, 0, 0.5, 0.5], [0, 1, 0, 0]])
    assert whole.attributes["region"].to_list() == ["north", "south", None]


def test_a_pair_in_both_logs_is_named() -> None:
    data = Interactions.from_frame(FRAME)
    with pytest.raises(DataError, match=r"test: received user 'ada' with item 10, .*\(3 of 3 rows\)"):
        joined(data, data)


def test_times_in_one_log_only_are_refused() -> None:
    timed = Interactions.from_frame(FRAME.with_columns(item=pl.col("item") + 1, time=1), time="time")
    with pytest.raises(DataError, match="times in both"):
        joined(timed, Interactions.from_frame(FRAME))

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.data import Interactions
from recaudit.errors import InputError


def edited(data: Interactions, user: int, items: list[int], ratings: list[float]) -> Interactions:
    return data.with_ratings(user, np.array(items, dtype=np.int64), np.array(ratings))


def test_old_ratings_change_and_keep_their_time_new_ones_come_last(tiny: Interactions) -> None:
    """ada rated a 5, b 3, c 1; her b becomes 4 and d is new. The latest time of the log is 30."""
    assert edited(tiny, 0, [3, 1], [2.0, 4.0]).frame().rows() == [
        ("ada", "a", 5.0, 10),
        ("ada", "b", 4.0, 20),
        ("ada", "c", 1.0, 30),
        ("ada", "d", 2.0, 30),
        ("bob", "a", 2.0, 10),
        ("bob", "b", 4.0, 20),
        ("cem", "d", 5.0, 5),
    ]


def test_the_log_itself_stays_and_ids_keep_their_positions(tiny: Interactions) -> None:
    before = tiny.fingerprint
    changed = edited(tiny, 2, [0], [1.0])
    assert replace(tiny).fingerprint == before
    assert changed.user_ids.equals(tiny.user_ids)
    assert changed.item_ids.equals(tiny.item_ids)
    assert changed.user_counts.tolist() == [3, 2, 2]
    assert changed.item_counts.tolist() == [3, 2, 1, 1]


def test_the_views_follow(tiny: Interactions) -> None:
    assert tiny.csr.nnz == 6  # cached before the edit
    dense = np.array([[5, 3, 1, 0], [2, 4, 3, 0], [0, 0, 0, 5]], dtype=float)
    changed = edited(tiny, 1, [2], [3.0])
    np.testing.assert_array_equal(changed.csr.toarray(), dense)
    np.testing.assert_array_equal(changed.csc.toarray(), dense)
    with pytest.raises(ValueError, match="read-only"):
        changed.ratings[0] = 3


def test_the_same_ratings_or_none_change_nothing(tiny: Interactions) -> None:
    assert edited(tiny, 0, [0, 2], [5.0, 1.0]).fingerprint == tiny.fingerprint
    assert edited(tiny, 0, [], []).fingerprint == tiny.fingerprint


def test_a_log_without_times_or_without_rows(tiny: Interactions) -> None:
    untimed = Interactions.from_frame(tiny.frame(), scale=(1, 5))
    assert edited(untimed, 2, [1], [2.0]).frame().rows()[-2:] == [("cem", "b", 2.0), ("cem", "d", 5.0)]
    empty = tiny.subset(np.zeros(len(tiny), dtype=bool))
    assert edited(empty, 1, [1], [2.0]).frame().rows() == [("bob", "b", 2.0, 0)]


@settings(max_examples=50)
@given(st.data())
def test_an_edit_is_the_log_built_from_the_edited_frame(data: st.DataObject) -> None:
    pairs = data.draw(st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 5)), st.integers(1, 5), min_size=1))
    # Every user and item has a row, so that both logs know the same ids.
    rows = {(u, u): 3 for u in range(5)} | {(0, i): 2 for i in range(6)} | pairs
    new = data.draw(st.dictionaries(st.integers(0, 5), st.integers(1, 5)))
    user = data.draw(st.integers(0, 4))

    def log(ratings: dict[tuple[int, int], int]) -> Interactions:
        users, items = zip(*ratings, strict=True)
        frame = pl.DataFrame({"user": users, "item": items, "rating": [float(r) for r in ratings.values()]})
        return Interactions.from_frame(frame, scale=(1, 5))

    expected = log(rows | {(user, item): rating for item, rating in new.items()})
    assert edited(log(rows), user, list(new), [float(r) for r in new.values()]).fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    ("user", "items", "ratings", "message"),
    [
        (3, [0], [1.0], "user: received 3; expected a user's position, from 0 to 2"),
        (-1, [0], [1.0], "user: received -1"),
        (0, [4], [1.0], r"items: received \[4\].*from 0 to 3.*items_at"),
        (0, [1, 1], [1.0, 2.0], "distinct"),
        (0, [1, 2], [1.0], r"ratings: received \[1.0\]; expected 2 ratings"),
        (0, [1], [5.5], r"scale \[1, 5\]"),
        (0, [1], [float("nan")], "ratings: received"),
    ],
)
def test_bad_edits_are_named(
    tiny: Interactions, user: int, items: list[int], ratings: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        edited(tiny, user, items, ratings)

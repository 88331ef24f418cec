"""Logs that grow while somebody watches."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.data.growth import blank, grown
from recaudit.errors import InputError


def add(data: Interactions, rows: list[tuple[int, int, float, int]]) -> Interactions:
    users, items, ratings, times = (np.array(column) for column in zip(*rows, strict=True))
    return grown(data, users, items, ratings.astype(np.float64), times)


def test_a_blank_log_has_everybody_and_no_ratings() -> None:
    data = blank(3, 4, (1, 5))
    assert (data.n_users, data.n_items, len(data), data.scale) == (3, 4, 0, (1, 5))


def test_ratings_are_added_in_order() -> None:
    data = add(blank(3, 4, (1, 5)), [(2, 1, 4.0, 7), (0, 3, 2.0, 8), (0, 0, 5.0, 9)])
    assert data.frame().rows() == [(0, 0, 5.0, 9), (0, 3, 2.0, 8), (2, 1, 4.0, 7)]
    assert data.user_counts.tolist() == [2, 0, 1]


def test_a_pair_that_was_rated_takes_the_new_rating() -> None:
    data = add(blank(2, 2, (1, 5)), [(0, 1, 4.0, 0), (1, 0, 1.0, 0)])
    data = add(data, [(0, 1, 2.0, 5), (1, 1, 3.0, 5)])
    assert data.frame().rows() == [(0, 1, 2.0, 5), (1, 0, 1.0, 0), (1, 1, 3.0, 5)]


def test_of_several_ratings_of_one_pair_the_last_row_counts() -> None:
    data = add(blank(1, 1, (1, 5)), [(0, 0, 4.0, 1), (0, 0, 2.0, 2)])
    assert data.frame().rows() == [(0, 0, 2.0, 2)]


def test_growing_in_pieces_is_growing_at_once() -> None:
    draw = np.random.default_rng(0)
    key = draw.choice(30 * 40, 500, replace=False)
    users, items = np.divmod(key, 40)
    ratings, times = draw.uniform(1, 5, 500), np.arange(500)
    pieces = blank(30, 40, (1, 5))
    for start in range(0, 500, 37):
        rows = slice(start, start + 37)
        pieces = grown(pieces, users[rows], items[rows], ratings[rows], times[rows])
    assert pieces.fingerprint == grown(blank(30, 40, (1, 5)), users, items, ratings, times).fingerprint


def test_the_log_that_grew_stays_as_it_was() -> None:
    before = add(blank(2, 2, (1, 5)), [(0, 1, 4.0, 0)])
    add(before, [(0, 1, 2.0, 5), (1, 1, 3.0, 5)])
    assert before.frame().rows() == [(0, 1, 4.0, 0)]


def test_a_log_without_times_cannot_grow() -> None:
    data = Interactions.from_frame(pl.DataFrame({"user": [1], "item": [1], "rating": [2.0]}))
    with pytest.raises(InputError, match="times"):
        add(data, [(0, 0, 1.0, 0)])

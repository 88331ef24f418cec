"""nDCG of held-out ratings: the paper's, by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.data import Interactions
from recaudit.errors import InputError


@pytest.fixture
def held_out() -> Interactions:
    frame = pl.DataFrame({"user": [0, 0, 0, 1], "item": [0, 1, 2, 1], "rating": [5.0, 1.0, 3.0, 2.0]})
    return Interactions.from_frame(frame, scale=(1, 5))


def test_by_hand(held_out: Interactions) -> None:
    # User 0 in the order 1, 0, 2: gains 1, 5, 3.
    found = rated_ndcg(np.array([2.0, 3.0, 1.0, 0.0]), held_out, k=20)
    gain = 1 + 5 / np.log2(3) + 3 / 2
    ideal = 5 + 3 / np.log2(3) + 1 / 2
    assert found.tolist() == pytest.approx([gain / ideal, 1.0])


def test_only_the_first_k_count(held_out: Interactions) -> None:
    assert rated_ndcg(np.array([2.0, 3.0, 1.0, 0.0]), held_out, k=1)[0] == pytest.approx(1 / 5)


def test_equal_scores_are_in_the_order_of_tie_keys(held_out: Interactions) -> None:
    first, second, third = np.array([5.0, 1.0, 3.0])[held_out.tie_keys(np.array([0])).order()]
    gain, ideal = first + second / np.log2(3) + third / 2, 5 + 3 / np.log2(3) + 1 / 2
    assert rated_ndcg(np.zeros(4), held_out)[0] == pytest.approx(gain / ideal)


def test_users_without_held_out_items_have_none(held_out: Interactions) -> None:
    rest = held_out.subset(np.array([True, True, True, False]))
    assert np.isnan(rated_ndcg(np.zeros(3), rest)).tolist() == [False, True]


def test_k_is_at_least_one(held_out: Interactions) -> None:
    with pytest.raises(InputError, match="k: received 0"):
        rated_ndcg(np.zeros(4), held_out, k=0)

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.interventions import Actions, FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Stars
from recaudit.models import BiasedMF


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return BiasedMF(factors=3, epochs=5).fit(split.train)


USERS = np.array([3, 50, 7])


def test_history_edits_are_drawn_from_the_history(model: Any) -> None:
    for user, items in zip(USERS, HistoryEdits(4).items(model, USERS, 0), strict=True):
        assert set(items) <= set(model.data.history(user)[0])
        assert len(set(items)) == 4


def test_future_edits_are_drawn_from_the_unseen(model: Any) -> None:
    for user, items in zip(USERS, FutureEdits(4).items(model, USERS, 0), strict=True):
        assert not set(items) & set(model.data.history(user)[0])
        assert len(set(items)) == 4


def test_next_k_are_the_best_unseen(model: Any) -> None:
    items = NextK(3).items(model, USERS, 0)
    scores = model.scores(USERS)
    scores[model.data.seen(USERS)] = -np.inf
    np.testing.assert_array_equal(items, np.argsort(-scores, axis=1)[:, :3])


def test_given_items_are_the_same_for_everybody(model: Any) -> None:
    ids = model.data.item_ids[[5, 2]].to_list()
    np.testing.assert_array_equal(GivenItems(tuple(ids)).items(model, USERS, 0), [[5, 2]] * 3)


def test_ids_that_turn_out_to_be_one_item_are_refused() -> None:
    frame = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 3], "rating": [1.0, 2.0, 3.0]})
    model = BiasedMF(factors=1, epochs=1).fit(Interactions.from_frame(frame, scale=(1, 5)))
    with pytest.raises(InputError):
        GivenItems((1, "1")).items(model, np.array([0]), 0)


@pytest.mark.parametrize("actions", [HistoryEdits(5), FutureEdits(5), NextK(5)])
def test_a_users_items_do_not_depend_on_company_but_draws_on_the_seed(model: Any, actions: Actions) -> None:
    together, alone = actions.items(model, USERS, 1), actions.items(model, USERS[1:2], 1)
    np.testing.assert_array_equal(together[1:2], alone)
    other = actions.items(model, USERS, 2)
    assert np.array_equal(together, other) == isinstance(actions, NextK)


def test_a_short_history_is_used_up(model: Any) -> None:
    items = HistoryEdits(500).items(model, USERS, 0)
    for user, row in zip(USERS, items, strict=True):
        assert sorted(row[row >= 0]) == model.data.history(user)[0].tolist()


def test_stars_are_what_can_be_clicked() -> None:
    assert Stars(1, 5).values.tolist() == [1, 2, 3, 4, 5]
    assert Stars(0.5, 2, step=0.5).values.tolist() == [0.5, 1, 1.5, 2]
    assert len(Stars(0, 1, step=0.1).values) == 11


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="this box is empty"):
        Interval(5, 1)
    with pytest.raises(InputError, match="finite"):
        Stars(1, float("inf"))
    with pytest.raises(InputError, match=r"^high: received 5, which steps of 1 from 0.5 .* are 4.5 and 5.5;"):
        Stars(0.5, 5)
    with pytest.raises(InputError, match="greater than 0"):
        Stars(1, 5, step=0)
    with pytest.raises(InputError, match="greater than 0"):
        NextK(0)
    with pytest.raises(InputError, match="at least 1"):
        GivenItems(())

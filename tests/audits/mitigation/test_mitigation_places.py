"""Places in lists, against every rating that could be given to a list of one or two."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest

from models.nonlinear import Nonlinear
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.lists.recommend import lists_of
from recaudit.audits.mitigation.places import PlaceSearch, ReplacementSearch
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.engines import Serial
from recaudit.models import ALS, EASE, WALS
from recaudit.policies import ListPolicy, Top1
from recaudit.policies.calibrated import Calibrated

POLICIES = [Top1(), Calibrated(weight=0.5, transform="minmax"), Calibrated(weight=0.99, transform="minmax")]
USERS = np.arange(0, 30, 3)
MODELS = [ALS(factors=3, iterations=3), WALS(factors=3, iterations=3), EASE(regularization=20.0)]


def shown(model: Any, policy: ListPolicy, k: int) -> IntArray:
    return lists_of(model, policy, k, 0, Serial(), "lists")[0]


def next_list(model: Any, policy: ListPolicy, user: int, rated: IntArray, ratings: FloatArray, k: int) -> set[int]:
    """The readable twin: one list after one way to rate."""
    data = model.data
    scores = model.respond(user, user, rated).scores(ratings)[None]
    allowed = ~data.seen(np.array([user]))
    allowed[0, rated] = False
    log = data.with_ratings(user, rated, ratings)
    return set(policy.lister(log)(scores, allowed, np.array([user]), k, 0)[0].tolist())


def reachable(model: Any, policy: ListPolicy, user: int, k: int, grid: list[float]) -> set[int]:
    own = shown(model, policy, k)[user]
    found = set(own.tolist())
    for ratings in product(grid, repeat=k):
        found |= next_list(model, policy, user, own, np.array(ratings), k)
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: repr(policy)[:24])
@pytest.mark.parametrize("recommender", MODELS, ids=lambda model: type(model).__name__)
class TestPlacesThatUsersCanReach:
    def test_of_a_list_of_one_every_end_of_the_scale_is_tried(
        self, recommender: Any, policy: ListPolicy, split: Split
    ) -> None:
        model = recommender.fit(split.train)
        targets = np.arange(model.data.n_items)
        found, _ = PlaceSearch(model, policy, shown(model, policy, 1), targets, 10, 0)(USERS)
        for row, user in enumerate(USERS.tolist()):
            assert set(np.flatnonzero(found[row] == 1)) == reachable(model, policy, user, 1, [1.0, 5.0])

    def test_what_is_found_is_reachable_and_what_is_ruled_out_is_not(
        self, recommender: Any, policy: ListPolicy, split: Split
    ) -> None:
        model = recommender.fit(split.train)
        targets = np.arange(model.data.n_items)
        found, possible = PlaceSearch(model, policy, shown(model, policy, 2), targets, 10, 0)(USERS[:4])
        unseen = ~model.data.seen(USERS[:4])
        assert (np.isnan(found) == ~unseen).all()
        ruled_out = 0
        for row, user in enumerate(USERS[:4].tolist()):
            everything = reachable(model, policy, user, 2, [1.0, 2.0, 3.0, 4.0, 5.0])
            assert set(np.flatnonzero(found[row] == 1)) <= everything
            assert everything <= set(np.flatnonzero(possible[row] == 1))
            ruled_out += int((possible[row] == 0).sum())
        if policy == Top1():
            assert ruled_out > 0

    def test_a_larger_budget_finds_no_less(self, recommender: Any, policy: ListPolicy, split: Split) -> None:
        model = recommender.fit(split.train)
        targets, lists = np.arange(0, model.data.n_items, 5), shown(model, policy, 4)
        few, many = (PlaceSearch(model, policy, lists, targets, budget, 0)(USERS[:5])[0] for budget in (1, 30))
        assert (np.nan_to_num(few) <= np.nan_to_num(many)).all()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: repr(policy)[:24])
@pytest.mark.parametrize("recommender", MODELS[:2], ids=lambda model: type(model).__name__)
class TestWhatOthersCanReplace:
    def test_is_no_more_than_any_rating_of_theirs_does(
        self, recommender: Any, policy: ListPolicy, split: Split
    ) -> None:
        model = recommender.fit(split.train)
        lists, viewers, editors = shown(model, policy, 2), USERS[:4], USERS[2:6]
        found = ReplacementSearch(model, policy, lists, editors, 0)(viewers)
        lister = policy.lister(model.data)
        for row, viewer in enumerate(viewers.tolist()):
            allowed = ~model.data.seen(np.array([viewer]))
            for column, editor in enumerate(editors.tolist()):
                if viewer == editor:
                    assert np.isnan(found[row, column])
                    continue
                response = model.respond(viewer, editor, lists[editor])
                gone = [
                    1 - len(set(after.tolist()) & set(lists[viewer].tolist())) / 2
                    for ratings in product([1.0, 2.0, 3.0, 4.0, 5.0], repeat=2)
                    for after in lister(response.scores(np.array(ratings))[None], allowed, np.array([viewer]), 2, 0)
                ]
                assert found[row, column] in (0.0, 0.5, 1.0)
                assert found[row, column] <= max(gone)
                ends = [gone[place] for place in (0, 24)]
                assert found[row, column] >= max(ends)


class TestModelsThatAreNotAffine:
    def test_are_searched_too_and_nothing_is_ruled_out(self, split: Split) -> None:
        model = Nonlinear().fit(split.train)
        lists = shown(model, Top1(), 2)
        targets = np.arange(model.data.n_items)
        found, possible = PlaceSearch(model, Top1(), lists, targets, 6, 0)(USERS[:2])
        unseen = ~model.data.seen(USERS[:2])
        assert (possible[unseen] == 1).all()
        for row, user in enumerate(USERS[:2].tolist()):
            assert set(lists[user]) <= set(np.flatnonzero(found[row] == 1))


def test_a_user_without_a_list_has_no_places(tiny: Interactions) -> None:
    model = ALS(factors=2, iterations=2).fit(tiny)
    lists = np.full((tiny.n_users, 2), -1)
    assert np.isnan(PlaceSearch(model, Top1(), lists, np.arange(4), 5, 0)(np.arange(3))).all()
    assert np.isnan(ReplacementSearch(model, Top1(), lists, np.arange(3), 0)(np.arange(3))).all()


def test_searches_travel_to_other_processes(split: Split) -> None:
    model, policy = ALS(factors=3, iterations=2).fit(split.train), POLICIES[1]
    lists = shown(model, policy, 3)
    for search in (
        PlaceSearch(model, policy, lists, np.arange(0, 80, 8), 9, 0),
        ReplacementSearch(model, policy, lists, USERS[:3], 0),
    ):
        there = pickle.loads(pickle.dumps(search))
        assert np.array_equal(there(USERS[:3]), search(USERS[:3]), equal_nan=True)

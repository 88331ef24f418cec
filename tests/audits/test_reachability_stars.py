"""Reachability over what people can really click, and with a limit on how much they change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp

import recaudit as ra
from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions, FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Stars
from recaudit.models import EASE, BiasedMF
from recaudit.models.updates import SgdStep
from recaudit.policies import EpsilonGreedy, Softmax, Top1

USERS = ["user-003", "user-050", "user-101"]
STARS = Stars(1, 5)
POLICY = Softmax(beta=4)


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    """With long steps, so that stars and the interval differ."""
    return BiasedMF(factors=4, epochs=20, update=SgdStep(step=1.0)).fit(split.train)


def by_user(frame: pl.DataFrame, user: str) -> pl.DataFrame:
    return frame.filter(pl.col("user") == user)


def brute_force(model: Any, user: str, actions: Actions, grid: np.ndarray) -> dict[object, float]:
    """The readable twin: the largest probability of every candidate over the rows of `grid`."""
    position = model.data.users_at([user])
    items = actions.items(model, position, 0)[0]
    response = model.respond(position[0], position[0], items[items >= 0])
    free = np.setdiff1d(np.flatnonzero(~model.data.seen(position)[0]), items)
    scores = POLICY.beta * (grid @ response.slope[free].T + response.intercept[free])
    best = np.exp((scores - logsumexp(scores, axis=1, keepdims=True)).max(axis=0))
    return dict(zip(model.data.item_ids.gather(free), best, strict=True))


def all_stars(k: int) -> np.ndarray:
    return np.array(list(itertools.product(STARS.values, repeat=k)))


@pytest.mark.parametrize("actions", [NextK(3, STARS), HistoryEdits(3, STARS), FutureEdits(3, STARS)])
def test_values_agree_with_trying_everything(model: Any, actions: Actions) -> None:
    result = ra.reachability(model, actions=actions, policy=POLICY, users=USERS)

    for user in USERS:
        rows = by_user(result.pairs, user)
        best = brute_force(model, user, actions, all_stars(3))
        assert rows["item"].to_list() == list(best)
        np.testing.assert_allclose(rows["value"], list(best.values()), rtol=2e-6)
        assert (rows["status"] == "solved").all()
        assert ((rows["lower"] <= rows["value"]) & (rows["value"] <= rows["upper"])).all()


def test_stars_never_reach_more_than_the_interval(model: Any) -> None:
    stars = ra.reachability(model, actions=NextK(5, STARS), policy=POLICY, users=USERS).pairs
    interval = ra.reachability(model, actions=NextK(5, Interval(1, 5)), policy=POLICY, users=USERS).pairs

    assert (stars["item"] == interval["item"]).all()
    assert (stars["value"] <= interval["upper"]).all()
    assert (stars["value"] < interval["value"] * 0.99).any()


def test_too_many_stars_to_list_are_searched(model: Any) -> None:
    actions = NextK(9, STARS)

    result = ra.reachability(model, actions=actions, policy=POLICY, users=USERS, best_actions=True)
    interval = ra.reachability(model, actions=NextK(9), policy=POLICY, users=USERS)

    assert (result.pairs["status"] == "solved").all()
    assert (result.pairs["value"] <= interval.pairs["upper"]).all()
    ratings = np.array(result.pairs["action_ratings"].to_list())
    assert np.isin(ratings, STARS.values).all()
    fewer = ra.reachability(model, actions=NextK(9, Stars(1, 5, step=2)), policy=POLICY, users=USERS)
    assert (fewer.pairs["value"] <= result.pairs["upper"]).all()


def test_the_actions_are_stars_that_reach_the_value(model: Any) -> None:
    result = ra.reachability(model, actions=NextK(3, STARS), policy=POLICY, users=USERS[:1], best_actions=True)

    for row in result.pairs.iter_rows(named=True):
        grid = np.array([row["action_ratings"]])
        assert np.isin(grid, STARS.values).all()
        assert brute_force(model, USERS[0], NextK(3), grid)[row["item"]] == pytest.approx(row["value"], rel=1e-9)


def test_one_user_more_does_not_change_the_others(model: Any) -> None:
    alone = ra.reachability(model, actions=NextK(4, STARS), policy=POLICY, users=USERS[:1]).pairs
    together = ra.reachability(model, actions=NextK(4, STARS), policy=POLICY, users=USERS).pairs

    np.testing.assert_allclose(alone["value"], by_user(together, USERS[0])["value"], rtol=1e-12)


def test_a_user_with_fewer_actions_has_them_all(split: Split) -> None:
    """Asked for more edits than the shortest history has: the rest fills up, and is no action."""
    model = BiasedMF(factors=4, epochs=5).fit(split.train)
    shortest = model.data.user_counts.argmin()
    count, user = int(model.data.user_counts[shortest]), model.data.user_ids[int(shortest)]
    some, more = HistoryEdits(count, Stars(1, 5, step=4)), HistoryEdits(count + 2, Stars(1, 5, step=4))

    expected = ra.reachability(model, actions=some, policy=POLICY, users=[user]).pairs
    result = ra.reachability(model, actions=more, policy=POLICY, users=[user], best_actions=True).pairs

    np.testing.assert_allclose(result["value"], expected["value"], rtol=3e-6)
    assert all(len(ratings) == count for ratings in result["action_ratings"])


class TestChanges:
    def test_history_is_counted_from_the_ratings_given(self, model: Any) -> None:
        actions = HistoryEdits(4, STARS, changes=1)
        result = ra.reachability(model, actions=actions, policy=POLICY, users=USERS, best_actions=True)

        for user in USERS:
            position = model.data.users_at([user])
            items = actions.items(model, position, 0)[0]
            history, ratings = model.data.history(position[0])
            given = ratings[np.searchsorted(history, items)]
            grid = all_stars(4)
            grid = grid[(grid != given).sum(axis=1) <= 1]
            best = brute_force(model, user, actions, grid)
            rows = by_user(result.pairs, user)
            np.testing.assert_allclose(rows["value"], list(best.values()), rtol=2e-6)
            changed = np.array(rows["action_ratings"].to_list()) != given
            assert changed.sum(axis=1).max() == 1

    def test_unrated_items_are_counted_from_the_prediction(self, model: Any) -> None:
        actions = NextK(4, STARS, changes=2)
        result = ra.reachability(model, actions=actions, policy=POLICY, users=USERS, best_actions=True)

        for user in USERS:
            position = model.data.users_at([user])
            items = actions.items(model, position, 0)[0]
            predicted = model.scores(position)[0][items].clip(1, 5)
            ratings = np.array(by_user(result.pairs, user)["action_ratings"].to_list())
            unchanged = np.isclose(ratings, predicted)
            assert (unchanged.sum(axis=1) >= 2).all()
            assert np.isin(ratings[~unchanged], STARS.values).all()

    def test_given_items_may_be_rated_or_not(self, model: Any) -> None:
        position = model.data.users_at(USERS[:1])
        history, ratings = model.data.history(position[0])
        unseen = int(np.flatnonzero(~model.data.seen(position)[0])[0])
        actions = GivenItems(tuple(model.data.item_ids.gather([int(history[2]), unseen])), STARS, changes=1)

        unchanged = actions.unchanged(model, position, actions.items(model, position, 0))

        predicted = np.clip(model.scores(position)[0, unseen], 1, 5)
        np.testing.assert_allclose(unchanged, [[ratings[2], predicted]])

    def test_more_changes_reach_more(self, model: Any) -> None:
        values = [
            ra.reachability(model, actions=NextK(4, STARS, changes=n), policy=POLICY, users=USERS).pairs["value"]
            for n in (1, 2, 3, 4)
        ]

        for fewer, more in itertools.pairwise(values):
            assert (more >= fewer * (1 - 2e-6)).all()
        assert (values[3] > values[0] * 1.01).any()

    def test_an_interval_has_no_exact_answer(self) -> None:
        for ratings in (None, Interval(1, 5)):
            with pytest.raises(InputError, match=r"changes: received 2 beside .* expected .* stars"):
                NextK(4, ratings, changes=2)

    def test_scores_that_are_no_ratings_have_no_prediction(self, split: Split) -> None:
        model = EASE().fit(split.train)
        assert not model.predicts_ratings
        with pytest.raises(NotSupportedError, match="are not ratings"):
            ra.reachability(model, actions=NextK(2, STARS, changes=1), policy=POLICY, users=USERS)
        edits = ra.reachability(model, actions=HistoryEdits(2, STARS, changes=1), policy=POLICY, users=USERS)
        assert (edits.pairs["status"] == "solved").all()

    @pytest.mark.parametrize("policy", [Top1(), EpsilonGreedy(epsilon=0.1)])
    def test_other_policies_have_no_solver(self, model: Any, policy: Any) -> None:
        with pytest.raises(NotSupportedError, match="limit on changes"):
            ra.reachability(model, actions=NextK(2, STARS, changes=1), policy=policy, users=USERS)


def test_being_on_top_with_stars_is_true_or_open(model: Any) -> None:
    """The interval bounds what stars can do; where the nearest stars make it, that is settled."""
    actions = NextK(3, STARS)
    result = ra.reachability(model, actions=actions, policy=Top1(), users=USERS)

    for user in USERS:
        position = model.data.users_at([user])
        items = actions.items(model, position, 0)[0]
        response = model.respond(position[0], position[0], items)
        free = np.setdiff1d(np.flatnonzero(~model.data.seen(position)[0]), items)
        scores = all_stars(3) @ response.slope[free].T + response.intercept[free]
        reachable = np.isin(np.arange(len(free)), scores.argmax(axis=1))
        rows = by_user(result.pairs, user)
        assert (rows["lower"].to_numpy() <= reachable).all()
        assert (reachable <= rows["upper"].to_numpy()).all()
        settled = rows["status"].to_numpy() == "solved"
        np.testing.assert_array_equal(rows["value"].to_numpy()[settled], reachable[settled])
        assert settled.any()

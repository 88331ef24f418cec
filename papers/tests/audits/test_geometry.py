from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import GivenItems, HistoryEdits, Interval, NextK, Stars
from recaudit.models import ALS, EASE, FoldInModel, SgdStep, TopPop, from_factors
from recaudit_papers.geometry import best_beta, geometry


@pytest.fixture(scope="module")
def model(split: Split) -> FoldInModel:
    return ALS(factors=3, iterations=4, regularization=0.1).fit(split.train)


def by_hand() -> FoldInModel:
    """User u, vector 0, may rate item a (vector 1) from -2 to 2; a rating r gives the vector r and the scores r q.

    Items b, c, d, e have q = -1, 0, 2, 2 and biases 0, 1, 0, -9: b is on top for r <= -1, c for -1 <= r <= 1/2, d
    for r >= 1/2, e never.
    """
    frame = pl.DataFrame({"user": ["u", "u", "v", "v", "v"], "item": list("aebcd"), "rating": [0.0] * 5})
    data = Interactions.from_frame(frame, scale=(-2, 2))
    Q = np.array([[1.0], [-1.0], [0.0], [2.0], [2.0]])
    model = from_factors(
        np.zeros((2, 1)), Q, data, item_bias=[0, 0, 1, 0, -9], update=SgdStep(), predicts_ratings=False
    )
    return model.with_update(ra.models.SgdStep(step=1.0))


def test_a_case_worked_by_hand() -> None:
    found = geometry(by_hand(), users=["u"], actions=GivenItems(("a",)), candidates="all").frame
    assert found["item"].to_list() == ["b", "c", "d", "e"]
    assert found["top1_reachable"].to_list() == [True, True, True, False]
    # b leads c by 1 at r = -2; c leads both by 1 at r = 0; d leads c by 3 at r = 2; e is always 9 behind d.
    assert found["margin"].to_list()[:3] == pytest.approx([1, 1, 3], abs=1e-6)
    assert found["margin_upper"][3] == pytest.approx(-9)
    # Slopes -1, 0, 2, 2: c is in the middle, and d and e coincide.
    assert found["hull_vertex"].to_list() == [True, False, False, False]
    assert set(found["status"]) == {"solved"}


def test_within_narrower_bounds_less_is_reachable_but_vertices_stay() -> None:
    narrow = GivenItems(("a",), Interval(-0.25, 0.25))
    found = geometry(by_hand(), users=["u"], actions=narrow, candidates="all").frame
    assert found["top1_reachable"].to_list() == [False, True, False, False]
    assert found["hull_vertex"].to_list() == [True, False, False, False]


@pytest.mark.parametrize("actions", [NextK(3), HistoryEdits(3)])
def test_it_agrees_with_the_definitions(model: FoldInModel, actions: Any) -> None:
    """Both questions as feasibility problems over all candidates, straight from the paper."""
    data, user = model.data, 7
    name = data.user_ids[user]
    acted = actions.items(model, np.array([user]), 2)[0]
    response = model.respond(user, user, acted)
    free = np.setdiff1d(np.flatnonzero(~data.seen(np.array([user]))[0]), acted)
    B, c = response.slope[free], response.intercept[free]
    found = geometry(model, users=[name], actions=actions, rng=2).frame
    assert found["item"].to_list() == data.item_ids.gather(free).to_list()
    for i in range(len(free)):
        rows = found.row(i, named=True)
        top = linprog(np.zeros(3), A_ub=B - B[i], b_ub=c[i] - c, bounds=(1, 5))
        assert rows["top1_reachable"] == top.success
        others = np.delete(B, i, axis=0)
        mixture = linprog(
            np.zeros(len(others)), A_eq=np.vstack([others.T, np.ones(len(others))]), b_eq=np.append(B[i], 1)
        )
        assert rows["hull_vertex"] == (not mixture.success)


def test_it_says_what_top1_reachability_says(model: FoldInModel) -> None:
    users = model.data.user_ids[[2, 9]].to_list()
    found = geometry(model, users=users, actions=NextK(4)).frame
    value = ra.reachability(model, actions=NextK(4), policy=ra.policies.Top1(), users=users).pairs["value"]
    assert found["top1_reachable"].to_list() == (value == 1).to_list()


def test_the_rank_condition_of_rich_actions(model: FoldInModel) -> None:
    """Three factors: four actions can be rich, three cannot; a linear model has no factors."""
    users = model.data.user_ids[[2, 9]].to_list()
    targets = model.data.item_ids[[0]].to_list()
    for k, rich in ((4, True), (3, False)):
        found = geometry(model, users=users, targets=targets, actions=NextK(k)).users
        assert found["user"].to_list() == users
        assert found["actions"].to_list() == [k, k]
        assert found["rich_actions"].to_list() == [rich, rich]
        assert found["status"].to_list() == ["solved", "solved"]
    linear = geometry(EASE().fit(model.data), users=users, targets=targets, actions=NextK(4))
    assert linear.users["rich_actions"].to_list() == [None, None]
    assert linear.users["status"].to_list() == ["not_applicable", "not_applicable"]
    assert "rich" not in linear.summary()


def test_what_cannot_be_asked_is_not_applicable_and_stops_nobody(tiny: Interactions) -> None:
    """bob has rated a and b: b is no candidate. cem, cut from the log, has no history to edit."""
    data = tiny.subset(tiny.users != 2)
    P, Q = np.ones((3, 1)), np.array([[1.0], [0.5], [-1.0], [2.0]])
    model = from_factors(P, Q, data, update=SgdStep(), predicts_ratings=False)
    found = geometry(model, users=["bob", "cem"], targets=["d", "b"], actions=HistoryEdits(1))
    assert found.frame["status"].to_list() == ["solved", "not_applicable", "not_applicable", "not_applicable"]
    assert found.frame["top1_reachable"].to_list() == [True, None, None, None]
    assert found.users["status"].to_list() == ["solved", "not_applicable"]
    assert "1 settled" in found.summary()


def test_nothing_applies_to_a_user_without_candidates(tiny: Interactions) -> None:
    """ada has rated all but d, and d is acted on."""
    model = from_factors(
        np.ones((3, 1)), np.array([[1.0], [0.5], [-1.0], [2.0]]), tiny, update=SgdStep(), predicts_ratings=False
    )
    found = geometry(model, users=["ada", "bob"], actions=NextK(1))
    statuses = dict(found.frame.group_by("user").agg(pl.col("status").unique()).iter_rows())
    assert statuses["ada"] == ["not_applicable"]
    assert "not_applicable" not in statuses["bob"]
    assert found.users["actions"].to_list() == [1, 1]


def test_numbers_do_not_depend_on_the_engine(model: FoldInModel) -> None:
    users = model.data.user_ids[:3].to_list()
    targets = model.data.item_ids[:5].to_list()
    first = geometry(model, users=users, targets=targets)
    again = geometry(model, users=users, targets=targets, engine=ra.engines.Threads(2))
    assert again.frame.equals(first.frame)
    assert again.users.equals(first.users)


def test_the_result_prints(model: FoldInModel) -> None:
    found = geometry(model, users=model.data.user_ids[:1], actions=NextK(4))
    share = found.frame["top1_reachable"].to_numpy().mean()
    assert f"top-1 reachable  {share:.1%}" in repr(found)
    assert "1 of 1 users" in found.summary()


def test_bad_arguments(model: FoldInModel, split: Split) -> None:
    first = model.data.user_ids[:1].to_list()
    with pytest.raises(DataError, match="users: received row 0: 'nobody'"):
        geometry(model, users=["nobody"])
    with pytest.raises(InputError, match="users: received no users"):
        geometry(model, users=[])
    with pytest.raises(InputError, match="candidates: received seen; expected 'unseen' or 'all'"):
        geometry(model, users=first, candidates="seen")  # type: ignore[arg-type]
    with pytest.raises(NotSupportedError, match="intervals of ratings"):
        geometry(model, users=first, actions=NextK(2, ratings=Stars()))
    with pytest.raises(NotSupportedError, match="no formula says"):
        geometry(TopPop().fit(split.train), users=first)


class TestBestBeta:
    def test_a_case_worked_by_hand(self) -> None:
        """e is 9 below d at every rating, and on top of the others only where d is farther still."""
        model, actions = by_hand(), GivenItems(("a",))
        top = best_beta(model, user="u", item="d", actions=actions, candidates="all")
        assert top.select("beta", "value", "reachable").rows() == [(math.inf, 1.0, True)]
        never = best_beta(model, user="u", item="e", actions=actions, candidates="all")
        assert never.select("beta", "reachable").rows() == [(0.0, False)]
        assert never["value"][0] == pytest.approx(1 / 4)

    def test_no_softmax_policy_does_better(self, model: FoldInModel) -> None:
        user = model.data.user_ids[7]
        found = geometry(model, users=[user], actions=NextK(3)).frame
        item = found.filter(~pl.col("top1_reachable")).sort("margin_upper")["item"][-1]
        [best] = best_beta(model, user=user, item=item, actions=NextK(3)).to_dicts()
        assert 0 < best["beta_lower"] <= best["beta"] <= best["beta_upper"] < math.inf
        assert best["status"] == "solved"
        for factor in (0.1, 0.8, 0.99, 1.0, 1.01, 1.25, 10.0):
            policy = ra.policies.Softmax(beta=factor * best["beta"])
            row = ra.reachability(model, actions=NextK(3), policy=policy, users=[user], targets=[item]).pairs
            assert row["value"][0] <= best["upper"] * (1 + 1e-9)
            if factor == 1:
                assert row["value"][0] == pytest.approx(best["value"], rel=1e-6)

    def test_what_has_no_answer_is_an_error(self, model: FoldInModel, tiny: Interactions) -> None:
        user = model.data.user_ids[7]
        seen = model.data.item_ids[int(model.data.history(7)[0][0])]
        with pytest.raises(InputError, match=f"item: received {seen}; expected a candidate"):
            best_beta(model, user=user, item=seen)
        with pytest.raises(DataError, match="items"):
            best_beta(model, user=user, item="nothing")
        alone = from_factors(
            np.ones((3, 1)), np.ones((4, 1)), tiny.subset(tiny.users != 2), update=SgdStep(), predicts_ratings=False
        )
        with pytest.raises(InputError, match="user: received cem; expected a user with at least one rating"):
            best_beta(alone, user="cem", item="a", actions=HistoryEdits(1))

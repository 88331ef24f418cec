"""Future-k reachability as an audit: rows, statuses, baselines."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from contracts.alike import assert_alike
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.solve import SolveFuture
from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, Interval, Stars
from recaudit.models import ALS, EASE, BiasedMF, FoldInModel, SgdStep, UserKNN
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1
from recaudit.solvers.trajectories import AscentSettings, DrawSettings

USERS = np.array([3, 17, 50])
POLICY = Softmax(beta=3.0)


@pytest.fixture(scope="module")
def model(split: Split) -> FoldInModel:
    """With long steps, so that ratings decide what is shown next."""
    return BiasedMF(factors=4, epochs=20).fit(split.train).with_update(SgdStep(step=0.8))


def follow(model: Any, future: Future, policy: Policy = POLICY, targets: Any = None, **settings: Any) -> SolveFuture:
    """What answers for these users, with the sequences that lead to the values."""
    audit = Reachability(actions=future, policy=policy, targets=targets, best_actions=True, **settings)
    method = audit.method(model, model.data, rng=0)
    assert isinstance(method, SolveFuture)
    return method


def rolled(model: FoldInModel, user: int, items: list[str], ratings: list[float]) -> tuple[NDArray[np.float64], float]:
    """Scores after these ratings, -inf for what is rated, and the least margin by which an item was on top."""
    places = model.data.items_at(items).tolist()
    state, margin = model.rollout(user), np.inf
    unseen = ~model.data.seen(np.array([user]))[0]
    for t in range(len(places) + 1):
        slope, intercept = state.affine()
        scores = np.where(unseen, slope @ np.array(ratings[:t]) + intercept, -np.inf)
        scores[places[:t]] = -np.inf
        if t < len(places):
            margin = min(margin, scores[places[t]] - scores.max())
            state = state.then(places[t])
    return scores, margin


def test_a_row_says_how_its_value_comes_about(model: FoldInModel) -> None:
    frame = follow(model, Future(3))(USERS)
    data = model.data
    scores = model.scores(USERS)
    unseen = ~data.seen(USERS)
    assert frame.height == unseen.sum()
    assert set(frame["status"]) == {"solved", "not_applicable"}
    assert frame.filter(pl.col("status") == "not_applicable").select("value", "rank_gain").null_count().row(0)[0] >= 3

    for place, user in enumerate(USERS):
        rows = frame.filter(pl.col("user") == data.user_ids[int(user)])
        before = np.where(unseen[place], scores[place], -np.inf)
        logs = 3 * before - np.logaddexp.reduce(3 * before)
        for row in rows.filter(pl.col("value").is_not_null()).sample(8, seed=0).iter_rows(named=True):
            target = int(data.items_at([row["item"]])[0])
            after, margin = rolled(model, int(user), row["action_items"], row["action_ratings"])
            assert margin >= -1e-9
            assert np.log(row["value"]) == pytest.approx(3 * after[target] - np.logaddexp.reduce(3 * after), abs=1e-8)
            assert row["lower"] <= row["value"] <= row["upper"] <= row["lower"] * 1.00001
            assert row["baseline"] == pytest.approx(np.exp(logs[target]))
            assert row["lift"] == pytest.approx(row["value"] / row["baseline"])
            gain = (before > before[target]).sum() - (after > after[target] + 1e-12).sum()
            assert row["rank_gain"] == gain


def test_the_first_item_shown_is_no_target(model: FoldInModel) -> None:
    frame = follow(model, Future(1))(USERS)
    for place, user in enumerate(USERS):
        scores = np.where(model.data.seen(USERS)[place], -np.inf, model.scores(USERS)[place])
        rows = frame.filter(pl.col("user") == model.data.user_ids[int(user)], pl.col("status") == "not_applicable")
        assert rows["item"].to_list() == [model.data.item_ids[int(scores.argmax())]]


def test_more_freedom_reaches_more_and_stars_less(model: FoldInModel) -> None:
    narrow, wide = (follow(model, Future(2, Interval(low, high)))(USERS) for low, high in ((2, 4), (1, 5)))
    stars = follow(model, Future(2, Stars(1, 5)))(USERS)
    both = narrow["value"].is_not_null() & wide["value"].is_not_null()
    assert (wide["value"] >= narrow["value"] * (1 - 2e-6)).filter(both).all()
    both = stars["value"].is_not_null() & wide["value"].is_not_null()
    assert (wide["value"] >= stars["value"] * (1 - 2e-6)).filter(both).all()
    assert set(stars["status"]) == {"solved", "not_applicable"}
    assert set(stars["action_ratings"].explode().drop_nulls()) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_one_rating_is_no_choice(model: FoldInModel) -> None:
    frame = follow(model, Future(2, Interval(4, 4)))(USERS)
    row = frame.filter(pl.col("value").is_not_null()).row(0, named=True)
    assert row["action_ratings"] == [4.0, 4.0]
    after, _ = rolled(model, 3, row["action_items"], [4.0, 4.0])
    target = int(model.data.items_at([row["item"]])[0])
    assert np.log(row["value"]) == pytest.approx(3 * after[target] - np.logaddexp.reduce(3 * after))


def test_the_gradient_is_never_above_the_exact_answer(model: FoldInModel) -> None:
    future = Future(3)
    targets = model.data.item_ids[:12]
    exact = follow(model, future, targets=targets)(USERS)
    ascent = replace(follow(model, future, targets=targets, solver="gradient"), ascent=AscentSettings(epochs=15))(USERS)
    assert ascent.select("user", "item").equals(exact.select("user", "item"))
    found = ascent["status"] == "bounded"
    assert found.any()
    assert (ascent["value"] <= exact["value"] * (1 + 2e-6)).filter(found).all()
    assert (ascent["upper"] == 1).filter(found).all()


@pytest.mark.parametrize("policy", [Top1(), EpsilonGreedy(epsilon=0.2)])
def test_the_last_recommendation_can_be_the_top_item(model: FoldInModel, policy: Policy) -> None:
    frame = follow(model, Future(2), policy)(USERS)
    often = 1.0 if isinstance(policy, Top1) else 0.8
    shown = frame.filter((pl.col("value") - often).abs() < 1e-12)
    assert len(shown) >= len(USERS)
    for row in shown.iter_rows(named=True):
        user = int(model.data.users_at([row["user"]])[0])
        after, _ = rolled(model, user, row["action_items"], row["action_ratings"])
        assert after.argmax() == model.data.items_at([row["item"]])[0]
    assert set(frame["status"]) == {"solved", "not_applicable"}


def test_a_budget_bounds_the_answer(model: FoldInModel) -> None:
    exact = follow(model, Future(3))
    frame = replace(exact, audit=exact.audit.model_copy(update={"sequences": 1}))(USERS)
    rows = frame.filter(pl.col("status") == "bounded")
    assert len(rows)
    assert (rows["lower"] <= rows["value"]).all()
    both = exact(USERS).join(rows, on=["user", "item"])
    assert (both["value_right"] <= both["value"] * (1 + 2e-6)).all()
    assert (both["lower"] <= both["upper_right"]).all()


def test_seen_items_are_recommended_at_the_end_where_they_may_be(split: Split) -> None:
    model = ALS(factors=4, iterations=3).fit(split.train)
    frame = follow(model, Future(2), candidates="all")(USERS)
    assert frame.height == len(USERS) * model.data.n_items
    seen = frame.filter(
        pl.struct("user", "item").is_in(model.data.frame().select("user", "item").to_struct().implode())
    )
    assert (seen["status"] == "solved").all()
    shown = frame["action_items"].explode().drop_nulls().unique()
    first_user = frame.filter(pl.col("user") == model.data.user_ids[3])["action_items"].explode().drop_nulls()
    assert len(shown)
    assert not set(first_user) & set(model.data.item_ids.gather(model.data.history(3)[0]))


@pytest.mark.parametrize("follows", [Softmax(beta=2.0), EpsilonGreedy(epsilon=0.5)])
def test_items_drawn_on_the_way(model: FoldInModel, follows: Policy) -> None:
    targets = model.data.item_ids[:4]
    one = follow(model, Future(1, follows=follows), targets=targets)(USERS)
    known = one.filter(pl.col("value").is_not_null())
    assert set(known["status"]) == {"solved"}
    assert known["rank_gain"].null_count() == len(known)
    assert set(known["action_items"].list.len()) == {0}

    asked = follow(model, Future(2, follows=follows), targets=targets[:1])
    work = replace(asked, ascent=AscentSettings(epochs=2), sampling=DrawSettings(samples=8))
    two = work(USERS).filter(pl.col("value").is_not_null())
    assert set(two["status"]) == {"bounded"}
    assert (two["lower"] <= two["value"]).all()
    assert (two["value"] <= two["upper"]).all()
    alone = work(USERS[:1]).filter(pl.col("value").is_not_null())
    assert_alike(alone, two.head(len(alone)))


def test_blocks_threads_and_pickles_do_not_matter(model: FoldInModel) -> None:
    work = follow(model, Future(3))
    together = work(USERS)
    again = pickle.loads(pickle.dumps(work))
    with threadpool_limits(1):
        apart = pl.concat([again(USERS[:1]), again(USERS[1:])])
    assert_alike(apart, together)
    assert work(USERS[:0]).height == 0


def test_a_user_who_has_seen_nearly_everything_has_no_future(split: Split) -> None:
    model = EASE().fit(split.train)
    unseen = model.data.n_items - int(model.data.user_counts[3])
    for k in (unseen, unseen + 1):
        frame = follow(model, Future(k))(np.array([3]))
        assert set(frame["status"]) == {"not_applicable"}


@pytest.mark.parametrize(
    ("future", "changes", "solver", "message"),
    [
        (Future(2), {"slate": 3}, "exact", "slate of 3"),
        (Future(2), {"policy": Power()}, "exact", "no exact solver"),
        (Future(2, Stars(1, 5)), {}, "gradient", "no gradient"),
        (Future(2, Stars(1, 5), follows=Softmax(beta=1.0)), {}, "exact", "stars"),
        (Future(2, follows=Softmax(beta=1.0)), {"policy": Top1()}, "exact", "no exact solver"),
    ],
)
def test_what_has_no_solver_is_refused(
    model: FoldInModel, future: Future, changes: dict[str, Any], solver: Any, message: str
) -> None:
    with pytest.raises(NotSupportedError, match=message):
        follow(model, future, **changes, solver=solver)


def test_wrong_words_are_refused(model: FoldInModel) -> None:
    with pytest.raises(InputError, match="'exact' or 'gradient'"):
        follow(model, Future(2), solver="magic")
    with pytest.raises(InputError, match="baseline"):
        follow(model, Future(2), baseline="factual")


def test_a_model_without_an_affine_response_is_refused(split: Split) -> None:
    model = UserKNN().fit(split.train)
    with pytest.raises(NotSupportedError, match="UserKNN"):
        follow(model, Future(2))(USERS)

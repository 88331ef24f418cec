from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import spearmanr

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import DataError, InputError, NotSupportedError
from recaudit.interventions import FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Stars
from recaudit.models import ALS, BiasedMF, ItemKNN, UserKNN, from_factors
from recaudit.policies import EpsilonGreedy, Power, Softmax, Top1
from recaudit.status import Status


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return BiasedMF(factors=4, epochs=20).fit(split.train)


USERS = ["user-003", "user-050"]


def twin(model: Any, user: str, item: str, items: np.ndarray, beta: float, low: float, high: float) -> float:
    """The slow readable twin: L-BFGS-B on the definition, from several starts."""
    data = model.data
    position, target = data.users_at([user])[0], data.items_at([item])[0]
    response = model.respond(position, position, items)
    free = np.setdiff1d(np.flatnonzero(~data.seen(np.array([position]))[0]), items)
    slope, intercept = response.slope, response.intercept

    def loss(a: np.ndarray) -> float:
        scores = slope @ a + intercept
        return float(logsumexp(beta * scores[free]) - beta * scores[target])

    starts = [np.full(len(items), x) for x in (low, (low + high) / 2, high)]
    best = min(minimize(loss, x, bounds=[(low, high)] * len(items), tol=1e-13).fun for x in starts)
    return float(np.exp(-best))


@pytest.mark.parametrize("actions", [NextK(3), HistoryEdits(3), FutureEdits(3)])
def test_values_agree_with_a_general_optimiser(model: Any, actions: Any) -> None:
    result = ra.reachability(model, actions=actions, policy=Softmax(beta=2), users=USERS, rng=5)
    for user in USERS:
        items = actions.items(model, model.data.users_at([user]), 5)[0]
        rows = result.pairs.filter(pl.col("user") == user)
        for row in rows.gather_every(9).iter_rows(named=True):
            expected = twin(model, user, row["item"], items, 2.0, 1.0, 5.0)
            assert row["value"] == pytest.approx(expected, rel=2e-5)
            assert row["lower"] <= row["value"] <= row["upper"]
            assert row["upper"] / row["lower"] <= np.exp(1.1e-6)
            assert row["status"] == "solved"


def test_targets_are_neither_seen_nor_acted_on(model: Any) -> None:
    result = ra.reachability(model, actions=NextK(4), users=USERS)
    for user in USERS:
        position = model.data.users_at([user])
        acted = NextK(4).items(model, position, 0)[0]
        expected = np.setdiff1d(np.flatnonzero(~model.data.seen(position)[0]), acted)
        items = result.pairs.filter(pl.col("user") == user)["item"]
        assert items.to_list() == model.data.item_ids.gather(expected).to_list()


def test_all_candidates_include_the_seen(model: Any) -> None:
    result = ra.reachability(model, actions=NextK(4), users=USERS[:1], candidates="all")
    assert len(result.pairs) == model.data.n_items - 4


def test_the_baseline_is_the_policy_without_action_and_lift_the_ratio(model: Any) -> None:
    result = ra.reachability(model, actions=HistoryEdits(3), policy=Softmax(beta=1), users=USERS[:1])
    position = model.data.users_at(USERS[:1])
    scores = model.scores(position)[0][~model.data.seen(position)[0]]
    np.testing.assert_allclose(result.pairs["baseline"], np.exp(scores - logsumexp(scores)))
    np.testing.assert_allclose(result.pairs["lift"], result.pairs["value"] / result.pairs["baseline"])


def test_rating_as_predicted_is_the_baseline_of_the_authors_code(split: Split) -> None:
    model = ALS(factors=3, iterations=3).fit(split.train)
    text = ra.reachability(model, actions=NextK(3), policy=Softmax(beta=1.0), users=USERS[:1])
    code = ra.reachability(model, actions=NextK(3), policy=Softmax(beta=1.0), users=USERS[:1], baseline="predicted")
    position = model.data.users_at(USERS[:1])
    items = NextK(3).items(model, position, 0)[0]
    predicted = model.predict(np.repeat(position, 3), items)
    scores = model.respond(int(position[0]), int(position[0]), items).scores(predicted)
    free = np.setdiff1d(np.flatnonzero(~model.data.seen(position)[0]), items)
    np.testing.assert_allclose(code.pairs["baseline"], np.exp(scores[free] - logsumexp(scores[free])))
    assert not np.allclose(text.pairs["baseline"], code.pairs["baseline"])


def two_items(step: float = 1.0) -> Any:
    """One user, one rated item, two unseen ones of which b follows the rating of a and c does not."""
    frame = pl.DataFrame({"user": ["u", "v", "v"], "item": ["a", "b", "c"], "rating": [3.0, 3.0, 3.0]})
    data = Interactions.from_frame(frame, scale=(1, 5))
    update = ra.models.SgdStep(step=step)
    return from_factors(np.zeros((2, 1)), np.array([[1.0], [1.0], [0.0]]), data, update=update, predicts_ratings=False)


def test_who_gains_one_item_for_good_and_loses_another_has_no_mean_lift() -> None:
    frame = pl.DataFrame({"user": ["u", "v", "v"], "item": ["a", "b", "c"], "rating": [3.0, 3.0, 3.0]})
    data = Interactions.from_frame(frame, scale=(1, 5))
    told: dict[str, Any] = {"item_bias": [0, 0.5, 0], "update": ra.models.SgdStep(step=1.0), "predicts_ratings": False}
    model = from_factors(np.zeros((2, 1)), np.array([[1.0], [0.0], [1.0]]), data, **told)
    found = ra.reachability(model, actions=GivenItems(("a",)), policy=ra.policies.Top1(), users=["u"])
    assert dict(found.pairs.select("item", "value").iter_rows()) == {"b": 0.0, "c": 1.0}
    assert found.users["log_lift"].to_list() == [None]


def test_two_items_are_a_sigmoid() -> None:
    # After one step of size 1 from p = 0, s_b = a and s_c = 0: at best a = 5 for b and a = 1 for c.
    result = ra.reachability(two_items(), actions=HistoryEdits(1), policy=Softmax(beta=0.7), users=["u"])
    sigmoid = [1 / (1 + np.exp(-0.7 * 5)), 1 / (1 + np.exp(0.7 * 1))]
    assert result.pairs["value"].to_list() == pytest.approx(sigmoid, rel=1e-5)
    assert result.pairs["baseline"].to_list() == pytest.approx([0.5, 0.5])


def test_rank_gain_counts_places_not_positions(model: Any) -> None:
    result = ra.reachability(model, actions=NextK(3), users=USERS[:1], policy=Softmax(beta=3), best_actions=True)
    position = model.data.users_at(USERS[:1])
    items = NextK(3).items(model, position, 0)[0]
    free = np.setdiff1d(np.flatnonzero(~model.data.seen(position)[0]), items)
    before = model.scores(position)[0]
    response = model.respond(int(position[0]), int(position[0]), items)
    for target, row in zip(free, result.pairs.iter_rows(named=True), strict=True):
        after = response.scores(np.array(row["action_ratings"]))
        gain = (before[free] > before[target]).sum() - (after[free] > after[target]).sum()
        assert row["rank_gain"] == gain
        assert row["action_items"] == model.data.item_ids.gather(items).to_list()
        scores = 3 * after[free]
        assert row["value"] == pytest.approx(np.exp(3 * after[target] - logsumexp(scores)), rel=1e-9)


def test_a_wider_box_reaches_no_less(model: Any) -> None:
    narrow = ra.reachability(model, actions=NextK(3, ratings=Interval(2, 4)), users=USERS)
    wide = ra.reachability(model, actions=NextK(3), users=USERS)
    assert (wide.pairs["upper"] >= narrow.pairs["lower"]).all()
    assert (wide.pairs["value"] > narrow.pairs["value"]).any()


class TestGreedyPolicies:
    def test_top1_is_certain_or_impossible(self, model: Any) -> None:
        result = ra.reachability(model, actions=NextK(2), policy=Top1(), users=USERS[:1])
        assert set(result.pairs["value"]) <= {0.0, 1.0}
        assert result.pairs["value"].sum() >= 1

    def test_epsilon_greedy_has_two_values(self) -> None:
        result = ra.reachability(two_items(), actions=HistoryEdits(1), policy=EpsilonGreedy(epsilon=0.2), users=["u"])
        assert result.pairs["value"].to_list() == pytest.approx([0.8, 0.2])  # c cannot beat b: s_b >= 1 > 0
        assert set(result.pairs["status"]) == {"solved"}

    def test_where_the_top_item_is_shown_least_no_more_is_claimed_than_is_known(self, model: Any) -> None:
        """With epsilon = 1 the top item is never shown: being on top is no goal."""
        frame = ra.reachability(model, actions=NextK(3), policy=EpsilonGreedy(epsilon=1.0), users=USERS[:1]).pairs
        others = 1 / (len(frame) - 1)
        assert frame["upper"].to_numpy() == pytest.approx(others)
        assert frame.filter(pl.col("status") == "solved")["value"].to_numpy() == pytest.approx(others)
        assert (frame.filter(pl.col("status") == "bounded")["value"] == 0).all()

    def test_top1_is_the_limit_of_softmax(self, model: Any) -> None:
        top = ra.reachability(model, actions=NextK(2), policy=Top1(), users=USERS[:1]).pairs["value"]
        sharp = ra.reachability(model, actions=NextK(2), policy=Softmax(beta=1e4), users=USERS[:1]).pairs["value"]
        np.testing.assert_allclose(sharp, top, atol=0.05)


def test_a_slate_is_bounded_on_both_sides_and_longer_is_likelier(model: Any) -> None:
    one = ra.reachability(model, actions=NextK(2), policy=Softmax(beta=2), users=USERS)
    five = ra.reachability(model, actions=NextK(2), policy=Softmax(beta=2), users=USERS, slate=5)
    assert (five.pairs["value"] >= one.pairs["value"] * (1 - 1e-5)).all()
    assert (five.pairs["baseline"] > one.pairs["baseline"]).all()
    assert (five.pairs["lower"] <= five.pairs["upper"]).all()
    assert (five.pairs["upper"] <= 1).all()
    with pytest.raises(NotSupportedError, match="Slates of 3"):
        ra.reachability(model, policy=Top1(), users=USERS, slate=3)
    with pytest.raises(InputError, match="slate"):
        ra.reachability(model, users=USERS, slate=0)


def test_power_sampling_is_bounded_on_both_sides(model: Any) -> None:
    result = ra.reachability(model, actions=NextK(2), policy=Power(power=8), users=USERS[:1], best_actions=True)
    position = model.data.users_at(USERS[:1])
    items = NextK(2).items(model, position, 0)[0]
    free = np.setdiff1d(np.flatnonzero(~model.data.seen(position)[0]), items)
    response = model.respond(int(position[0]), int(position[0]), items)
    grid = np.array([(a, b) for a in np.linspace(1, 5, 21) for b in np.linspace(1, 5, 21)])
    scores = np.maximum(grid @ response.slope[free].T + response.intercept[free], 0) ** 8
    best = (scores / scores.sum(axis=1, keepdims=True)).max(axis=0)
    assert (result.pairs["upper"].to_numpy() >= best * (1 - 1e-9)).all()
    np.testing.assert_allclose(result.pairs["value"], best, rtol=0.02)
    assert set(result.pairs["status"]) <= {"solved", "bounded"}


class TestWhatDoesNotApply:
    def test_a_user_without_history_does_not_stop_the_others(self, split: Split) -> None:
        train = split.train.subset(split.train.users != 3)
        model = BiasedMF(factors=3, epochs=3).fit(train)
        result = ra.reachability(model, actions=HistoryEdits(2), users=USERS)
        for user, status in (("user-003", "not_applicable"), ("user-050", "solved")):
            rows = result.pairs.filter(pl.col("user") == user)
            assert set(rows["status"]) == {status}
            assert rows["value"].null_count() == (len(rows) if status == "not_applicable" else 0)
            assert rows["baseline"].null_count() == 0

    def test_a_target_among_the_actions(self, model: Any) -> None:
        ids = model.data.item_ids.to_list()
        unseen = np.flatnonzero(~model.data.seen(model.data.users_at(USERS[:1]))[0])[:3]
        names = [ids[i] for i in unseen]
        result = ra.reachability(model, actions=GivenItems(tuple(names[:2])), targets=names[1:], users=USERS[:1])
        assert result.pairs["item"].to_list() == names[1:]
        assert result.pairs["status"].to_list() == ["not_applicable", "solved"]

    @pytest.mark.parametrize("kind", [NextK, FutureEdits])
    def test_where_every_unseen_item_is_acted_on_nothing_can_be_recommended(self, model: Any, kind: Any) -> None:
        unseen = int((~model.data.seen(model.data.users_at(USERS[:1]))).sum())
        for k in (unseen, 500):
            result = ra.reachability(model, actions=kind(k), users=USERS[:1])
            assert result.pairs["item"].to_list() == model.data.item_ids.to_list()
            assert result.counts()["not_applicable"] == len(result.pairs)
            assert set(result.pairs["candidates"]) == {0}
            assert result.frame["status"].to_list() == ["not_applicable"] * 3
            assert "not_applicable" in repr(result)
        assert ra.reachability(model, actions=kind(unseen - 1), users=USERS[:1]).pairs["status"].to_list() == ["solved"]

    def test_counts_and_aggregates_say_so(self, split: Split) -> None:
        train = split.train.subset(split.train.users != 3)
        result = ra.reachability(BiasedMF(factors=3, epochs=3).fit(train), actions=HistoryEdits(2), users=USERS)
        assert result.counts()["not_applicable"] == train.n_items
        row = result.frame.row(by_predicate=pl.col("metric") == "discovery", named=True)
        assert (row["users"], row["excluded"]) == (1, 1)

    def test_models_and_policies_without_an_answer_say_which_have_one(self, split: Split, model: Any) -> None:
        with pytest.raises(NotSupportedError, match="Models that have one"):
            ra.reachability(UserKNN().fit(split.train), users=USERS)
        with pytest.raises(NotSupportedError, match="Policies that have one"):
            ra.reachability(model, actions=NextK(2, Stars(1, 5)), policy=Power(power=2), users=USERS)

    def test_bad_arguments(self, model: Any, split: Split) -> None:
        with pytest.raises(InputError, match="fitted to"):
            ra.reachability(model, split.test)
        with pytest.raises(InputError, match="candidates"):
            ra.reachability(model, candidates="unsen")
        with pytest.raises(InputError, match="baseline"):
            ra.reachability(model, baseline="x")
        with pytest.raises(DataError, match="nobody"):
            ra.reachability(model, users=["nobody"])
        with pytest.raises(InputError, match="tol"):
            ra.reachability(model, tolerance=0, users=USERS)
        with pytest.raises(InputError, match=r"slate: received 1\.5; expected .*integer"):
            ra.reachability(model, slate=1.5, users=USERS)
        with pytest.raises(InputError, match="users: received no ids"):
            ra.reachability(model, users=[])
        with pytest.raises(InputError, match="targets: received no ids"):
            ra.reachability(model, targets=[])

    def test_one_item_cannot_be_rated_twice(self, split: Split, model: Any) -> None:
        item = split.train.item_ids[0]
        with pytest.raises(InputError, match=f"ids: received '{item}' and '{item}', the same item; expected each"):
            GivenItems((item, item))
        for fitted in (model, ItemKNN(neighbours=5).fit(split.train)):
            with pytest.raises(InputError, match=r"items: received \[4, 4\]; expected a list of distinct"):
                fitted.own_responses(np.array([0, 1]), np.array([[3, -1, -1], [4, 4, -1]]))
            with pytest.raises(InputError, match=r"items: received \[-2\]"):
                fitted.own_responses(np.array([0]), np.array([[-2, -1]]))
            assert fitted.own_responses(np.array([0]), np.array([[3, -1, -1]])).slope.shape[2] == 3
        with pytest.raises(InputError, match=r"items: received \[4, 4\]"):
            model.edited_items(np.array([0]), np.array([[4, 4]]), np.ones((1, 2, 1)))


class TestDevices:
    @pytest.mark.parametrize("device", ["cuda", "meta", ""])
    def test_another_than_the_cpu_is_refused(self, model: Any, device: str) -> None:
        with pytest.raises(
            NotSupportedError, match=f"device='{device}' is not used by reachability.*: leave device out"
        ):
            ra.reachability(model, users=USERS, device=device)

    def test_a_number_is_no_device(self, model: Any) -> None:
        with pytest.raises(InputError, match="device"):
            ra.reachability(model, users=USERS, device=3.5)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result(model: Any) -> Any:
    return ra.reachability(model, actions=NextK(3), policy=Softmax(beta=2))


class TestAggregates:
    def test_discovery_is_equation_3(self, result: Any) -> None:
        shares = result.pairs.group_by("user", maintain_order=True).agg(
            best=(pl.col("value") > 1 / pl.len()).mean(), baseline=(pl.col("baseline") > 1 / pl.len()).mean()
        )
        row = result.frame.row(by_predicate=pl.col("metric") == "discovery", named=True)
        assert row["value"] == pytest.approx(shares["best"].mean())
        assert row["baseline"] == pytest.approx(shares["baseline"].mean())
        assert result.users["discovery"].to_list() == pytest.approx(shares["best"].to_list())

    def test_a_threshold_can_be_given(self, model: Any) -> None:
        result = ra.reachability(model, actions=NextK(3), threshold=0.05, by=())
        expected = result.pairs.group_by("user").agg(share=(pl.col("value") > 0.05).mean())["share"].mean()
        assert result["discovery"] == pytest.approx(expected)

    def test_availability_of_items_is_equation_3(self, result: Any) -> None:
        means = result.pairs.group_by("item").agg(value=pl.col("value").mean(), best=pl.col("value").max()).sort("item")
        items = result.items.drop_nulls("availability").sort("item")
        assert items["availability"].to_list() == pytest.approx(means["value"].to_list())
        assert items["best"].to_list() == pytest.approx(means["best"].to_list())

    def test_lift_is_a_geometric_mean(self, result: Any) -> None:
        logs = result.pairs.group_by("user").agg(log=pl.col("lift").log().mean())["log"]
        assert result["lift"] == pytest.approx(np.exp(np.mean(logs.to_numpy())))

    def test_item_groups_pool_their_pairs(self, result: Any, model: Any) -> None:
        grouped = result.by("genre")
        weights = model.data.categories["genre"].weights.toarray()
        position = model.data.items_at(result.pairs["item"])
        share = weights[position]
        expected = result.pairs["value"].to_numpy() @ share / share.sum(0)
        assert grouped["value"].to_list() == pytest.approx(expected.tolist())

    def test_correlations_are_spearmans(self, result: Any) -> None:
        table = result.correlations()
        items, users = result.pairs["item"].n_unique(), result.pairs["user"].n_unique()
        assert table["n"].to_list() == [items] * 3 + [users] * 2
        means = result.items.drop_nulls("availability")
        expected = spearmanr(means["mean_rating"], means["availability"]).statistic
        row = table.row(by_predicate=pl.col("with") == "best availability", named=True)
        assert row["spearman"] == pytest.approx(expected)

    def test_it_prints_what_it_found(self, result: Any, model: Any) -> None:
        lines = result.summary().splitlines()
        for row in result.frame.iter_rows(named=True):
            label = result.metrics[row["metric"]].label
            [own] = [line for line in lines if line.startswith(f"  {label} ")]
            assert f"{row['value']:.4f}  [{row['lower']:.4f}, {row['upper']:.4f}]" in own
        assert f"lift {result.pairs['lift'].median():.3g}" in next(line for line in lines if "medians" in line)
        assert f"{len(result.pairs):,} pairs: {len(result.pairs):,} solved" in result.summary()
        top = ra.reachability(model, actions=NextK(2), policy=Top1(), users=USERS)  # nearly every baseline is 0
        assert "nan" not in repr(top)
        assert "of 2 pairs with a baseline above 0" in repr(top)

    def test_a_threshold_of_0_is_one(self, model: Any) -> None:
        result = ra.reachability(model, actions=NextK(3), users=USERS, threshold=0.0)
        assert (result["discovery"], result.settings["threshold"]) == (1.0, 0.0)
        with pytest.raises(InputError, match="threshold: received nan"):
            ra.reachability(model, threshold=np.nan)


def test_numbers_do_not_depend_on_engine_or_company(model: Any) -> None:
    first = ra.reachability(model, actions=NextK(3), users=["user-003", "user-004", "user-050"])
    again = ra.reachability(
        model, actions=NextK(3), users=["user-003", "user-004", "user-050"], engine=ra.engines.Threads(2)
    )
    assert first.pairs.equals(again.pairs)
    alone = ra.reachability(model, actions=NextK(3), users=["user-004"])
    together = first.pairs.filter(pl.col("user") == "user-004")
    np.testing.assert_allclose(alone.pairs["value"], together["value"], rtol=1e-12)


@pytest.mark.parametrize("recommender", [ItemKNN(neighbours=20), ALS(factors=3, iterations=3)])
def test_every_affine_model_can_be_asked(split: Split, recommender: Any) -> None:
    result = ra.reachability(recommender.fit(split.train), actions=HistoryEdits(3), users=USERS)
    assert set(result.pairs["status"]) == {Status.SOLVED.value}
    assert (result.pairs["lift"] >= 1 - 1e-6).all()  # rating as before is among the actions

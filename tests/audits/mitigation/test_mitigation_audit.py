"""Mitigation: what every audit says of each setting of a lever, and what is the same people's before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits import MitigationResult
from recaudit.audits.audit import Subject
from recaudit.audits.mitigation.audit import Mitigation
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.metrics.inference import estimate_difference
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.models import ALS, EASE, WALS, from_factors, from_lists, from_system
from recaudit.policies import Softmax, Top1
from recaudit.policies.calibrated import Calibrated
from recaudit.status import Status

SEED = 3
POLICY = Softmax(beta=2.0)
SMALL: dict[str, Any] = {"k": 5, "users": 6, "targets": 8, "editors": 4, "policy": POLICY, "rng": SEED}
OVERALL: dict[str, Any] = {"by": (), "rng": SEED}
RECOMMENDER = WALS(factors=4, iterations=4, unobserved_weight=0.02)


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return RECOMMENDER.fit(split.train, rng=SEED).with_recommender(RECOMMENDER)


@pytest.fixture(scope="module")
def result(model: Any, split: Split) -> MitigationResult:
    return ra.mitigation(
        model, split.test, **SMALL, weights=[0.0, 0.9], unobserved_weights=[0.3, 0.02], beta_factors=[0.5]
    )


def at(result: MitigationResult, lever: str, value: float, column: str = "value") -> dict[str, float]:
    rows = result.series.filter(pl.col("over") == lever, (pl.col("at") - value).abs() < 1e-12)
    assert len(rows)
    return dict(rows.select("metric", column).iter_rows())


def numbers_of(model: Any, split: Split, policy: Any = None) -> dict[str, float]:
    """What the other audits print."""
    policy = {} if policy is None else {"policy": policy}
    found: dict[str, float] = {}
    for each, names in (
        (ra.accuracy(model, split.test, k=5, **policy, **OVERALL), ("ndcg", "recall")),
        (ra.exposure(model, k=5, **policy, **OVERALL), ("coverage", "gini", "popularity_lift")),
    ):
        found |= {name: each[name] for name in names}
    return found


def folding_of(model: Any) -> dict[str, float]:
    found = ra.folding(model, k=5, relatedness="log", **OVERALL)
    return {"log_folding": found["shown_folding"], "log_unrelated_share": found["unrelated_share"]}


def chances_of(model: Any, beta: float) -> dict[str, float]:
    common: dict[str, Any] = {**OVERALL, "policy": Softmax(beta=beta), "refits": 0}
    reached = ra.reachability(model, actions=NextK(5), users=6, targets=8, **common)
    moved = ra.instability(model, edits=NextK(5), viewers=6, editors=4, **common)
    return {name: reached[name] for name in ("discovery", "availability")} | {"instability": moved["instability"]}


class TestEveryNumberHasTheOneDefinitionOfItsAudit:
    def test_before_any_lever_is_what_the_other_audits_print(
        self, result: MitigationResult, model: Any, split: Split
    ) -> None:
        expected = {**numbers_of(model, split), **folding_of(model), **chances_of(model, 2.0)}
        summary = dict(result.frame.select("metric", "value").iter_rows())
        assert {name: summary[name] for name in expected} == expected
        before = at(result, "weight", 0.0)
        assert {name: before[name] for name in expected if name in before} == {
            name: value for name, value in expected.items() if name in before
        }
        assert {"ndcg", "log_folding", "coverage", "list_reach"} <= set(before)

    def test_re_ranked_lists_are_those_of_the_policy(self, result: MitigationResult, model: Any, split: Split) -> None:
        policy = Calibrated(weight=0.9, transform="minmax", categories="genre")
        after, expected = at(result, "weight", 0.9), numbers_of(model, split, policy)
        assert {name: after[name] for name in expected} == expected
        reranked = ra.reranking(model, split.test, k=5, weight=0.9, curve=[0.0, 0.9], rng=SEED)
        assert after["log_folding"] == pytest.approx(reranked["log_folding"], rel=1e-12)

    def test_lambda_0_is_the_list_as_it_is(self, model: Any, split: Split) -> None:
        policy = Calibrated(weight=0.0, transform="minmax", categories="genre")
        assert numbers_of(model, split, policy) == numbers_of(model, split)

    def test_a_refit_is_the_recommender_with_the_other_weight(self, result: MitigationResult, split: Split) -> None:
        other = RECOMMENDER.model_copy(update={"unobserved_weight": 0.3}).fit(split.train, rng=SEED)
        after = at(result, "unobserved_weight", 0.3)
        expected = {**numbers_of(other, split), **folding_of(other), **chances_of(other, 2.0)}
        assert {name: after[name] for name in expected} == expected

    def test_drawn_lists_are_those_of_the_softmax(self, result: MitigationResult, model: Any, split: Split) -> None:
        after = at(result, "beta", 1.0)
        expected = {**numbers_of(model, split, Softmax(beta=1.0)), **chances_of(model, 1.0)}
        assert {name: after[name] for name in expected} == expected
        before = at(result, "beta", 2.0)
        assert before["ndcg"] == numbers_of(model, split, Softmax(beta=2.0))["ndcg"]


class TestBeforeAndAfter:
    def test_the_baseline_is_the_value_before(self, result: MitigationResult) -> None:
        assert dict(result.series.schema) == SERIES_SCHEMA
        for lever, own in result.facts["before"].items():
            before = at(result, lever, own)
            for value in result.series.filter(over=lever)["at"].unique():
                assert at(result, lever, value, "baseline") == before

    def test_the_change_is_that_of_the_same_people(self, result: MitigationResult) -> None:
        rows = result.changes.filter(over="weight", at=0.9)
        for name in ("ndcg", "future_calibration_kl", "list_reach", "popularity_lift"):
            gain = (result.users[f"{name}_weight"] - result.users[name]).drop_nulls()
            (row,) = rows.filter(metric=name).to_dicts()
            assert row["value"] == pytest.approx(gain.mean(), abs=1e-12)
            assert row["users"] == len(gain)
            estimate = estimate_difference(gain.to_numpy(), np.zeros(len(gain)))
            assert (row["lower"], row["upper"]) == pytest.approx((estimate.lower, estimate.upper), abs=1e-9)

    def test_the_change_of_what_only_all_lists_have_is_the_difference(self, result: MitigationResult) -> None:
        for lever, value in result.facts["picked"].items():
            rows = result.changes.filter(over=lever, at=value)
            for name in ("coverage", "gini"):
                (row,) = rows.filter(metric=name).to_dicts()
                after = at(result, lever, value)[name]
                assert row["value"] == pytest.approx(after - row["baseline"], abs=1e-12)
                assert row["lower"] <= row["value"] <= row["upper"]

    def test_a_change_between_lower_bounds_says_so(self, result: MitigationResult) -> None:
        for row in result.changes.filter(metric="list_reach").to_dicts():
            ends = [
                result.series.filter(over=row["over"], at=end, metric="list_reach")["status"][0]
                for end in (row["at"], result.facts["before"][row["over"]])
            ]
            assert (row["status"] == Status.BOUNDED) == (Status.BOUNDED in ends)

    def test_groups_of_people_add_up_to_everybody(self, result: MitigationResult) -> None:
        people = result.group_changes.filter(over="weight", by="region", metric="ndcg")
        assert (people["at"] == 0.9).all()
        (whole,) = result.changes.filter(over="weight", metric="ndcg").to_dicts()
        for column in ("value", "baseline"):
            total = np.average(people[column].to_numpy(), weights=people["users"].to_numpy())
            assert total == pytest.approx(whole[column], abs=1e-12)
        assert {"history", "region", "age"} == set(result.group_changes["by"])

    def test_the_picked_setting_is_another_than_the_one_as_it_is(self, result: MitigationResult) -> None:
        assert result.facts["picked"] == {"weight": 0.9, "unobserved_weight": 0.3, "beta": 1.0}
        assert result.facts["before"] == {"weight": 0.0, "unobserved_weight": 0.02, "beta": 2.0}
        picked = dict(result.by("lever").filter(group="weight").select("metric", "value").iter_rows())
        assert picked == at(result, "weight", 0.9)

    def test_it_tells_each_lever_in_words(self, result: MitigationResult) -> None:
        text = result.summary()
        assert "weight: 0 -> 0.9" in text
        assert "unobserved_weight: 0.02 -> 0.3" in text
        assert "between lower bounds" in text


class TestThePickedSetting:
    def test_is_the_best_bargain_of_accuracy_and_the_aim(self, model: Any, split: Split) -> None:
        found = ra.mitigation(
            model, split.test, **SMALL, weights=[0.3, 0.6, 0.9, 0.99], unobserved_weights=[], beta_factors=[]
        )
        wide = found.series.pivot("metric", index="at", values="value").sort("at")
        total = np.zeros(len(wide))
        for name, sign in (("ndcg", 1), ("future_calibration_kl", -1)):
            values = sign * wide[name].to_numpy()
            total += (values - values.min()) / (values.max() - values.min())
        assert found.facts["picked"]["weight"] == wide["at"][1 + int(total[1:].argmax())]


@pytest.fixture(scope="module")
def two_tastes() -> tuple[Any, Interactions]:
    """Twelve users who chose three films of A and one of B, and go on with one of each; the model shows A alone."""
    people = [f"u{n}" for n in range(12)]
    items = [f"a{n}" for n in range(8)] + [f"b{n}" for n in range(8)]
    frame = pl.DataFrame(
        [
            {"user": user, "item": item, "rating": rating, "time": time}
            for user in people
            for time, (item, rating) in enumerate(
                [("a0", 5.0), ("a1", 4.0), ("a2", 5.0), ("b0", 4.0), ("a7", 5.0), ("b7", 5.0)]
            )
        ]
        + [{"user": "all", "item": item, "rating": 3.0, "time": 0} for item in items]
    )
    genres = pl.DataFrame({"item": items, "genre": [item[0].upper() for item in items]})
    log = Interactions.from_frame(frame, time="time", scale=(1, 5)).with_items(genres, categories={"genre": "genre"})
    held = np.isin(log.items, log.items_at(["a7", "b7"])) & (log.users != log.users_at(["all"])[0])
    train, test = log.subset(~held), log.subset(held)
    order = {item: place for place, item in enumerate(items)}
    heights = np.array([[2.0 - order[item] / 100] for item in train.item_ids])
    model = from_factors(np.ones((train.n_users, 1)), heights, train, predicts_ratings=True)
    return model, test


class TestCalibrationIsJudgedByWhatCameNext:
    def test_a_list_with_what_users_went_on_to_choose_is_nearer(self, two_tastes: tuple[Any, Interactions]) -> None:
        model, test = two_tastes
        found = ra.mitigation(model, test, k=4, weights=[0.99], beta_factors=[])
        p = np.array([0.5, 0.5])

        def apart(q: list[float]) -> float:
            return float((p * np.log(p / (0.99 * np.array(q) + 0.01 * p))).sum())

        # Before: four films of A. After: as the history, three of A and one of B. What came next: one of each.
        assert at(found, "weight", 0.0)["future_calibration_kl"] == pytest.approx(apart([1.0, 0.0]), rel=1e-12)
        assert at(found, "weight", 0.99)["future_calibration_kl"] == pytest.approx(apart([0.75, 0.25]), rel=1e-12)
        assert found["history_future_kl"] == pytest.approx(apart([0.75, 0.25]), rel=1e-12)
        (change,) = found.changes.filter(metric="future_calibration_kl").to_dicts()
        assert change["value"] == pytest.approx(apart([0.75, 0.25]) - apart([1.0, 0.0]))
        assert change["upper"] < 0

    def test_the_history_alone_decides_nothing(self, two_tastes: tuple[Any, Interactions]) -> None:
        model, test = two_tastes
        went_on = test.subset(np.isin(test.items, test.items_at(["a7"])))
        found = ra.mitigation(model, went_on, k=4, weights=[0.99], beta_factors=[])
        (change,) = found.changes.filter(metric="future_calibration_kl").to_dicts()
        # They went on with A alone: keeping the history's share of B brings lists farther from that.
        assert at(found, "weight", 0.0)["future_calibration_kl"] == pytest.approx(0.0, abs=1e-12)
        assert change["lower"] > 0


class TestALeverThatDoesNothing:
    def test_changes_nothing(self, model: Any, split: Split) -> None:
        train = split.train
        one = pl.DataFrame({"item": train.item_ids, "kind": ["film"] * train.n_items})
        data = train.with_items(one, categories={"kind": "kind"})
        same = RECOMMENDER.fit(data, rng=SEED)
        found = ra.mitigation(same, split.test, **SMALL, weights=[0.5, 0.99], beta_factors=[], categories="kind")
        assert found.changes.drop_nulls("value").height >= 18
        assert set(found.changes["value"].drop_nulls()) == {0.0}
        assert found.changes["lower"].null_count() == found.changes.height
        assert set(found.changes.drop_nulls("value")["reason"]) == {"too_few_changes", "too_few_users"}


class TestWhatIsLeftOut:
    def test_a_model_without_the_setting_has_no_such_lever(self, split: Split) -> None:
        model = ALS(factors=3, iterations=2).fit(split.train)
        found = ra.mitigation(model, split.test, **SMALL)
        assert "unobserved_weight" not in found.facts["picked"]
        (why,) = [why for why, names in found.facts["left_out"].items() if "unobserved_weight" in names]
        assert "fits the model anew" in why
        subject = Subject(model, ALS(factors=3, iterations=2), test=split.test)
        again = Mitigation(k=5, users=2, targets=2, editors=2).run(subject)
        assert any("ALS has no weight of unobserved pairs" in why for why in again.facts["left_out"])

    def test_a_log_without_categories_has_no_calibration(self, split: Split) -> None:
        plain = Interactions.from_frame(split.train.frame(), time="time" if split.train.times is not None else None)
        test = split.test
        assert plain.user_ids.equals(test.user_ids)
        found = ra.mitigation(EASE().fit(plain), test, **SMALL)
        lacking = {name: why for why, names in found.facts["left_out"].items() for name in names}
        assert "no categories" in lacking["weight"]
        assert "no categories" in lacking["future_calibration_kl"]
        assert "no user and item vectors" in lacking["log_folding"]
        assert found.frame.filter(metric="future_calibration_kl")["status"].item() == Status.NOT_APPLICABLE
        assert "instability" in lacking
        assert "list_instability" in lacking

    def test_what_has_no_meaning_for_a_lever_is_not_asked(self, result: MitigationResult) -> None:
        names = {name for some in result.facts["not_asked"].values() for name in some}
        assert {"discovery (weight)", "instability (weight)", "list_reach (beta)"} <= names
        assert not result.facts["left_out"]

    def test_without_any_lever_it_is_refused(self, split: Split) -> None:
        model = EASE().fit(split.train)
        with pytest.raises(NotSupportedError, match="no lever"):
            ra.mitigation(model, split.test, weights=[], unobserved_weights=[0.1], beta_factors=[])

    def test_lists_without_scores_have_nothing_to_turn(self, model: Any, split: Split) -> None:
        shown = from_lists(ra.recommend(model, n=5), split.train)
        with pytest.raises(NotSupportedError, match="nothing to turn"):
            ra.mitigation(shown, split.test, policy=POLICY)

    def test_a_system_that_can_only_be_asked_is_not_searched(self, model: Any, split: Split) -> None:
        train = split.train
        heights = np.arange(train.n_items, dtype=float)
        asked = 0

        def scores(_: object) -> Any:
            nonlocal asked
            asked += 1
            return heights

        found = ra.mitigation(from_system(train, scores=scores), split.test, **SMALL, weights=[0.9], beta_factors=[2.0])
        lacking = {name: why for why, names in found.facts["left_out"].items() for name in names}
        assert "can only be asked" in lacking["discovery"]
        assert "can only be asked" in lacking["list_reach"]
        assert asked <= 5 * train.n_users
        assert at(found, "weight", 0.9)["coverage"] > at(found, "weight", 0.0)["coverage"]

    def test_a_lever_without_another_setting_is_left_out(self, model: Any, split: Split) -> None:
        found = ra.mitigation(model, split.test, **SMALL, weights=[0.9], unobserved_weights=[0.02], beta_factors=[1.0])
        lacking = {name: why for why, names in found.facts["left_out"].items() for name in names}
        assert set(lacking) == {"unobserved_weight", "beta"}
        assert "no other value" in lacking["beta"]

    def test_no_beta_is_larger_than_a_softmax_may_have(self, model: Any, split: Split) -> None:
        asked: dict[str, Any] = {"weights": [], "unobserved_weights": [], "beta_factors": [2.0, 8.0]}
        found = ra.mitigation(model, split.test, **{**SMALL, **asked, "policy": Softmax(beta=8000.0)})
        assert found.series["at"].unique().sort().to_list() == [8000.0, 10_000.0]

    def test_only_a_softmax_has_a_beta(self) -> None:
        with pytest.raises(InputError, match="softmax"):
            Mitigation(policy=Top1())
